"""`DurableRunner`: lets a manager follow tasks that workers run.

The task lives in the store. This runner submits it, and reports what its row and its journal say;
it may end at any time, and a later session follows the same task again.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import anyio

from clew.core.entries import Entry, MessageAdded
from clew.core.errors import (
    AbortError,
    BackgroundTaskError,
    ClewError,
    SessionNotFound,
    StoreError,
    StoreUnavailable,
)
from clew.core.events import (
    ContextUpdated,
    Event,
    PermissionResolved,
    TextDelta,
    ToolEnded,
    ToolStarted,
)
from clew.core.ids import SessionId
from clew.core.messages import Role, Text, ToolCall, ToolResult
from clew.core.permissions import Approval, PermissionAnswer
from clew.core.tasks import LogPage, TaskErrorCategory, TaskKind, TaskState, TaskStatus
from clew.core.tool_states import unwrap_call
from clew.runtime.clock import Clock, SystemClock
from clew.runtime.durable_tasks import DurableTasks, make_spec
from clew.runtime.protocol import LOG_PAGE_LINES, RunningTask, TaskFacts, TaskResult
from clew.stores.protocol import Store
from clew.stores.task_protocol import TaskRow

logger = logging.getLogger(__name__)

_FIRST_POLL = 0.1
_LONGEST_POLL = 1.0
_CANCEL_SECONDS = 5.0
GENERAL_PURPOSE = "general-purpose"
"""The agent of a request that names none."""


class TaskCosts(Protocol):
    """Charges tasks to the session that follows them."""

    def count(self, task_id: str, usd: float) -> None:
        """Count what a task that runs has cost so far."""
        ...

    async def charge(self, task_id: str, agent: str) -> None:
        """Charge what a task has cost since it was charged last.

        Raises:
            StoreError: The store cannot be read or written.
        """
        ...


class DurableRunner:
    """Has agents run by `clew worker`; see `clew.runtime.protocol.TaskRunner`.

    Args:
        durable: The durable tasks of the store.
        store: Where the journals of the agents are.
        session: Returns the `SessionSpec` of this session, as JSON values, for a new agent.
        costs: Charges the agents to this session; None where they are not charged.
        clock: Waits between two looks at a task.
    """

    kind = TaskKind.AGENT

    def __init__(
        self,
        durable: DurableTasks,
        store: Store,
        *,
        session: Callable[[], Mapping[str, Any]],
        costs: TaskCosts | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._durable = durable
        self._store = store
        self._session = session
        self._costs = costs
        self._clock = clock or SystemClock()

    async def run(self, task: RunningTask) -> TaskResult:
        """Submit a task, or follow one that exists, until it ends.

        Raises:
            BackgroundTaskError: It failed.
            AbortError: It was cancelled elsewhere.
            StoreError: The store could not be reached to start it, or is damaged.
        """
        seen = await self._begin(task)
        try:
            return await self._follow(task, seen)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                if not task.is_left:
                    await self._durable.cancel(task.task_id)
                await self._settle_costs(task)
            raise

    async def _wait_for_end(self, task_id: str) -> None:
        """Wait until the worker of a cancelled task has stopped it, if that does not take long."""
        with anyio.move_on_after(_CANCEL_SECONDS):
            while not (await self._durable.get(task_id)).state.status.is_terminal:
                await self._clock.sleep(_FIRST_POLL)

    async def _settle_costs(self, task: RunningTask) -> None:
        """Charge the cost of a task that is no longer followed."""
        if self._costs is None:
            return
        try:
            if not task.is_left:
                await self._wait_for_end(task.task_id)
            await self._charge(task)
        except ClewError as error:
            logger.warning("the cost of %s was not charged: %s", task.task_id, error)

    async def _charge(self, task: RunningTask) -> None:
        if self._costs is not None:
            await self._costs.charge(task.task_id, task.request.agent or GENERAL_PURPOSE)

    async def _begin(self, task: RunningTask) -> int:
        """Make sure that the task is in the store; returns how many entries are known already."""
        row = await self._durable.tasks.task(task.task_id)
        if row is None:
            spec = make_spec(task.request, self._session())
            await self._durable.spawn(spec, task_id=task.task_id)
            return 0
        seen = await self._count_entries(task.task_id)
        if not task.request.follows:
            await self._durable.send(task.task_id, task.request.prompt)
        return seen

    async def _count_entries(self, task_id: str) -> int:
        try:
            return (await self._store.record(SessionId(task_id))).entries
        except SessionNotFound:
            return 0

    async def _follow(self, task: RunningTask, seen: int) -> TaskResult:
        last: TaskRow | None = None
        delay = _FIRST_POLL
        while True:
            try:
                row = await self._durable.get(task.task_id)
                if last is None or row != last:
                    seen = await self._report_entries(task, seen)
                    _report_row(task, last, row)
                    last, delay = row, _FIRST_POLL
                    if self._costs is not None:
                        self._costs.count(task.task_id, row.state.cost_usd)
                if row.state.status.is_terminal:
                    await self._charge(task)
                    return _finish(row.state)
            except StoreUnavailable as error:
                # The agent does not need this process; it is followed again when the store is back.
                logger.warning("task %s cannot be read now: %s", task.task_id, error)
            await self._clock.sleep(delay)
            delay = min(_LONGEST_POLL, delay * 1.5)

    async def _report_entries(self, task: RunningTask, seen: int) -> int:
        try:
            _, entries = await self._store.load(SessionId(task.task_id), after=seen)
        except SessionNotFound:
            return seen
        for entry in entries:
            for event in make_events(entry):
                task.report(event)
        return seen + len(entries)

    async def send(self, task_id: str, text: str) -> None:
        """Send a message; the agent reads it after its turn, or is woken by it."""
        await self._durable.send(task_id, text)

    async def answer(self, task_id: str, request_id: str, answer: PermissionAnswer) -> None:
        """Answer the question of a task.

        Raises:
            SessionError: The question is not open.
        """
        await self._durable.answer(task_id, request_id, answer)

    async def read_log(
        self, task_id: str, *, offset: int = 0, limit: int = LOG_PAGE_LINES
    ) -> LogPage:
        """Return a page of what the agent has said and done.

        Raises:
            BackgroundTaskError: There is no log yet.
        """
        try:
            _, entries = await self._store.load(SessionId(task_id))
        except (SessionNotFound, StoreError) as error:
            raise BackgroundTaskError(
                f"{task_id} has no transcript yet", category=TaskErrorCategory.VALIDATION
            ) from error
        lines = [line for entry in entries for line in format_entry(entry)]
        return make_page(task_id, lines, offset=offset, limit=limit)


def make_page(task_id: str, lines: list[str], *, offset: int, limit: int) -> LogPage:
    """Return the lines of a log from `offset` on."""
    shown = lines[offset : offset + limit]
    after = offset + len(shown)
    return LogPage(
        task_id=task_id,
        lines=tuple(shown),
        offset=offset,
        next_offset=after if after < len(lines) else None,
    )


def make_events(entry: Entry) -> list[Event]:
    """Return an entry of an agent's journal as the events that a client would have seen."""
    body = entry.body
    if not isinstance(body, MessageAdded) or body.message.role is Role.USER:
        return []
    events: list[Event] = []
    for part in body.message.parts:
        match part:
            case Text(text=text) if text and body.message.role is Role.ASSISTANT:
                events.append(TextDelta(text=text))
            case ToolCall(call_id=call_id, name=name, arguments=arguments):
                shown, given = unwrap_call(name, arguments)
                events.append(ToolStarted(call_id=call_id, name=shown, arguments=given))
            case ToolResult(call_id=call_id, name=name, text=text, failed=failed):
                events.append(ToolEnded(call_id=call_id, name=name, failed=failed, display=text))
    return events


