"""The parts of a remote session: each method is one call by its name in `client_json.METHODS`.

A client on another transport passes the function that sends a call and waits for its result.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from msgspec import Struct

from clew.core.context_state import ContextState
from clew.core.ids import EntryId
from clew.core.tasks import JobGroupState, JobGroupSummary, JobWaitPolicy, LogPage, TaskState
from clew.sdk.client_json import (
    CancelTaskParams,
    CreateGroupParams,
    GroupParams,
    LogParams,
    NoParams,
    SendParams,
    TaskParams,
)
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
from clew.sdk.context_params import (
    CompactParams,
    EntriesParams,
    EntryParams,
    PreviewParams,
    RecallParams,
    SimulateParams,
    TimelineParams,
    UndoParams,
)
from clew.sdk.task_client import LOG_LINES

_T = TypeVar("_T")


class CallMethod(Protocol):
    """Calls a method of a session elsewhere, and returns its decoded result."""

    async def __call__(self, method: str, params: Struct, result: type[_T]) -> _T:
        """Send the call and wait for its result; raises the `ClewError` that the method raised."""
        ...


class TaskCalls:
    """Implements `TaskClient` for a session elsewhere."""

    def __init__(self, call: CallMethod) -> None:
        self._call = call

    async def list(self) -> tuple[TaskState, ...]:
        """Return all tasks that are not closed."""
        return await self._call("tasks.list", NoParams(), tuple[TaskState, ...])

    async def get(self, task_id: str) -> TaskState:
        """Return a task."""
        return await self._call("tasks.get", TaskParams(task_id=task_id), TaskState)

    async def cancel(self, task_id: str, *, reason: str = "") -> TaskState:
        """Cancel a task and wait for its end."""
        params = CancelTaskParams(task_id=task_id, reason=reason)
        return await self._call("tasks.cancel", params, TaskState)

    async def close(self, task_id: str) -> TaskState:
        """Remove a task that has ended from the list."""
        return await self._call("tasks.close", TaskParams(task_id=task_id), TaskState)

    async def send(self, task_id: str, text: str) -> None:
        """Pass a message to a task."""
        await self._call("tasks.send", SendParams(task_id=task_id, text=text), type(None))

    async def read_log(self, task_id: str, *, offset: int = 0, limit: int = LOG_LINES) -> LogPage:
        """Return a page of a task's log."""
        params = LogParams(task_id=task_id, offset=offset, limit=limit)
        return await self._call("tasks.read_log", params, LogPage)

    async def create_group(
        self,
        task_ids: Sequence[str],
        *,
        policy: JobWaitPolicy = JobWaitPolicy.WAIT_ALL,
        label: str = "",
    ) -> JobGroupState:
        """Group tasks that exist."""
        params = CreateGroupParams(task_ids=tuple(task_ids), policy=policy, label=label)
        return await self._call("tasks.create_group", params, JobGroupState)

    async def list_groups(self) -> tuple[JobGroupState, ...]:
        """Return all groups."""
        return await self._call("tasks.list_groups", NoParams(), tuple[JobGroupState, ...])

    async def get_group(self, group_id: str) -> JobGroupState:
        """Return a group."""
        return await self._call("tasks.get_group", GroupParams(group_id=group_id), JobGroupState)

    async def wait_group(self, group_id: str) -> JobGroupState:
        """Wait until a group is complete."""
        return await self._call("tasks.wait_group", GroupParams(group_id=group_id), JobGroupState)

    async def summarize_group(self, group_id: str) -> JobGroupSummary:
        """Return how the tasks of a group stand."""
        params = GroupParams(group_id=group_id)
        return await self._call("tasks.summarize_group", params, JobGroupSummary)


class ContextCalls:
    """Implements `ContextClient` for a session elsewhere."""

    def __init__(self, call: CallMethod) -> None:
        self._call = call

    async def state(self) -> ContextState:
        """Return how full the window is."""
        return await self._call("context.state", NoParams(), ContextState)

    async def timeline(
        self, *, after: EntryId = START, limit: int = TIMELINE_LIMIT
    ) -> ContextTimeline:
        """Return how full the window was after each answer, and what changed it."""
        params = TimelineParams(after=after, limit=limit)
        return await self._call("context.timeline", params, ContextTimeline)

    async def entries(
        self, *, after: EntryId = START, limit: int = ENTRIES_LIMIT
    ) -> list[JournalEntry]:
        """Return entries of the journal, with where each stands now."""
        params = EntriesParams(after=after, limit=limit)
        return await self._call("context.entries", params, list[JournalEntry])

    async def compaction(self, entry_id: EntryId) -> CompactionDetail:
        """Return what a compaction or a clearing of results did."""
        params = EntryParams(entry_id=entry_id)
        return await self._call("context.compaction", params, CompactionDetail)

    async def preview(self, *, strategy: str = "") -> CompactionPreview:
        """Return what a compaction would do now; nothing changes."""
        params = PreviewParams(strategy=strategy)
        return await self._call("context.preview", params, CompactionPreview)

    async def compact(self, *, instructions: str = "", force: bool = False) -> CompactionOutcome:
        """Compact now, or before the next model call of the run that is active."""
        params = CompactParams(instructions=instructions, force=force)
        return await self._call("context.compact", params, CompactionOutcome)

    async def undo(self, entry_id: EntryId | None = None) -> UndoneChange:
        """Undo the newest compaction, clearing of results, clear or rewind."""
        return await self._call("context.undo", UndoParams(entry_id=entry_id), UndoneChange)

    async def pin(self, entry_id: EntryId) -> None:
        """Keep a message of the view word for word in every compaction."""
        await self._call("context.pin", EntryParams(entry_id=entry_id), type(None))

    async def unpin(self, entry_id: EntryId) -> None:
        """No longer keep a message in every compaction."""
        await self._call("context.unpin", EntryParams(entry_id=entry_id), type(None))

    async def recall(self, query: str, *, limit: int = RECALL_LIMIT) -> RecallResult:
        """Search the whole journal by words and filters, or read entries."""
        params = RecallParams(query=query, limit=limit)
        return await self._call("context.recall", params, RecallResult)

    async def simulate(
        self,
        strategies: Sequence[str] = (),
        *,
        window: int | None = None,
        max_tokens: int | None = None,
        lookups: bool = True,
    ) -> ContextSimulation:
        """Simulate this session under several strategies."""
        params = SimulateParams(
            strategies=tuple(strategies), window=window, max_tokens=max_tokens, lookups=lookups
        )
        return await self._call("context.simulate", params, ContextSimulation)
