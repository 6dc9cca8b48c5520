"""`ContextClient`: the context window of a session as data, as clients use it."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from clew.core.context_state import ContextState, LossReport
from clew.core.ids import EntryId
from clew.core.timeline import MarkKind, Standing, TimelineMark, TimelinePoint
from clew.core.usage import Usage

START = EntryId(0)
TIMELINE_LIMIT = 5_000
ENTRIES_LIMIT = 200
RECALL_LIMIT = 8


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


class CompactionPreview(Struct, frozen=True, kw_only=True):
    """What a compaction would do now, with the summary that rules would write."""

    strategy: str
    report: LossReport
    summary: str


class CompactionDetail(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A compaction, or a clearing of tool results: what it did, and whether an undo reverts it."""

    entry_id: EntryId
    at: float
    kind: MarkKind
    """`compaction` or `results_cleared`."""
    trigger: str
    """What asked for it, such as `auto` or `manual`."""
    strategy: str = ""
    report: LossReport
    """What happened to each entry of the view, the tokens before and after, and every attempt to
    write the summary."""
    summary: str = ""
    """The text that replaced what left the view."""
    notes: str = ""
    """The part of it that a model wrote."""
    usage: Usage | None = None
    """Tokens of the call that wrote it."""
    undone_by: EntryId | None = None
    """The undo or rewind that reverted it; None while it is in force."""
    can_undo: bool
    """True if `undo(entry_id)` reverts it now."""
    undo_first: tuple[EntryId, ...] = ()
    """The later changes in force, newest first, which have to be undone before it."""


class CompactionOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of `compact`."""

    deferred: bool
    """True during a run: the compaction follows before the next model call."""
    compaction: CompactionDetail | None = None
    """What was done; None if it is deferred."""


class UndoneChange(Struct, frozen=True, kw_only=True):
    """The result of `undo`."""

    entry_id: EntryId
    """The change that was undone."""
    kind: MarkKind
    """`compaction`, `results_cleared`, `clear` or `rewind`."""
    state: ContextState
    """How full the window is now."""


class RecallHit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message or a tool call that a search found."""

    entry_id: EntryId
    """The entry to read: of a call, its result."""
    at: float
    role: str
    """`user`, `assistant`, `tool`, `summary` or `note`."""
    tool: str = ""
    excerpts: tuple[str, ...]
    """The passages that match best."""
    called_in: EntryId | None = None
    """The entry of the call, if it is another one."""
    same: tuple[EntryId, ...] = ()
    """Older entries with nearly the same text."""
    standing: Standing
    by: EntryId | None = None
    """The entry that put it there; see `JournalEntry.by`."""


class RecallResult(Struct, frozen=True, kw_only=True):
    """What a search found, the best first."""

    hits: tuple[RecallHit, ...]
    """Empty if the query names entries to read, such as `#12`."""
    total: int
    """How many there were before the limit."""
    missing: tuple[str, ...]
    """Words of the query that no entry contains."""
    text: str
    """The same for people, or the entries that the query names, in full."""


class SimulatedCall(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One request of a simulation."""

    tokens: int
    compacted: bool = False
    """True if a compaction came directly before it."""
    cleared: bool = False
    """True if tool results were cleared directly before it."""


class SimulatedStrategy(Struct, frozen=True, kw_only=True):
    """The session, as it would have been under one strategy."""

    strategy: str
    calls: tuple[SimulatedCall, ...]
    """Every request, oldest first."""
    input_tokens: int
    cached_tokens: int
    """The input tokens that the provider would have read from its cache."""
    cost: float
    """Of the input, in tokens at the plain input price; the output is always the same."""
    relative_cost: float | None
    """The cost relative to a session that keeps everything; None if that one cost nothing."""
    peak_tokens: int
    compactions: int
    clearings: int
    lookups: int
    """Calls that only retrieved content that had left the view."""
    oversized_requests: int
    """Requests that a session would refuse to send."""
    recall: float | None
    """The share of names that were needed again and that compactions kept; None if none was."""


class ContextSimulation(Struct, frozen=True, kw_only=True):
    """The session under several strategies, side by side."""

    model: str
    window: int
    strategies: tuple[SimulatedStrategy, ...]


class ContextClient(Protocol):
    """The context window of a session: its state and history, the journal, and changes to it.

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
        """Return at most `limit` entries of the journal after that one, oldest first."""
        ...

    async def compaction(self, entry_id: EntryId) -> CompactionDetail:
        """Return what a compaction or a clearing of results did.

        Raises:
            SessionError: The entry is neither.
        """
        ...

    async def preview(self, *, strategy: str = "") -> CompactionPreview:
        """Return what a compaction would do now; nothing changes.

        Args:
            strategy: `tiered`, `sliding_window`, `summarize` or `compact`. Default: the session's.

        Raises:
            NothingToDrop: There is nothing to remove, or too little would be gained.
            ConfigError: There is no such strategy.
        """
        ...

    async def compact(self, *, instructions: str = "", force: bool = False) -> CompactionOutcome:
        """Compact now, or before the next model call of the run that is active.

        Args:
            instructions: What the summary should keep.
            force: Compact even if that saves little.

        Raises:
            NothingToDrop: There is nothing to remove, or too little would be gained.
            SessionError: The instructions are too long.
        """
        ...

    async def undo(self, entry_id: EntryId | None = None) -> UndoneChange:
        """Undo the newest compaction, clearing of results, clear or rewind; later messages stay.

        Args:
            entry_id: The change that the caller means. Default: the newest one.

        Raises:
            NothingToUndo: There is nothing to undo, or that entry is not the newest change.
            AlreadyRunning: A run is active.
        """
        ...

    async def pin(self, entry_id: EntryId) -> None:
        """Keep a message of the view word for word in every compaction.

        Raises:
            SessionError: The entry is not a message of the view.
        """
        ...

    async def unpin(self, entry_id: EntryId) -> None:
        """No longer keep a message in every compaction.

        Raises:
            SessionError: The entry is not a message.
        """
        ...

    async def recall(self, query: str, *, limit: int = RECALL_LIMIT) -> RecallResult:
        """Search the whole journal by words and filters, or read entries such as `#12`.

        Raises:
            SessionError: The query has no words, or names an entry that does not exist.
        """
        ...

    async def simulate(
        self,
        strategies: Sequence[str] = (),
        *,
        window: int | None = None,
        max_tokens: int | None = None,
        lookups: bool = True,
    ) -> ContextSimulation:
        """Simulate this session under several strategies; no model is called, nothing changes.

        Args:
            strategies: Names, as in `clew simulate`. Default: all.
            window: Use this context window in tokens. Default: the model's.
            max_tokens: Compact at this many tokens, if that is below the threshold.
            lookups: Charge for the calls that look up what left the view.

        Raises:
            ConfigError: There is no such strategy.
        """
        ...
