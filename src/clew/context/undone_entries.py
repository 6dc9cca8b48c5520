"""Entries of a journal that an undo or a rewind disabled."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from clew.core.entries import (
    Compacted,
    Entry,
    MessageAdded,
    ModeChanged,
    PinChanged,
    ReasoningDropped,
    ResultsCleared,
    Rewound,
    SetupChanged,
    Undone,
)
from clew.core.ids import EntryId

_LASTING = (SetupChanged, ModeChanged, PinChanged, ReasoningDropped)
"""Entries that a rewind leaves in force."""


class UndoneEntries(Struct, frozen=True, kw_only=True):
    """Entries of a journal that no longer have an effect."""

    undone: Mapping[EntryId, EntryId]
    """Each undone entry, with the entry that undid it."""
    rewound: Mapping[EntryId, EntryId]
    """Each entry after the point of a rewind, with that rewind."""
    stale: frozenset[EntryId]
    """Entries that were written under an entry that was undone later."""

    def counts(self, entry: Entry) -> bool:
        """Return whether an entry still has an effect."""
        if entry.id in self.rewound:
            return isinstance(entry.body, _LASTING)
        return entry.id not in self.undone


def find_undone_entries(entries: Sequence[Entry]) -> UndoneEntries:
    """Find the entries that undos and rewinds disabled.

    It reads from the end: an undo or rewind that was itself undone has no effect.
    """
    undone: dict[EntryId, EntryId] = {}
    rewound: dict[EntryId, EntryId] = {}
    rewind = EntryId(0)
    back_to: EntryId | None = None
    for entry in reversed(entries):
        if back_to is not None and entry.id >= back_to:
            rewound[entry.id] = rewind
            continue
        if entry.id in undone:
            continue
        match entry.body:
            case Undone(target=target):
                undone[target] = entry.id
            case Rewound(before=before):
                rewind, back_to = entry.id, before
            case _:
                pass
    return UndoneEntries(undone=undone, rewound=rewound, stale=_find_stale(entries, undone))


def _find_stale(entries: Sequence[Entry], undone: Mapping[EntryId, EntryId]) -> frozenset[EntryId]:
    """Return the entries between an undone entry and its undo."""
    if not undone:
        return frozenset()
    waiting = sorted(undone, reverse=True)
    stale: set[EntryId] = set()
    until = 0
    for entry in entries:
        while waiting and waiting[-1] < entry.id:
            until = max(until, undone[waiting.pop()])
        if entry.id < until:
            stale.add(entry.id)
    return frozenset(stale)


def drop_usage(entry: Entry) -> Entry:
    """Drop the provider's count, if the entry has one."""
    if isinstance(entry.body, MessageAdded) and entry.body.usage is not None:
        return replace(entry, body=replace(entry.body, usage=None))
    return entry


def find_changed(entry: Entry) -> frozenset[EntryId]:
    """Return the messages that an entry removes from the view or replaces there."""
    match entry.body:
        case Compacted(dropped=dropped, replaced=replaced):
            return frozenset((*dropped, *(change.entry_id for change in replaced)))
        case ResultsCleared(replaced=replaced):
            return frozenset(change.entry_id for change in replaced)
        case _:
            return frozenset()
