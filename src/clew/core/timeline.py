"""The context window over time, and where each entry of a journal stands now.

`clew.context.timeline` and `clew.context.entry_places` compute these values from a journal.
"""

from enum import StrEnum

from msgspec import Struct

from clew.core.context_state import Basis, Breakdown
from clew.core.ids import EntryId
from clew.core.usage import Usage


class TimelinePoint(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """How full the window was after one answer of the model."""

    entry_id: EntryId
    """The answer."""
    at: float
    model: str
    window: int
    tokens: int
    """The conversation with the answer: the provider's count, or an estimate if it has none."""
    basis: Basis
    breakdown: Breakdown
    usage: Usage | None = None
    """What the provider counted for the call; `cache_read_tokens` came from its cache."""
    cost: float | None = None
    """US dollars; None if the price is unknown."""


class MarkKind(StrEnum):
    """A change of the window that is not a message."""

    COMPACTION = "compaction"
    RESULTS_CLEARED = "results_cleared"
    REASONING_DROPPED = "reasoning_dropped"
    CLEAR = "clear"
    UNDO = "undo"
    REWIND = "rewind"
    MODEL = "model"
    """Another model, or another window."""


class TimelineMark(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A change of the window between two answers."""

    entry_id: EntryId
    at: float
    kind: MarkKind
    tokens_before: int
    tokens_after: int
    trigger: str = ""
    """What asked for a compaction or a clearing of results."""
    target: EntryId | None = None
    """The entry that an undo reverts, or before which a rewind goes back."""
    model: str = ""
    """The new model."""
    window: int = 0
    """The new window."""


class Standing(StrEnum):
    """Where an entry of the journal stands now."""

    IN_VIEW = "in_view"
    """The model reads it word for word. For a compaction: the model reads its summary."""
    CLEARED = "cleared"
    """The model reads a marker or an excerpt in its place."""
    SUMMARISED = "summarised"
    """It left the view in a compaction, whose summary covers it."""
    REMOVED = "removed"
    """It left the view without a summary, as by a clear."""
    UNDONE = "undone"
    """An undo or a rewind took it back."""
    RECORD = "record"
    """It is not a message: a setting, a pin, a note, a cost."""


class EntryPlace(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Where an entry stands, and which entry put it there."""

    standing: Standing
    by: EntryId | None = None
    """The compaction, clearing, clear, undo or rewind; None if nothing happened to it."""
