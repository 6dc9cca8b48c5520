"""Whether a text already tells what a sentence says, in whatever order of words."""

import re
from collections.abc import Mapping, Sequence

_WORD = re.compile(r"[\w./-]{3,}")
_TOLD = 0.7
"""Share of the words of a sentence that a place has which tells the same."""
_COMPARED_WORDS = 5
_DECIDES = re.compile(
    r"\b(?:not|no|never|none|without|cannot|only)\b|n['’]t\b|(?<![\w./-])\d", re.IGNORECASE
)
_LEAST_WORDS = 4
"""A line with fewer, such as a heading, is never told by another one."""


class ToldText:
    """A text whose places are compared: each is a line with the next, as a sentence may wrap."""

    def __init__(self, text: str) -> None:
        lines = [split_words(line) for line in text.splitlines() if line.strip()]
        self._places: dict[str, list[frozenset[str]]] = {}
        following = [*lines[1:], frozenset[str]()] if lines else []
        for one, other in zip(lines, following, strict=True):
            for word in one | other:
                self._places.setdefault(word, []).append(one | other)

    def tells(self, sentence: str) -> bool:
        """Return whether one place has most words, names and numbers of a sentence."""
        return _is_told(split_words(sentence), self._places)


def drop_told_lines(text: str, told: ToldText) -> str:
    """Return a text without the lines that `told` tells.

    Headings stay, and so do lines with a negation or a number, of which a word changes everything.
    """
    kept = [line for line in text.split("\n") if _is_needed(line) or not told.tells(line)]
    return "\n".join(kept).strip() or text


def _is_needed(line: str) -> bool:
    return len(split_words(line)) < _LEAST_WORDS or _DECIDES.search(line) is not None


def split_words(text: str) -> frozenset[str]:
    """Return the words, names and numbers of a text."""
    return frozenset(word.lower().strip("./-") for word in _WORD.findall(text))


def _is_told(words: frozenset[str], places: Mapping[str, Sequence[frozenset[str]]]) -> bool:
    longest = sorted(words, key=lambda word: (len(word), word))[-_COMPARED_WORDS:]
    known = (places.get(word, ()) for word in longest)
    return any(len(words & place) >= _TOLD * len(words) for some in known for place in some)
