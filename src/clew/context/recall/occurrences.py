"""Where the words of a query occur in a text, and the passages that show them together."""

import math
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from clew.context.recall.folded_text import FoldedText
from clew.context.recall.query import RecallQuery, Term

_MOST_CHARS = 400_000
"""Characters of a text that are looked at: an index has the words of no more."""
_MOST_PER_TERM = 200
_WORTH_SHOWING = 0.15
"""A further passage must hold this share of what the best one holds."""
_OTHER_FORM = 0.5
"""What another form of a word counts, such as `running` for `run`."""
_LINE_REST = 160
"""Characters by which a passage grows to show its last line whole."""
_WORD = re.compile(r"\w+\Z")


class Snippet(Struct, frozen=True, kw_only=True):
    """A passage of a text."""

    offset: int
    """Where it begins."""
    text: str


class Occurrence(Struct, frozen=True):
    """One place where a word of the query occurs."""

    start: int
    term: int
    weight: float


class Matcher:
    """Finds the words of one query in many texts."""

    def __init__(self, query: RecallQuery) -> None:
        self._needles = _needles(query)
        self._phrases = [
            re.compile(r"\s+".join(map(re.escape, phrase.split()))) for phrase in query.phrases
        ]

    @property
    def size(self) -> int:
        """How many different words or names are looked for, parts of names included."""
        return len(self._needles)

    def contains_phrases(self, text: str) -> bool:
        """Return whether all exact phrases of the query are in `text`."""
        if not self._phrases:
            return True
        folded = FoldedText(text).text
        return all(phrase.search(folded) for phrase in self._phrases)

    def find(self, text: str) -> list[Occurrence]:
        """Return the places where words of the query occur, in order."""
        if not self._needles:
            return []
        folded = FoldedText(text[:_MOST_CHARS])
        # A name is found as a whole before its parts are. One search for each word is several
        # times as fast as one regular expression for all.
        places = sorted(
            (start, -len(needle.stem), index)
            for index, needle in enumerate(self._needles)
            for start in needle.find(folded)
        )
        found: list[Occurrence] = []
        left = [_MOST_PER_TERM] * self.size
        end = 0
        for start, length, index in places:
            if start < end:
                continue
            end = start - length
            if left[index]:
                weight = self._needles[index].weigh(folded.text, start)
                found.append(Occurrence(folded.find_origin(start), index, weight))
                left[index] -= 1
        return found


class _Needle(Struct, frozen=True):
    stem: str
    word: str
    starts_words: bool

    def find(self, folded: FoldedText) -> Iterator[int]:
        start = folded.text.find(self.stem)
        while start >= 0:
            is_found = not self.starts_words or folded.starts_word(start)
            if is_found:
                yield start
            start = folded.text.find(self.stem, start + (len(self.stem) if is_found else 1))

    def weigh(self, text: str, start: int) -> float:
        end = start + len(self.word)
        is_whole = text.startswith(self.word, start) and not text[end : end + 1].isalnum()
        return 1.0 if is_whole or not self.starts_words else _OTHER_FORM


def list_terms(query: RecallQuery) -> list[tuple[tuple[str, ...], float]]:
    """Return what an index counts for each word that a `Matcher` finds, with its share.

    Parts of a name count less than the name.
    """
    listed: list[tuple[tuple[str, ...], float]] = [(term.patterns, 1.0) for term in query.terms]
    parts = dict.fromkeys(part for term in query.terms for part in term.parts)
    return listed + [((part,), 0.35) for part in parts if ((part,), 1.0) not in listed]


def _needles(query: RecallQuery) -> list[_Needle]:
    whole = [_whole_needle(term) for term in query.terms]
    rest = list_terms(query)[len(whole) :]
    return whole + [_part_needle(part) for (part,), _ in rest]


def _whole_needle(term: Term) -> _Needle:
    if len(term.patterns) > 1 or term.parts:
        return _Needle(term.text, term.text, _starts_words(term.text))
    return _part_needle(term.patterns[0], term.text)


