"""Which entries of a journal have no effect any more, because of an undo or a rewind."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from clew.core.entries import (
    Entry,
    ModeChanged,
    PinChanged,
    ReasoningDropped,
    Rewound,
    SetupChanged,
    Undone,
)
from clew.core.ids import EntryId

_LASTING = (SetupChanged, ModeChanged, PinChanged, ReasoningDropped)
"""Entries that a rewind leaves in force."""


class Withdrawn(Struct, frozen=True, kw_only=True):
    """Entries of a journal that have no effect any more."""

    undone: Mapping[EntryId, EntryId]
    """Each undone entry, with the entry that undid it."""
    rewound: frozenset[EntryId]
    """Entries after the point of a rewind."""

    def counts(self, entry: Entry) -> bool:
        """Return whether an entry still has an effect."""
        if entry.id in self.rewound:
            return isinstance(entry.body, _LASTING)
        return entry.id not in self.undone

    def is_stale(self, entry: Entry) -> bool:
        """Return whether an entry was written under an entry that was undone later."""
        return any(target < entry.id < undo for target, undo in self.undone.items())


def find_withdrawn(entries: Sequence[Entry]) -> Withdrawn:
    """Find the entries that undos and rewinds disabled.

    It reads from the end: an undo or rewind that was itself undone has no effect.
    """
    undone: dict[EntryId, EntryId] = {}
    rewound: set[EntryId] = set()
    back_to: EntryId | None = None
    for entry in reversed(entries):
        if back_to is not None and entry.id >= back_to:
            rewound.add(entry.id)
            continue
        if entry.id in undone:
            continue
        match entry.body:
            case Undone(target=target):
                undone[target] = entry.id
            case Rewound(before=before):
                back_to = before
            case _:
                pass
    return Withdrawn(undone=undone, rewound=frozenset(rewound))
