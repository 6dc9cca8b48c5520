"""The context window of a session in this process: implements `ContextClient`."""

from bisect import bisect_right
from collections.abc import Sequence

from anyio import to_thread

from clew.context.entry_places import find_places
from clew.context.timeline import TimelineLog, find_mark_kind
from clew.core.context_state import ContextState
from clew.core.errors import AbortError
from clew.core.ids import EntryId
from clew.core.timeline import EntryPlace, TimelineMark, TimelinePoint
from clew.extensions.commands.context import request_compaction
from clew.extensions.commands.entries import describe_entries
from clew.sdk.context_client import (
    ENTRIES_LIMIT,
    RECALL_LIMIT,
    START,
    TIMELINE_LIMIT,
    CompactionDetail,
    CompactionOutcome,
    CompactionPreview,
    ContextSimulation,
    ContextTimeline,
    JournalEntry,
    RecallResult,
    UndoneChange,
)
from clew.sdk.context_values import (
    describe_compaction,
    list_thresholds,
    make_recall_result,
    make_rows,
    make_simulation,
)
from clew.sdk.lifecycle import Lifecycle
from clew.session.journal import Journal
from clew.session.session import Session


class LocalContext:
    """Implements `ContextClient` for a session in this process.

    It keeps the timeline and the places of entries that it computed, and continues them as the
    journal grows.
    """

    def __init__(self, life: Lifecycle) -> None:
        self._life = life
        self._log: TimelineLog | None = None
        self._places: tuple[int, dict[EntryId, EntryPlace]] = (0, {})

    async def state(self) -> ContextState:
        """Return how full the window is."""
        return (await self._open()).get_context_state()

    async def timeline(
        self, *, after: EntryId = START, limit: int = TIMELINE_LIMIT
    ) -> ContextTimeline:
        """Return how full the window was after each answer, and what changed it."""
        session = await self._open()
        entries, items = session.journal.entries, self._read_timeline(session.journal)
        first = bisect_right(items, after, key=_entry_id)
        page = items[first : first + max(0, limit)]
        has_more = first + len(page) < len(items)
        newest = entries[-1].id if entries else START
        if has_more:
            newest = page[-1].entry_id if page else after
        return ContextTimeline(
            points=tuple(item for item in page if isinstance(item, TimelinePoint)),
            marks=tuple(item for item in page if isinstance(item, TimelineMark)),
            thresholds=list_thresholds(session.state),
            undoable=session.journal.view.undoable,
            last_entry=newest,
            has_more=has_more,
        )

    async def entries(
        self, *, after: EntryId = START, limit: int = ENTRIES_LIMIT
    ) -> list[JournalEntry]:
        """Return entries of the journal, with where each stands now."""
        journal = (await self._open()).journal
        start = bisect_right(journal.entries, after, key=lambda entry: entry.id)
        rows = describe_entries(journal.entries, start, start + max(0, limit))
        return make_rows(rows, journal.view, self._find_places(journal))

    async def compaction(self, entry_id: EntryId) -> CompactionDetail:
        """Return what a compaction or a clearing of results did."""
        journal = (await self._open()).journal
        return describe_compaction(journal, entry_id, self._find_places(journal))

    async def preview(self, *, strategy: str = "") -> CompactionPreview:
        """Return what a compaction would do now; nothing changes."""
        would = (await self._open()).preview_compaction(strategy)
        return CompactionPreview(
            strategy=would.strategy, report=would.report, summary=would.summary
        )

    async def compact(self, *, instructions: str = "", force: bool = False) -> CompactionOutcome:
        """Compact now, or before the next model call of the run that is active."""
        built = await self._life.open()
        journal = built.parts.session.journal

        async def compact() -> CompactionOutcome:
            done = await request_compaction(built.commands, instructions, force=force)
            if done is None:
                return CompactionOutcome(deferred=True)
            entry_id = journal.view.undoable[-1]
            detail = describe_compaction(journal, entry_id, self._find_places(journal))
            return CompactionOutcome(deferred=False, compaction=detail)

        return await self._life.runner.change("/compact", compact)

    async def undo(self, entry_id: EntryId | None = None) -> UndoneChange:
        """Undo the newest compaction, clearing of results, clear or rewind."""
        session = await self._open()

        async def undo() -> UndoneChange:
            entry = await session.undo(entry_id)
            kind = find_mark_kind(entry.body)
            assert kind is not None  # noqa: S101 - only these can be undone
            return UndoneChange(entry_id=entry.id, kind=kind, state=session.get_context_state())

        return await self._life.runner.change("/undo", undo)

    async def pin(self, entry_id: EntryId) -> None:
        """Keep a message of the view word for word in every compaction."""
        await (await self._open()).pin(entry_id)

    async def unpin(self, entry_id: EntryId) -> None:
        """No longer keep a message in every compaction."""
        await (await self._open()).pin(entry_id, pinned=False)

    async def recall(self, query: str, *, limit: int = RECALL_LIMIT) -> RecallResult:
        """Search the whole journal by words and filters, or read entries."""
        from clew.session.recall import RecallRequest  # noqa: PLC0415 - loaded by the first search

        session = await self._open()
        answer = await session.recall(RecallRequest(text=query, limit=max(1, limit)))
        return make_recall_result(answer, self._find_places(session.journal))

    async def simulate(
        self,
        strategies: Sequence[str] = (),
        *,
        window: int | None = None,
        max_tokens: int | None = None,
        lookups: bool = True,
    ) -> ContextSimulation:
        """Simulate this session under several strategies, in a thread."""
        session = await self._open()
        entries, model = session.journal.entries[:], session.journal.view.setup.model
        cancelled: list[bool] = []

        def check(*_: object) -> None:
            if cancelled:
                raise AbortError("the simulation was cancelled")

        def run() -> ContextSimulation:
            # Imported here because few sessions are ever simulated, and it loads much.
            from clew.sdk.simulation import (  # noqa: PLC0415
                SCENARIOS,
                SimulationOptions,
                simulate_journal,
            )

            options = SimulationOptions.of(
                strategies or SCENARIOS, window=window, max_tokens=max_tokens, lookups=lookups
            )
            done = simulate_journal(entries, model, options, observe=check)
            return make_simulation(done, options)

        try:
            return await to_thread.run_sync(run, abandon_on_cancel=True)
        finally:
            cancelled.append(True)

    async def _open(self) -> Session:
        return (await self._life.open()).parts.session

    def _read_timeline(self, journal: Journal) -> list[TimelinePoint | TimelineMark]:
        log = self._log
        if log is None or not log.continues(journal.entries, journal.view.meter):
            log = self._log = TimelineLog(meter=journal.view.meter)
        log.read(journal.entries)
        return log.items

    def _find_places(self, journal: Journal) -> dict[EntryId, EntryPlace]:
        count, places = self._places
        if count != len(journal.entries):
            places = find_places(journal.entries)
            self._places = (len(journal.entries), places)
        return places


def _entry_id(item: TimelinePoint | TimelineMark) -> EntryId:
    return item.entry_id
