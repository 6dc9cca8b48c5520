"""Sessions, entries and snapshots as rows, the same for SQLite and PostgreSQL."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from clew.context.recall.entry_text import entry_text, strip_boilerplate
from clew.context.recall.occurrences import excerpt_around
from clew.context.recall.query import parse_query
from clew.context.recall.words import split_terms
from clew.core.entries import Entry, encode
from clew.core.ids import EntryId, SessionId
from clew.stores.leases import Writer
from clew.stores.record import (
    AGENT_KIND,
    COLUMNS,
    Growth,
    SearchHit,
    StoredSession,
    fork_record,
    merge_extra,
    record_from_row,
)
from clew.stores.sql import LOCK_SESSION, SqlConnection, SqlDialect, SqlStatements
from clew.stores.sql_blob_rows import SNAPSHOTS_OF, BlobRows
from clew.stores.sql_index import INDEX_BATCH, SqlIndexRows
from clew.stores.sql_leases import LeaseRows
from clew.stores.stored_entries import (
    StoredEntries,
    check_order,
    make_changed_error,
    session_exists,
    session_not_found,
)

LAST_ENTRY = 0xFFFFFFFF
"""The highest number that an entry may have."""

_FIND = f"SELECT number, {', '.join(COLUMNS)} FROM {{sessions}} WHERE id = :id"  # noqa: S608 - names, no values
_LIST = f"""
SELECT {", ".join(COLUMNS)} FROM {{sessions}}
WHERE (CAST(:cwd AS text) IS NULL OR cwd = :cwd)
    AND (CAST(:parent AS text) IS NULL OR parent = :parent)
    AND (CAST(:since AS double precision) IS NULL OR updated_at >= :since)
    AND (CAST(:kind AS text) IS NULL OR kind = :kind)
ORDER BY updated_at DESC, number DESC
LIMIT coalesce(:limit, 9223372036854775807)
"""  # noqa: S608 - names, no values
_INSERT = """
INSERT INTO {sessions}
    (id, cwd, name, created_at, updated_at, parent, forked_at, kind, extra{more_columns})
VALUES
    (:id, :cwd, :name, :created_at, :updated_at, :parent, :forked_at, :kind, :extra{more_values})
ON CONFLICT (id) DO NOTHING
RETURNING number
"""
_GROW = """
UPDATE {sessions} SET
    last = :last,
    updated_at = CASE WHEN updated_at < :at THEN :at ELSE updated_at END,
    entries = entries + :entries,
    messages = messages + :messages,
    size = size + :size,
    title = CASE WHEN title = '' THEN :title ELSE title END,
    last_words = CASE WHEN :last_words = '' THEN last_words ELSE :last_words END,
    model = CASE WHEN :model = '' THEN model ELSE :model END
