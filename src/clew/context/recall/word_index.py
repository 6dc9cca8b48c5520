"""An index of words in memory, ranked by BM25."""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from clew.context.recall.documents import Document, make_documents
from clew.context.recall.query import RecallQuery
from clew.context.recall.search import Found, IndexQuery, Place, search_index
from clew.core.entries import Entry

_K1, _B = 1.2, 0.75
_END = "\U0010ffff"


class WordIndex:
    """The words of the entries of any number of sessions."""

    def __init__(self) -> None:
        self._postings: dict[str, dict[Place, int]] = defaultdict(dict)
        self._lengths: dict[Place, int] = {}
        self._times: dict[Place, float] = {}
        self._sorted: list[str] = []

    def add(self, session: int, documents: Iterable[Document]) -> None:
        """Add entries of a session."""
        self._sorted = []
        for document in documents:
            place = (session, int(document.entry_id))
            self._lengths[place] = sum(document.words.values())
            self._times[place] = document.at
            for word, count in document.words.items():
                self._postings[word][place] = count

    def remove(self, session: int) -> None:
        """Remove all entries of a session."""
        self._sorted = []
        gone = [place for place in self._lengths if place[0] == session]
        for place in gone:
            del self._lengths[place], self._times[place]
        for word in list(self._postings):
            for place in gone:
                self._postings[word].pop(place, None)
            if not self._postings[word]:
                del self._postings[word]

    def find_all(self, words: Sequence[str]) -> set[Place]:
        """Return the entries that contain all of these words; see `Term.patterns`."""
        found = [set[Place]().union(*self._lists(word)) for word in words]
        return set.intersection(*found) if found else set(self._lengths)

    def rank(self, query: IndexQuery, places: Collection[Place]) -> list[Place]:
        """Return those of `places` that match `query`, the best first."""
        allowed = {place for place in places if self._is_in_time(place, query)}
        allowed &= self.find_all(query.all_of)
        if not query.any_of:
            return sorted(allowed, reverse=True)
        usual = sum(map(self._lengths.__getitem__, places)) / len(places) if places else 1.0
        scores: dict[Place, float] = defaultdict(float)
        for group in query.any_of:
            counts = self._count_in(group, allowed & self.find_all(group))
            weight = math.log(1 + (len(places) - len(counts) + 0.5) / (len(counts) + 0.5))
            for place, count in counts.items():
                length = 1 - _B + _B * self._lengths[place] / usual
                scores[place] += weight * count * (_K1 + 1) / (count + _K1 * length)
        return sorted(scores, key=lambda place: (-scores[place], -place[0], -place[1]))

    def places(self, sessions: Collection[int] | None) -> set[Place]:
        """Return the entries of these sessions; of all for None."""
        return {one for one in self._lengths if sessions is None or one[0] in sessions}

    def count_at(self, place: Place, word: str) -> int:
        """Return how often an entry contains a word."""
        return sum(postings.get(place, 0) for postings in self._lists(word))

    def _count_in(self, group: Sequence[str], allowed: Collection[Place]) -> dict[Place, int]:
        counts: dict[Place, int] = defaultdict(int)
        for postings in (one for word in group for one in self._lists(word)):
            for place, count in postings.items():
                if place in allowed:
                    counts[place] += count
        return counts

    def _is_in_time(self, place: Place, query: IndexQuery) -> bool:
        at = self._times[place]
        return (query.since is None or at >= query.since) and (
            query.until is None or at <= query.until
        )

    def _lists(self, word: str) -> Iterator[Mapping[Place, int]]:
        if not word.endswith("*"):
            yield from (self._postings.get(form, {}) for form in word.split("|"))
            return
        if not self._sorted:
            self._sorted = sorted(self._postings)
        prefix = word[:-1]
        start, end = (bisect_left(self._sorted, key) for key in (prefix, prefix + _END))
        for one in self._sorted[start:end]:
            yield self._postings[one]


class ScopedIndex:
    """The part of a `WordIndex` in which one search looks; see `EntryIndex`."""

    def __init__(
        self,
        index: WordIndex,
        entries: Mapping[int, Mapping[int, Entry]],
        *,
        sessions: Collection[int] | None = None,
    ) -> None:
        self._index, self._entries = index, entries
        self._sessions = entries.keys() if sessions is None else sessions
        self._places = index.places(sessions)

    def size(self) -> int:
        """Return the number of entries."""
        return sum(len(self._entries[session]) for session in self._sessions)

    def count(self, words: Sequence[str]) -> int:
        """Return how many entries contain all of these words."""
        return len(self._index.find_all(words) & self._places)

    def find(self, query: IndexQuery, limit: int) -> Sequence[Place]:
        """Return the entries that match best."""
        return self._index.rank(query, self._places)[:limit]

    def frequencies(self, places: Sequence[Place], words: Sequence[str]) -> Sequence[Sequence[int]]:
        """Return how often each entry contains each of these words."""
        return [[self._index.count_at(place, word) for word in words] for place in places]

    def read(self, session: int, entry_id: int) -> Entry | None:
        """Return an entry."""
        return self._entries[session].get(entry_id)


def search_entries(
    entries: Sequence[Entry], query: RecallQuery, *, limit: int = 20, skip: Iterable[int] = ()
) -> Found:
    """Search entries that no store has indexed."""
    index = WordIndex()
    index.add(0, make_documents(entries))
    by_id = {int(entry.id): entry for entry in entries}
    return search_index(ScopedIndex(index, {0: by_id}), query, limit=limit, skip=skip)
