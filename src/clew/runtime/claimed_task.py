"""A durable task as the worker sees that runs it: its row, its progress and its end."""

import time
from collections.abc import Callable
from enum import StrEnum

import anyio
from msgspec import convert
from msgspec.structs import replace

from clew.core.errors import BackgroundTaskError, ClewError
from clew.core.events import (
    ContextUpdated,
    Event,
    PermissionRequest,
    PermissionResolved,
    TextDelta,
    ToolEnded,
    ToolStarted,
)
from clew.core.tasks import TaskErrorCategory, TaskState, TaskStatus
from clew.core.text import one_line
from clew.runtime.protocol import TaskFacts, TaskRequest, TaskResult
from clew.stores.task_protocol import TaskRow, TaskStore

_SHOWN = 200
_KEPT = 4_000
"""Characters of the newest output that are kept for the preview."""


class StopReason(StrEnum):
    """Why a worker stops a task that has not ended."""

    CANCELLED = "cancelled"
    """Someone asked for it: the task ends."""
    PARKED = "parked"
    """It waits for an answer: nothing runs until there is one."""
    HANDED_BACK = "handed back"
    """The worker ends: another one continues."""
    LOST = "lost"
    """Another worker has taken it: this one must not write any more."""


class ClaimedTask:
    """A task that this worker runs; a `clew.runtime.protocol.RunningTask`.

    Every write checks that no other worker has taken the task since.
    """

    def __init__(
        self, tasks: TaskStore, row: TaskRow, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._tasks = tasks
        self._clock = clock
        self._scope = anyio.CancelScope()
        self._output = ""
        self._is_saved = True
        self.row = row
        self.request = convert(row.spec["request"], TaskRequest)
        self.stop_reason: StopReason | None = None
        self.seal: Callable[[], None] = _do_nothing
        """Makes the task write nothing more; set as soon as there is something to seal."""
        self.messages_read = 0
        """The number of the last message that the task has read."""

    @property
    def task_id(self) -> str:
        """The id of the task."""
        return self.row.state.task_id

    @property
    def state(self) -> TaskState:
        """The state as it will be saved."""
        return self.row.state

    @property
    def scope(self) -> anyio.CancelScope:
        """The scope to run the task in."""
        return self._scope

    def stop(self, reason: StopReason) -> None:
        """Interrupt the task at once.

        Unless it was cancelled, it ends as with a crash: its journal stays as it is, so that a
        successor can continue behind the last entry.
        """
        if self.stop_reason is None:
            self.stop_reason = reason
            if reason is not StopReason.CANCELLED:
                self.seal()
            self._scope.cancel()

    def report(self, event: Event) -> None:
        """Let the state follow an event of the task."""
        self._change(apply_event(self.state, event))
        if isinstance(event, TextDelta):
            self._output = (self._output + event.text)[-_KEPT:]
            line = self._output.rstrip().rpartition("\n")[2]
            self._change(replace(self.state, preview=one_line(line, _SHOWN)))

    def describe(self, facts: TaskFacts) -> None:
        """Set facts of the task's state."""
        known = {name: getattr(facts, name) for name in facts.__struct_fields__}
        changes = {
            name: value
            for name, value in known.items()
            if value is not None and name in self.state.__struct_fields__
        }
        if changes:
            self._change(replace(self.state, **changes))

    def _change(self, state: TaskState) -> None:
        self.row = replace(self.row, state=replace(state, last_activity_at=self._clock()))
        self._is_saved = False

    async def save(self, *, force: bool = False) -> None:
        """Write the state, if it has changed.

        Raises:
            SessionBusy: Another worker has taken the task.
        """
        if force or not self._is_saved:
            self._is_saved = True
            await self._tasks.save_task(self.row, epoch=self.row.epoch)

    async def keep_snapshot(self, data: bytes) -> None:
        """Store a snapshot of the task's worktree, for a successor.

        Raises:
            SessionBusy: Another worker has taken the task.
        """
        name = await self._tasks.put_blob(data)
        if name != self.row.snapshot:
            self.row = replace(self.row, snapshot=name)
            await self.save(force=True)

    async def settle(self, state: TaskState) -> None:
        """Write the last state of this run, and leave the task to others.

        Raises:
            SessionBusy: Another worker has taken the task.
        """
        self.row = replace(self.row, state=state, worker="")
        await self.save(force=True)


def apply_event(state: TaskState, event: Event) -> TaskState:
    """Return the state of a task after one of its events."""
    match event:
        case TextDelta(text=text):
            size = len(text.encode(errors="replace"))
            return replace(
                state, text_deltas=state.text_deltas + 1, output_bytes=state.output_bytes + size
            )
        case ToolStarted(name=name):
            return replace(state, action=name)
        case ToolEnded():
            return replace(state, action="")
        case ContextUpdated(state=context):
            return replace(state, context=context)
        case PermissionRequest(tool_name=name, target=target):
            question = one_line(f"{name} {target}".strip(), _SHOWN)
            return replace(state, status=TaskStatus.WAITING_PERMISSION, question=question)
        case PermissionResolved():
            return replace(state, status=TaskStatus.RUNNING, question="")
        case _:
            return state


def complete(state: TaskState, result: TaskResult, now: float) -> TaskState:
    """Return the state of a task that has done its work."""
    return replace(
        state,
        status=TaskStatus.COMPLETED,
        result=result.text,
        exit_code=result.exit_code,
        worktree_path=result.worktree_path,
        branch_name=result.branch_name,
        action="",
        question="",
        ended_at=now,
    )


def fail(state: TaskState, error: BaseException, now: float) -> TaskState:
    """Return the state of a task that failed."""
    known = error if isinstance(error, BackgroundTaskError) else None
    category = TaskErrorCategory.RUNNER if isinstance(error, ClewError) else TaskErrorCategory.CRASH
    return replace(
        state,
        status=TaskStatus.FAILED,
        result=known.partial if known else "",
        error=str(error) or type(error).__name__,
        error_category=known.category if known else category,
        timeout_reason=known.timeout_reason if known else None,
        action="",
        question="",
        ended_at=now,
    )


def interrupt(state: TaskState, reason: StopReason, now: float) -> TaskState:
    """Return the state of a task that its worker stopped."""
    match reason:
        case StopReason.PARKED:
            return replace(state, status=TaskStatus.WAITING_PERMISSION, action="")
        case StopReason.HANDED_BACK:
            return replace(state, status=TaskStatus.QUEUED, action="", question="")
        case StopReason.CANCELLED | StopReason.LOST:
            return replace(state, status=TaskStatus.CANCELLED, action="", question="", ended_at=now)


def _do_nothing() -> None:
    pass
