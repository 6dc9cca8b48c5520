"""Blobs as rows, the same for SQLite and PostgreSQL: bytes named by their content."""

from collections.abc import Collection
from hashlib import sha256

import msgspec

from clew.stores.sql import SqlConnection, SqlStatements
from clew.stores.worktree_snapshot import StoredBlob, list_blobs

_PUT = """
INSERT INTO {blobs} (name, data, stored_at) VALUES (:name, :data, {seconds})
ON CONFLICT (name) DO UPDATE SET stored_at = excluded.stored_at
"""
_GET = "SELECT data FROM {blobs} WHERE name = :name"
_OLD = "SELECT name, length(data) FROM {blobs} WHERE stored_at <= {seconds} - :older_than"
_SNAPSHOTS = "SELECT DISTINCT snapshot FROM {tasks} WHERE snapshot <> ''"
_NAMED = "SELECT 1 FROM {tasks} WHERE snapshot = :name AND snapshot <> ''"
_DELETE = "DELETE FROM {blobs} WHERE name {in_ids}"
_DELETE_OLD = f"{_DELETE} AND stored_at <= {{seconds}} - :older_than"
SNAPSHOTS_OF = """
SELECT snapshot FROM {tasks} WHERE (session_id = :id OR task_id = :id) AND snapshot <> ''
"""
"""The snapshots of a session's tasks, and of the task that a session is."""


class BlobRows:
    """Reads and writes blobs. Each method runs inside one transaction of its caller."""

    def __init__(self, statements: SqlStatements) -> None:
        self._sql = statements

    def put(self, connection: SqlConnection, data: bytes, *, now: float) -> str:
        """Store bytes under the name of their content."""
        name = sha256(data).hexdigest()
        self._sql.run(connection, _PUT, name=name, data=data, now=now)
        return name

    def get(self, connection: SqlConnection, name: str) -> bytes | None:
        """Return stored bytes."""
        row = self._sql.run(connection, _GET, name=name).fetchone()
        return None if row is None else bytes(row[0])

    def delete_snapshot(self, connection: SqlConnection, name: str, *, keep: str = "") -> None:
        """Delete the blobs of a snapshot that no task names, except those of another one."""
        if self._sql.run(connection, _NAMED, name=name).fetchone() is None:
            kept = list_blobs(keep, self.get(connection, keep))
            self._delete(connection, list_blobs(name, self.get(connection, name)) - kept)

    def find_unused(
        self, connection: SqlConnection, *, older_than: float, delete: bool, now: float
    ) -> list[StoredBlob]:
        """Return old blobs that belong to no snapshot of a task, and delete them if asked."""
        snapshots = self._sql.run(connection, _SNAPSHOTS).fetchall()
        used: set[str] = set()
        for (name,) in snapshots:
            used |= list_blobs(name, self.get(connection, name))
        old = self._sql.run(connection, _OLD, older_than=older_than, now=now).fetchall()
        found = [StoredBlob(name=name, size=size) for name, size in old if name not in used]
        if delete and found:
            # One that is put again at this moment is not old any more.
            names = _encode({blob.name for blob in found})
            self._sql.run(connection, _DELETE_OLD, ids=names, older_than=older_than, now=now)
        return sorted(found, key=lambda blob: blob.name)

    def _delete(self, connection: SqlConnection, names: Collection[str]) -> None:
        if names:
            self._sql.run(connection, _DELETE, ids=_encode(names))


def _encode(names: Collection[str]) -> str:
    return msgspec.json.encode(sorted(names)).decode()
