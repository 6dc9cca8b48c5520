"""A durable task as the worker sees that runs it: its row, its progress and its end."""

from collections.abc import Callable
from enum import StrEnum

import anyio
from msgspec import convert
from msgspec.structs import replace

from clew.core.events import Event, PermissionRequest, PermissionResolved
from clew.core.tasks import TaskState, TaskStatus
from clew.runtime.clock import Clock, SystemClock
from clew.runtime.protocol import AGENT_LIMITS, TaskFacts, TaskRequest, TaskResult
from clew.runtime.states import (
    Stop,
    TaskChange,
    add_facts,
    change_state,
    end_state,
    follow_event,
)
from clew.runtime.watchdogs import describe_timeout, find_timeout, observe, start_activity
from clew.stores.task_protocol import TaskRow, TaskStore

_CANCELLED = "cancelled"
_LONGEST_UNSAVED = 15.0
"""Seconds of work that may be lost with a worker that dies."""
TAKEOVERS = "takeovers"
"""The key of a row's `spec` with the takeovers since its journal last grew."""


class StopCause(StrEnum):
    """Why a worker stops a task that has not ended."""

    CANCELLED = "cancelled"
    """Someone asked for it: the task ends."""
    LIMIT = "limit"
    """It reached one of its limits: the task ends."""
    PARKED = "parked"
    """It waits for an answer: nothing runs until there is one."""
    HANDED_BACK = "handed back"
    """The worker ends: another one continues."""
    DELAYED = "delayed"
    """Another process has its session open: a worker tries again after a while."""
    LOST = "lost"
    """Another worker has taken it: this one must not write any more."""

    @property
    def continues(self) -> bool:
        """True when a worker continues the task later."""
        return self not in (StopCause.CANCELLED, StopCause.LIMIT)


