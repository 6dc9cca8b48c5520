"""Tasks, their questions and their messages as rows, the same for SQLite and PostgreSQL."""

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from clew.core.errors import StoreDamaged
from clew.core.events import PermissionRequest
from clew.core.ids import SessionId
from clew.core.json_text import JsonDecoder
from clew.core.permissions import PermissionAnswer
from clew.core.tasks import TaskState, TaskStatus
from clew.core.text import make_encodable
from clew.stores.leases import LeaseHolder
from clew.stores.record import clean_for_storage
from clew.stores.sql import SqlConnection, SqlStatements
from clew.stores.sql_blob_rows import BlobRows
from clew.stores.sql_leases import LeaseRows
from clew.stores.task_protocol import (
    TaskMessage,
    TaskRow,
    TaskSignals,
    make_lost_error,
    question_not_open,
    task_not_found,
    task_order,
)

logger = logging.getLogger(__name__)

_COLUMNS = "state, spec, worker, epoch, cancel_requested, question, answer, snapshot, updated_at"
_TERMINAL = ", ".join(f"'{status}'" for status in TaskStatus if status.is_terminal)
_HAS_ENDED = f"status IN ({_TERMINAL})"
_INSERT = """
INSERT INTO {tasks}
    (task_id, session_id, cwd, kind, status, worker, state, spec, snapshot, updated_at)
VALUES
    (:task_id, :session_id, :cwd, :kind, :status, :worker, :state, :spec, :snapshot, {seconds})
ON CONFLICT (task_id) DO NOTHING
RETURNING task_id
"""
_UPDATE = """
UPDATE {tasks} SET session_id = :session_id, kind = :kind, status = :status,
    worker = :worker, state = :state, spec = :spec, snapshot = :snapshot, updated_at = {seconds}
WHERE task_id = :task_id
"""
_OF_EPOCH = " AND epoch = :epoch"
_RETURNING = " RETURNING task_id"
_FORGET_REQUESTS = """
UPDATE {tasks} SET cancel_requested = 0, request_id = '', question = NULL, answer = NULL
WHERE task_id = :task_id AND (cancel_requested <> 0 OR request_id <> '')
"""
_FIND = f"SELECT {_COLUMNS} FROM {{tasks}} WHERE task_id = :task_id"  # noqa: S608 - names, no values
_UNCHANGED = f"""
SELECT {_COLUMNS} FROM {{tasks}} WHERE status = :status AND updated_at < :before
    AND (updated_at, task_id) > (:at, :task_id)
ORDER BY updated_at, task_id LIMIT :limit
"""  # noqa: S608 - names, no values
_CLAIMED_BY = f"""
SELECT pid, started, machine FROM {{tasks}}
WHERE task_id = :task_id AND NOT {_HAS_ENDED}
    AND (CAST(:epoch AS {{integer}}) IS NULL OR epoch = :epoch){{for_update}}
"""  # noqa: S608 - names, no values
_CLAIM = """
UPDATE {tasks} SET worker = :worker, epoch = epoch + 1, pid = :pid, started = :started,
    machine = :machine, updated_at = {seconds}
WHERE task_id = :task_id
"""
_REQUEST_CANCEL = (
    f"UPDATE {{tasks}} SET cancel_requested = 1 WHERE task_id = :task_id AND NOT {_HAS_ENDED}"  # noqa: S608
    " RETURNING task_id"
)
_CANCELLED = "SELECT task_id FROM {tasks} WHERE task_id {in_ids} AND cancel_requested <> 0"
_SIGNALS = """
SELECT task_id, cancel_requested, request_id, answer, sent FROM {tasks}
WHERE task_id {in_ids} AND (cancel_requested <> 0 OR answer IS NOT NULL OR sent > 0)
"""
_ASK = """
UPDATE {tasks} SET request_id = :request_id, question = :question, answer = NULL,
    updated_at = {seconds}
WHERE task_id = :task_id
"""
_ANSWER = """
UPDATE {tasks} SET answer = :answer, updated_at = {seconds}
WHERE task_id = :task_id AND request_id = :request_id AND request_id <> '' AND answer IS NULL
RETURNING task_id
"""
_COUNT_MESSAGE = "UPDATE {tasks} SET sent = sent + 1 WHERE task_id = :task_id RETURNING sent"
_ADD_MESSAGE = """
INSERT INTO {task_messages} (task_id, number, text, at)
VALUES (:task_id, :number, :text, {seconds})
"""
_MESSAGES = """
SELECT number, text, at FROM {task_messages} WHERE task_id = :task_id AND number > :after
ORDER BY number
"""
_SNAPSHOT = "SELECT snapshot FROM {tasks} WHERE task_id = :task_id"
_DELETE = (
    "DELETE FROM {task_messages} WHERE task_id = :task_id",
    "DELETE FROM {tasks} WHERE task_id = :task_id",
)

