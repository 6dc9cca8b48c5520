"""The tasks that a worker runs: stops those that were cancelled or lost, and saves the others."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
from msgspec.structs import replace

from clew.core.errors import SessionBusy
from clew.core.tasks import TaskErrorCategory, TaskStatus
from clew.runtime.claimed_task import TAKEOVERS, ClaimedTask, StopCause, count_takeovers
from clew.runtime.durable_tasks import DurableTasks
from clew.stores.task_protocol import TaskRow, TaskStore

logger = logging.getLogger(__name__)

MAX_TAKEOVERS = 5


class RunningTasks:
    """What a worker runs now, by task id."""

    def __init__(self, tasks: TaskStore, durable: DurableTasks, *, worker: str) -> None:
        self._tasks = tasks
        self._durable = durable
        self._worker = worker
        self._busy: set[str] = set()
        self._running: dict[str, ClaimedTask] = {}
        self._ended = anyio.Event()

    @contextmanager
    def taking(self, task_id: str) -> Iterator[None]:
        """Take a task and run it in the block."""
        self._busy.add(task_id)
        try:
            yield
        finally:
            self._busy.discard(task_id)
            self._running.pop(task_id, None)
            self._ended.set()

    def add(self, task: ClaimedTask) -> None:
        """Watch a task, until its block ends."""
        self._running[task.task_id] = task

    async def hand_back(self) -> None:
        """Stop all tasks so that other workers continue them, and wait until nothing runs."""
        while self._busy:
            for task in tuple(self._running.values()):
                task.stop(StopCause.HANDED_BACK)
            self._ended = anyio.Event()
            await self._ended.wait()

    async def check_claims(self) -> None:
        """Stop tasks that other workers have taken, and queue those again that nothing runs."""
        before = tuple(self._running.values())
        rows = await self._tasks.tasks(worker=self._worker)
        own = {row.state.task_id: row.epoch for row in rows}
        for task in before:
            if own.get(task.task_id) != task.row.epoch and task.task_id in self._running:
                task.stop(StopCause.LOST)
        for row in rows:
            if row.state.task_id not in self._busy:
                await release(self._tasks, row)
                await self._durable.scheduler.submit(row.state.task_id)

    async def stop_cancelled(self) -> None:
        """Interrupt the tasks whose cancellation was requested."""
        if self._running:
            for task_id in await self._tasks.find_cancelled(tuple(self._running)):
                if (task := self._running.get(task_id)) is not None:
                    task.stop(StopCause.CANCELLED)

    async def save_progress(self) -> None:
        """Save what changed in the tasks, and end those that have reached a limit."""
        for task in tuple(self._running.values()):
            task.check_limits()
            if task.stop_reason is None:
                try:
                    await task.save()
                except SessionBusy:
                    task.stop(StopCause.LOST)


async def refuse(tasks: TaskStore, row: TaskRow, error: str, category: TaskErrorCategory) -> None:
    """End a claimed task that no worker can run."""
    state = replace(row.state, status=TaskStatus.FAILED, ended_at=row.updated_at, action="")
    state = replace(state, error=error, error_category=category, question="")
    logger.error("task %s failed: %s", state.task_id, error)
    await tasks.save_task(replace(row, state=state, worker=""), epoch=row.epoch)


async def release(tasks: TaskStore, row: TaskRow) -> None:
    """Take a task from a worker that died, so that another one can run it.

    One that was taken often without a new entry fails: it probably ends its workers itself.
    """
    taken = await tasks.claim(row.state.task_id, "", epoch=row.epoch)
    if taken is None:
        return
    count = count_takeovers(taken) + 1
    if count > MAX_TAKEOVERS:
        error = f"{count} workers ended while they ran it, and it came no further"
        await refuse(tasks, taken, error, TaskErrorCategory.CRASH)
        return
    state = replace(taken.state, status=TaskStatus.QUEUED, action="", question="")
    spec = {**taken.spec, TAKEOVERS: count}
    await tasks.save_task(replace(taken, state=state, spec=spec, worker=""), epoch=taken.epoch)
