"""Search the entries of sessions: an index finds candidates, and this module ranks them.

Every store has an `EntryIndex`. The ranking here reads the candidates themselves, so all stores
return the same hits in the same order: BM25 over rare and common words, more for words that
occur together and for exact names, near-identical texts as one hit.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from clew.context.recall.documents import make_mark, required_words
from clew.context.recall.occurrences import (
    Matcher,
    Occurrence,
    Snippet,
    best_window,
    count_by_term,
    cut_snippets,
    list_terms,
)
from clew.context.recall.query import RecallQuery, Term, widen
from clew.context.recall.units import ReadEntry, Unit, read_units, read_user_words
from clew.core.entries import Entry
from clew.core.ids import EntryId, SessionId
from clew.core.messages import Role

Group: TypeAlias = tuple[tuple[str, ...], int]
"""Words that belong together, and how many entries contain all of them."""
Place: TypeAlias = tuple[int, int]
"""A number that stands for a session in its store, and the number of an entry."""
_CANDIDATES = 28
"""How many entries are read."""
_PROPOSED = 128
"""How many entries an index proposes; their words decide which are read."""
_PHRASE_CANDIDATES = (80, 1_000)
"""Exact phrases are checked in the text: of these, and if none has them, of more."""
_FILE_CANDIDATES = (80, 400)
"""The same for parts of file names, which are common."""
_COMMON = 1_500
"""Words in more entries than this find nothing by themselves, if there are rarer ones."""
_K1, _B = 1.2, 0.4
_USUAL_CHARS = 2_000
_LONG_CHARS = 20_000
_TOGETHER_CHARS = 300
_FOLDED = 32
_COMPARED_CHARS = 6_000
"""How many of the best hits are compared with each other."""
_ALIKE = 0.85
_WEAK = 0.1
"""Hits below this share of the best score are noise."""
_ROLE_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {"user": 1.2, "assistant": 1.1, "tool": 1.0, "summary": 0.25, "note": 0.2}
)
_SIZES = ((900, 2), (320, 3))
"""Characters and number of snippets: for the best hit, and for the others."""
_DIGITS = b"0123456789"
"""Texts that differ only in numbers are alike."""


class IndexQuery(Struct, frozen=True, kw_only=True):
    """What an index looks for; see `Term.patterns`."""

    any_of: tuple[tuple[str, ...], ...] = ()
    """Entries with more and rarer ones of these groups come first; an entry has a group if it has
    all of its words. Without groups the newest come first."""
    all_of: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None


class EntryIndex(Protocol):
    """The words of the entries in which one search looks: of one session, or of several."""

    def size(self) -> int:
        """Return the number of entries."""
        ...

    def count(self, words: Sequence[str]) -> int:
        """Return how many entries contain all of these words; large numbers may be estimates."""
        ...

    def find(self, query: IndexQuery, limit: int) -> Sequence[Place]:
        """Return the entries that match best; newest first without `any_of`."""
        ...

    def frequencies(self, places: Sequence[Place], words: Sequence[str]) -> Sequence[Sequence[int]]:
        """Return how often each entry contains each of these words, up to the limit of indexing."""
        ...

    def read(self, session: int, entry_id: int) -> Entry | None:
        """Return an entry; None if the session has no entry of that number."""
        ...


class Hit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message or tool call that a search found."""

    session: int
    """The number of the session in its store."""
    session_id: SessionId = SessionId("")
    unit: Unit
    score: float
    snippets: tuple[Snippet, ...] = ()
    same: tuple[EntryId, ...] = ()
    """Older entries with nearly the same text, newest first."""


class Found(Struct, frozen=True, kw_only=True):
    """The result of a search."""

    hits: tuple[Hit, ...] = ()
    total: int = 0
    """How many different hits there were before the limit; of the candidates that were read."""
    missing: tuple[str, ...] = ()
    """Words of the query that no entry contains."""


def search_index(
    index: EntryIndex, query: RecallQuery, *, limit: int, skip: Iterable[int] = ()
) -> Found:
    """Return the best hits for `query`, without those in the entries `skip`."""
    if query.is_empty:
        return Found()
    ranking = _Ranking(index, query)
    hits = ranking.hits(frozenset(skip), limit)
    # The latest version of a file needs all of its edits, including those that look alike.
    folded = hits if query.latest else _fold_alike(hits)
    shown = [ranking.show(hit, best=place == 0) for place, hit in enumerate(folded[:limit])]
    return Found(hits=tuple(shown), total=len(folded), missing=ranking.missing)


