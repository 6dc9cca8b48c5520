"""A task store in an SQL database, beside the sessions; see `TaskStore`."""

import time
from collections.abc import Callable, Collection

from clew.core.events import PermissionRequest
from clew.core.ids import SessionId
from clew.core.permissions import PermissionAnswer
from clew.core.tasks import TaskKind, TaskStatus
from clew.stores.record import clean_for_storage
from clew.stores.sql import SqlDatabase, SqlDialect, SqlStatements
from clew.stores.sql_blob_rows import BlobRows
from clew.stores.sql_leases import LeaseRows, SqlLeases
from clew.stores.sql_task_rows import TaskRows
from clew.stores.sql_worker_rows import ScheduleRows, WorkerRows
from clew.stores.task_protocol import (
    ScheduleRow,
    TaskMessage,
    TaskRow,
    TaskSignals,
    WorkerRow,
)
from clew.stores.worktree_snapshot import BLOB_GRACE, StoredBlob


class SqlTaskStore:
    """Keeps tasks in a database; see `TaskStore` for what each method promises."""

    def __init__(
        self,
        database: SqlDatabase,
        dialect: SqlDialect,
        *,
        leases: SqlLeases,
        clock: Callable[[], float] = time.time,
    ) -> None:
        statements = SqlStatements(dialect)
        self._database = database
        self._leases = leases
        self._clock = clock
        self._blobs = BlobRows(statements)
        self._tasks = TaskRows(statements, LeaseRows(statements), self._blobs)
        self._workers = WorkerRows(statements)
        self._schedules = ScheduleRows(statements)

    async def save_task(self, row: TaskRow, *, epoch: int | None = None) -> None:
        """Insert or replace a task."""
        await self._database.write(self._tasks.save, row, epoch=epoch, now=self._clock())

    async def task(self, task_id: str) -> TaskRow | None:
        """Return a task."""
        return await self._database.read(self._tasks.find, task_id)

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
        """Return tasks, the last changed first."""
        wanted = {"session_id": session_id, "cwd": cwd, "kind": kind, "worker": worker}
        filters = {
            column: clean_for_storage(value)
            for column, value in wanted.items()
            if value is not None
        }
        return await self._database.read(
            self._tasks.list_tasks,
            statuses=tuple(TaskStatus) if statuses is None else frozenset(statuses),
            filters=filters,
            limit=limit,
        )

    async def unchanged_tasks(
        self, status: TaskStatus, *, before: float, after: TaskRow | None = None, limit: int
    ) -> list[TaskRow]:
        """Return tasks without a change since a time, the longest unchanged first."""
        return await self._database.read(
            self._tasks.list_unchanged, status, before=before, after=after, limit=limit
        )

    async def delete_task(self, task_id: str) -> None:
        """Delete a task with its messages."""
        await self._database.write(self._tasks.delete, task_id)

    async def claim(self, task_id: str, worker: str, *, epoch: int | None = None) -> TaskRow | None:
        """Become the worker of a task that has not ended."""
        return await self._database.write(
            self._tasks.claim,
            task_id,
            clean_for_storage(worker),
            epoch=epoch,
            holder=self._leases.holder,
            now=self._clock(),
        )

    async def request_cancel(self, task_id: str) -> bool:
        """Ask the worker to cancel a task."""
        return await self._database.write(self._tasks.request_cancel, task_id)

    async def find_cancelled(self, task_ids: Collection[str]) -> set[str]:
        """Return which of these tasks were asked to stop."""
        if not task_ids:
            return set()
        return await self._database.read(self._tasks.find_cancelled, task_ids)

    async def signals(self, task_ids: Collection[str]) -> list[TaskSignals]:
        """Return what others want of tasks."""
        if not task_ids:
            return []
        return await self._database.read(self._tasks.signals, task_ids)

    async def ask(
        self, task_id: str, question: PermissionRequest | None, *, epoch: int | None = None
    ) -> None:
        """Store the question that a task waits with."""
        now = self._clock()
        await self._database.write(self._tasks.ask, task_id, question, epoch=epoch, now=now)

    async def answer(self, task_id: str, request_id: str, answer: PermissionAnswer) -> None:
        """Answer a question; the first answer counts."""
        now = self._clock()
        await self._database.write(self._tasks.answer, task_id, request_id, answer, now=now)

    async def send(self, task_id: str, text: str) -> int:
        """Add a message to a task."""
        words = clean_for_storage(text)
        return await self._database.write(self._tasks.send, task_id, words, now=self._clock())

    async def messages(self, task_id: str, *, after: int = 0) -> list[TaskMessage]:
        """Return the messages to a task, oldest first."""
        return await self._database.read(self._tasks.messages, task_id, after=after)

    async def beat(self, worker: str) -> None:
        """Note that a worker is alive."""
        name, now = clean_for_storage(worker), self._clock()
        await self._database.write(self._workers.beat, name, holder=self._leases.holder, now=now)

    async def workers(self) -> list[WorkerRow]:
        """Return all workers that have not left."""
        now = self._clock()
        return await self._database.read(
            self._workers.list_workers, holder=self._leases.holder, now=now
        )

    async def leave(self, worker: str) -> None:
        """Remove a worker."""
        await self._database.write(self._workers.leave, clean_for_storage(worker))

    async def put_blob(self, data: bytes) -> str:
        """Store bytes under the SHA-256 of their content."""
        return await self._database.write(self._blobs.put, data, now=self._clock())

    async def get_blob(self, name: str) -> bytes | None:
        """Return stored bytes."""
        return await self._database.read(self._blobs.get, name)

    async def delete_snapshot(self, name: str, *, keep: str = "") -> None:
        """Delete a snapshot of a worktree, unless a task has it."""
        await self._database.write(self._blobs.delete_snapshot, name, keep=keep)

    async def find_unused_blobs(
        self, *, older_than: float = BLOB_GRACE, delete: bool = False
    ) -> list[StoredBlob]:
        """Return the blobs that belong to no snapshot of a task, and delete them if asked."""
        work = self._database.write if delete else self._database.read
        return await work(
            self._blobs.find_unused, older_than=older_than, delete=delete, now=self._clock()
        )

    async def save_schedule(self, row: ScheduleRow) -> None:
        """Insert or replace a schedule."""
        await self._database.write(self._schedules.save, row)

    async def schedules(self) -> list[ScheduleRow]:
        """Return all schedules, the next one first."""
        return await self._database.read(self._schedules.list_schedules)

    async def delete_schedule(self, schedule_id: str) -> bool:
        """Delete a schedule."""
        return await self._database.write(self._schedules.delete, schedule_id)

    async def claim_schedule(self, row: ScheduleRow, *, next_at: float, task_id: str) -> bool:
        """Move a schedule to its next time."""
        return await self._database.write(
            self._schedules.claim, row, next_at=next_at, task_id=task_id
        )
