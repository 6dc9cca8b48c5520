"""Which entries of a journal no longer count: undone, or left behind by a rewind."""

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
"""What a rewind leaves in force: how the session works now, and what a provider refuses."""


class Withdrawn(Struct, frozen=True, kw_only=True):
    """What no longer counts in a journal."""

    undone: Mapping[EntryId, EntryId]
    """Each entry that was undone, and the entry that says so."""
    rewound: frozenset[EntryId]
    """Entries that a rewind left behind."""

    def counts(self, entry: Entry) -> bool:
        """Say whether an entry still has an effect."""
        if entry.id in self.rewound:
            return isinstance(entry.body, _LASTING)
        return entry.id not in self.undone

    def is_stale(self, entry: Entry) -> bool:
        """Say whether an entry was written while something was in force that no longer is."""
        return any(target < entry.id < undo for target, undo in self.undone.items())


def withdrawn(entries: Sequence[Entry]) -> Withdrawn:
    """Find what no longer counts.

    Read from the end: an undo or a rewind that was itself undone or left behind has no say.
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