class _Ranking:
    """Ranks the entries of one index by one query."""

    def __init__(self, index: EntryIndex, query: RecallQuery) -> None:
        self._index, self._query = index, query
        # Without a file of that name, the filter is a pattern or a part of a name.
        self._any_file = bool(query.file) and not index.count((make_mark("file", query.file),))
        self._read_units = read_user_words if query.role == Role.USER else read_units
        self._matcher = Matcher(query)
        self._found: dict[int, Sequence[Occurrence]] = {}
        """Where words occur, by the identity of the unit, which the hit keeps alive."""
        self._terms = list_terms(query)
        self._counts: list[int] = []
        for place, (patterns, share) in enumerate(self._terms):
            count = index.count(patterns)
            if not count:
                self._terms[place] = (tuple(map(widen, patterns)), share)
                count = index.count(self._terms[place][0])
            self._counts.append(count)
        self._size = max(1, index.size())
        self._weights = [
            share * self._weigh(count)
            for (_, share), count in zip(self._terms, self._counts, strict=True)
        ]
        self.missing = tuple(
            term.text
            for term, count in zip(query.terms, self._counts, strict=False)
            if not count and not self._has_parts(term)
        )

    def _has_parts(self, term: Term) -> bool:
        parts = list_terms(self._query)[len(self._query.terms) :]
        counts = self._counts[len(self._query.terms) :]
        return any(
            count for ((part,), _), count in zip(parts, counts, strict=True) if part in term.parts
        )

    def hits(self, skip: frozenset[int], wanted: int) -> list[Hit]:
        """Return the scored units of the candidates, the best first: of `wanted` ones or more."""
        limits = _PHRASE_CANDIDATES if self._query.phrases else (_CANDIDATES,)
        for limit in _FILE_CANDIDATES if self._any_file else limits:
            hits = sorted(self._find(max(limit, wanted), skip), key=self._order)
            if hits:
                return [hit for hit in hits if hit.score >= _WEAK * hits[0].score]
        return []

    def _find(self, limit: int, skip: frozenset[int]) -> Iterable[Hit]:
        units: dict[tuple[int, int, str], Hit] = {}
        for session, entry_id in self._candidates(limit):
            read = _reader(self._index, session)
            for unit in self._read_units(entry_id, read):
                key = (session, unit.entry_id, unit.call.call_id if unit.call else "")
                if key in units or {unit.entry_id, unit.called_in} & skip:
                    continue
                score = self._score(unit)
                if score > 0:
                    units[key] = Hit(session=session, unit=unit, score=score)
        return units.values()

    def show(self, hit: Hit, *, best: bool) -> Hit:
        """Return the hit with its snippets."""
        size, most = _SIZES[0 if best else 1]
        found = self._found.get(id(hit.unit), ())
        shown = cut_snippets(hit.unit.text, found, self._weights, size=size, most=most)
        return replace(hit, snippets=shown)

    def _order(self, hit: Hit) -> tuple[float, float, int, int]:
        score = -round(hit.score, 6) if self._query.terms else 0.0
        return (score, -hit.unit.at, -hit.session, -hit.unit.entry_id)

    def _candidates(self, limit: int) -> Sequence[Place]:
        query = self._query
        words = required_words(query, any_file=self._any_file)
        required = IndexQuery(all_of=words, since=query.since, until=query.until)
        if not query.terms:
            return self._index.find(required, limit)
        groups = self._groups()
        rare = tuple(group for group, count in groups if count <= _COMMON)
        if rare:
            found_rare = self._index.find(replace(required, any_of=rare), max(_PROPOSED, limit))
            return self._choose(found_rare, groups, limit)
        found: dict[Place, None] = {}
        # All words are common: entries with all of them come first, then those with the rarest.
        for chosen in (
            ([one for group, _ in groups for one in group], groups[0][0]) if groups else ()
        ):
            wanted = tuple(dict.fromkeys([*required.all_of, *chosen]))
            found.update(dict.fromkeys(self._index.find(replace(required, all_of=wanted), limit)))
        return list(found)[:limit]

    def _choose(
        self, places: Sequence[Place], groups: Sequence[Group], limit: int
    ) -> Sequence[Place]:
        """Return the places with the rarest and most frequent words, the same in every store."""
        if len(places) <= limit:
            return places
        patterns = list(dict.fromkeys(one for group, _ in groups for one in group))
        position = {pattern: place for place, pattern in enumerate(patterns)}
        weights = [(group, self._weigh(count)) for group, count in groups]
        scores: dict[Place, float] = {}
        counted = self._index.frequencies(places, patterns)
        for place, counts in zip(places, counted, strict=True):
            scores[place] = sum(
                weight * count / (count + _K1)
                for group, weight in weights
                if (count := min(counts[position[one]] for one in group))
            )
        order = sorted(scores, key=lambda one: (-round(scores[one], 6), -one[0], -one[1]))
        return order[:limit]

    def _weigh(self, count: int) -> float:
        """Return the weight of a word by the number of entries that contain it."""
        return math.log(1 + (self._size - count + 0.5) / (count + 0.5))

    def _groups(self) -> list[Group]:
        """Return the words to look for with their counts, the rarest first.

        Parts of names count only if no name was found as a whole.
        """
        counted = [(one, count) for (one, _), count in zip(self._terms, self._counts, strict=True)]
        whole = [one for one in counted[: len(self._query.terms)] if one[1]]
        return sorted(whole or [one for one in counted if one[1]], key=lambda one: one[1])

    def _score(self, unit: Unit) -> float:
        query = self._query
        if not (
            _passes(unit, query, any_file=self._any_file)
            and self._matcher.contains_phrases(unit.text)
        ):
            return 0.0
        weight = _ROLE_WEIGHTS[unit.role]
        if not query.terms:
            return weight
        found = self._found[id(unit)] = self._matcher.find(unit.text)
        return weight * self._bm25(found, len(unit.text)) if found else 0.0

    def _bm25(self, found: Sequence[Occurrence], chars: int) -> float:
        counts = count_by_term(found, len(self._weights))
        length = _K1 * (1 - _B + _B * min(chars, _LONG_CHARS) / _USUAL_CHARS)
        score = sum(
            weight * count * (_K1 + 1) / (count + length)
            for weight, count in zip(self._weights, counts, strict=True)
        )
        total = sum(self._weights) or 1.0
        together = best_window(found, self._weights, _TOGETHER_CHARS)[2]
        covered = sum(weight for weight, n in zip(self._weights, counts, strict=True) if n)
        return (score + together) * (0.4 + 0.6 * covered / total)


