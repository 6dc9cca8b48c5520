"""A work queue in memory, for tests of workers without processes."""

from collections.abc import Sequence

import anyio
from msgspec.structs import replace

from clew.core.tasks import TaskStatus
from clew.runtime.task_takeover import QueuedRun
from clew.runtime.worker import Worker
from clew.stores.task_protocol import TaskStore


class MemoryQueue:
    """Hands each run to the worker that serves it; a run is known by its task and epoch."""

    def __init__(self, tasks: TaskStore) -> None:
        self._tasks = tasks
        self.waiting: list[QueuedRun] = []
        self._known: set[str] = set()
        self._begun: dict[str, QueuedRun] = {}
        self._changed = anyio.Event()

    async def submit(self, task_id: str) -> None:
        row = await self._tasks.task(task_id)
        assert row is not None
        run = QueuedRun(run_id=f"{task_id}.{row.epoch}", task_id=task_id, worker="")
        if not row.worker and not row.state.status.is_terminal and run.run_id not in self._known:
            self._known.add(run.run_id)
            self._put([run])

    def _put(self, runs: Sequence[QueuedRun]) -> None:
        self.waiting += runs
        self._changed.set()

    async def cancel(self, task_id: str) -> None:
        await self._tasks.request_cancel(task_id)

    async def status(self, task_id: str) -> TaskStatus:
        row = await self._tasks.task(task_id)
        assert row is not None
        return row.state.status

    async def find_runs(self, worker: str | None = None) -> list[QueuedRun]:
        return [one for one in self._begun.values() if worker in (None, one.worker)]

    async def resume(self, runs: Sequence[QueuedRun]) -> None:
        for run in runs:
            self._begun.pop(run.run_id, None)
        self._put(runs)

    async def submit_lost(self, task_ids: Sequence[str]) -> list[str]:
        before = set(self._known)
        for task_id in task_ids:
            await self.submit(task_id)
        return [run.rpartition(".")[0] for run in self._known - before]

    async def prune(self, *, before: str) -> int:
        return 0

    async def share(self, workers: int) -> None:
        pass

    async def aclose(self) -> None:
        pass

    def begin(self, task_id: str, worker: str) -> None:
        """Pretend that a worker has taken a run that waits."""
        [run] = [one for one in self.waiting if one.task_id == task_id]
        self.waiting.remove(run)
        self._begun[run.run_id] = replace(run, worker=worker)

    async def serve(self, worker: Worker) -> None:
        """Run what comes, on a worker, until this is cancelled."""
        async with anyio.create_task_group() as group:
            while True:
                while self.waiting:
                    run = replace(self.waiting.pop(0), worker=worker.name)
                    self._begun[run.run_id] = run
                    group.start_soon(self._run, run, worker)
                await self._changed.wait()
                self._changed = anyio.Event()

    async def _run(self, run: QueuedRun, worker: Worker) -> None:
        await worker.run(run.task_id)
        if self._begun.get(run.run_id) == run:
            del self._begun[run.run_id]
