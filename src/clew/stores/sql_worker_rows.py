"""Workers and schedules as rows, the same for SQLite and PostgreSQL."""

import msgspec

from clew.core.errors import StoreDamaged
from clew.core.json_text import JsonDecoder
from clew.core.text import make_encodable
from clew.stores.leases import LeaseHolder, has_ended
from clew.stores.sql import SqlConnection, SqlStatements
from clew.stores.task_protocol import ScheduleRow, WorkerRow

_BEAT = """
INSERT INTO {workers} (worker, host, pid, started, machine, beat)
VALUES (:worker, :host, :pid, :started, :machine, {seconds})
ON CONFLICT (worker) DO UPDATE SET host = excluded.host, pid = excluded.pid,
    started = excluded.started, machine = excluded.machine, beat = excluded.beat
"""
_WORKERS = """
SELECT worker, host, pid, started, machine, {seconds} - beat FROM {workers} ORDER BY worker
"""
_LEAVE = "DELETE FROM {workers} WHERE worker = :worker"
_SAVE_SCHEDULE = """
INSERT INTO {schedules} (schedule_id, text, cron, spec, next_at, created_at, last_task_id)
VALUES (:schedule_id, :text, :cron, :spec, :next_at, :created_at, :last_task_id)
ON CONFLICT (schedule_id) DO UPDATE SET text = excluded.text, cron = excluded.cron,
    spec = excluded.spec, next_at = excluded.next_at, created_at = excluded.created_at,
    last_task_id = excluded.last_task_id
"""
_SCHEDULES = """
SELECT schedule_id, text, cron, spec, next_at, created_at, last_task_id FROM {schedules}
ORDER BY next_at, schedule_id
"""
_DELETE_SCHEDULE = "DELETE FROM {schedules} WHERE schedule_id = :schedule_id RETURNING schedule_id"
_CLAIM_SCHEDULE = """
UPDATE {schedules} SET next_at = :next_at, last_task_id = :task_id
WHERE schedule_id = :schedule_id AND next_at = :due
RETURNING schedule_id
"""

_spec = JsonDecoder(dict[str, object])


class WorkerRows:
    """Reads and writes workers. Each method runs inside one transaction of its caller."""

    def __init__(self, statements: SqlStatements) -> None:
        self._sql = statements

    def beat(
        self, connection: SqlConnection, worker: str, *, holder: LeaseHolder, now: float
    ) -> None:
        """Note that a worker of this process is alive."""
        self._sql.run(
            connection,
            _BEAT,
            worker=worker,
            host=holder.host,
            pid=holder.pid,
            started=holder.started,
            machine=holder.machine,
            now=now,
        )

    def list_workers(
        self, connection: SqlConnection, *, holder: LeaseHolder, now: float
    ) -> list[WorkerRow]:
        """Return all workers, as the process of `holder` sees them."""
        return [
            WorkerRow(
                worker=worker,
                host=host,
                pid=pid,
                silent=max(0.0, silent),
                has_ended=has_ended((pid, started, machine), me=holder),
            )
            for worker, host, pid, started, machine, silent in self._sql.run(
                connection, _WORKERS, now=now
            ).fetchall()
        ]

    def leave(self, connection: SqlConnection, worker: str) -> None:
        """Remove a worker."""
        self._sql.run(connection, _LEAVE, worker=worker)


class ScheduleRows:
    """Reads and writes schedules."""

    def __init__(self, statements: SqlStatements) -> None:
        self._sql = statements

    def save(self, connection: SqlConnection, row: ScheduleRow) -> None:
        """Insert or replace a schedule."""
        fields = msgspec.structs.asdict(make_encodable(row))
        fields["spec"] = msgspec.json.encode(fields["spec"])
        self._sql.run(connection, _SAVE_SCHEDULE, **fields)

    def list_schedules(self, connection: SqlConnection) -> list[ScheduleRow]:
        """Return all schedules, the next one first."""
        names = ScheduleRow.__struct_fields__
        rows = self._sql.run(connection, _SCHEDULES).fetchall()
        try:
            return [
                ScheduleRow(**{**dict(zip(names, row, strict=True)), "spec": _spec.decode(row[3])})
                for row in rows
            ]
        except msgspec.DecodeError as error:
            raise StoreDamaged(f"a stored schedule cannot be read: {error}") from error

    def delete(self, connection: SqlConnection, schedule_id: str) -> bool:
        """Delete a schedule."""
        deleted = self._sql.run(connection, _DELETE_SCHEDULE, schedule_id=schedule_id)
        return deleted.fetchone() is not None

    def claim(
        self, connection: SqlConnection, row: ScheduleRow, *, next_at: float, task_id: str
    ) -> bool:
        """Move a schedule to its next time, unless another worker has done so."""
        moved = self._sql.run(
            connection,
            _CLAIM_SCHEDULE,
            schedule_id=row.schedule_id,
            due=row.next_at,
            next_at=next_at,
            task_id=task_id,
        )
        return moved.fetchone() is not None
