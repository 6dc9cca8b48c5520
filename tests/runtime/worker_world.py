"""A store and a queue in memory with the workers that serve them, in one process."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio

from clew.core.tasks import TaskKind
from clew.runtime.claimed_task import ClaimedTask
from clew.runtime.durable_tasks import DurableTasks, make_spec
from clew.runtime.protocol import TaskLimits, TaskRequest, TaskResult
from clew.runtime.task_takeover import TaskTakeover, WorkerTimes
from clew.runtime.worker import RunAgent, Worker
from clew.stores.memory_tasks import MemoryTaskStore
from clew.stores.task_protocol import TaskRow
from tests.runtime.memory_queue import MemoryQueue

QUICK = WorkerTimes(heartbeat=0.01, silent_after=60, cancel_poll=0.01, save=0.01, sweep=0.01)


def spec(prompt: str = "do it", limits: TaskLimits | None = None) -> dict[str, object]:
    request = TaskRequest(kind=TaskKind.AGENT, prompt=prompt, durable=True, limits=limits)
    return make_spec(request, {"cwd": "/"})


async def answer(task: ClaimedTask) -> TaskResult:
    return TaskResult(text=f"answer to {task.request.prompt}")


async def wait_forever(task: ClaimedTask) -> TaskResult:
    await anyio.sleep_forever()
    raise AssertionError


class World:
    """A store, a queue, and the workers that serve it."""

    def __init__(
        self, clock: Callable[[], float] = time.time, tasks: MemoryTaskStore | None = None
    ) -> None:
        self.tasks = tasks or MemoryTaskStore(clock=clock)
        self.queue = MemoryQueue(self.tasks)
        self.durable = DurableTasks(self.tasks, self.queue)

    def worker(
        self, run: RunAgent = answer, name: str = "worker-w1", times: WorkerTimes = QUICK
    ) -> Worker:
        return Worker(self.tasks, self.queue, run, name=name, times=times)

    def takeover(self, name: str = "worker-w1") -> TaskTakeover:
        """Return one that finds everything old."""
        times = WorkerTimes(silent_after=-1.0)
        return TaskTakeover(self.tasks, self.queue, worker=name, times=times)

    @asynccontextmanager
    async def serving(self, worker: Worker) -> AsyncIterator[Worker]:
        async with anyio.create_task_group() as group:
            await group.start(worker.serve)
            group.start_soon(self.queue.serve, worker)
            yield worker
            worker.stop()
            await worker.stopped.wait()
            group.cancel_scope.cancel()

    async def wait_for(self, task_id: str, is_there: Callable[[TaskRow], object]) -> TaskRow:
        with anyio.fail_after(60):
            while True:
                row = await self.durable.get(task_id)
                if is_there(row):
                    return row
                await anyio.sleep(0.005)

    async def wait_ended(self, task_id: str) -> TaskRow:
        return await self.wait_for(task_id, lambda row: row.state.status.is_terminal)