def format_entry(entry: Entry) -> list[str]:
    """Return the lines of an entry for people."""
    lines: list[str] = []
    for event in make_events(entry):
        match event:
            case TextDelta(text=text):
                lines += text.splitlines()
            case ToolStarted(name=name, arguments=arguments):
                lines.append(f"> {name} {arguments}")
            case ToolEnded(display=text, failed=failed):
                mark = "! " if failed else "  "
                lines += [f"{mark}{line}" for line in text.splitlines()]
    return lines


def _report_row(task: RunningTask, last: TaskRow | None, row: TaskRow) -> None:
    """Report what changed in the row of a task."""
    state, before = row.state, last.state if last is not None else None
    task.describe(
        TaskFacts(
            model=state.model or None,
            cost_usd=state.cost_usd or None,
            worked_seconds=state.worked_seconds or None,
            worktree_path=state.worktree_path or None,
            branch_name=state.branch_name or None,
        )
    )
    if state.context is not None and (before is None or before.context != state.context):
        task.report(ContextUpdated(state=state.context))
    asked = last.question if last is not None else None
    if asked is not None and (row.question is None or row.question != asked):
        answer = last.answer if last is not None else None
        # An answer that the agent read before this process saw it is not known here.
        is_approved = answer is None or answer.approval is not Approval.NO
        task.report(PermissionResolved(request_id=asked.request_id, approved=is_approved))
    if row.question is not None and row.question != asked:
        task.report(row.question)


def _finish(state: TaskState) -> TaskResult:
    if state.status is TaskStatus.COMPLETED:
        return TaskResult(
            text=state.result,
            exit_code=state.exit_code,
            worktree_path=state.worktree_path,
            branch_name=state.branch_name,
        )
    if state.status is TaskStatus.CANCELLED:
        raise AbortError(state.error or "the task was cancelled")
    raise BackgroundTaskError(
        state.error or "the task failed",
        category=state.error_category or TaskErrorCategory.RUNNER,
        timeout_reason=state.timeout_reason,
        partial=state.result,
    )
