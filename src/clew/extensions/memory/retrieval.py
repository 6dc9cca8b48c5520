"""`MemoryRetrievalService`: finds the topics that match a query."""

import re
import unicodedata
from collections.abc import Iterable

from msgspec import Struct

from clew.extensions.memory.events import MemoryReference

_WORD = re.compile(r"\w+")
_SHORTEST = 3
"""Characters of a word that is searched, except in scripts without blanks."""
_STEM = 4
"""From this length on, a word also matches words that begin with it: `test` finds `tests`."""
_MOST = 32
"""Words of a query that are searched."""
_IN_NAME, _IN_TEXT = 4, 1
_COMMON = frozenset(
    (
        *("the", "and", "for", "are", "was", "what", "which", "who", "how", "why", "where"),
        *("when", "does", "did", "you", "your", "our", "with", "from", "this", "that", "have"),
    )
)


class MemoryPage(Struct, frozen=True):
    """A topic with its text."""

    topic: str
    path: str
    text: str


class MemoryRetrievalService:
    """Ranks pages by the words they share with a query. It reads no files and has no state.

    Args:
        max_topics: The number of topics to return at most.
        max_chars: The number of characters to return of each at most.
    """

    def __init__(self, *, max_topics: int = 3, max_chars: int = 2_000) -> None:
        self.max_topics = max_topics
        self.max_chars = max_chars

    def find(self, query: str, pages: Iterable[MemoryPage]) -> tuple[MemoryReference, ...]:
        """Return the matches, best first; a word in the name of a topic counts four times.

        The text of a reference has the lines that share a word with the query, or the beginning
        of the page if only its name does.
        """
        wanted = query_words(query)
        found = [reference for page in pages if (reference := self._match(wanted, page))]
        found.sort(key=lambda reference: (-reference.score, reference.topic))
        return tuple(found[: self.max_topics])

    def _match(self, wanted: frozenset[str], page: MemoryPage) -> MemoryReference | None:
        lines = [line for line in page.text.splitlines() if line.strip()]
        in_lines = [_find_shared_words(wanted, line) for line in lines]
        in_name = _find_shared_words(wanted, page.topic.replace("-", " ").replace("_", " "))
        in_text = frozenset[str]().union(*in_lines)
        score = _IN_NAME * len(in_name) + _IN_TEXT * len(in_text)
        if not score:
            return None
        fitting = [line for line, shared in zip(lines, in_lines, strict=True) if shared]
        text = self._within(fitting or lines)
        return MemoryReference(topic=page.topic, path=page.path, text=text, score=score)

    def _within(self, lines: list[str]) -> str:
        text = "\n".join(lines)
        return text if len(text) <= self.max_chars else text[: self.max_chars] + "\n..."


def query_words(text: str) -> frozenset[str]:
    """Return the words of a query that are worth searching."""
    found = dict.fromkeys(_WORD.findall(_fold_text(text)))
    kept = [w for w in found if w not in _COMMON and (len(w) >= _SHORTEST or not w.isascii())]
    return frozenset(kept[:_MOST])


def _find_shared_words(wanted: frozenset[str], text: str) -> frozenset[str]:
    folded = _fold_text(text)
    there = frozenset(_WORD.findall(folded))
    return frozenset(word for word in wanted if _occurs(word, there, folded))


def _occurs(word: str, there: frozenset[str], folded: str) -> bool:
    if not word.isascii():
        return word in folded
    return word in there or (len(word) >= _STEM and any(w.startswith(word) for w in there))


def _fold_text(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()
