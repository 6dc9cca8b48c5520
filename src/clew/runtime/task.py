"""`ManagedTask`: one task of a manager, as its runner sees it and as the manager ends it."""

import logging

from anyio import CancelScope, create_task_group
from anyio import Event as Signal
from msgspec.structs import replace

from clew.core.errors import BackgroundTaskError, ClewError
from clew.core.events import Event, PermissionRequest, PermissionResolved, TaskStage
from clew.core.tasks import TaskErrorCategory, TaskKind, TaskState, TaskStatus
from clew.runtime.clock import Clock
from clew.runtime.protocol import (
    AGENT_LIMITS,
    TaskFacts,
    TaskLimits,
    TaskRequest,
    TaskResult,
    TaskRunner,
)
from clew.runtime.states import (
    STAGES,
    Stop,
    TaskChange,
    add_facts,
    change_state,
    end_state,
    follow_event,
)
from clew.runtime.task_events import TaskEvents
from clew.runtime.watchdogs import (
    describe_timeout,
    find_time_left,
    find_timeout,
    observe,
    start_activity,
)

logger = logging.getLogger(__name__)

_UPDATE_INTERVAL = 0.5
_PAUSED_CHECK = 1.0
"""Seconds between two looks at a task whose clocks stand still."""


class ManagedTask:
    """A task from its acceptance to its end. `ended` is set when nothing of it runs any more."""

    def __init__(
        self,
        request: TaskRequest,
        state: TaskState,
        *,
        runner: TaskRunner | None,
        clock: Clock,
        events: TaskEvents,
    ) -> None:
        self.request = request
        self.state = state
        self._runner = runner
        self.ended = Signal()
        if state.status.is_terminal:
            self.ended.set()
        self._limits = _find_limits(request)
        self._clock = clock
        self._events = events
        self._activity = start_activity(clock.monotonic())
        self._scope = CancelScope()
        self._stop: Stop | None = None
        self._is_left = False
        self._updated = Signal()

    @property
    def task_id(self) -> str:
        """The id of the task."""
        return self.state.task_id

    @property
    def runner(self) -> TaskRunner:
        """What runs the task.

        Raises:
            BackgroundTaskError: Nothing here can run tasks of its kind.
        """
        if self._runner is None:
            raise BackgroundTaskError(
                f"this session cannot run {self.state.kind} tasks: {self.task_id} is only listed",
                category=TaskErrorCategory.VALIDATION,
            )
        return self._runner

    @property
    def has_runner(self) -> bool:
        """True where the task can run here."""
        return self._runner is not None

    @property
    def is_left(self) -> bool:
        """True for a durable task that this process does not follow, or no longer."""
        return self._is_left

    def report(self, event: Event) -> None:
        """Publish an event of the task; see `RunningTask.report`."""
        if self.state.status.is_terminal:
            return
        now, at = self._clock.monotonic(), self._clock.now()
        self._activity = observe(self._activity, event, now=now, limits=self._limits)
        self.state = follow_event(self._count_work(), event, self._activity, at=at)
        self._events.publish(event, task_id=self.task_id)
        match event:
            case PermissionRequest() if self.state.status is TaskStatus.RUNNING:
                self.change(TaskChange.ASK)
            case PermissionResolved() if self._is_answered():
                self.change(TaskChange.RESUME)
            case _:
                self._updated.set()
        self._check()

    def describe(self, facts: TaskFacts) -> None:
        """Set facts of the task's state."""
        if not self.state.status.is_terminal:
            self.state = add_facts(self.state, facts)
            self._updated.set()

    def start(self) -> None:
        """Set the state of a task that gets its place; one that is followed again keeps its own."""
        if self.state.status is TaskStatus.QUEUED:
            self.change(TaskChange.START)

    def change(self, change: TaskChange) -> None:
        """Change the status of a task that does not end, and announce it."""
        self.state = change_state(self.state, change, at=self._clock.now())
        self._events.announce(self.state, STAGES[change])

    def stop(self, stop: Stop) -> None:
        """Have the runner end; the first reason counts."""
        if self._stop is None and not self.state.status.is_terminal:
            self._stop = stop
            self._scope.cancel()

    def leave(self) -> None:
        """Stop following a durable task, which continues elsewhere."""
        self._is_left = True
        self._scope.cancel()
        if self._runner is None or self.state.status is TaskStatus.QUEUED:
            self.ended.set()

    async def run(self) -> None:
        """Run the task to its end; raises nothing but a cancellation from outside."""
        outcome: TaskResult | Exception | None = None
        self._activity = start_activity(self._clock.monotonic())
        try:
            with self._scope:
                async with create_task_group() as group:
                    group.start_soon(self._watch)
                    group.start_soon(self._announce_updates)
                    outcome = await self._run_runner()
                    group.cancel_scope.cancel()
        finally:
            if self._is_left and self._stop is None and outcome is None:
                self.ended.set()
            else:
                self.end(outcome)

    async def wait(self) -> TaskState:
        """Return the last state once nothing of the task runs here any more."""
        await self.ended.wait()
        return self.state

    def end(self, outcome: TaskResult | Exception | None = None) -> None:
        """Set the last state of the task: what its runner returned or raised, if it ran."""
        state = end_state(self._count_work(), outcome, self._stop, at=self._clock.now())
        if state.status is not TaskStatus.COMPLETED and not state.result:
            state = replace(state, result=self._activity.recent.strip())
        self.state = state
        self._events.announce(self.state, TaskStage(state.status))
        self.ended.set()

    async def _run_runner(self) -> TaskResult | Exception:
        try:
            return await self.runner.run(self)
        except ClewError as error:
            return error
        except Exception as error:
            logger.exception("the runner of %s crashed", self.task_id)
            return error

    async def _watch(self) -> None:
        """End the task when a clock has run out."""
        while True:
            now = self._clock.monotonic()
            left = find_time_left(self._limits, self._activity, now=now)
            if left is None or self._check():
                return
            is_paused = self._activity.working_since is None
            await self._clock.sleep(max(left, _PAUSED_CHECK) if is_paused else left)

    def _check(self) -> bool:
        """End the task if it has reached a limit; returns whether it has."""
        reason = find_timeout(self._limits, self._activity, now=self._clock.monotonic())
        if reason is None:
            return False
        error = describe_timeout(reason, self._limits, self._activity)
        self.stop(Stop(change=TaskChange.FAIL, error=error, timeout_reason=reason))
        return True

    async def _announce_updates(self) -> None:
        """Announce what the task reports, at most twice per second; the newest is never lost."""
        while True:
            await self._updated.wait()
            self._updated = Signal()
            self._events.announce(self.state, TaskStage.UPDATED)
            await self._clock.sleep(_UPDATE_INTERVAL)

    def _count_work(self) -> TaskState:
        """Return the state with the time that the task has worked; a worker counts its own."""
        if self.request.durable or self.state.status is TaskStatus.QUEUED:
            return self.state
        worked = self._activity.time_worked(self._clock.monotonic())
        return replace(self.state, worked_seconds=round(worked, 3))

    def _is_answered(self) -> bool:
        waits = self.state.status is TaskStatus.WAITING_PERMISSION
        return waits and not self._activity.questions


def _find_limits(request: TaskRequest) -> TaskLimits:
    if request.durable:
        # The worker that runs it counts; here it may wait in the queue for long.
        return TaskLimits()
    return request.limits or (AGENT_LIMITS if request.kind is TaskKind.AGENT else TaskLimits())
