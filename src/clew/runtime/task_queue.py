"""`TaskQueue`: starts tasks in the order in which they came, and not too many at once."""

from collections import deque

from msgspec import Struct, field

from clew.core.errors import BackgroundTaskError
from clew.core.tasks import TaskErrorCategory, TaskKind, TaskMode
from clew.runtime.protocol import TaskRequest
from clew.runtime.states import Stop, TaskChange
from clew.runtime.task import ManagedTask
from clew.session.task_owner import TaskOwner

MAX_QUEUED = 1_000
"""How many tasks of one kind and mode may wait."""


class _Lane(Struct, kw_only=True):
    """The places for one kind and mode of tasks, and the tasks that wait for one."""

    places: int | None
    """None for any number."""
    running: int = 0
    waiting: deque[ManagedTask] = field(default_factory=deque)

    @property
    def has_place(self) -> bool:
        return self.places is None or self.running < self.places


class TaskQueue:
    """Gives each kind and mode of tasks `places` of its own.

    Durable tasks need none. Nor do agents that hooks run: a task that has a place waits for them.
    """

    def __init__(self, places: int, owner: TaskOwner) -> None:
        self._places = places
        self._owner = owner
        self._lanes: dict[tuple[TaskKind, TaskMode, bool, bool], _Lane] = {}

    def check_room(self, request: TaskRequest) -> None:
        """Check that another task may wait.

        Raises:
            BackgroundTaskError: Too many wait already (`capacity`).
        """
        if len(self._find_lane(request).waiting) >= MAX_QUEUED:
            raise BackgroundTaskError(
                f"{MAX_QUEUED:,} tasks wait already; start this one when some have ended",
                category=TaskErrorCategory.CAPACITY,
                recoverable=True,
            )

    def add(self, task: ManagedTask) -> None:
        """Start a task, or let it wait for a place."""
        lane = self._find_lane(task.request)
        lane.waiting.append(task)
        self._start_waiting(lane)

    def cancel(self, task: ManagedTask, reason: str) -> None:
        """Have a task end: at once if it waits, otherwise when its runner has ended."""
        task.stop(Stop(change=TaskChange.CANCEL, error=reason))
        waiting = self._find_lane(task.request).waiting
        if task in waiting:
            waiting.remove(task)
            task.end()

    def _find_lane(self, request: TaskRequest) -> _Lane:
        key = (request.kind, request.mode, request.durable, request.fires_hooks)
        lane = self._lanes.get(key)
        if lane is None:
            is_limited = request.fires_hooks and not request.durable
            places = self._places if is_limited else None
            lane = self._lanes[key] = _Lane(places=places)
        return lane

    def _start_waiting(self, lane: _Lane) -> None:
        while lane.waiting and lane.has_place and self._owner.is_running:
            task = lane.waiting.popleft()
            lane.running += 1
            task.start()
            self._owner.start_soon(self._run, task, lane)

    async def _run(self, task: ManagedTask, lane: _Lane) -> None:
        try:
            await task.run()
        finally:
            lane.running -= 1
            self._start_waiting(lane)
