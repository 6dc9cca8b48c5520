"""Sessions and entries as rows. Each function is run inside one transaction."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import psycopg
from psycopg.errors import UniqueViolation

from clew.context.recall import entry_text, excerpt_around
from clew.core.entries import Entry, encode
from clew.core.errors import SessionNotFound
from clew.core.ids import EntryId, SessionId
from clew.stores.lease import Holder
from clew.stores.postgres import leases
from clew.stores.reading import read_entries
from clew.stores.record import Growth, Hit, StoredSession, forked, from_row, merged
from clew.stores.refusals import check_order, not_found, overtaken, taken
from clew.stores.words import terms, words

_SELECT = """
SELECT id, cwd, name, created_at, updated_at, parent, forked_at, model, title, last_words,
    entries, messages, size, extra
FROM clew_sessions
"""
_LIST = """
WHERE (%(cwd)s::text IS NULL OR cwd = %(cwd)s)
    AND (%(parent)s::text IS NULL OR parent = %(parent)s)
    AND (%(since)s::float8 IS NULL OR updated_at >= %(since)s)
ORDER BY updated_at DESC, number DESC
LIMIT %(limit)s
"""
_INSERT = """
INSERT INTO clew_sessions (id, cwd, name, created_at, updated_at, parent, forked_at, extra, words)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, array_to_tsvector(%s::text[]))
RETURNING number
"""
_GROW = """
UPDATE clew_sessions SET
    last = %(last)s,
    updated_at = greatest(updated_at, %(at)s),
    entries = entries + %(entries)s,
    messages = messages + %(messages)s,
    size = size + %(size)s,
    title = CASE WHEN title = '' THEN %(title)s ELSE title END,
    last_words = CASE WHEN %(last_words)s = '' THEN last_words ELSE %(last_words)s END,
    model = CASE WHEN %(model)s = '' THEN model ELSE %(model)s END
WHERE id = %(id)s AND last < %(first)s
RETURNING number
"""
_SEARCH = """
WITH found AS (
    SELECT session AS number, max(id) AS newest, count(*) AS matches
    FROM clew_entries WHERE words @@ %(wanted)s::tsquery GROUP BY session
)
SELECT s.id, cwd, name, created_at, updated_at, parent, forked_at, model, title, last_words,
    entries, messages, size, extra, newest, matches, line
FROM clew_sessions s
LEFT JOIN found USING (number)
LEFT JOIN clew_entries e ON e.session = number AND e.id = newest
WHERE newest IS NOT NULL OR s.words @@ %(wanted)s::tsquery
ORDER BY updated_at DESC, number DESC
LIMIT %(limit)s
"""


def create(connection: psycopg.Connection, record: StoredSession) -> int:
    """Add a session without entries; returns its number."""
    row = (
        record.id,
        record.cwd,
        record.name,
        record.created_at,
        record.updated_at,
        record.parent,
        record.forked_at,
        msgspec.json.encode(record.extra),
        words(record.name),
    )
    try:
        (number,) = connection.execute(_INSERT, row).fetchone() or (0,)
    except UniqueViolation as error:
        raise taken(record.id) from error
    return int(number)


def append(
    connection: psycopg.Connection, session_id: SessionId, entries: Sequence[Entry], *, me: Holder
) -> None:
    """Add entries, and note in the session's row what they add to it."""
    check_order(session_id, entries)
    lines = [encode(entry) for entry in entries]
    number = _grow(connection, session_id, Growth.of(entries, lines))
    leases.check(connection, session_id, number, me=me)
    rows = [
        (number, entry.id, line, words(entry_text(entry)))
        for entry, line in zip(entries, lines, strict=True)
    ]
    with connection.cursor() as cursor:
        try:
            cursor.executemany(
                "INSERT INTO clew_entries VALUES (%s, %s, %b, array_to_tsvector(%s::text[]))", rows
            )
        except UniqueViolation as error:
            raise overtaken(session_id) from error


def load(
    connection: psycopg.Connection, session_id: SessionId, *, after: int
) -> tuple[StoredSession, Sequence[Entry]]:
    """Read a session and its entries, as they are at one moment."""
    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    found = record(connection, session_id)
    rows = connection.execute(
        "SELECT id, line FROM clew_entries WHERE session ="
        " (SELECT number FROM clew_sessions WHERE id = %s) AND id > %s ORDER BY id",
        (session_id, after),
        binary=True,
    ).fetchall()
    return found, read_entries(session_id, rows)


def snapshot(connection: psycopg.Connection, session_id: SessionId) -> bytes | None:
    """Read what was kept to open a session fast."""
    row = connection.execute(
        "SELECT data FROM clew_snapshots JOIN clew_sessions ON number = session WHERE id = %s",
        (session_id,),
        binary=True,
    ).fetchone()
    return None if row is None else bytes(row[0])