_state = JsonDecoder(TaskState)
_spec = JsonDecoder(dict[str, Any])
_question = JsonDecoder(PermissionRequest)
_answer = JsonDecoder(PermissionAnswer)


class TaskRows:
    """Reads and writes tasks. Each method runs inside one transaction of its caller."""

    def __init__(self, statements: SqlStatements, leases: LeaseRows, blobs: BlobRows) -> None:
        self._sql = statements
        self._leases = leases
        self._blobs = blobs

    def save(
        self, connection: SqlConnection, row: TaskRow, *, epoch: int | None, now: float
    ) -> None:
        """Insert or replace a task."""
        values = {**_values(row), "epoch": epoch, "now": now}
        if epoch is not None:
            self._update_own(connection, _UPDATE, values)
        elif self._sql.run(connection, _INSERT, **values).fetchone() is None:
            self._sql.run(connection, _UPDATE, **values)
        if row.state.status.is_terminal:
            self._sql.run(connection, _FORGET_REQUESTS, task_id=row.state.task_id)

    def find(self, connection: SqlConnection, task_id: str) -> TaskRow | None:
        """Return a task."""
        row = self._sql.run(connection, _FIND, task_id=task_id).fetchone()
        return None if row is None else _row(row)

    def list_tasks(
        self,
        connection: SqlConnection,
        *,
        statuses: Collection[TaskStatus],
        filters: Mapping[str, str],
        limit: int | None,
    ) -> list[TaskRow]:
        """Return tasks whose columns have the values of `filters`, the last changed first.

        Each status is a range of an index in the order of the list.
        """
        matches = "".join(f" AND {column} = :{column}" for column in filters)
        statement = (
            f"SELECT {_COLUMNS} FROM {{tasks}} WHERE status = :status{matches}"  # noqa: S608
            " ORDER BY updated_at DESC LIMIT coalesce(:limit, 9223372036854775807)"
        )
        found: list[TaskRow] = []
        for status in statuses:
            wanted = {"status": status.value, "limit": limit, **filters}
            found += _read_rows(self._sql.run(connection, statement, **wanted).fetchall())
        return sorted(found, key=lambda row: -row.updated_at)[:limit]

    def list_unchanged(
        self,
        connection: SqlConnection,
        status: TaskStatus,
        *,
        before: float,
        after: TaskRow | None,
        limit: int,
    ) -> list[TaskRow]:
        """Return tasks without a change since a time, the longest unchanged first."""
        at, task_id = (-1.0, "") if after is None else task_order(after)
        place = {"status": status.value, "before": before, "at": at, "task_id": task_id}
        return _read_rows(self._sql.run(connection, _UNCHANGED, limit=limit, **place).fetchall())

    def delete(self, connection: SqlConnection, task_id: str) -> None:
        """Delete a task, its messages and its snapshot."""
        row = self._sql.run(connection, _SNAPSHOT, task_id=task_id).fetchone()
        for statement in _DELETE:
            self._sql.run(connection, statement, task_id=task_id)
        if row is not None and row[0]:
            self._blobs.delete_snapshot(connection, row[0])

    def claim(
        self,
        connection: SqlConnection,
        task_id: str,
        worker: str,
        *,
        epoch: int | None,
        holder: LeaseHolder,
        now: float,
    ) -> TaskRow | None:
        """Make `worker` of this process the worker of a task, and the only one that can write."""
        before = self._sql.run(connection, _CLAIMED_BY, task_id=task_id, epoch=epoch).fetchone()
        if before is None:
            return None
        pid, started, machine = before
        self._leases.revoke(connection, SessionId(task_id), process=(pid, started, machine))
        self._sql.run(
            connection,
            _CLAIM,
            task_id=task_id,
            worker=worker,
            pid=holder.pid,
            started=holder.started,
            machine=holder.machine,
            now=now,
        )
        return self.find(connection, task_id)

    def request_cancel(self, connection: SqlConnection, task_id: str) -> bool:
        """Note that a task should end."""
        return self._sql.run(connection, _REQUEST_CANCEL, task_id=task_id).fetchone() is not None

    def find_cancelled(self, connection: SqlConnection, task_ids: Collection[str]) -> set[str]:
        """Return which tasks should end."""
        ids = msgspec.json.encode(list(task_ids)).decode()
        return {task_id for (task_id,) in self._sql.run(connection, _CANCELLED, ids=ids).fetchall()}

    def signals(self, connection: SqlConnection, task_ids: Collection[str]) -> list[TaskSignals]:
        """Return what others want of tasks."""
        ids = msgspec.json.encode(list(task_ids)).decode()
        return [
            TaskSignals(
                task_id=task_id,
                cancel_requested=bool(cancel_requested),
                request_id=request_id,
                answer=None if answer is None else _answer.decode(answer),
                sent=sent,
            )
            for task_id, cancel_requested, request_id, answer, sent in self._sql.run(
                connection, _SIGNALS, ids=ids
            ).fetchall()
        ]

    def ask(
        self,
        connection: SqlConnection,
        task_id: str,
        question: PermissionRequest | None,
        *,
        epoch: int | None,
        now: float,
    ) -> None:
        """Store the question of a task."""
        values = {
            "task_id": task_id,
            "request_id": "" if question is None else clean_for_storage(question.request_id),
            "question": None if question is None else encode(question),
            "epoch": epoch,
            "now": now,
        }
        if epoch is not None:
            self._update_own(connection, _ASK, values)
        elif self._sql.run(connection, _ASK + _RETURNING, **values).fetchone() is None:
            raise task_not_found(task_id)

    def answer(
        self,
        connection: SqlConnection,
        task_id: str,
        request_id: str,
        answer: PermissionAnswer,
        *,
        now: float,
    ) -> None:
        """Answer the question of a task, if it is open."""
        values = {"task_id": task_id, "request_id": request_id, "answer": encode(answer)}
        if self._sql.run(connection, _ANSWER, now=now, **values).fetchone() is None:
            raise question_not_open(self.find(connection, task_id), task_id, request_id)

    def send(self, connection: SqlConnection, task_id: str, text: str, *, now: float) -> int:
        """Add a message to a task."""
        row = self._sql.run(connection, _COUNT_MESSAGE, task_id=task_id).fetchone()
        if row is None:
            raise task_not_found(task_id)
        (number,) = row
        self._sql.run(connection, _ADD_MESSAGE, task_id=task_id, number=number, text=text, now=now)
        return int(number)

    def messages(self, connection: SqlConnection, task_id: str, *, after: int) -> list[TaskMessage]:
        """Return the messages to a task."""
        rows = self._sql.run(connection, _MESSAGES, task_id=task_id, after=after).fetchall()
        return [TaskMessage(number=number, text=text, at=at) for number, text, at in rows]

    def _update_own(
        self, connection: SqlConnection, statement: str, values: Mapping[str, Any]
    ) -> None:
        """Run an update that only the worker with the current epoch may make."""
        updated = self._sql.run(connection, statement + _OF_EPOCH + _RETURNING, **values)
        if updated.fetchone() is None:
            raise make_lost_error(self.find(connection, values["task_id"]), values["task_id"])


