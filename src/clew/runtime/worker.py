"""`Worker`: a process that runs durable tasks."""

import logging
import os
import socket
from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel
from anyio.abc import TaskStatus as Started
from msgspec import ValidationError

from clew.core.errors import ClewError, SessionBusy, StoreError, StoreUnavailable
from clew.core.tasks import TaskErrorCategory, TaskStatus
from clew.runtime.claimed_task import ClaimedTask, StopCause
from clew.runtime.due_schedules import DueSchedules, NextTime
from clew.runtime.durable_tasks import DurableTasks
from clew.runtime.protocol import TaskResult
from clew.runtime.running_tasks import RunningTasks, refuse
from clew.runtime.task_takeover import PREFIX, TaskTakeover, WorkerTimes, WorkQueue
from clew.stores.task_protocol import TaskStore

logger = logging.getLogger(__name__)

RunAgent = Callable[[ClaimedTask], Awaitable[TaskResult]]
"""Does the work of one task; raises `ClewError` when that fails."""


class Worker:
    """Runs the tasks that the queue hands to `run`, until `stop`.

    Args:
        tasks: The rows of the tasks.
        queue: Where tasks come from.
        run_agent: Does the work of one task.
        name: The name of the worker; no other process may have it.
        next_time: For schedules; without it, none is fired.
        times: How often to look.
    """

    def __init__(
        self,
        tasks: TaskStore,
        queue: WorkQueue,
        run_agent: RunAgent,
        *,
        name: str = "",
        next_time: NextTime | None = None,
        times: WorkerTimes | None = None,
    ) -> None:
        self.name = name or new_worker_name()
        self._tasks = tasks
        self._queue = queue
        self._durable = DurableTasks(tasks, queue)
        self._run_agent = run_agent
        self._schedules = DueSchedules(self._durable, next_time) if next_time else None
        self._times = times or WorkerTimes()
        self._takeover = TaskTakeover(tasks, queue, worker=self.name, times=self._times)
        self._running = RunningTasks(tasks, self._durable, worker=self.name)
        self._stopping = anyio.Event()
        self.stopped = anyio.Event()
        """Set when nothing runs any more, after `stop`."""

    async def serve(self, *, task_status: Started[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Beat, watch and take over until `stop`; then hand back what runs, and leave."""
        await self._tasks.beat(self.name)
        task_status.started()
        times, running = self._times, self._running
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._repeat, times.heartbeat, self._beat)
                group.start_soon(self._repeat, times.heartbeat, self._takeover.take_over_silent)
                group.start_soon(self._repeat, times.cancel_poll, running.stop_cancelled)
                group.start_soon(self._repeat, times.save, running.save_progress)
                group.start_soon(self._repeat, times.sweep, self._takeover.sweep)
                group.start_soon(self._repeat, times.heartbeat, self._fire_schedules)
                await self._stopping.wait()
                await running.hand_back()
                self.stopped.set()
                group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                try:
                    await self._tasks.leave(self.name)
                except StoreError as error:
                    logger.warning("worker %s could not leave: %s", self.name, error)

    def stop(self) -> None:
        """Take no more tasks, and hand those that run back to the queue."""
        self._stopping.set()

    async def run(self, task_id: str) -> None:
        """Run a task that the queue handed out; does nothing when another worker has it."""
        try:
            with self._running.taking(task_id):
                if (task := await self._take(task_id)) is not None:
                    await self._settle(task, await self._work(task))
        except SessionBusy as error:
            logger.info("task %s was taken by another worker: %s", task_id, error)
        except StoreError as error:
            # `RunningTasks.check_claims` puts it into the queue again.
            logger.warning("task %s is left to a later run: %s", task_id, error)
        except Exception:
            logger.exception("task %s is left to a later run", task_id)

    async def _take(self, task_id: str) -> ClaimedTask | None:
        found = await self._tasks.task(task_id)
        if found is None or found.worker or found.state.status.is_terminal:
            return None
        if self._stopping.is_set():
            if await self._tasks.claim(task_id, "", epoch=found.epoch) is not None:
                await self._queue.submit(task_id)
            return None
        row = await self._tasks.claim(task_id, self.name, epoch=found.epoch)
        if row is None:
            return None
        try:
            task = ClaimedTask(self._tasks, row)
        except (ValidationError, KeyError) as error:
            message = f"this version of Clew cannot read the task: {error!r}"
            await refuse(self._tasks, row, message, TaskErrorCategory.VALIDATION)
            return None
        sent = await self._tasks.messages(task_id)
        task.messages_known = sent[-1].number if sent else 0
        task.start()
        logger.info(
            "task %s started (epoch %s): %s",
            task_id,
            row.epoch,
            row.state.label,
            extra={"task_id": task_id, "worker": self.name, "epoch": row.epoch},
        )
        self._running.add(task)
        if row.cancel_requested:
            task.stop(StopCause.CANCELLED)
        return task

    async def _work(self, task: ClaimedTask) -> TaskResult | Exception | None:
        """Run a task; returns None when it was interrupted."""
        outcome: TaskResult | Exception | None = None
        with task.scope:
            try:
                # Nothing runs of a task that was cancelled before.
                await anyio.lowlevel.checkpoint()
                outcome = await self._run_agent(task)
            except StoreUnavailable as error:
                logger.warning("task %s continues later: %s", task.task_id, error)
                task.stop(StopCause.HANDED_BACK)
            except SessionBusy as error:
                logger.warning("task %s is tried again later: %s", task.task_id, error)
                task.stop(StopCause.DELAYED)
            except ClewError as error:
                outcome = error
            except Exception as error:
                logger.exception("task %s crashed", task.task_id)
                outcome = error
        return outcome

    async def _settle(self, task: ClaimedTask, outcome: TaskResult | Exception | None) -> None:
        if task.stop_reason is StopCause.LOST:
            logger.warning("task %s was taken by another worker; stopped it", task.task_id)
            return
        with anyio.CancelScope(shield=True):
            await task.settle(outcome)
            state = task.state
            logger.info(
                "task %s %s: %s",
                task.task_id,
                task.stop_reason if task.is_left else state.status,
                state.error or state.question or state.preview or state.label,
                extra={"task_id": task.task_id, "worker": self.name, "status": state.status},
            )
            await self._wake_again(task)

    async def _wake_again(self, task: ClaimedTask) -> None:
        """Queue a task again for which something came while it ended; see `durable_tasks`."""
        row = await self._tasks.task(task.task_id)
        if row is None or row.state.status is TaskStatus.CANCELLED:
            return
        if row.state.status is TaskStatus.QUEUED:
            if task.stop_reason is not StopCause.DELAYED:  # `sweep` submits it
                await self._queue.submit(task.task_id)
            return
        # What this run knew and could not read would only make the next one end in the same way.
        known = max(task.messages_read, task.messages_known)
        if fresh := await self._tasks.messages(task.task_id, after=known):
            await self._durable.wake(task.task_id, message=fresh[-1].number)
        elif row.answer is not None or row.cancel_requested:
            await self._durable.wake(task.task_id)

    async def _repeat(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        """Call `work` again and again; a store that cannot be reached is tried again."""
        while True:
            try:
                await work()
            except StoreError as error:
                logger.warning("worker %s: %s", self.name, error)
            except Exception:
                # The agents of this worker must not end because of it.
                logger.exception("worker %s could not look after its tasks", self.name)
            await anyio.sleep(seconds)

    async def _beat(self) -> None:
        await self._tasks.beat(self.name)
        await self._running.check_claims()

    async def _fire_schedules(self) -> None:
        if self._schedules is not None and self._takeover.is_lookout:
            await self._schedules.fire()


def new_worker_name(name: str = "") -> str:
    """Return a name that no other worker has; it contains `name`, or that of the machine."""
    return f"{PREFIX}{name or socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}"