def save_snapshot(connection: psycopg.Connection, session_id: SessionId, data: bytes) -> None:
    """Keep something that helps to open a session fast."""
    connection.execute(
        "INSERT INTO clew_snapshots SELECT number, %b FROM clew_sessions WHERE id = %s"
        " ON CONFLICT (session) DO UPDATE SET data = excluded.data",
        (data, session_id),
    )


def record(connection: psycopg.Connection, session_id: SessionId) -> StoredSession:
    """Read a session's row."""
    row = connection.execute(_SELECT + "WHERE id = %s", (session_id,)).fetchone()
    if row is None:
        raise not_found(session_id)
    return from_row(row)


def listed(
    connection: psycopg.Connection,
    *,
    cwd: str | None,
    parent: str | None,
    since: float | None,
    limit: int | None,
) -> list[StoredSession]:
    """Read the rows of sessions, the one used last first."""
    wanted = {"cwd": cwd, "parent": parent, "since": since, "limit": limit}
    return [from_row(row) for row in connection.execute(_SELECT + _LIST, wanted)]


def search(connection: psycopg.Connection, query: str, *, limit: int) -> list[Hit]:
    """Find sessions by their names and words."""
    wanted = " & ".join(f"'{term}':*" for term in terms(query))
    if not wanted:
        return []
    found = connection.execute(_SEARCH, {"wanted": wanted, "limit": limit})
    return [_hit(row, query) for row in found]


def rename(connection: psycopg.Connection, session_id: SessionId, name: str) -> None:
    """Change a session's name, and the words it is found by."""
    changed = connection.execute(
        "UPDATE clew_sessions SET name = %s, words = array_to_tsvector(%s::text[]) WHERE id = %s",
        (name, words(name), session_id),
    )
    if not changed.rowcount:
        raise not_found(session_id)


def annotate(
    connection: psycopg.Connection, session_id: SessionId, fields: Mapping[str, object]
) -> None:
    """Change what others keep in a session's row."""
    leases.locked(connection, session_id)
    extra = msgspec.json.encode(merged(record(connection, session_id).extra, fields))
    connection.execute("UPDATE clew_sessions SET extra = %s WHERE id = %s", (extra, session_id))


def fork(
    connection: psycopg.Connection,
    session_id: SessionId,
    *,
    upto: EntryId | None,
    name: str,
    now: float,
) -> StoredSession:
    """Copy a session under a new id."""
    number = _number(connection, session_id)
    rows = connection.execute(
        "SELECT id, line FROM clew_entries WHERE session = %(number)s"
        " AND (%(upto)s::bigint IS NULL OR id <= %(upto)s) ORDER BY id",
        {"number": number, "upto": upto},
        binary=True,
    ).fetchall()
    last = rows[-1][0] if rows else None
    made = forked(record(connection, session_id), last=last, name=name, now=now)
    copy = create(connection, made)
    if rows:
        lines = [line for _, line in rows]
        _grow(connection, made.id, Growth.of(read_entries(session_id, rows), lines))
        connection.execute(
            "INSERT INTO clew_entries SELECT %s, id, line, words FROM clew_entries"
            " WHERE session = %s AND id <= %s",
            (copy, number, last),
        )
    return record(connection, made.id)


def delete(connection: psycopg.Connection, session_id: SessionId, *, me: Holder) -> None:
    """Remove a session, and with it its entries and its lease."""
    try:
        number = leases.locked(connection, session_id)
    except SessionNotFound:
        return
    leases.check(connection, session_id, number, me=me)
    connection.execute("DELETE FROM clew_sessions WHERE number = %s", (number,))


def _grow(connection: psycopg.Connection, session_id: SessionId, growth: Growth) -> int:
    """Return the session's number; its row is kept from others until the transaction ends."""
    facts = {"id": session_id, **msgspec.structs.asdict(growth)}
    row = connection.execute(_GROW, facts).fetchone()
    if row is None:
        _number(connection, session_id)
        raise overtaken(session_id)
    return int(row[0])


def _number(connection: psycopg.Connection, session_id: SessionId) -> int:
    row = connection.execute(
        "SELECT number FROM clew_sessions WHERE id = %s", (session_id,)
    ).fetchone()
    if row is None:
        raise not_found(session_id)
    return int(row[0])


def _hit(row: tuple[Any, ...], query: str) -> Hit:
    *session, newest, matches, line = row
    found = from_row(session)
    if not matches:
        return Hit(session=found)
    (entry,) = read_entries(found.id, [(newest, line)])
    excerpt = excerpt_around(entry_text(entry), query)
    return Hit(session=found, entry_id=newest, matches=matches, excerpt=excerpt)
