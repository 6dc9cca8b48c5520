"""`ContextClient`: the context window of a session as data, as clients use it."""

from typing import Protocol

from msgspec import Struct

from clew.core.context_state import ContextState
from clew.core.ids import EntryId
from clew.core.timeline import Standing, TimelineMark, TimelinePoint

START = EntryId(0)
TIMELINE_LIMIT = 5_000
ENTRIES_LIMIT = 200


class WindowThresholds(Struct, frozen=True, kw_only=True):
    """What happens at which size of a request, in tokens."""

    warn: int
    compact: int | None
    """None if nothing is compacted automatically."""
    block: int
    """Above this size a request is not sent."""


class ContextTimeline(Struct, frozen=True, kw_only=True):
    """The window over time: points and marks of a part of the journal."""

    points: tuple[TimelinePoint, ...]
    """One for each answer of the model, oldest first."""
    marks: tuple[TimelineMark, ...]
    """What changed the window between the answers, oldest first."""
    thresholds: WindowThresholds
    """As they are now."""
    undoable: tuple[EntryId, ...]
    """The compactions, clearings, clears and rewinds in force, oldest first. An undo reverts the
    last one."""
    last_entry: EntryId
    """Continue with `timeline(after=last_entry)`."""
    has_more: bool
    """True if the limit left out points or marks after `last_entry`."""


class JournalEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry of the journal as a reader wants it, with where it stands now."""

    id: EntryId
    at: float
    kind: str
    """What it is in the journal: `message`, `compaction`, `results_cleared`, `setup`, …"""
    role: str = ""
    """Of a message: `user`, `assistant` or `tool`."""
    author: str
    """`you`, `model`, the name of a tool, `session`, or the topic of a note."""
    text: str
    """Its content on one line, truncated."""
    tokens: int = 0
    """Estimated size of the message, or of the summary of a compaction, as it was written."""
    tokens_in_view: int = 0
    """What it takes in the window now."""
    standing: Standing
    by: EntryId | None = None
    """The entry that put it there: a compaction, clearing, clear, undo or rewind."""
    pinned: bool = False


class ContextClient(Protocol):
    """The context window of a session: its state, its history, and the journal behind it.

    Entry ids count from 1; `after` is the last entry that the caller knows.
    """

    async def state(self) -> ContextState:
        """Return how full the window is."""
        ...

    async def timeline(
        self, *, after: EntryId = START, limit: int = TIMELINE_LIMIT
    ) -> ContextTimeline:
        """Return how full the window was after each answer, and what changed it.

        Args:
            after: Leave out this entry and all before it.
            limit: Return at most this many points and marks together, the oldest first.
        """
        ...

    async def entries(
        self, *, after: EntryId = START, limit: int = ENTRIES_LIMIT
    ) -> list[JournalEntry]:
        """Return at most `limit` entries of the journal behind that one, oldest first."""
        ...