class ClaimedTask:
    """A task that this worker runs; a `clew.runtime.protocol.RunningTask`.

    Every write checks that no other worker has taken the task since.
    """

    def __init__(self, tasks: TaskStore, row: TaskRow, *, clock: Clock | None = None) -> None:
        self._tasks = tasks
        self._clock = clock or SystemClock()
        self._scope = anyio.CancelScope()
        self._is_saved = True
        self._is_settled = False
        self._writing = anyio.Lock()
        self._end: Stop | None = None
        self.row = row
        self.request = convert(row.spec["request"], TaskRequest)
        self._limits = self.request.limits or AGENT_LIMITS
        self._activity = start_activity(self._clock.monotonic(), row.state)
        self.stop_reason: StopCause | None = None
        self.seal: Callable[[], None] = _do_nothing
        """Makes the task write nothing more; set as soon as there is something to seal."""
        self.messages_read = 0
        """The number of the last message that the task has read."""
        self.messages_known = 0
        """The number of the last message that was there when this run began."""

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

    @property
    def is_left(self) -> bool:
        """True when another worker continues the task."""
        return self.stop_reason is not None and self.stop_reason.continues

    def start(self) -> None:
        """Set the state of a task that begins, or continues on another worker."""
        now, state = self._clock.now(), self.state
        self._change(replace(state, status=TaskStatus.RUNNING, started_at=state.started_at or now))

    def stop(self, reason: StopCause) -> None:
        """Interrupt the task at once.

        One that continues later ends as with a crash: its journal stays as it is, so that a
        successor can continue after the last entry.
        """
        if self.stop_reason is None:
            self.stop_reason = reason
            if reason.continues:
                self.seal()
            self._scope.cancel()

    def report(self, event: Event) -> None:
        """Let the state follow an event of the task."""
        now, at = self._clock.monotonic(), self._clock.now()
        self._activity = observe(self._activity, event, now=now, limits=self._limits)
        state = follow_event(self.state, event, self._activity, at=at)
        waits = state.status is TaskStatus.WAITING_PERMISSION
        match event:
            case PermissionRequest() if not waits:
                state = change_state(state, TaskChange.ASK, at=at)
            case PermissionResolved() if waits and not self._activity.questions:
                state = change_state(state, TaskChange.RESUME, at=at)
        self._change(state)
        self.check_limits()

    def check_limits(self) -> None:
        """End the task if it has reached one of its limits."""
        reason = find_timeout(self._limits, self._activity, now=self._clock.monotonic())
        if reason is not None and self._end is None:
            error = describe_timeout(reason, self._limits, self._activity)
            self._end = Stop(change=TaskChange.FAIL, error=error, timeout_reason=reason)
            self.stop(StopCause.LIMIT)

    def describe(self, facts: TaskFacts) -> None:
        """Set facts of the task's state."""
        self._change(add_facts(self.state, facts))

    def note_progress(self) -> None:
        """Note that the journal of the task has a new entry."""
        if TAKEOVERS in self.row.spec:
            spec = {key: value for key, value in self.row.spec.items() if key != TAKEOVERS}
            self.row = replace(self.row, spec=spec)
            self._is_saved = False

    def _change(self, state: TaskState) -> None:
        self.row = replace(self.row, state=state)
        self._is_saved = False

    async def save(self) -> None:
        """Write the state, if it has changed and the task is not settled.

        A task that is silent is written now and then: the time that it works must not be lost
        with its worker.

        Raises:
            SessionBusy: Another worker has taken the task.
        """
        async with self._writing:
            unsaved = self._time_worked() - self.state.worked_seconds
            is_due = not self._is_saved or unsaved >= _LONGEST_UNSAVED
            if is_due and not self._is_settled:
                await self._write()

    def _time_worked(self) -> float:
        return self._activity.time_worked(self._clock.monotonic())

    async def _write(self) -> None:
        """Write the state; one write at a time, so that no older state comes after a newer one."""
        state = replace(self.state, worked_seconds=round(self._time_worked(), 3))
        self.row, self._is_saved = replace(self.row, state=state), True
        try:
            with anyio.CancelScope(shield=True):
                await self._tasks.save_task(self.row, epoch=self.row.epoch)
        except BaseException:
            self._is_saved = False
            raise

    async def keep_snapshot(self, name: str) -> None:
        """Keep the name of the newest snapshot of the task's worktree, for a successor.

        Raises:
            SessionBusy: Another worker has taken the task.
        """
        if name != self.row.snapshot:
            self.row = replace(self.row, snapshot=name)
            self._is_saved = False
            await self.save()

    async def settle(self, outcome: TaskResult | Exception | None) -> None:
        """Write the last state of this run, and leave the task to others.

        Args:
            outcome: What the run returned or raised; None if it was interrupted.

        Raises:
            SessionBusy: Another worker has taken the task.
        """
        async with self._writing:
            self._is_settled = True
            self.row = replace(self.row, state=self._last_state(outcome), worker="")
            await self._write()

    def _last_state(self, outcome: TaskResult | Exception | None) -> TaskState:
        state, at = self.state, self._clock.now()
        if isinstance(outcome, TaskResult):
            return end_state(state, outcome, None, at=at)
        stop: Stop | None = self._end
        match self.stop_reason:
            case StopCause.PARKED:
                return replace(state, action="")
            case StopCause.HANDED_BACK | StopCause.DELAYED | StopCause.LOST:
                return replace(state, status=TaskStatus.QUEUED, action="", question="")
            case StopCause.CANCELLED:
                stop = Stop(change=TaskChange.CANCEL, error=_CANCELLED)
            case StopCause.LIMIT | None:
                pass
        ended = end_state(state, outcome, stop, at=at)
        return ended if ended.result else replace(ended, result=self._activity.recent.strip())


def count_takeovers(row: TaskRow) -> int:
    """Return how often a task was taken from a dead worker since its last new entry."""
    count = row.spec.get(TAKEOVERS, 0)
    return count if isinstance(count, int) else 0


def _do_nothing() -> None:
    pass
