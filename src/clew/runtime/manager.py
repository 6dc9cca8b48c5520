"""`BackgroundTaskManager`: runs background tasks, and ends everything that it started.

It knows nothing of sessions, processes or screens: runners do the work, and events tell what
happens. States are immutable snapshots.
"""

from collections.abc import Callable, Collection, Iterable

import anyio
from msgspec.structs import replace

from clew.core.events import TaskStage
from clew.core.tasks import LogPage, TaskKind, TaskState, TaskStatus
from clew.runtime.clock import Clock, SystemClock
from clew.runtime.protocol import LOG_PAGE_LINES, TaskRequest, TaskRunner
from clew.runtime.states import create_state, fail_stale, recreate_request
from clew.runtime.task import ManagedTask
from clew.runtime.task_events import Publish, TaskEvents, TaskListener
from clew.runtime.task_list import Runners, TaskIdFactory, TaskList, invalid, make_task_id
from clew.runtime.task_queue import TaskQueue
from clew.session.task_owner import TaskOwner

MAX_CONCURRENT = 4


class BackgroundTaskManager:
    """Runs the tasks of a session: accepts, queues, watches, cancels and lists them.

    At most `max_concurrent` tasks run at once; the others wait in the order in which they came.
    Agents and processes have places of their own, and so have tasks in the foreground: a server
    that runs for hours keeps no agent waiting, and a background agent keeps no caller waiting. A
    task that asks the user keeps its place. Durable tasks run in workers, with limits of their
    own, so they take no place here.

    The manager owns all that it starts; `shutdown` ends it, in any state.

    Args:
        runners: What runs the tasks; one for each kind.
        publish: Gets every event, such as `EventBus.publish`: a `BackgroundTaskEvent` for each
            change of a task, and what the task itself reports, with its `task_id`.
        durable: Runs the requests with `durable`; without it they are refused.
        max_concurrent: How many tasks of one kind and mode run at once.
        task_id_factory: Returns the id of a new task.
        clock: The clock for timestamps and watchdogs.
    """

    def __init__(
        self,
        runners: Iterable[TaskRunner],
        *,
        publish: Publish | None = None,
        durable: TaskRunner | None = None,
        max_concurrent: int = MAX_CONCURRENT,
        task_id_factory: TaskIdFactory = make_task_id,
        clock: Clock | None = None,
    ) -> None:
        self._runners = Runners(runners, durable=durable)
        self._clock = clock or SystemClock()
        self._events = TaskEvents(publish)
        self._tasks = TaskList(task_id_factory)
        self._owner = TaskOwner()
        self._queue = TaskQueue(max_concurrent, self._owner)
        self._closed = False

    async def spawn(self, request: TaskRequest) -> TaskState:
        """Accept a task, and start it as soon as there is a place.

        A request with the `task_id` of a task that has ended takes its place in the list.

        Raises:
            BackgroundTaskError: The request is not valid (`validation`), or too many tasks wait
                already (`capacity`).
        """
        runner = self._runners.check(request)
        await self._open()
        task_id = self._tasks.choose_id(request)
        self._queue.check_room(request)
        state = create_state(request, task_id=task_id, at=self._clock.now())
        task = self._add(replace(request, task_id=task_id), state, runner)
        self._events.announce(state, TaskStage.CREATED)
        self._queue.add(task)
        return task.state

    async def wait(self, task_id: str) -> TaskState:
        """Return the last state of a task once it has ended, or is no longer followed here.

        Raises:
            BackgroundTaskError: There is no such task.
        """
        return await self._tasks.find(task_id).wait()

    async def run(self, request: TaskRequest) -> TaskState:
        """Run a task to its end. A caller that is cancelled cancels the task.

        Raises:
            BackgroundTaskError: As `spawn`.
        """
        task = self._tasks.find((await self.spawn(request)).task_id)
        try:
            return await task.wait()
        finally:
            if not task.ended.is_set():
                self._queue.cancel(task, "its caller was cancelled")
                with anyio.CancelScope(shield=True):
                    await task.wait()

    def list(
        self,
        *,
        kind: TaskKind | None = None,
        statuses: Collection[TaskStatus] | None = None,
        group_id: str | None = None,
    ) -> tuple[TaskState, ...]:
        """Return the tasks, oldest first; each argument leaves out what does not match."""
        return self._tasks.select(kind=kind, statuses=statuses, group_id=group_id)

    def get(self, task_id: str) -> TaskState:
        """Return the state of a task; raises as `wait`."""
        return self._tasks.find(task_id).state

    def find(self, task_id: str) -> ManagedTask:
        """Return a task with its request, to wait for it also if it is closed; raises as `get`."""
        return self._tasks.find(task_id)

    async def cancel(self, task_id: str, reason: str = "") -> TaskState:
        """Cancel a task, wait until nothing of it runs any more, and return its last state.

        Raises:
            BackgroundTaskError: There is no such task, or it has ended.
        """
        task = self._tasks.find_open(task_id)
        self._queue.cancel(task, reason or "cancelled")
        return await task.wait()

    def close(self, task_id: str) -> TaskState:
        """Remove a task that has ended from the list, and return its last state.

        Raises:
            BackgroundTaskError: There is no such task, or it has not ended.
        """
        state = self._tasks.remove(task_id).state
        self._events.announce(state, TaskStage.CLOSED)
        return state

    async def send(self, task_id: str, text: str) -> None:
        """Pass a message to a task that runs: to an agent a prompt, to a process its input.

        Raises:
            BackgroundTaskError: There is no such task, it does not run, or it takes no messages.
        """
        task = self._tasks.find_open(task_id)
        if task.state.status is TaskStatus.QUEUED:
            raise invalid(f"{task_id} has not started yet; try again later", recoverable=True)
        await task.runner.send(task_id, text)

    async def read_log(
        self, task_id: str, *, offset: int = 0, limit: int = LOG_PAGE_LINES
    ) -> LogPage:
        """Return a page of a task's log: the output of a process, the transcript of an agent.

        A negative `offset` counts from the end: -20 for the last 20 lines.

        Raises:
            BackgroundTaskError: There is no such task, or it has no log.
        """
        if limit < 1:
            raise invalid("`limit` must be at least 1")
        runner = self._tasks.find(task_id).runner
        return await runner.read_log(task_id, offset=offset, limit=limit)

    def subscribe(self, listener: TaskListener) -> Callable[[], None]:
        """Call `listener` with every `BackgroundTaskEvent`; returns a function that ends that."""
        return self._events.subscribe(listener)

    async def restore(self, states: Iterable[TaskState]) -> None:
        """Put the tasks of an earlier process into the list; those that are here already stay.

        A task that had not ended died with its process: it becomes failed, with the timeout
        reason `stale_worker`. A durable task is followed again, where that is possible.
        """
        await self._open()
        for state in states:
            if state.task_id in self._tasks:
                continue
            is_stale = not state.status.is_terminal and not state.durable
            known = fail_stale(state, at=self._clock.now()) if is_stale else state
            request = replace(recreate_request(known), follows=known.durable)
            task = self._add(request, known, self._runners.find(known))
            if is_stale:
                self._events.announce(known, TaskStage.FAILED)
            elif not task.has_runner:
                task.leave()
            elif not known.status.is_terminal:
                self._queue.add(task)

    async def shutdown(self, reason: str = "the session was closed") -> None:
        """Cancel all tasks and wait until nothing runs any more; later requests are refused.

        Durable tasks are left to the workers that run them, and keep their state.
        """
        with anyio.CancelScope(shield=True):
            self._closed = True
            tasks = self._tasks.list_open()
            for task in tasks:
                if task.request.durable:
                    task.leave()
                else:
                    self._queue.cancel(task, reason)
            for task in tasks:
                await task.wait()
            await self._owner.aclose()

    async def _open(self) -> None:
        if not self._closed:
            await self._owner.start()
        if self._closed:
            raise invalid("background tasks were shut down with their session")

    def _add(
        self, request: TaskRequest, state: TaskState, runner: TaskRunner | None
    ) -> ManagedTask:
        task = ManagedTask(request, state, runner=runner, clock=self._clock, events=self._events)
        self._tasks.add(task)
        return task
