"""A store in one SQLite file, safe against a process that dies at any moment."""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from clew.core.entries import Entry
from clew.core.errors import StoreDamaged, StoreUnavailable
from clew.core.ids import SessionId
from clew.stores.record import StoredSession
from clew.stores.sql import IndexDamaged, SqlConnection, SqlDatabase
from clew.stores.sql_store import SqlStore
from clew.stores.sqlite_dialect import SqliteDialect
from clew.stores.sqlite_file import connect, read_transaction, write_transaction
from clew.stores.stored_entries import StoredEntries

logger = logging.getLogger(__name__)

_ROWS_PER_PAGE = 400
"""More entries than a page of 4 KiB can hold: a damaged record may claim any number."""
_FULL = "; is the disk full, or does a quota limit the size of the file?"


class SqliteStore(SqlStore):
    """Keeps sessions in the file `path`, which it makes, with its folder, if it does not exist.

    All work runs on threads: the event loop never waits for the disk.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        clock: Callable[[], float] = time.time,
        silent_after: float | None = None,
    ) -> None:
        database = SqliteDatabase(Path(path).expanduser())
        super().__init__(database, SqliteDialect(), clock=clock, silent_after=silent_after)

    async def salvage(self, session_id: SessionId) -> tuple[StoredSession, Sequence[Entry]]:
        """Return the readable entries of a session in a damaged file.

        Raises:
            SessionNotFound: There is no such session.
            StoreDamaged: The record of the session itself cannot be read.
        """
        record = await self.record(session_id)
        rows = await self._database.read(_readable_rows, session_id)
        return record, StoredEntries(session_id, rows)


class SqliteDatabase(SqlDatabase):
    """One connection to a file, used by one thread at a time, in the order of the calls."""

    def __init__(self, path: Path) -> None:
        super().__init__(threads=1)
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        # A cancelled task releases the limiter while its thread may still be running.
        self._lock = threading.Lock()

    async def erase_deleted(self) -> None:
        """Move the write-ahead log into the file: pages in the log are not overwritten."""

        def run() -> None:
            with self._open() as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

        await self._run_in_thread(run)

    @contextmanager
    def _read_transaction(self) -> Iterator[sqlite3.Connection]:
        with self._open() as connection, read_transaction(connection):
            yield connection

    @contextmanager
    def _write_transaction(self) -> Iterator[sqlite3.Connection]:
        with self._open() as connection, write_transaction(connection):
            yield connection

    def _close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with self._lock, _translate_errors(self._path):
            if self._connection is None:
                self._connection = connect(self._path)
                self._inode = self._path.stat().st_ino
            elif self._has_moved():
                connection, self._connection = self._connection, None
                connection.close()
                raise StoreUnavailable(
                    f"the session store {self._path} was moved or deleted while it was in use; "
                    "what was written to it is in the moved file"
                )
            yield self._connection

    def _has_moved(self) -> bool:
        try:
            return self._path.stat().st_ino != self._inode
        except FileNotFoundError:
            return True


def _readable_rows(connection: SqlConnection, session_id: SessionId) -> list[tuple[int, bytes]]:
    """Read entry by entry, and skip those on a damaged page."""
    number, last = connection.execute(
        "SELECT number, last FROM sessions WHERE id = :id", {"id": session_id}
    ).fetchone()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    most = pages * _ROWS_PER_PAGE
    rows: list[tuple[int, bytes]] = []
    for entry_id in range(1, 1 + (min(last, most) if isinstance(last, int) else most)):
        try:
            row = connection.execute(
                "SELECT line FROM entries WHERE place = (:number << 32) + :id",
                {"number": number, "id": entry_id},
            ).fetchone()
        except sqlite3.DatabaseError:
            continue
        if row is not None:
            rows.append((entry_id, row[0]))
    return rows


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and the system into errors of a store."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_CORRUPT_VTAB:
            raise IndexDamaged(
                f"the search index of {path} is damaged ({error}). The next search builds it "
                "again; sessions can be read: clew sessions export --salvage ID"
            ) from error
        # The low byte is the primary code.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_NOTADB:
            raise StoreDamaged(
                f"the session store {path} is no longer a database; it was not changed. Restore "
                "it from a copy, or move it away, and Clew creates a new one"
            ) from error
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CONSTRAINT):
            raise _make_damage_error(path, error) from error
        hint = _FULL if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR) else ""
        raise StoreUnavailable(f"the session store {path} cannot be used: {error}{hint}") from error
    except OSError as error:
        raise StoreUnavailable(
            f"the session store {path} cannot be used: {error.strerror}"
        ) from error
    except UnicodeDecodeError as error:
        # The name of a table, or an error of SQLite that repeats it.
        raise _make_damage_error(path, error) from error


def _make_damage_error(path: Path, error: Exception) -> StoreDamaged:
    return StoreDamaged(
        f"the session store {path} is damaged ({error}); it was not changed. Restore it "
        "from a copy, or save what can still be read: clew sessions export --salvage ID"
    )