def encode(value: object) -> bytes:
    """Return a value as JSON that every database accepts."""
    return msgspec.json.encode(make_encodable(value))


def _values(row: TaskRow) -> dict[str, Any]:
    state = row.state
    return {
        "task_id": state.task_id,
        "session_id": state.session_id,
        "cwd": clean_for_storage(state.cwd),
        "kind": state.kind.value,
        "status": state.status.value,
        "worker": clean_for_storage(row.worker),
        "state": encode(state),
        "spec": encode(row.spec),
        "snapshot": row.snapshot,
    }


def _read_rows(rows: Sequence[Sequence[Any]]) -> list[TaskRow]:
    """Return rows as tasks; one that cannot be read is logged and left out."""
    found: list[TaskRow] = []
    for row in rows:
        try:
            found.append(_row(row))
        except StoreDamaged as error:
            logger.warning("%s", error)
    return found


def _row(row: Sequence[Any]) -> TaskRow:
    state, spec, worker, epoch, cancel_requested, question, answer, snapshot, updated_at = row
    try:
        return TaskRow(
            state=_state.decode(state),
            spec=_spec.decode(spec),
            worker=worker,
            epoch=epoch,
            cancel_requested=bool(cancel_requested),
            question=None if question is None else _question.decode(question),
            answer=None if answer is None else _answer.decode(answer),
            snapshot=snapshot,
            updated_at=updated_at,
        )
    except msgspec.DecodeError as error:
        raise StoreDamaged(f"a stored task cannot be read: {error}") from error