def _part_needle(pattern: str, word: str = "") -> _Needle:
    stem = pattern.removesuffix("*").partition("|")[0]
    return _Needle(stem, word or stem, _starts_words(stem))


def _starts_words(text: str) -> bool:
    """Return whether `text` counts only where a word starts; not so in scripts without spaces."""
    return text[0].isascii() and text[0].isalnum()


def best_window(
    occurrences: Sequence[Occurrence], weights: Sequence[float], size: int
) -> tuple[int, int, float]:
    """Return the first and last place of the `size` characters that hold the most, and its sum.

    Each word counts once per window, by its weight; of equal windows the shortest wins.
    """
    best = (0, 0, 0.0)
    seen: dict[int, tuple[int, float]] = {}
    """Where each word of the window occurred last and what it counts, the farthest back first."""
    total = 0.0
    for one in occurrences:
        start, worth = one.start, weights[one.term] * one.weight
        before = seen.pop(one.term, None)
        seen[one.term] = start, worth
        first = next(iter(seen.values()))[0]
        has_changed = before is None or before[1] != worth
        while first < start - size:
            del seen[next(iter(seen))]
            first = next(iter(seen.values()))[0]
            has_changed = True
        if has_changed:
            total = math.fsum(counted for _, counted in seen.values())
        if total > best[2] or (total == best[2] and start - first < best[1] - best[0]):
            best = (first, start, total)
    return best


def cut_snippets(
    text: str,
    occurrences: Sequence[Occurrence],
    weights: Sequence[float],
    *,
    size: int,
    most: int = 3,
) -> tuple[Snippet, ...]:
    """Return up to `most` passages of about `size` characters where the words occur together."""
    if len(text) <= size or not occurrences:
        return (Snippet(offset=0, text=text[: _snap_end(text, size)]),) if text else ()
    left, chosen = list(occurrences), list[tuple[int, int]]()
    worth, enough = list(weights), 0.0
    while left and len(chosen) < most:
        first, last, total = best_window(left, worth, size * 2 // 3)
        if total <= enough:
            break
        enough = enough or total * _WORTH_SHOWING
        spare = max(0, size - (last - first))
        start = _snap(text, max(0, first - spare // 3))
        end = _snap_end(text, start + size)
        chosen.append((start, end))
        shown = {one.term for one in left if start <= one.start < end}
        # What is shown counts little from now on: the next passage should add something.
        worth = [value * 0.2 if term in shown else value for term, value in enumerate(worth)]
        left = [one for one in left if not start - size // 2 <= one.start < end]
    return tuple(
        Snippet(offset=start, text=text[start:end].rstrip()) for start, end in _merge(chosen)
    )


def _snap(text: str, start: int) -> int:
    """Move a start to the beginning of its line, or else of its word, if that is near."""
    line = text.rfind("\n", max(0, start - 80), start) + 1
    if line or start < 80:
        return line
    cut = _WORD.search(text, max(0, start - 40), start)
    return cut.start() if cut else start


def _snap_end(text: str, end: int) -> int:
    """Move an end to the end of its line, if that is near: the line may hold what is asked for."""
    near = min(len(text), end + _LINE_REST)
    line = text.find("\n", end, near)
    if line >= 0:
        return line
    return near if near == len(text) else end


def _merge(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def count_by_term(occurrences: Sequence[Occurrence], size: int) -> list[float]:
    """Return how often each word occurs; other forms count less."""
    counts = [0.0] * size
    for one in occurrences:
        counts[one.term] += one.weight
    return counts


def excerpt_around(text: str, query: RecallQuery, *, chars: int = 240) -> str:
    """Return the passage of `text` that shows the words of `query` best, in one line."""
    matcher = Matcher(query)
    found = matcher.find(text)
    weights = [1.0] * matcher.size
    snippet, *_ = cut_snippets(text, found, weights, size=chars, most=1) or (
        Snippet(offset=0, text=""),
    )
    line = " ".join(snippet.text.split())
    end = snippet.offset + len(snippet.text)
    return ("…" if snippet.offset else "") + line + ("…" if end < len(text.rstrip()) else "")
