"""An index of the names in a conversation: files, hashes and identifiers."""

import math
import re
from collections import Counter
from collections.abc import Container, Sequence
from functools import lru_cache

from msgspec.structs import replace

from clew.context.digest.passages import (
    CALLED,
    Passage,
    collect_names,
    render_text,
    split_passages,
)
from clew.context.items import Item
from clew.core.entries import Replacement
from clew.core.ids import EntryId

_MARKED = re.compile(r"[._\d]|[a-z][A-Z]")
"""What an identifier has and an ordinary word has not."""
_VARIABLE = re.compile(r"[0-9a-f]{6,}|\d+")
"""The part of a name that differs between many of the same kind, such as those of packed files."""
_MOST_ALIKE = 4
"""Names that differ in nothing else; more of them tell a reader little."""
_RECENCY, _CALL_RECENCY, _OFTEN, _FILE = 0.45, 0.30, 0.35, 0.7
_NEVER_CALLED = math.log1p(10_000)


_NAMES_PER_MARKER = 400
"""Characters."""


def add_names(items: Sequence[Item], markers: Sequence[Replacement]) -> tuple[Replacement, ...]:
    """Add names to the markers of cleared results: those that the view would not have any more.

    They tell a reader what to look for in the entry.
    """
    cleared = {marker.entry_id for marker in markers}
    kept = render_text(item for item in items if item.entry_id not in cleared)
    seen = collect_names(kept)
    added: dict[EntryId, str] = {}
    for item in reversed(items):
        if item.entry_id in cleared:
            index = NameIndex(list(split_passages([item])))
            names = index.choose(max_chars=_NAMES_PER_MARKER, known=seen)
            seen.update(names)
            added[item.entry_id] = f"; it names {', '.join(names)}" if names else ""
    return tuple(
        replace(one, text=f"{one.text.removesuffix(']')}{added[one.entry_id]}]") for one in markers
    )


@lru_cache(maxsize=1 << 13)
def _is_marked(name: str) -> bool:
    return _MARKED.search(name) is not None


class NameIndex:
    """The names of some passages, ranked once; any number of them can be chosen.

    Recent names come first, especially those in recent tool calls. A bare number is not a name,
    unless it occurs in tool calls; an ordinary word never is.
    """

    def __init__(self, stretch: Sequence[Passage]) -> None:
        recency: dict[str, float] = {}
        called: dict[str, float] = {}
        count: dict[str, int] = {}
        distance = 0
        for passage in reversed(stretch):
            distance += len(passage.text)
            names = passage.known_names
            if names is None:
                names = passage.names
            if not names:
                continue
            age = math.log1p(distance / 1_000)
            is_call = passage.source == CALLED
            for name, times in names.items():
                if name in count:
                    count[name] += times
                else:
                    count[name], recency[name] = times, age
                if is_call and name not in called:
                    called[name] = age

        ranks = {
            name: _RECENCY * recency[name]
            + _CALL_RECENCY * called.get(name, _NEVER_CALLED)
            - _OFTEN * math.log1p(times)
            - (_FILE if "." in name else 0.0)
            for name, times in count.items()
            if _is_marked(name) and (name in called or not name.isdecimal())
        }
        self._ranked = sorted(ranks, key=ranks.__getitem__)
        self.chars = sum(map(len, self._ranked)) + 2 * len(self._ranked)
        """What all of them take, joined with a comma and a space."""

    def choose(self, *, max_chars: int, known: Container[str] = ()) -> list[str]:
        """List the best names that are not in `known`.

        Joined with a comma and a space they have at most `max_chars` characters.
        """
        chosen: list[str] = []
        alike: Counter[str] = Counter()
        room = max_chars
        for name in self._ranked:
            if len(name) + 2 > room:
                break
            if name not in known and _take_kind(name, alike):
                chosen.append(name)
                room -= len(name) + 2
        return chosen


@lru_cache(maxsize=1 << 13)
def _find_kind(name: str) -> str:
    return _VARIABLE.sub("0", name)


def _take_kind(name: str, alike: Counter[str]) -> bool:
    """Count a name of its kind, and return whether there are few of them yet. A hash has none."""
    kind = _find_kind(name)
    if kind in (name, "0"):
        return True
    alike[kind] += 1
    return alike[kind] <= _MOST_ALIKE
