"""Sessions and entries as rows. Each function does one thing, inside one transaction."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from clew.core.entries import Entry, encode
from clew.core.errors import SessionNotFound
from clew.core.ids import EntryId, SessionId
from clew.stores.lease import Holder
from clew.stores.reading import read_entries
from clew.stores.record import Growth, StoredSession, forked, from_row, merged
from clew.stores.refusals import check_order, not_found, overtaken, taken
from clew.stores.sqlite import leases, words
from clew.stores.sqlite.file import reading, writing
from clew.stores.sqlite.places import place, span

_SELECT = """
SELECT id, cwd, name, created_at, updated_at, parent, forked_at, model, title, last_words,
    entries, messages, size, extra
FROM sessions
"""
_LIST = """
WHERE (:cwd IS NULL OR cwd = :cwd)
    AND (:parent IS NULL OR parent = :parent)
    AND (:since IS NULL OR updated_at >= :since)
ORDER BY updated_at DESC, number DESC
LIMIT ifnull(:limit, -1)
"""
_INSERT = """
INSERT INTO sessions (id, cwd, name, created_at, updated_at, parent, forked_at, extra)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
RETURNING number
"""
_GROW = """
UPDATE sessions SET
    last = :last,
    updated_at = max(updated_at, :at),
    entries = entries + :entries,
    messages = messages + :messages,
    size = size + :size,
    title = iif(title = '', :title, title),
    last_words = iif(:last_words = '', last_words, :last_words),
    model = iif(:model = '', model, :model)
WHERE id = :id AND last < :first
RETURNING number, indexed
"""
_ENTRIES = """
SELECT place & 0xFFFFFFFF, line FROM entries WHERE place BETWEEN ? AND ? ORDER BY place
"""


def create(database: sqlite3.Connection, record: StoredSession) -> None:
    """Add a session without entries."""
    with writing(database):
        _insert(database, record)


def append(
    database: sqlite3.Connection,
    session_id: SessionId,
    entries: Sequence[Entry],
    *,
    me: Holder,
    now: float,
) -> None:
    """Add entries, and note in the session's row what they add to it."""
    check_order(session_id, entries)
    lines = [encode(entry) for entry in entries]
    with writing(database):
        number, indexed = _grow(database, session_id, Growth.of(entries, lines))
        leases.check(database, session_id, number, me=me, now=now)
        rows = [(entry.id, line) for entry, line in zip(entries, lines, strict=True)]
        _add(database, session_id, number, rows)
        words.keep_up(database, number, indexed=indexed, last=entries[-1].id)


def load(
    database: sqlite3.Connection, session_id: SessionId, *, after: int
) -> tuple[StoredSession, Sequence[Entry]]:
    """Read a session and its entries, as they are at one moment."""
    with reading(database):
        found = record(database, session_id)
        number = _number(database, session_id)
        rows = database.execute(_ENTRIES, span(number, after)).fetchall()
    return found, read_entries(session_id, rows)


def salvage(
    database: sqlite3.Connection, session_id: SessionId
) -> tuple[StoredSession, Sequence[Entry]]:
    """Read a session entry by entry, and pass over those that are on a damaged page."""
    found = record(database, session_id)
    number, last = database.execute(
        "SELECT number, last FROM sessions WHERE id = ?", (session_id,)
    ).fetchone()
    rows: list[tuple[int, bytes]] = []
    for entry_id in range(1, last + 1):
        try:
            row = database.execute(
                "SELECT line FROM entries WHERE place = ?", (place(number, entry_id),)
            ).fetchone()
        except sqlite3.DatabaseError:
            continue
        if row is not None:
            rows.append((entry_id, row[0]))
    return found, read_entries(session_id, rows)


def snapshot(database: sqlite3.Connection, session_id: SessionId) -> bytes | None:
    """Read what was kept to open a session fast."""
    row = database.execute(
        "SELECT data FROM snapshots JOIN sessions USING (number) WHERE id = ?", (session_id,)
    ).fetchone()
    return None if row is None else bytes(row[0])


def save_snapshot(database: sqlite3.Connection, session_id: SessionId, data: bytes) -> None:
    """Keep something that helps to open a session fast."""
    with writing(database):
        database.execute(
            "REPLACE INTO snapshots SELECT number, ? FROM sessions WHERE id = ?", (data, session_id)
        )


