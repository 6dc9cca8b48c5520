"""The tables of the newest version, and the way there from each older one."""

import sqlite3
from collections.abc import Callable, Mapping
from types import MappingProxyType

from clew.core.ids import SessionId
from clew.stores.reading import read_entries
from clew.stores.record import Growth
from clew.stores.sqlite.places import place

_VERSION_2 = (
    """
    CREATE TABLE sessions (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        cwd TEXT NOT NULL,
        name TEXT NOT NULL,
        created_at REAL NOT NULL,
        updated_at REAL NOT NULL,
        parent TEXT,
        forked_at INTEGER,
        model TEXT NOT NULL DEFAULT '',
        title TEXT NOT NULL DEFAULT '',
        last_words TEXT NOT NULL DEFAULT '',
        entries INTEGER NOT NULL DEFAULT 0,
        messages INTEGER NOT NULL DEFAULT 0,
        size INTEGER NOT NULL DEFAULT 0,
        extra BLOB NOT NULL DEFAULT X'7B7D',
        last INTEGER NOT NULL DEFAULT 0,
        indexed INTEGER NOT NULL DEFAULT 0
    ) STRICT
    """,
    "CREATE TABLE entries (place INTEGER PRIMARY KEY, line BLOB NOT NULL) STRICT",
    """
    CREATE TABLE leases (
        number INTEGER PRIMARY KEY,
        owner TEXT NOT NULL,
        pid INTEGER NOT NULL,
        started TEXT NOT NULL,
        machine TEXT NOT NULL,
        host TEXT NOT NULL,
        since REAL NOT NULL,
        beat REAL NOT NULL
    ) STRICT
    """,
    # The words come apart and folded already; this tokenizer only splits them at the spaces.
    "CREATE VIRTUAL TABLE words USING fts5(text, detail=none, columnsize=0, tokenize=ascii)",
)

_SNAPSHOTS = "CREATE TABLE snapshots (number INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT"
TABLES = (*_VERSION_2, _SNAPSHOTS)


def _from_1(database: sqlite3.Connection) -> None:
    """Give sessions numbers, and entries one key made of the session's number and their own."""
    database.execute("ALTER TABLE sessions RENAME TO old_sessions")
    database.execute("ALTER TABLE entries RENAME TO old_entries")
    for statement in _VERSION_2:
        database.execute(statement)
    database.execute(
        "INSERT INTO sessions (id, cwd, name, created_at, updated_at)"
        " SELECT id, cwd, name, created_at, updated_at FROM old_sessions ORDER BY rowid"
    )
    for number, session_id in database.execute("SELECT number, id FROM sessions").fetchall():
        _move_entries(database, number, session_id)
    database.execute("DROP TABLE old_entries")
    database.execute("DROP TABLE old_sessions")


def _move_entries(database: sqlite3.Connection, number: int, session_id: SessionId) -> None:
    rows = database.execute(
        "SELECT id, line FROM old_entries WHERE session_id = ? ORDER BY id", (session_id,)
    ).fetchall()
    if not rows:
        return
    database.executemany(
        "INSERT INTO entries VALUES (?, ?)", [(place(number, id_), line) for id_, line in rows]
    )
    growth = Growth.of(read_entries(session_id, rows), [line for _, line in rows])
    database.execute(
        "UPDATE sessions SET last = ?, entries = ?, messages = ?, size = ?, title = ?,"
        " last_words = ?, model = ? WHERE number = ?",
        (
            rows[-1][0],
            growth.entries,
            growth.messages,
            growth.size,
            growth.title,
            growth.last_words,
            growth.model,
            number,
        ),
    )


def _from_2(database: sqlite3.Connection) -> None:
    """Make room for snapshots."""
    database.execute(_SNAPSHOTS)


MIGRATIONS: Mapping[int, Callable[[sqlite3.Connection], None]] = MappingProxyType(
    {1: _from_1, 2: _from_2}
)
"""By the version that each begins from; each leads to the next."""
