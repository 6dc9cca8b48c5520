"""Spawn, wake and cancel durable tasks: rows in a `TaskStore`, and a `Scheduler` that runs them.

An answer or a message is stored first, and then wakes its task. A worker that leaves a task stores
that first, and then looks for answers and messages. So one of the two always sees the other. If the
sender dies between the two steps, workers find an answer by themselves; a message to an agent that
has ended is read together with the next one.
"""

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import convert, to_builtins
from msgspec.structs import replace

from clew.core.errors import BackgroundTaskError, SessionBusy
from clew.core.permissions import PermissionAnswer
from clew.core.tasks import TaskErrorCategory, TaskKind, TaskState, TaskStatus
from clew.runtime.protocol import Scheduler, TaskRequest
from clew.runtime.states import create_state
from clew.stores.task_protocol import TaskRow, TaskStore

_REOPENED_BY = "reopened_by"
"""The key of a row's `spec` with the message that made the task run again."""


def new_task_id() -> str:
    """Return an id for an agent, which is also the id of its session."""
    return f"agent-{os.urandom(6).hex()}"


def make_spec(request: TaskRequest, session: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a worker needs to run a task.

    Args:
        request: What to run.
        session: The `SessionSpec` of the agent's session, as JSON values.
    """
    return {"request": to_builtins(request), "session": dict(session)}


def make_row(task_id: str, spec: Mapping[str, Any], *, now: float) -> TaskRow:
    """Return the row of a task that was not run yet."""
    request = convert(spec["request"], TaskRequest)
    state = create_state(replace(request, durable=True), task_id=task_id, at=now)
    return TaskRow(state=state, spec=dict(spec))


class DurableTasks:
    """The durable tasks of a store: any process can spawn them, talk to them and cancel them."""

    def __init__(
        self, tasks: TaskStore, scheduler: Scheduler, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.tasks = tasks
        self.scheduler = scheduler
        self._clock = clock

    async def spawn(self, spec: Mapping[str, Any], *, task_id: str = "") -> TaskState:
        """Store a task and put it into the queue; a worker will run it.

        Args:
            spec: See `make_spec`.
            task_id: The id to use; empty for a new one.

        Raises:
            BackgroundTaskError: Only agents can be durable.
        """
        row = make_row(task_id or new_task_id(), spec, now=self._clock())
        if row.state.kind is not TaskKind.AGENT:
            raise BackgroundTaskError(
                "only agents can be durable; run the command in an agent, or without `durable`",
                category=TaskErrorCategory.VALIDATION,
            )
        await self.tasks.save_task(row)
        await self.scheduler.submit(row.state.task_id)
        return row.state

    async def get(self, task_id: str) -> TaskRow:
        """Return the row of a task.

        Raises:
            BackgroundTaskError: There is no such task.
        """
        row = await self.tasks.task(task_id)
        if row is None:
            raise BackgroundTaskError(
                f"there is no task {task_id}", category=TaskErrorCategory.VALIDATION
            )
        return row

    async def send(self, task_id: str, text: str) -> None:
        """Send a message to a task: it is read after the current turn, and wakes one that waits.

        A task that has ended runs again with the message as its next prompt.

        Raises:
            BackgroundTaskError: There is no such task.
        """
        await self.get(task_id)
        number = await self.tasks.send(task_id, text)
        await self.wake(task_id, message=number)

    async def answer(self, task_id: str, request_id: str, answer: PermissionAnswer) -> None:
        """Answer the question of a task, and wake it.

        Raises:
            SessionError: The question is not open.
        """
        await self.tasks.answer(task_id, request_id, answer)
        await self.wake(task_id)

    async def cancel(self, task_id: str) -> None:
        """End a task: at once where it runs, and in the queue."""
        await self.scheduler.cancel(task_id)

    async def wake(self, task_id: str, *, message: int = 0) -> None:
        """Put a task that no worker runs into the queue again.

        A worker that runs it sees what is new by itself.

        Args:
            task_id: The task.
            message: The number of a message to it. With one, also a task that has ended runs
                again: it reads the message, and does not continue what it did before its end.
        """
        row = await self.tasks.task(task_id)
        if row is None or row.worker or (row.state.status.is_terminal and not message):
            return
        if row.state.status is not TaskStatus.QUEUED:
            try:
                await self.tasks.save_task(_requeue(row, message), epoch=row.epoch)
            except SessionBusy:
                # A worker took it at this moment, and sees what is new.
                return
        await self.scheduler.submit(task_id)


def _requeue(row: TaskRow, message: int) -> TaskRow:
    state = replace(row.state, status=TaskStatus.QUEUED, ended_at=None, error="")
    state = replace(state, error_category=None, timeout_reason=None)
    if row.state.status.is_terminal:
        row = replace(row, spec={**row.spec, _REOPENED_BY: message})
        # It may have reached a limit; what it does now is counted anew.
        state = replace(state, worked_seconds=0.0, output_bytes=0, text_deltas=0)
    return replace(row, state=state)


def find_reopening(row: TaskRow) -> int:
    """Return the number of the message that last made an ended task run again; 0 for none."""
    number = row.spec.get(_REOPENED_BY, 0)
    return number if isinstance(number, int) else 0