def _reader(index: EntryIndex, session: int) -> ReadEntry:
    return lambda number: index.read(session, number)


def _passes(unit: Unit, query: RecallQuery, *, any_file: bool) -> bool:
    """Return whether a unit itself has what the filters ask for."""
    is_named = _resembles if any_file else names_file
    return (
        (not query.role or unit.role == query.role)
        and (not query.tool or unit.tool.lower() == query.tool.lower())
        and (not query.file or any(is_named(path, query.file) for path in unit.files))
        and (query.since is None or unit.at >= query.since)
        and (query.until is None or unit.at <= query.until)
    )


def names_file(path: str, wanted: str) -> bool:
    """Return whether `wanted` is a path, or the end of one."""
    have, want = path.replace("\\", "/").lower(), wanted.replace("\\", "/").lower().strip("/")
    return have == want or have.endswith(f"/{want}")


def _resembles(path: str, wanted: str) -> bool:
    """Return whether a pattern such as `*.py`, or a part of a name, fits the end of a path."""
    have, want = path.replace("\\", "/").lower(), wanted.replace("\\", "/").lower().strip("/")
    end = "/".join(have.rsplit("/", want.count("/") + 1)[-1 - want.count("/") :])
    return fnmatchcase(end, want) or want in end


def _fold_alike(hits: Sequence[Hit]) -> list[Hit]:
    """Join hits with nearly the same text: the newest stands for all, in the place of the best."""
    groups: list[tuple[frozenset[str], list[Hit]]] = []
    for hit in hits[:_FOLDED]:
        lines = _signature(hit.unit)
        for seen, group in groups:
            if hit.session == group[0].session and _is_alike(lines, seen):
                group.append(hit)
                break
        else:
            groups.append((lines, [hit]))
    folded = [_newest(group) for _, group in groups]
    return folded + list(hits[_FOLDED:])


def _newest(group: Sequence[Hit]) -> Hit:
    newest, *others = sorted(group, key=lambda hit: -hit.unit.entry_id)
    same = dict.fromkeys(hit.unit.entry_id for hit in others)
    return replace(newest, same=tuple(same), score=group[0].score)


def _signature(unit: Unit) -> frozenset[str]:
    data = unit.text[:_COMPARED_CHARS].encode("utf-8", "surrogatepass")
    text = data.translate(None, _DIGITS).decode("utf-8", "surrogatepass")
    lines = text.splitlines()
    return frozenset([unit.role, *(lines if len(lines) > 3 else text.split())])


def _is_alike(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) >= _ALIKE * len(one | other)