def record(database: sqlite3.Connection, session_id: SessionId) -> StoredSession:
    """Read a session's row."""
    row = database.execute(_SELECT + "WHERE id = ?", (session_id,)).fetchone()
    if row is None:
        raise not_found(session_id)
    return from_row(row)


def listed(
    database: sqlite3.Connection,
    *,
    cwd: str | None,
    parent: str | None,
    since: float | None,
    limit: int | None,
) -> list[StoredSession]:
    """Read the rows of sessions, the one used last first."""
    wanted = {"cwd": cwd, "parent": parent, "since": since, "limit": limit}
    return [from_row(row) for row in database.execute(_SELECT + _LIST, wanted)]


def rename(database: sqlite3.Connection, session_id: SessionId, name: str) -> None:
    """Change a session's name, and the words it is found by."""
    with writing(database):
        number = _number(database, session_id)
        database.execute("UPDATE sessions SET name = ? WHERE number = ?", (name, number))
        words.note_name(database, number, name)


def annotate(
    database: sqlite3.Connection, session_id: SessionId, fields: Mapping[str, object]
) -> None:
    """Change what others keep in a session's row."""
    with writing(database):
        extra = merged(record(database, session_id).extra, fields)
        database.execute(
            "UPDATE sessions SET extra = ? WHERE id = ?", (msgspec.json.encode(extra), session_id)
        )


def fork(
    database: sqlite3.Connection,
    session_id: SessionId,
    *,
    upto: EntryId | None,
    name: str,
    now: float,
) -> StoredSession:
    """Copy a session under a new id."""
    with writing(database):
        parent = record(database, session_id)
        first, last = span(_number(database, session_id))
        if upto is not None:
            last = min(last, first - 1 + upto)
        rows = database.execute(_ENTRIES, (first, last)).fetchall()
        made = forked(parent, last=rows[-1][0] if rows else None, name=name, now=now)
        number = _insert(database, made)
        if rows:
            lines = [line for _, line in rows]
            _grow(database, made.id, Growth.of(read_entries(session_id, rows), lines))
            _add(database, made.id, number, rows)
        return record(database, made.id)


def delete(database: sqlite3.Connection, session_id: SessionId, *, me: Holder, now: float) -> None:
    """Remove a session, its entries, its words and its lease, and overwrite where they stood."""
    with writing(database):
        try:
            number = _number(database, session_id)
        except SessionNotFound:
            return
        leases.check(database, session_id, number, me=me, now=now)
        database.execute("DELETE FROM entries WHERE place BETWEEN ? AND ?", span(number))
        database.execute("DELETE FROM snapshots WHERE number = ?", (number,))
        database.execute("DELETE FROM leases WHERE number = ?", (number,))
        database.execute("DELETE FROM sessions WHERE number = ?", (number,))
        words.forget(database, number)
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _insert(database: sqlite3.Connection, record: StoredSession) -> int:
    row = (
        record.id,
        record.cwd,
        record.name,
        record.created_at,
        record.updated_at,
        record.parent,
        record.forked_at,
        msgspec.json.encode(record.extra),
    )
    try:
        (number,) = database.execute(_INSERT, row).fetchone()
    except sqlite3.IntegrityError as error:
        raise taken(record.id) from error
    if record.name:
        words.note_name(database, number, record.name)
    return int(number)


def _grow(database: sqlite3.Connection, session_id: SessionId, growth: Growth) -> tuple[int, int]:
    """Return the session's number, and up to which entry its words are known."""
    facts = {"id": session_id, **msgspec.structs.asdict(growth)}
    row: tuple[int, int] | None = database.execute(_GROW, facts).fetchone()
    if row is None:
        _number(database, session_id)
        raise overtaken(session_id)
    return row


def _add(
    database: sqlite3.Connection,
    session_id: SessionId,
    number: int,
    rows: Iterable[tuple[int, bytes]],
) -> None:
    try:
        database.executemany(
            "INSERT INTO entries VALUES (?, ?)",
            [(place(number, entry_id), line) for entry_id, line in rows],
        )
    except sqlite3.IntegrityError as error:
        raise overtaken(session_id) from error


def _number(database: sqlite3.Connection, session_id: SessionId) -> int:
    row = database.execute("SELECT number FROM sessions WHERE id = ?", (session_id,)).fetchone()
    if row is None:
        raise not_found(session_id)
    return int(row[0])
