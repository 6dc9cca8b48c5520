"""Open an SQLite file: permissions, durability, tables, and migration from older formats.

The file uses a write-ahead log (WAL), so readers never wait for a writer, and is flushed at
every commit (`synchronous = FULL`). `NORMAL` would save that flush and survive a killed process
as well, but a power cut would lose the last turns.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from msgspec.structs import asdict

from clew.context.recall.words import split_words
from clew.core.errors import StoreUnavailable
from clew.core.ids import SessionId
from clew.files.atomic import make_private_folder
from clew.stores.record import Growth
from clew.stores.sql import SqlConnection
from clew.stores.stored_entries import StoredEntries
from clew.stores.task_tables import SQLITE_TYPES, blob_dates, task_tables

FILE_VERSION = 6
_APPLICATION = 0x434C4557
"""`CLEW`, in the field of SQLite's header for the name of a program."""
_BUSY_SECONDS = 10.0
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
    # The words come split and folded; this tokenizer only splits them at the spaces.
    "CREATE VIRTUAL TABLE words USING fts5(text, detail=none, columnsize=0, tokenize=ascii)",
)
_SNAPSHOTS = "CREATE TABLE snapshots (number INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT"
DOCUMENTS = """
CREATE VIRTUAL TABLE documents USING fts5(text, at UNINDEXED, tokenize=ascii)
"""
"""The words of entries, split and folded: this tokenizer only splits them at the spaces."""
_VERSION_5 = (
    "ALTER TABLE sessions ADD COLUMN kind TEXT NOT NULL DEFAULT ''",
    "CREATE INDEX sessions_parent ON sessions (parent) WHERE parent IS NOT NULL",
    "ALTER TABLE leases ADD COLUMN epoch INTEGER NOT NULL DEFAULT 1",
    "ALTER TABLE leases ADD COLUMN silent_after REAL",
    *task_tables(SQLITE_TYPES),
)
_VERSION_6 = tuple(blob_dates(SQLITE_TYPES))
_TABLES = (*_VERSION_2[:-1], _SNAPSHOTS, DOCUMENTS, *_VERSION_5, *_VERSION_6)


def connect(path: Path) -> sqlite3.Connection:
    """Open the file at `path`; make it, with its folder, if it does not exist.

    Raises:
        StoreUnavailable: The file cannot be opened or written, belongs to a newer release or to
            another program. It is unchanged.
    """
    try:
        make_private_folder(path.parent)
    except OSError as error:
        raise StoreUnavailable(
            f"the folder {path.parent} cannot be made: {error.strerror}"
        ) from error
    # Made here and not by SQLite, so that no other user can read it, not even at first.
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = sqlite3.connect(
        path, timeout=_BUSY_SECONDS, check_same_thread=False, isolation_level=None
    )
    # Text of a damaged page may not be UTF-8; the rest of its row is still readable.
    connection.text_factory = _decode_text
    try:
        with read_transaction(connection):
            _check_version(connection, path)
        _use_wal(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")
        _migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _decode_text(data: bytes) -> str:
    return data.decode(errors="replace")


@contextmanager
def write_transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit all changes of the block, or none."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A failure such as a full disk may have ended the transaction already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def read_transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """See one state of the file in the whole block, even while others write."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        # A commit would fail after a damaged page was read.
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log; SQLite itself does not wait for another process here."""
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _check_version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the format of the file without changing it.

    Call it inside a transaction: another process may be making the tables now.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > FILE_VERSION:
        raise StoreUnavailable(
            f"{path} was written by a newer Clew (format {version}, this one reads "
            f"{FILE_VERSION}); update Clew to open it"
        )
    if version == 0 and connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        raise StoreUnavailable(f"{path} is a database of another program; it was not changed")
    return version


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    with read_transaction(connection):
        if _check_version(connection, path) == FILE_VERSION:
            return
    with write_transaction(connection):
        # Another process may have done the work while this one waited.
        version = _check_version(connection, path)
        if version == FILE_VERSION:
            return
        if version == 0:
            for statement in _TABLES:
                connection.execute(statement)
        for step in range(version, FILE_VERSION) if version else ():
            _MIGRATIONS[step](connection)
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {FILE_VERSION}")


def _from_1(connection: sqlite3.Connection) -> None:
    """Give sessions numbers, and entries one key made of the session's number and their own."""
    connection.execute("ALTER TABLE sessions RENAME TO old_sessions")
    connection.execute("ALTER TABLE entries RENAME TO old_entries")
    for statement in _VERSION_2:
        connection.execute(statement)
    connection.execute(
        "INSERT INTO sessions (id, cwd, name, created_at, updated_at)"
        " SELECT id, cwd, name, created_at, updated_at FROM old_sessions ORDER BY rowid"
    )
    for number, session_id in connection.execute("SELECT number, id FROM sessions").fetchall():
        _move_entries(connection, number, session_id)
    connection.execute("DROP TABLE old_entries")
    connection.execute("DROP TABLE old_sessions")


def _move_entries(connection: sqlite3.Connection, number: int, session_id: SessionId) -> None:
    rows = connection.execute(
        "SELECT id, line FROM old_entries WHERE session_id = ? ORDER BY id", (session_id,)
    ).fetchall()
    if not rows:
        return
    connection.executemany(
        "INSERT INTO entries VALUES ((? << 32) + ?, ?)", [(number, *row) for row in rows]
    )
    growth = Growth.of(StoredEntries(session_id, rows), [line for _, line in rows])
    connection.execute(
        "UPDATE sessions SET last = :last, entries = :entries, messages = :messages, size = :size,"
        " title = :title, last_words = :last_words, model = :model WHERE number = :number",
        {**asdict(growth), "last": rows[-1][0], "number": number},
    )


def _from_2(connection: sqlite3.Connection) -> None:
    """Add the table for snapshots."""
    connection.execute(_SNAPSHOTS)


def _from_3(connection: sqlite3.Connection) -> None:
    """Replace the index by one that can rank; the first search fills it."""
    connection.execute("DROP TABLE words")
    connection.execute(DOCUMENTS)
    index_names(connection)


def _from_4(connection: sqlite3.Connection) -> None:
    """Add kinds of sessions, epochs of leases, and the tables for tasks."""
    for statement in _VERSION_5:
        connection.execute(statement)


def _from_5(connection: sqlite3.Connection) -> None:
    """Add the times of blobs."""
    for statement in _VERSION_6:
        connection.execute(statement)


def index_names(connection: SqlConnection) -> None:
    """Index the names of all sessions, and have their entries indexed by the next search."""
    connection.execute("UPDATE sessions SET indexed = 0")
    named = "SELECT number, name FROM sessions WHERE name <> ''"
    connection.executemany(
        "INSERT INTO documents (rowid, text) VALUES (:number << 32, :words)",
        [
            {"number": number, "words": words}
            for number, name in connection.execute(named).fetchall()
            if (words := " ".join(split_words(name)))
        ],
    )


_MIGRATIONS: Mapping[int, Callable[[sqlite3.Connection], None]] = MappingProxyType(
    {1: _from_1, 2: _from_2, 3: _from_3, 4: _from_4, 5: _from_5}
)
"""By the format that each starts from; each leads to the next."""
