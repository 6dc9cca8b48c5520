"""A store in one SQLite file, safe against a process that dies at any moment."""

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import anyio
from anyio import to_thread

from clew.core.entries import Entry, SessionRecord, decode, encode
from clew.core.errors import SessionBusy, SessionNotFound, StoreDamaged, StoreUnavailable
from clew.core.ids import SessionId

_T = TypeVar("_T")

FILE_VERSION = 1
_TABLES = """
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    cwd TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL
) STRICT;
CREATE TABLE entries (
    session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
    id INTEGER NOT NULL,
    line BLOB NOT NULL,
    PRIMARY KEY (session_id, id)
) STRICT, WITHOUT ROWID;
"""
_BUSY_SECONDS = 10.0


class SqliteStore:
    """Keeps sessions in `path`, which is created with its folder when it is not there.

    Uses write-ahead logging with a flush at every commit, on a worker thread: the event
    loop never waits for the disk.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database: sqlite3.Connection | None = None
        self._turn = anyio.CapacityLimiter(1)
        # A cancelled task gives its turn back while its thread may still be at work.
        self._lock = threading.Lock()

    async def create(self, record: SessionRecord) -> None:
        """Begin a session."""
        row = (record.id, record.cwd, record.name, record.created_at, record.updated_at)

        def work(database: sqlite3.Connection) -> None:
            try:
                with database:
                    database.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", row)
            except sqlite3.IntegrityError as error:
                raise SessionBusy(f"session {record.id} exists already") from error

        await self._run(work)

    async def append(self, session_id: SessionId, entries: Sequence[Entry]) -> None:
        """Add entries at the end."""
        if not entries:
            return
        rows = [(session_id, entry.id, encode(entry)) for entry in entries]

        def work(database: sqlite3.Connection) -> None:
            with database:
                touched = database.execute(
                    "UPDATE sessions SET updated_at = ? WHERE id = ?", (entries[-1].at, session_id)
                )
                if not touched.rowcount:
                    raise SessionNotFound(f"there is no session {session_id}")
                try:
                    database.executemany("INSERT INTO entries VALUES (?, ?, ?)", rows)
                except sqlite3.IntegrityError as error:
                    raise SessionBusy(
                        f"session {session_id} was written to by another process; open it again"
                    ) from error

        await self._run(work)

    async def load(self, session_id: SessionId) -> tuple[SessionRecord, list[Entry]]:
        """Return a session with its entries in order."""

        def work(database: sqlite3.Connection) -> tuple[SessionRecord, list[Entry]]:
            row = database.execute("SELECT * FROM sessions WHERE id = ?", (session_id,)).fetchone()
            if row is None:
                raise SessionNotFound(f"there is no session {session_id} in {self._path}")
            lines = database.execute(
                "SELECT line FROM entries WHERE session_id = ? ORDER BY id", (session_id,)
            )
            return _record(row), [decode(line) for (line,) in lines]

        return await self._run(work)

    async def sessions(self) -> list[SessionRecord]:
        """Return all sessions, the one used last first."""

        def work(database: sqlite3.Connection) -> list[SessionRecord]:
            rows = database.execute("SELECT * FROM sessions ORDER BY updated_at DESC, rowid DESC")
            return [_record(row) for row in rows]

        return await self._run(work)

    async def rename(self, session_id: SessionId, name: str) -> None:
        """Give a session a name."""

        def work(database: sqlite3.Connection) -> None:
            with database:
                changed = database.execute(
                    "UPDATE sessions SET name = ? WHERE id = ?", (name, session_id)
                )
            if not changed.rowcount:
                raise SessionNotFound(f"there is no session {session_id} in {self._path}")

        await self._run(work)

    async def delete(self, session_id: SessionId) -> None:
        """Remove a session and its entries."""

        def work(database: sqlite3.Connection) -> None:
            with database:
                database.execute("DELETE FROM sessions WHERE id = ?", (session_id,))

        await self._run(work)

    async def aclose(self) -> None:
        """Close the file."""
        if self._database is not None:
            database, self._database = self._database, None

            def close() -> None:
                with self._lock:
                    database.close()

            await to_thread.run_sync(close, limiter=self._turn)

    async def _run(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        def call() -> _T:
            with self._lock, _translated(self._path):
                if self._database is None:
                    self._database = _open(self._path)
                return work(self._database)

        return await to_thread.run_sync(call, limiter=self._turn)


def _open(path: Path) -> sqlite3.Connection:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StoreUnavailable(
            f"the folder {path.parent} cannot be made: {error.strerror}"
        ) from error
    database = sqlite3.connect(path, timeout=_BUSY_SECONDS, check_same_thread=False)
    try:
        path.chmod(0o600)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("PRAGMA foreign_keys = ON")
        _prepare(database, path)
    except BaseException:
        database.close()
        raise
    return database


def _prepare(database: sqlite3.Connection, path: Path) -> None:
    with database:
        database.execute("BEGIN IMMEDIATE")
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if version > FILE_VERSION:
            raise StoreUnavailable(
                f"{path} was written by a newer Clew (format {version}, this one reads "
                f"{FILE_VERSION}); update Clew to open it"
            )
        if version == 0:
            for statement in filter(str.strip, _TABLES.split(";")):
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {FILE_VERSION}")


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise StoreUnavailable(f"the session store {path} cannot be used: {error}") from error
    except sqlite3.DatabaseError as error:
        raise StoreDamaged(f"the session store {path} is damaged: {error}") from error
    except OSError as error:
        raise StoreUnavailable(
            f"the session store {path} cannot be used: {error.strerror}"
        ) from error


def _record(row: tuple[str, str, str, float, float]) -> SessionRecord:
    session_id, cwd, name, created_at, updated_at = row
    return SessionRecord(
        id=SessionId(session_id), cwd=cwd, name=name, created_at=created_at, updated_at=updated_at
    )
