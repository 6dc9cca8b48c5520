"""Sessions, entries, leases and snapshots as rows, written once for SQLite and PostgreSQL.

Every statement uses `:name` parameters. A `SqlDialect` fills in what the two databases spell
differently, and owns the index for word search, which they implement differently.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol

import msgspec

from clew.context.recall import entry_text, excerpt_around
from clew.core.entries import Entry, encode
from clew.core.errors import SessionNotFound
from clew.core.ids import EntryId, SessionId
from clew.stores.leases import LeaseHolder, SessionHeld, is_dead
from clew.stores.record import (
    COLUMNS,
    Growth,
    SearchHit,
    StoredSession,
    fork_record,
    merge_extra,
    record_from_row,
)
from clew.stores.search_terms import parse_query
from clew.stores.stored_entries import (
    StoredEntries,
    check_order,
    session_changed,
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
ORDER BY updated_at DESC, number DESC
LIMIT coalesce(:limit, 9223372036854775807)
"""  # noqa: S608 - names, no values
_LOCK = "SELECT number FROM {sessions} WHERE id = :id{for_update}"
_INSERT = """
INSERT INTO {sessions}
    (id, cwd, name, created_at, updated_at, parent, forked_at, extra{more_columns})
VALUES (:id, :cwd, :name, :created_at, :updated_at, :parent, :forked_at, :extra{more_values})
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
RETURNING number
"""
_RENAME = "UPDATE {sessions} SET name = :name WHERE number = :number"
_ANNOTATE = "UPDATE {sessions} SET extra = :extra WHERE id = :id"
_ENTRIES = "SELECT {entry_id}, line FROM {entries} WHERE {entry_range} ORDER BY {entry_key}"
_COPY_ENTRIES = "INSERT INTO {entries} SELECT {copied_entry} FROM {entries} WHERE {entry_range}"
_DELETE = (
    "DELETE FROM {entries} WHERE {entry_range}",
    "DELETE FROM {snapshots} WHERE {session} = :number",
    "DELETE FROM {leases} WHERE {session} = :number",
    "DELETE FROM {sessions} WHERE number = :number",
)
_SNAPSHOT = """
SELECT data FROM {snapshots} JOIN {sessions} ON {sessions}.number = {snapshots}.{session}
WHERE id = :id
"""
_SAVE_SNAPSHOT = """
INSERT INTO {snapshots} SELECT number, :data FROM {sessions} WHERE id = :id
ON CONFLICT ({session}) DO UPDATE SET data = excluded.data
"""
_LEASE = """
SELECT {silence}, owner, pid, started, machine, host, since FROM {leases}
WHERE {session} = :number
"""
_TAKE_LEASE = """
INSERT INTO {leases} VALUES (:number, :owner, :pid, :started, :machine, :host, :since, {now})
ON CONFLICT ({session}) DO UPDATE SET owner = excluded.owner, pid = excluded.pid,
    started = excluded.started, machine = excluded.machine, host = excluded.host,
    since = excluded.since, beat = excluded.beat
WHERE {leases}.owner <> excluded.owner
"""
_RELEASE_LEASE = """
DELETE FROM {leases} WHERE owner = :owner
    AND {session} = (SELECT number FROM {sessions} WHERE id = :id)
"""
_RELEASE_ALL = "DELETE FROM {leases} WHERE owner = :owner"
_RENEW_LEASES = "UPDATE {leases} SET beat = {now} WHERE owner = :owner"


class SqlCursor(Protocol):
    """The rows of one statement."""

    def fetchone(self) -> Any:
        """Return the next row as a tuple; None after the last."""
        ...

    def fetchall(self) -> list[Any]:
        """Return the remaining rows."""
        ...


class SqlConnection(Protocol):
    """A connection to a database, inside one transaction."""

    def execute(self, statement: str, values: Mapping[str, Any] = ..., /) -> SqlCursor:
        """Run a statement with `:name` parameters."""
        ...

    def executemany(self, statement: str, rows: Iterable[Mapping[str, Any]], /) -> object:
        """Run a statement once for each row of parameters."""
        ...