WHERE id = :id AND last < :first
RETURNING number, last - indexed
"""
_RENAME = "UPDATE {sessions} SET name = :name WHERE number = :number"
_ANNOTATE = "UPDATE {sessions} SET extra = :extra WHERE id = :id"
_ENTRIES = "SELECT {entry_id}, line FROM {entries} WHERE {entry_range} ORDER BY {entry_key}"
_ADD_ENTRY = "INSERT INTO {entries} VALUES ({new_entry})"
_COPY_ENTRIES = "INSERT INTO {entries} SELECT {copied_entry} FROM {entries} WHERE {entry_range}"
_DELETE = (
    "DELETE FROM {entries} WHERE {entry_range}",
    "DELETE FROM {snapshots} WHERE {session} = :number",
    "DELETE FROM {leases} WHERE {session} = :number",
    "DELETE FROM {task_messages}"
    " WHERE task_id IN (SELECT task_id FROM {tasks} WHERE session_id = :id OR task_id = :id)",
    "DELETE FROM {tasks} WHERE session_id = :id OR task_id = :id",
    "DELETE FROM {sessions} WHERE number = :number",
)
_AGENTS_OF = "SELECT id FROM {sessions} WHERE parent = :id AND kind = :kind"
_SNAPSHOT = """
SELECT data FROM {snapshots} JOIN {sessions} ON {sessions}.number = {snapshots}.{session}
WHERE id = :id
"""
_SAVE_SNAPSHOT = """
INSERT INTO {snapshots} VALUES (:number, :data)
ON CONFLICT ({session}) DO UPDATE SET data = excluded.data
"""


class SqlRows:
    """Reads and writes rows. Each method runs inside one transaction of its caller."""

    def __init__(self, dialect: SqlDialect) -> None:
        self._dialect = dialect
        self._sql = SqlStatements(dialect)
        self.leases = LeaseRows(self._sql)
        self._blobs = BlobRows(self._sql)
        self.index = SqlIndexRows(dialect, self._sql)

    def create(self, connection: SqlConnection, record: StoredSession) -> int:
        """Insert a session without entries and return its number."""
        row = self._sql.run(
            connection,
            _INSERT,
            id=record.id,
            cwd=record.cwd,
            name=record.name,
            created_at=record.created_at,
            updated_at=record.updated_at,
            parent=record.parent,
            forked_at=record.forked_at,
            kind=record.kind,
            extra=msgspec.json.encode(record.extra),
        ).fetchone()
        if row is None:
            raise session_exists(record.id)
        if record.name:
            self._dialect.index_name(connection, row[0], record.name)
        return int(row[0])

    def append(
        self,
        connection: SqlConnection,
        session_id: SessionId,
        entries: Sequence[Entry],
        *,
        writer: Writer,
    ) -> bool:
        """Insert entries, and update the session's row by what they add to it.

        Returns:
            Whether enough entries are waiting to be indexed.
        """
        check_order(session_id, entries)
        lines = [encode(entry) for entry in entries]
        grown = self._grow(connection, session_id, Growth.of(entries, lines))
        if grown is None:
            number, _ = self._find(connection, session_id)
            self.leases.check(connection, session_id, number, writer=writer)
            raise make_changed_error(session_id)
        number, unindexed = grown
        self.leases.check(connection, session_id, number, writer=writer)
        rows = [
            {"number": number, "id": entry.id, "line": line}
            for entry, line in zip(entries, lines, strict=True)
        ]
        self._sql.run_many(connection, _ADD_ENTRY, rows)
        return unindexed >= INDEX_BATCH

    def load(
        self, connection: SqlConnection, session_id: SessionId, *, after: int
    ) -> tuple[StoredSession, StoredEntries]:
        """Return a session and its entries after a number."""
        number, record = self._find(connection, session_id)
        return record, StoredEntries(session_id, self._entries(connection, number, after=after))

    def record(self, connection: SqlConnection, session_id: SessionId) -> StoredSession:
        """Return the record of a session."""
        return self._find(connection, session_id)[1]

    def sessions(
        self,
        connection: SqlConnection,
        *,
        cwd: str | None,
        parent: str | None,
        since: float | None,
        kind: str | None,
        limit: int | None,
    ) -> list[StoredSession]:
        """Return the records of sessions, the last used first."""
        wanted = {"cwd": cwd, "parent": parent, "since": since, "kind": kind, "limit": limit}
        rows = self._sql.run(connection, _LIST, **wanted)
        return [record_from_row(row) for row in rows.fetchall()]

    def search(
        self, connection: SqlConnection, query: str, *, kind: str | None, limit: int
    ) -> list[SearchHit]:
        """Find sessions by their names and words."""
        terms = split_terms(query)
        if not terms:
            return []
        rows = self._dialect.search(connection, terms, kind=kind, limit=limit)
        return [_hit(row, query) for row in rows]

    def rename(
        self, connection: SqlConnection, session_id: SessionId, name: str, *, writer: Writer
    ) -> None:
        """Change a session's name, and the words by which it is found."""
        number = self._sql.lock_session(connection, session_id)
        self.leases.check_not_lost(connection, session_id, number, writer=writer)
        self._sql.run(connection, _RENAME, name=name, number=number)
        self._dialect.index_name(connection, number, name)

    def annotate(
        self,
        connection: SqlConnection,
        session_id: SessionId,
        fields: Mapping[str, object],
        *,
        writer: Writer,
    ) -> None:
        """Change the `extra` fields of a session's record."""
        number = self._sql.lock_session(connection, session_id)
        self.leases.check_not_lost(connection, session_id, number, writer=writer)
        extra = merge_extra(self.record(connection, session_id).extra, fields)
        self._sql.run(connection, _ANNOTATE, extra=msgspec.json.encode(extra), id=session_id)

    def fork(
        self,
        connection: SqlConnection,
        session_id: SessionId,
        *,
        upto: EntryId | None,
        name: str,
        now: float,
    ) -> StoredSession:
        """Copy a session under a new id."""
        number, parent = self._find(connection, session_id)
        rows = self._entries(connection, number, upto=LAST_ENTRY if upto is None else upto)
        last = EntryId(rows[-1][0]) if rows else None
        fork = fork_record(parent, last=last, name=name, now=now)
        copy = self.create(connection, fork)
        if rows:
            growth = Growth.of(StoredEntries(session_id, rows), [line for _, line in rows])
            self._grow(connection, fork.id, growth)
            self._sql.run(connection, _COPY_ENTRIES, copy=copy, number=number, first=1, last=last)
        return self.record(connection, fork.id)

    def delete(self, connection: SqlConnection, session_id: SessionId, *, writer: Writer) -> None:
        """Delete a session with its agents, entries, words, snapshot, lease and tasks."""
        row = self._sql.run(connection, LOCK_SESSION, id=session_id).fetchone()
        if row is None:
            return
        (number,) = row
        self.leases.check(connection, session_id, number, writer=writer)
        agents = self._sql.run(connection, _AGENTS_OF, id=session_id, kind=AGENT_KIND).fetchall()
        for (agent_id,) in agents:
            self.delete(connection, SessionId(agent_id), writer=replace(writer, epoch=None))
        snapshots = self._sql.run(connection, SNAPSHOTS_OF, id=session_id).fetchall()
        for statement in _DELETE:
            self._sql.run(
                connection, statement, id=session_id, number=number, first=1, last=LAST_ENTRY
            )
        for (name,) in snapshots:
            self._blobs.delete_snapshot(connection, name)
        self._dialect.remove_words(connection, number)

    def snapshot(self, connection: SqlConnection, session_id: SessionId) -> bytes | None:
        """Return the snapshot of a session."""
        row = self._sql.run(connection, _SNAPSHOT, id=session_id).fetchone()
        return None if row is None else bytes(row[0])

    def save_snapshot(
        self, connection: SqlConnection, session_id: SessionId, data: bytes, *, writer: Writer
    ) -> None:
        """Replace the snapshot of a session."""
        row = self._sql.run(connection, LOCK_SESSION, id=session_id).fetchone()
        if row is not None:
            self.leases.check_not_lost(connection, session_id, row[0], writer=writer)
            self._sql.run(connection, _SAVE_SNAPSHOT, data=data, number=row[0])

    def _find(self, connection: SqlConnection, session_id: SessionId) -> tuple[int, StoredSession]:
        row = self._sql.run(connection, _FIND, id=session_id).fetchone()
        if row is None:
            raise session_not_found(session_id)
        return row[0], record_from_row(row[1:])

    def _grow(
        self, connection: SqlConnection, session_id: SessionId, growth: Growth
    ) -> tuple[int, int] | None:
        """Update and lock a session's row; returns its number and how much is not indexed.

        Returns None when the session does not exist, or has entries with these numbers.
        """
        values = msgspec.structs.asdict(growth)
        row = self._sql.run(connection, _GROW, id=session_id, **values).fetchone()
        return None if row is None else (int(row[0]), int(row[1]))

    def _entries(
        self, connection: SqlConnection, number: int, *, after: int = 0, upto: int = LAST_ENTRY
    ) -> list[tuple[int, bytes]]:
        return self._sql.run(
            connection, _ENTRIES, number=number, first=after + 1, last=upto
        ).fetchall()


def _hit(row: Sequence[Any], query: str) -> SearchHit:
    *columns, newest, matches, line = row
    session = record_from_row(columns)
    if not matches:
        return SearchHit(session=session)
    (entry,) = StoredEntries(session.id, [(newest, line)])
    excerpt = excerpt_around(strip_boilerplate(entry_text(entry)), parse_query(query))
    return SearchHit(session=session, entry_id=newest, matches=matches, excerpt=excerpt)
