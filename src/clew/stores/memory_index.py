"""Search in a store in memory: sessions by their words, and entries by an index of words."""

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from clew.context.recall.documents import LOOK_BACK, make_documents
from clew.context.recall.entry_text import entry_text, strip_boilerplate
from clew.context.recall.occurrences import excerpt_around
from clew.context.recall.query import RecallQuery, parse_query
from clew.context.recall.search import Found, search_index
from clew.context.recall.word_index import ScopedIndex, WordIndex
from clew.context.recall.words import matches, split_terms, split_words
from clew.core.entries import Entry
from clew.core.ids import SessionId
from clew.stores.record import SearchHit, StoredSession


def find_session(query: str, record: StoredSession, entries: Sequence[Entry]) -> SearchHit | None:
    """Return how a session matches, by its name or the words of its entries; None if it does not.

    The entries are read, not indexed.
    """
    wanted = split_terms(query)
    if not wanted:
        return None
    texts = ((entry.id, strip_boilerplate(entry_text(entry))) for entry in entries)
    found = [(number, text) for number, text in texts if matches(wanted, split_words(text))]
    if found:
        number, text = found[-1]
        return SearchHit(
            session=record,
            entry_id=number,
            matches=len(found),
            excerpt=excerpt_around(text, parse_query(query)),
        )
    return SearchHit(session=record) if matches(wanted, split_words(record.name)) else None


class MemoryIndex:
    """The words of the entries, indexed by the first search that needs them."""

    def __init__(self) -> None:
        self._index = WordIndex()
        self._numbers: dict[SessionId, int] = {}
        self._indexed: dict[int, dict[int, Entry]] = {}
        self._next = 1

    def search(
        self,
        sessions: Mapping[SessionId, Sequence[Entry]],
        query: RecallQuery,
        *,
        limit: int,
        skip: Collection[int],
    ) -> Found:
        """Search the entries of these sessions."""
        for session_id, entries in sessions.items():
            self._update(session_id, entries)
        numbers = {self._numbers[one]: one for one in sessions}
        scope = ScopedIndex(self._index, self._indexed, sessions=numbers.keys())
        found = search_index(scope, query, limit=limit, skip=skip)
        hits = (replace(hit, session_id=numbers[hit.session]) for hit in found.hits)
        return replace(found, hits=tuple(hits))

    def remove(self, session_id: SessionId) -> None:
        """Forget a session."""
        number = self._numbers.pop(session_id, None)
        if number is not None:
            self._index.remove(number)
            del self._indexed[number]

    def _update(self, session_id: SessionId, entries: Sequence[Entry]) -> None:
        number = self._numbers.setdefault(session_id, self._next)
        self._next = max(self._next, number + 1)
        known = self._indexed.setdefault(number, {})
        start = len(known)
        if start < len(entries):
            after = entries[start - 1].id if start else 0
            batch = entries[max(0, start - LOOK_BACK) :]
            self._index.add(number, make_documents(batch, after=after))
            known.update((int(entry.id), entry) for entry in entries[start:])