class SqlDialect(Protocol):
    """What one database spells differently, and its index for word search."""

    names: Mapping[str, str]
    """Fills the fields in braces of the shared statements: tables, columns, expressions."""

    def add_entries(
        self, connection: SqlConnection, number: int, rows: Sequence[tuple[Entry, bytes]]
    ) -> None:
        """Insert entries, each with its encoded line, and see to it that they can be found."""
        ...

    def index_name(self, connection: SqlConnection, number: int, name: str) -> None:
        """Let a session be found by its name, and no longer by its old one."""
        ...

    def remove_words(self, connection: SqlConnection, number: int) -> None:
        """Remove all words of a deleted session."""
        ...

    def search(
        self, connection: SqlConnection, terms: Sequence[str], *, limit: int
    ) -> Iterable[Sequence[Any]]:
        """Find sessions whose name or an entry has a word for each term.

        Returns:
            For each session, the last used first: its record's columns, the number of the
            newest entry that matches, how many match, and that entry's line. The last three
            mean nothing when no entry matches.
        """
        ...


class SqlRows:
    """Reads and writes rows. Each method runs inside one transaction of its caller."""

    def __init__(self, dialect: SqlDialect) -> None:
        self._dialect = dialect
        self._fill = cache(lambda statement: statement.format_map(dialect.names))

    def create(self, connection: SqlConnection, record: StoredSession) -> int:
        """Insert a session without entries and return its number."""
        row = self._run(
            connection,
            _INSERT,
            id=record.id,
            cwd=record.cwd,
            name=record.name,
            created_at=record.created_at,
            updated_at=record.updated_at,
            parent=record.parent,
            forked_at=record.forked_at,
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
        holder: LeaseHolder,
        now: float,
    ) -> None:
        """Insert entries, and update the session's row by what they add to it."""
        check_order(session_id, entries)
        lines = [encode(entry) for entry in entries]
        number = self._grow(connection, session_id, Growth.of(entries, lines))
        self._check_lease(connection, session_id, number, holder=holder, now=now)
        self._dialect.add_entries(connection, number, list(zip(entries, lines, strict=True)))

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
        limit: int | None,
    ) -> list[StoredSession]:
        """Return the records of sessions, the last used first."""
        rows = self._run(connection, _LIST, cwd=cwd, parent=parent, since=since, limit=limit)
        return [record_from_row(row) for row in rows.fetchall()]

    def search(self, connection: SqlConnection, query: str, *, limit: int) -> list[SearchHit]:
        """Find sessions by their names and words."""
        terms = parse_query(query)
        if not terms:
            return []
        return [_hit(row, query) for row in self._dialect.search(connection, terms, limit=limit)]

    def rename(self, connection: SqlConnection, session_id: SessionId, name: str) -> None:
        """Change a session's name, and the words by which it is found."""
        number = self._lock(connection, session_id)
        self._run(connection, _RENAME, name=name, number=number)
        self._dialect.index_name(connection, number, name)

    def annotate(
        self, connection: SqlConnection, session_id: SessionId, fields: Mapping[str, object]
    ) -> None:
        """Change the `extra` fields of a session's record."""
        self._lock(connection, session_id)
        extra = merge_extra(self.record(connection, session_id).extra, fields)
        self._run(connection, _ANNOTATE, extra=msgspec.json.encode(extra), id=session_id)

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
            self._run(connection, _COPY_ENTRIES, copy=copy, number=number, first=1, last=last)
        return self.record(connection, fork.id)

    def delete(
        self, connection: SqlConnection, session_id: SessionId, *, holder: LeaseHolder, now: float
    ) -> None:
        """Delete a session with its entries, its words, its snapshot and its lease."""
        try:
            number = self._lock(connection, session_id)
        except SessionNotFound:
            return
        self._check_lease(connection, session_id, number, holder=holder, now=now)
        for statement in _DELETE:
            self._run(connection, statement, number=number, first=1, last=LAST_ENTRY)
        self._dialect.remove_words(connection, number)

    def snapshot(self, connection: SqlConnection, session_id: SessionId) -> bytes | None:
        """Return the snapshot of a session."""
        row = self._run(connection, _SNAPSHOT, id=session_id).fetchone()
        return None if row is None else bytes(row[0])

    def save_snapshot(self, connection: SqlConnection, session_id: SessionId, data: bytes) -> None:
        """Replace the snapshot of a session."""
        self._run(connection, _SAVE_SNAPSHOT, data=data, id=session_id)

    def take_lease(
        self, connection: SqlConnection, session_id: SessionId, *, holder: LeaseHolder, now: float
    ) -> None:
        """Make `holder` the writer of a session, unless another one is alive."""
        number = self._lock(connection, session_id)
        self._check_lease(connection, session_id, number, holder=holder, now=now)
        lease = {**msgspec.structs.asdict(holder), "since": now}
        self._run(connection, _TAKE_LEASE, number=number, now=now, **lease)

    def release_lease(
        self, connection: SqlConnection, session_id: SessionId, *, holder: LeaseHolder
    ) -> None:
        """Delete one lease of `holder`."""
        self._run(connection, _RELEASE_LEASE, owner=holder.owner, id=session_id)

    def release_all(self, connection: SqlConnection, *, holder: LeaseHolder) -> None:
        """Delete all leases of `holder`."""
        self._run(connection, _RELEASE_ALL, owner=holder.owner)

    def renew_leases(self, connection: SqlConnection, *, holder: LeaseHolder, now: float) -> None:
        """Note in all leases of `holder` that it is alive."""
        self._run(connection, _RENEW_LEASES, owner=holder.owner, now=now)

    def _run(self, connection: SqlConnection, statement: str, **values: Any) -> SqlCursor:
        return connection.execute(self._fill(statement), values)

    def _find(self, connection: SqlConnection, session_id: SessionId) -> tuple[int, StoredSession]:
        row = self._run(connection, _FIND, id=session_id).fetchone()
        if row is None:
            raise session_not_found(session_id)
        return row[0], record_from_row(row[1:])

    def _lock(self, connection: SqlConnection, session_id: SessionId) -> int:
        """Return a session's number; no other writer changes its row in this transaction."""
        row = self._run(connection, _LOCK, id=session_id).fetchone()
        if row is None:
            raise session_not_found(session_id)
        return int(row[0])

    def _grow(self, connection: SqlConnection, session_id: SessionId, growth: Growth) -> int:
        """Update and lock a session's row, and return its number."""
        values = msgspec.structs.asdict(growth)
        row = self._run(connection, _GROW, id=session_id, **values).fetchone()
        if row is None:
            self._find(connection, session_id)
            raise session_changed(session_id)
        return int(row[0])

    def _entries(
        self, connection: SqlConnection, number: int, *, after: int = 0, upto: int = LAST_ENTRY
    ) -> list[tuple[int, bytes]]:
        return self._run(connection, _ENTRIES, number=number, first=after + 1, last=upto).fetchall()

    def _check_lease(
        self,
        connection: SqlConnection,
        session_id: SessionId,
        number: int,
        *,
        holder: LeaseHolder,
        now: float,
    ) -> None:
        row = self._run(connection, _LEASE, number=number, now=now).fetchone()
        if row is None:
            return
        silence, *facts = row
        other = LeaseHolder(**dict(zip(LeaseHolder.__struct_fields__, facts, strict=True)))
        if other.owner != holder.owner and not is_dead(other, me=holder, silent=silence):
            raise SessionHeld(session_id, other)


def _hit(row: Sequence[Any], query: str) -> SearchHit:
    *columns, newest, matches, line = row
    session = record_from_row(columns)
    if not matches:
        return SearchHit(session=session)
    (entry,) = StoredEntries(session.id, [(newest, line)])
    excerpt = excerpt_around(entry_text(entry), query)
    return SearchHit(session=session, entry_id=newest, matches=matches, excerpt=excerpt)
