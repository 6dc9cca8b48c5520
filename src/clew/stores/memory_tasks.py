"""A task store in memory, for tests and for sessions that are not resumed; see `TaskStore`."""

import os
import socket
import time
from collections.abc import Callable, Collection
from hashlib import sha256

from msgspec.structs import replace

from clew.core.events import PermissionRequest
from clew.core.ids import SessionId
from clew.core.permissions import PermissionAnswer
from clew.core.tasks import TaskKind, TaskStatus
from clew.stores.task_protocol import (
    ScheduleRow,
    TaskMessage,
    TaskRow,
    TaskSignals,
    WorkerRow,
    make_lost_error,
    question_not_open,
    task_not_found,
    task_order,
)
from clew.stores.worktree_snapshot import BLOB_GRACE, StoredBlob, list_blobs


class _Blobs:
    """Bytes under the SHA-256 of their content, with the time at which they were put last."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._data: dict[str, tuple[bytes, float]] = {}

    def put(self, data: bytes) -> str:
        name = sha256(data).hexdigest()
        self._data[name] = data, self._clock()
        return name

    def get(self, name: str) -> bytes | None:
        found = self._data.get(name)
        return None if found is None else found[0]

    def delete_snapshot(self, name: str, keep: str) -> None:
        for one in list_blobs(name, self.get(name)) - list_blobs(keep, self.get(keep)):
            self._data.pop(one, None)

    def find_unused(
        self, tasks: Collection[TaskRow], *, older_than: float, delete: bool
    ) -> list[StoredBlob]:
        snapshots = {row.snapshot for row in tasks}
        used = {one for name in snapshots for one in list_blobs(name, self.get(name))}
        before = self._clock() - older_than
        found = [
            StoredBlob(name=name, size=len(data))
            for name, (data, at) in sorted(self._data.items())
            if name not in used and at <= before
        ]
        for blob in found if delete else ():
            del self._data[blob.name]
        return found


class MemoryTaskStore:
    """Keeps tasks in dictionaries, until the process ends."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._rows: dict[str, TaskRow] = {}
        self._folders: dict[str, str] = {}
        """Where each task was started; an agent may work in another folder."""
        self._messages: dict[str, list[TaskMessage]] = {}
        self._beats: dict[str, float] = {}
        self._blobs = _Blobs(clock)
        self._schedules: dict[str, ScheduleRow] = {}

    async def save_task(self, row: TaskRow, *, epoch: int | None = None) -> None:
        """Insert or replace a task."""
        task_id = row.state.task_id
        stored = self._rows.get(task_id)
        if epoch is not None:
            self._check_epoch(task_id, epoch)
        self._folders.setdefault(task_id, row.state.cwd)
        kept = stored or TaskRow(state=row.state)
        if row.state.status.is_terminal:
            kept = replace(kept, cancel_requested=False, question=None, answer=None)
        self._put(
            replace(kept, state=row.state, spec=row.spec, worker=row.worker, snapshot=row.snapshot)
        )

    async def task(self, task_id: str) -> TaskRow | None:
        """Return a task."""
        return self._rows.get(task_id)

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
        found = [
            row
            for row in reversed(self._rows.values())
            if (statuses is None or row.state.status in statuses)
            and session_id in (None, row.state.session_id)
            and cwd in (None, self._folders[row.state.task_id])
            and kind in (None, row.state.kind)
            and worker in (None, row.worker)
        ]
        return sorted(found, key=lambda row: -row.updated_at)[:limit]

    async def unchanged_tasks(
        self, status: TaskStatus, *, before: float, after: TaskRow | None = None, limit: int
    ) -> list[TaskRow]:
        """Return tasks without a change since a time, the longest unchanged first."""
        place = (-1.0, "") if after is None else task_order(after)
        rows = [row for row in self._rows.values() if row.state.status is status]
        found = [row for row in rows if row.updated_at < before and task_order(row) > place]
        return sorted(found, key=task_order)[:limit]

    async def delete_task(self, task_id: str) -> None:
        """Delete a task with its messages."""
        row = self._rows.pop(task_id, None)
        self._folders.pop(task_id, None)
        self._messages.pop(task_id, None)
        await self.delete_snapshot("" if row is None else row.snapshot)

    async def claim(self, task_id: str, worker: str, *, epoch: int | None = None) -> TaskRow | None:
        """Become the worker of a task that has not ended."""
        row = self._rows.get(task_id)
        if row is None or row.state.status.is_terminal or epoch not in (None, row.epoch):
            return None
        return self._put(replace(row, worker=worker, epoch=row.epoch + 1))

    async def request_cancel(self, task_id: str) -> bool:
        """Ask the worker to cancel a task."""
        row = self._rows.get(task_id)
        if row is None or row.state.status.is_terminal:
            return False
        self._rows[task_id] = replace(row, cancel_requested=True)
        return True

    async def find_cancelled(self, task_ids: Collection[str]) -> set[str]:
        """Return which of these tasks were asked to stop."""
        return {one for one in task_ids if one in self._rows and self._rows[one].cancel_requested}

    async def signals(self, task_ids: Collection[str]) -> list[TaskSignals]:
        """Return what others want of tasks."""
        rows = [self._rows[one] for one in task_ids if one in self._rows]
        found = [
            TaskSignals(
                task_id=row.state.task_id,
                cancel_requested=row.cancel_requested,
                request_id="" if row.question is None else row.question.request_id,
                answer=row.answer,
                sent=len(self._messages.get(row.state.task_id, ())),
            )
            for row in rows
        ]
        return [one for one in found if one.cancel_requested or one.answer or one.sent]

    async def ask(
        self, task_id: str, question: PermissionRequest | None, *, epoch: int | None = None
    ) -> None:
        """Store the question that a task waits with."""
        if epoch is not None:
            self._check_epoch(task_id, epoch)
        self._put(replace(self._find(task_id), question=question, answer=None))

    async def answer(self, task_id: str, request_id: str, answer: PermissionAnswer) -> None:
        """Answer a question; the first answer counts."""
        row = self._rows.get(task_id)
        asked = None if row is None else row.question
        if row is None or asked is None or asked.request_id != request_id or row.answer:
            raise question_not_open(row, task_id, request_id)
        self._put(replace(row, answer=answer))

    async def send(self, task_id: str, text: str) -> int:
        """Add a message to a task."""
        self._find(task_id)
        sent = self._messages.setdefault(task_id, [])
        sent.append(TaskMessage(number=len(sent) + 1, text=text, at=self._clock()))
        return len(sent)

    async def messages(self, task_id: str, *, after: int = 0) -> list[TaskMessage]:
        """Return the messages to a task, oldest first."""
        return self._messages.get(task_id, [])[after:]

    async def beat(self, worker: str) -> None:
        """Note that a worker is alive."""
        self._beats[worker] = self._clock()

    async def workers(self) -> list[WorkerRow]:
        """Return all workers that have not left."""
        host, pid, now = socket.gethostname(), os.getpid(), self._clock()
        return [
            WorkerRow(worker=worker, host=host, pid=pid, silent=max(0.0, now - beat))
            for worker, beat in sorted(self._beats.items())
        ]

    async def leave(self, worker: str) -> None:
        """Remove a worker."""
        self._beats.pop(worker, None)

    async def put_blob(self, data: bytes) -> str:
        """Store bytes under the SHA-256 of their content."""
        return self._blobs.put(data)

    async def get_blob(self, name: str) -> bytes | None:
        """Return stored bytes."""
        return self._blobs.get(name)

    async def delete_snapshot(self, name: str, *, keep: str = "") -> None:
        """Delete a snapshot of a worktree, unless a task has it."""
        if all(row.snapshot != name for row in self._rows.values()):
            self._blobs.delete_snapshot(name, keep)

    async def find_unused_blobs(
        self, *, older_than: float = BLOB_GRACE, delete: bool = False
    ) -> list[StoredBlob]:
        """Return the blobs that belong to no snapshot of a task, and delete them if asked."""
        return self._blobs.find_unused(self._rows.values(), older_than=older_than, delete=delete)

    async def save_schedule(self, row: ScheduleRow) -> None:
        """Insert or replace a schedule."""
        self._schedules[row.schedule_id] = row

    async def schedules(self) -> list[ScheduleRow]:
        """Return all schedules, the next one first."""
        return sorted(self._schedules.values(), key=lambda row: (row.next_at, row.schedule_id))

    async def delete_schedule(self, schedule_id: str) -> bool:
        """Delete a schedule."""
        return self._schedules.pop(schedule_id, None) is not None

    async def claim_schedule(self, row: ScheduleRow, *, next_at: float, task_id: str) -> bool:
        """Move a schedule to its next time."""
        stored = self._schedules.get(row.schedule_id)
        if stored is None or stored.next_at != row.next_at:
            return False
        self._schedules[row.schedule_id] = replace(stored, next_at=next_at, last_task_id=task_id)
        return True

    def _put(self, row: TaskRow) -> TaskRow:
        """Store a row as the one that was changed last."""
        self._rows.pop(row.state.task_id, None)
        self._rows[row.state.task_id] = changed = replace(row, updated_at=self._clock())
        return changed

    def _find(self, task_id: str) -> TaskRow:
        if task_id not in self._rows:
            raise task_not_found(task_id)
        return self._rows[task_id]

    def _check_epoch(self, task_id: str, epoch: int) -> None:
        stored = self._rows.get(task_id)
        if stored is None or stored.epoch != epoch:
            raise make_lost_error(stored, task_id)
