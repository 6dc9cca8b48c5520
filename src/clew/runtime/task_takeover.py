"""Takes over the tasks of workers that died.

A worker tells the store once a second that it is alive. The first of the workers that are alive
looks for silent ones, and puts their tasks into the queue again. Before that, it takes the tasks
away from them: a silent worker that wakes up is refused every write, and stops.
"""

import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol

from msgspec import Struct

from clew.core.tasks import TaskStatus
from clew.runtime.durable_tasks import DurableTasks
from clew.runtime.protocol import Scheduler
from clew.runtime.running_tasks import release
from clew.stores.task_protocol import TaskRow, TaskStore, WorkerRow

logger = logging.getLogger(__name__)

PREFIX = "worker-"
"""Begins the names of workers; sessions that run tasks themselves are in the same list."""
_OPEN = (TaskStatus.QUEUED, TaskStatus.RUNNING, TaskStatus.WAITING_PERMISSION)
_LOOKOUTS = 3
"""How many workers look for silent ones at every heartbeat; the others seldom do."""
_SELDOM = 10
SWEEP_BATCH = 500


class QueuedRun(Struct, frozen=True, kw_only=True):
    """One run of a task that a worker has taken from the queue."""

    run_id: str
    task_id: str
    worker: str


class WorkQueue(Scheduler, Protocol):
    """What a worker needs of the queue beside `Scheduler`."""

    async def find_runs(self, worker: str | None = None) -> Sequence[QueuedRun]:
        """Return the runs that were begun and have not ended, of one worker or of all."""
        ...

    async def resume(self, runs: Sequence[QueuedRun]) -> None:
        """Put runs of a worker that died into the queue again."""
        ...

    async def submit_lost(self, task_ids: Sequence[str]) -> list[str]:
        """Submit the queued tasks among these that no run will come for; returns their ids."""
        ...

    async def prune(self, *, before: str) -> int:
        """Forget runs that ended before that time (ISO 8601); returns how many."""
        ...

    async def share(self, workers: int) -> None:
        """Let that many workers look for tasks so often that the database can bear it."""
        ...


class WorkerTimes(Struct, frozen=True, kw_only=True):
    """How often a worker looks; in seconds."""

    heartbeat: float = 1.0
    silent_after: float = 5.0
    """A worker without a heartbeat for this long counts as dead."""
    cancel_poll: float = 0.2
    save: float = 1.0
    """How often the progress of running tasks is saved."""
    sweep: float = 30.0
    """How often to look for abandoned tasks."""
    keep_runs: float = 600.0
    """How long the queue remembers runs that have ended."""


async def find_workers(tasks: TaskStore) -> list[WorkerRow]:
    """Return the processes that serve the queue, including those that are silent."""
    return [one for one in await tasks.workers() if one.worker.startswith(PREFIX)]


class _Walk:
    """Goes through the tasks in one status, a batch at a time, and then begins anew.

    However many there are, and whatever changes meanwhile, each task without changes is seen:
    a round has an end, because a task that changes during it is left to the next one.
    """

    def __init__(self, tasks: TaskStore, status: TaskStatus, *, unchanged_for: float) -> None:
        self._tasks = tasks
        self._status = status
        self._unchanged_for = unchanged_for
        self._before = 0.0
        self._last: TaskRow | None = None

    async def next_batch(self) -> list[TaskRow]:
        """Return the next durable tasks, the longest unchanged first."""
        rows = await self._read() if self._last is not None else []
        if not rows:
            self._last, self._before = None, time.time() - self._unchanged_for
            rows = await self._read()
        self._last = rows[-1] if rows else None
        return [row for row in rows if row.state.durable]

    async def _read(self) -> list[TaskRow]:
        return await self._tasks.unchanged_tasks(
            self._status, before=self._before, after=self._last, limit=SWEEP_BATCH
        )


class TaskTakeover:
    """Looks for workers that died, on behalf of the worker of that name."""

    def __init__(
        self, tasks: TaskStore, queue: WorkQueue, *, worker: str, times: WorkerTimes
    ) -> None:
        self._tasks = tasks
        self._queue = queue
        self._durable = DurableTasks(tasks, queue)
        self._worker = worker
        self._times = times
        self._skips = 0
        self._walks = [_Walk(tasks, status, unchanged_for=times.silent_after) for status in _OPEN]

    @property
    def is_lookout(self) -> bool:
        """True for one of the first workers, which do what has to be done once."""
        return not self._skips

    async def take_over_silent(self) -> None:
        """Take over the tasks of silent workers, if this is the worker that does it."""
        if self._skips:
            self._skips -= 1
            return
        known = await find_workers(self._tasks)
        silent = [
            one.worker for one in known if one.has_ended or one.silent > self._times.silent_after
        ]
        alive = [one.worker for one in known if one.worker not in silent]
        if sum(one < self._worker for one in alive) >= _LOOKOUTS:
            self._skips = _SELDOM - 1
        if silent and min(alive, default="") == self._worker:
            for worker in silent:
                await self._take_over(worker, await self._queue.find_runs(worker))
                await self._tasks.leave(worker)

    async def sweep(self) -> None:
        """Find runs of workers that left without a word, and tasks that no run will come for."""
        if min(await self._list_workers(), default="") != self._worker:
            return
        runs = await self._queue.find_runs()
        rows = [row for walk in self._walks for row in await walk.next_batch()]
        # Read last: a worker is in the list before it takes anything.
        alive = await self._list_workers()
        taken = {row.worker for row in rows if row.worker.startswith(PREFIX)}
        for worker in ({run.worker for run in runs} | taken) - alive:
            await self._take_over(worker, [run for run in runs if run.worker == worker])
        await self._wake_forgotten([row for row in rows if not row.worker])
        await self._queue.share(len(alive))
        before = datetime.now(UTC) - timedelta(seconds=self._times.keep_runs)
        await self._queue.prune(before=before.isoformat())

    async def _list_workers(self) -> set[str]:
        return {one.worker for one in await find_workers(self._tasks)}

    async def _wake_forgotten(self, rows: Sequence[TaskRow]) -> None:
        """Queue tasks again whose process died before it could do that."""
        waiting = []
        for row in rows:
            is_called = row.answer is not None or row.cancel_requested
            if row.state.status is TaskStatus.QUEUED:
                waiting.append(row.state.task_id)
            elif row.state.status is TaskStatus.RUNNING or is_called:
                await self._durable.wake(row.state.task_id)
        for task_id in await self._queue.submit_lost(waiting):
            logger.warning("task %s was not in the queue; submitted it", task_id)

    async def _take_over(self, worker: str, runs: Sequence[QueuedRun]) -> None:
        """Queue the tasks of a dead worker again, after they were taken from it."""
        rows = await self._tasks.tasks(worker=worker, statuses=_OPEN)
        for row in rows:
            await release(self._tasks, row)
        await self._queue.resume(runs)
        resumed = {run.task_id for run in runs}
        for row in rows:
            # Its run may have ended before the worker could say how.
            if row.state.task_id not in resumed:
                await self._queue.submit(row.state.task_id)
        count = len(resumed.union(row.state.task_id for row in rows))
        logger.warning("worker %s is silent; %s of its tasks continue", worker, count)
