"""The contract of a task store: tasks of all sessions and machines, as rows.

It is kept in the same database as the sessions, so that one transaction can check who may write.
A list of tasks, the messages to an agent, the questions that it asks and the answers to them are
rows; an agent that waits costs nothing else.
"""

from collections.abc import Collection
from typing import Any, Protocol

from msgspec import Struct

from clew.core.errors import SessionBusy, SessionError, SessionNotFound
from clew.core.events import PermissionRequest
from clew.core.ids import SessionId
from clew.core.permissions import PermissionAnswer
from clew.core.tasks import TaskKind, TaskState, TaskStatus
from clew.stores.worktree_snapshot import BLOB_GRACE, StoredBlob


class TaskRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task as it is stored."""

    state: TaskState
    spec: dict[str, Any] = {}
    """What a worker needs to run a durable task (JSON); empty for a task of one process."""
    worker: str = ""
    """The worker or process that runs it; empty when none does."""
    epoch: int = 0
    """How often it was taken by a worker; grows with each takeover."""
    cancel_requested: bool = False
    """Until the task has ended."""
    question: PermissionRequest | None = None
    answer: PermissionAnswer | None = None
    """The answer to `question`, until the task has read it."""
    snapshot: str = ""
    """The blob with the newest snapshot of its worktree."""
    updated_at: float = 0.0
    """Set by the store, with the clock of the database."""


class TaskMessage(Struct, frozen=True, kw_only=True):
    """A message to a task, in the order of `number`."""

    number: int
    text: str
    at: float


class TaskSignals(Struct, frozen=True, kw_only=True):
    """What others want of a task."""

    task_id: str
    cancel_requested: bool = False
    request_id: str = ""
    """The question that `answer` belongs to."""
    answer: PermissionAnswer | None = None
    sent: int = 0
    """The number of the newest message."""


class WorkerRow(Struct, frozen=True, kw_only=True):
    """A process that runs tasks."""

    worker: str
    host: str
    pid: int
    silent: float
    """Seconds since its last heartbeat, by the clock of the database."""
    has_ended: bool = False
    """True when it ran on this machine and its process is gone; False when that is unknown."""


class ScheduleRow(Struct, frozen=True, kw_only=True):
    """A prompt that is run again and again."""

    schedule_id: str
    text: str
    """When, as the user wrote it."""
    cron: str
    spec: dict[str, Any]
    next_at: float
    created_at: float
    last_task_id: str = ""


class TaskStore(Protocol):
    """Keeps tasks. Every method raises `StoreUnavailable` and `StoreDamaged` as a `Store` does."""

    async def save_task(self, row: TaskRow, *, epoch: int | None = None) -> None:
        """Insert or replace a task; the store sets `epoch` and `updated_at` itself.

        `question`, `answer` and `cancel_requested` stay as stored; the end of the task clears
        them.

        Args:
            row: The task.
            epoch: The epoch that `claim` returned. A worker always passes it.

        Raises:
            SessionBusy: `epoch` is given, and another worker has taken the task since, or it was
                deleted.
        """
        ...

    async def task(self, task_id: str) -> TaskRow | None:
        """Return a task, if there is one of that id."""
        ...

    async def tasks(
        self,
        *,
        statuses: Collection[TaskStatus] | None = None,
        session_id: SessionId | None = None,
        cwd: str | None = None,
        kind: TaskKind | None = None,
        worker: str | None = None,
        limit: int | None = None,
    ) -> list[TaskRow]:
        """Return tasks, the last changed first.

        `cwd` is the folder in which a task was first saved: an agent may work in another one.
        The cost does not grow with the tasks that another status, session, folder or worker
        leaves out, nor with those beyond `limit`.
        """
        ...

    async def unchanged_tasks(
        self, status: TaskStatus, *, before: float, after: TaskRow | None = None, limit: int
    ) -> list[TaskRow]:
        """Return tasks without a change since a time, the longest unchanged first.

        Args:
            status: Only tasks in this status.
            before: Tasks whose `updated_at` is earlier.
            after: The last task of the page before; None for the first page.
            limit: How many at most. An empty page is the end; a short one need not be.
        """
        ...

    async def delete_task(self, task_id: str) -> None:
        """Delete a task with its messages and its snapshot; does nothing when there is none."""
        ...

    async def claim(self, task_id: str, worker: str, *, epoch: int | None = None) -> TaskRow | None:
        """Become the worker of a task that has not ended: increments its epoch.

        The worker before, if it still runs, is refused at its next `save_task` with its old
        epoch. Its process loses the lease of the task's session in the same transaction, so it
        is also refused at its next `Store.append`.

        Args:
            task_id: The task.
            worker: Who runs it from now on.
            epoch: Only if the task still has this epoch: of several workers that want to take
                over the tasks of a dead one, one succeeds.

        Returns:
            The task with its new epoch; None if it has ended, is gone, or has another epoch.
        """
        ...

    async def request_cancel(self, task_id: str) -> bool:
        """Ask the worker to cancel a task; returns False when it has ended."""
        ...

    async def find_cancelled(self, task_ids: Collection[str]) -> set[str]:
        """Return which of these tasks were asked to stop; one short query."""
        ...

    async def signals(self, task_ids: Collection[str]) -> list[TaskSignals]:
        """Return those of these tasks that others want something of; one short query."""
        ...

    async def ask(
        self, task_id: str, question: PermissionRequest | None, *, epoch: int | None = None
    ) -> None:
        """Store the question that a task waits with; None removes it and the answer.

        Raises:
            SessionBusy: As for `save_task`.
            SessionNotFound: There is no such task.
        """
        ...

    async def answer(self, task_id: str, request_id: str, answer: PermissionAnswer) -> None:
        """Answer a question; the first answer counts.

        Raises:
            SessionError: The question is not open: it was answered, or is no longer asked.
        """
        ...

    async def send(self, task_id: str, text: str) -> int:
        """Add a message to a task; returns its number. Numbers begin at 1.

        Raises:
            SessionNotFound: There is no such task.
        """
        ...

    async def messages(self, task_id: str, *, after: int = 0) -> list[TaskMessage]:
        """Return the messages after that number, oldest first."""
        ...

    async def beat(self, worker: str) -> None:
        """Note that a worker of this process is alive; the first call registers it."""
        ...

    async def workers(self) -> list[WorkerRow]:
        """Return all workers that have not left."""
        ...

    async def leave(self, worker: str) -> None:
        """Remove a worker."""
        ...

    async def put_blob(self, data: bytes) -> str:
        """Store bytes; returns their name, which is the SHA-256 of the content."""
        ...

    async def get_blob(self, name: str) -> bytes | None:
        """Return stored bytes."""
        ...

    async def delete_snapshot(self, name: str, *, keep: str = "") -> None:
        """Delete a snapshot of a worktree with the blobs that it names, unless a task has it.

        Args:
            name: The blob with its description; see `clew.stores.worktree_snapshot`.
            keep: A snapshot whose blobs stay.
        """
        ...

    async def find_unused_blobs(
        self, *, older_than: float = BLOB_GRACE, delete: bool = False
    ) -> list[StoredBlob]:
        """Return the blobs that belong to no snapshot of a task, by name.

        Args:
            older_than: Only blobs that were put this many seconds ago or earlier.
            delete: Delete them too.
        """
        ...

    async def save_schedule(self, row: ScheduleRow) -> None:
        """Insert or replace a schedule."""
        ...

    async def schedules(self) -> list[ScheduleRow]:
        """Return all schedules, the next one first."""
        ...

    async def delete_schedule(self, schedule_id: str) -> bool:
        """Delete a schedule; returns whether there was one."""
        ...

    async def claim_schedule(self, row: ScheduleRow, *, next_at: float, task_id: str) -> bool:
        """Move a schedule to its next time; False when another worker did it first."""
        ...


def task_order(row: TaskRow) -> tuple[float, str]:
    """Return the place of a task among those that `TaskStore.unchanged_tasks` returns."""
    return row.updated_at, row.state.task_id


def task_not_found(task_id: str) -> SessionNotFound:
    """Return the error for a task that does not exist."""
    return SessionNotFound(f"there is no task {task_id}")


def make_lost_error(row: TaskRow | None, task_id: str) -> SessionBusy:
    """Return the error for a worker that no longer has a task."""
    if row is None:
        return SessionBusy(f"task {task_id} was deleted; nothing was written")
    by = f" by worker {row.worker}" if row.worker else ""
    return SessionBusy(f"task {task_id} was taken over{by}; nothing was written")


def question_not_open(row: TaskRow | None, task_id: str, request_id: str) -> SessionError:
    """Return the error for an answer that comes too late."""
    asked = None if row is None else row.question
    if asked is not None and asked.request_id == request_id:
        return SessionError(f"the question of task {task_id} was answered already")
    return SessionError(f"task {task_id} has no open question {request_id}")
