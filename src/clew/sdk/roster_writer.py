"""`RosterWriter`: keeps the rows of a session's tasks, and does what other processes ask for.

Other processes see the tasks in `clew agents`. While one of the tasks has not ended, this process
looks for answers, messages and requests to cancel in the store, about once a second.
"""

import logging
import os
from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio

from clew.core.errors import BackgroundTaskError, ClewError, StoreError
from clew.core.events import (
    BackgroundTaskEvent,
    Event,
    PermissionRequest,
    PermissionResolved,
    TaskStage,
)
from clew.core.permissions import PermissionAnswer
from clew.core.tasks import TaskState
from clew.sdk.host import Host
from clew.stores.task_protocol import TaskRow, TaskSignals, TaskStore

logger = logging.getLogger(__name__)

INTERVAL = 1.0
"""Seconds between two looks at the store, and between two writes of progress."""
_BEAT_INTERVAL = 10.0


class TaskControl(Protocol):
    """What the writer does to tasks for others; `BackgroundTaskManager` is one."""

    async def cancel(self, task_id: str, reason: str = "") -> object:
        """Cancel a task, and wait for its end."""
        ...

    async def send(self, task_id: str, text: str) -> object:
        """Pass a message to a running task."""
        ...


Answer = Callable[[str, PermissionAnswer], Awaitable[None]]
"""Answers the permission request of that id; `PermissionRequests.answer` is one."""


class RosterWriter:
    """Writes the rows of the tasks of one session, and reads what others want of them.

    A store that fails is logged; the tasks themselves go on.

    Args:
        tasks: Where the rows are.
        host: Where the work is done.
        control: Acts on the tasks.
        answer: Answers their questions.
    """

    def __init__(
        self, tasks: TaskStore, *, host: Host, control: TaskControl, answer: Answer
    ) -> None:
        self._tasks = tasks
        self._host = host
        self._control = control
        self._answer = answer
        self._worker = f"session-{os.urandom(6).hex()}"
        self._open: dict[str, dict[str, PermissionRequest]] = {}
        """The tasks that have not ended, with the questions that they ask."""
        self._changed: dict[str, TaskState] = {}
        self._asking: set[str] = set()
        """Tasks whose questions have changed."""
        self._read: dict[str, int] = {}
        """The last message that each task got."""
        self._cancelled: set[str] = set()
        self._beat_at: float | None = None
        self._urgent = anyio.Event()
        self._is_running = False
        self._has_left = False
        self._writing = anyio.Lock()

    def follow(self, event: Event, *, task_id: str = "") -> None:
        """Note an event of a task; changes but progress are written at once."""
        match event:
            case BackgroundTaskEvent(state=TaskState(durable=False) as state, stage=stage):
                if stage is TaskStage.CLOSED:
                    return
                self._note_state(state)
                is_urgent = stage is not TaskStage.UPDATED
            case PermissionRequest(request_id=request_id) if task_id in self._open:
                self._open[task_id][request_id] = event
                self._asking.add(task_id)
                is_urgent = True
            case PermissionResolved(request_id=request_id) if task_id in self._open:
                self._open[task_id].pop(request_id, None)
                self._asking.add(task_id)
                is_urgent = True
            case _:
                return
        if is_urgent:
            self._urgent.set()
        if not self._is_running and self._host.is_running:
            self._is_running = True
            self._host.start_soon(self._run)

    async def aclose(self) -> None:
        """Write the last states, and record that this process runs no more tasks."""
        with anyio.CancelScope(shield=True):
            await self.flush()
            async with self._writing:
                # A write from now on would bring the row of this process back.
                self._has_left = True
                if self._beat_at is None:
                    return
                try:
                    await self._tasks.leave(self._worker)
                except StoreError as error:
                    logger.warning("the list of agents was not updated: %s", error)

    async def flush(self) -> None:
        """Write what has changed now."""
        async with self._writing:
            if self._has_left:
                return
            try:
                await self._write()
            except StoreError as error:
                logger.warning("the list of agents was not updated: %s", error)
                if not self._open:
                    self._changed.clear()
                    self._asking.clear()

    def _note_state(self, state: TaskState) -> None:
        self._changed[state.task_id] = state
        if state.status.is_terminal:
            self._open.pop(state.task_id, None)
            self._asking.discard(state.task_id)
            self._cancelled.discard(state.task_id)
        else:
            self._open.setdefault(state.task_id, {})

    async def _run(self) -> None:
        """Write and look until all tasks have ended."""
        try:
            while (self._open or self._changed) and not self._has_left:
                self._urgent = anyio.Event()
                await self.flush()
                await self._look()
                with anyio.move_on_after(INTERVAL):
                    await self._urgent.wait()
        finally:
            self._is_running = False

    async def _write(self) -> None:
        await self._beat()
        for task_id, state in list(self._changed.items()):
            if task_id not in self._read:
                # An agent that continues has got the messages of its earlier runs.
                known = await self._tasks.signals([task_id])
                self._read[task_id] = known[0].sent if known else 0
            await self._tasks.save_task(TaskRow(state=state, worker=self._worker))
            if self._changed.get(task_id) is state:
                del self._changed[task_id]
        for task_id in list(self._asking):
            # Before the write: the questions may change again meanwhile.
            self._asking.discard(task_id)
            questions = self._open.get(task_id, {})
            try:
                await self._tasks.ask(task_id, next(iter(questions.values()), None))
            except BaseException:
                if task_id in self._open:
                    self._asking.add(task_id)
                raise

    async def _beat(self) -> None:
        now = anyio.current_time()
        if self._beat_at is None or now - self._beat_at >= _BEAT_INTERVAL:
            await self._tasks.beat(self._worker)
            self._beat_at = now

    async def _look(self) -> None:
        """Do what others want of the tasks."""
        try:
            for signals in await self._tasks.signals(list(self._open)):
                await self._apply(signals)
        except StoreError as error:
            logger.warning("requests to the agents of this session were not read: %s", error)

    async def _apply(self, signals: TaskSignals) -> None:
        task_id = signals.task_id
        if task_id not in self._open:
            return
        if signals.cancel_requested and task_id not in self._cancelled:
            self._cancelled.add(task_id)
            self._host.start_soon(self._cancel, task_id)
        if signals.answer is not None and signals.request_id in self._open[task_id]:
            try:
                await self._answer(signals.request_id, signals.answer)
            except ClewError as error:
                # It was answered here at the same time.
                logger.info("the answer to %s came too late: %s", task_id, error)
        if signals.sent > self._read.get(task_id, 0):
            for message in await self._tasks.messages(task_id, after=self._read.get(task_id, 0)):
                try:
                    await self._control.send(task_id, message.text)
                except ClewError as error:
                    if isinstance(error, BackgroundTaskError) and error.recoverable:
                        # A task that has not started yet gets its messages later.
                        logger.info("a message to %s was not delivered yet: %s", task_id, error)
                        break
                    logger.warning("a message to %s was not delivered: %s", task_id, error)
                self._read[task_id] = message.number

    async def _cancel(self, task_id: str) -> None:
        try:
            await self._control.cancel(task_id, "stopped from the list of agents")
        except ClewError as error:
            logger.info("%s was not cancelled: %s", task_id, error)
