"""The file: how it is opened, what its tables are, and how older ones are brought up to date.

It is written ahead (WAL), so that reading never waits for writing, and flushed at every
commit (`synchronous = FULL`). `NORMAL` would be faster by that flush, and would survive a
killed process as well; but a power cut would then take the last turns with it.
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clew.core.errors import StoreDamaged, StoreUnavailable
from clew.files.atomic import make_private_folder
from clew.stores.sqlite.migrations import MIGRATIONS, TABLES

FILE_VERSION = 3
_APPLICATION = 0x434C4557
"""`CLEW`, where SQLite's header has room for the name of a program."""
_BUSY_SECONDS = 10.0
_FULL = "; is the disk full, or does a limit keep the file from growing?"


def connect(path: Path) -> sqlite3.Connection:
    """Open `path`; it is made, with its folder, when it is not there.

    Raises:
        StoreUnavailable: It cannot be opened or written to, is of a newer release or of
            another program. It is left as it was.
    """
    try:
        make_private_folder(path.parent)
    except OSError as error:
        raise StoreUnavailable(
            f"the folder {path.parent} cannot be made: {error.strerror}"
        ) from error
    # Made here and not by SQLite, so that nobody else can read it, not even at first.
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    database = sqlite3.connect(
        path, timeout=_BUSY_SECONDS, check_same_thread=False, isolation_level=None
    )
    try:
        with reading(database):
            _check(database, path)
        _use_wal(database)
        database.execute("PRAGMA synchronous = FULL")
        database.execute("PRAGMA secure_delete = ON")
        _prepare(database, path)
    except BaseException:
        database.close()
        raise
    return database


def _use_wal(database: sqlite3.Connection) -> None:
    """Switch to the write-ahead log; SQLite does not wait by itself for others who do so now."""
    until = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return


@contextmanager
def writing(database: sqlite3.Connection) -> Iterator[None]:
    """Do all that is done inside, or nothing of it."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        # A failure such as a full disk may have ended the transaction already.
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


@contextmanager
def reading(database: sqlite3.Connection) -> Iterator[None]:
    """See one state of the file all the way through, whoever writes meanwhile."""
    database.execute("BEGIN")
    try:
        yield
    finally:
        if database.in_transaction:
            database.execute("COMMIT")


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn what SQLite and the system raise into the errors of a store."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = _code(error)
        if code == sqlite3.SQLITE_NOTADB:
            raise StoreDamaged(
                f"the session store {path} is no database any more; it was not changed. Restore "
                "it from a copy, or move it away, and Clew begins a new one"
            ) from error
        if code == sqlite3.SQLITE_CORRUPT:
            raise StoreDamaged(
                f"the session store {path} is damaged ({error}); it was not changed. Restore it "
                "from a copy, or save what can still be read: clew sessions export --salvage ID"
            ) from error
        hint = _FULL if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR) else ""
        raise StoreUnavailable(f"the session store {path} cannot be used: {error}{hint}") from error
    except OSError as error:
        raise StoreUnavailable(
            f"the session store {path} cannot be used: {error.strerror}"
        ) from error


def _code(error: sqlite3.Error) -> int:
    """Return the primary code of an error: the low byte of what SQLite reports."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _check(database: sqlite3.Connection, path: Path) -> int:
    """Return the version of the file; changes nothing.

    Asked inside a transaction: another process may be making the tables at this moment.
    """
    version = int(database.execute("PRAGMA user_version").fetchone()[0])
    if version > FILE_VERSION:
        raise StoreUnavailable(
            f"{path} was written by a newer Clew (format {version}, this one reads "
            f"{FILE_VERSION}); update Clew to open it"
        )
    if version == 0 and database.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        raise StoreUnavailable(f"{path} is a database of another program; it was not changed")
    return version


def _prepare(database: sqlite3.Connection, path: Path) -> None:
    with reading(database):
        if _check(database, path) == FILE_VERSION:
            return
    with writing(database):
        # Whoever came first has done the work while this process waited for its turn.
        version = _check(database, path)
        if version == FILE_VERSION:
            return
        if version == 0:
            for statement in TABLES:
                database.execute(statement)
        for step in range(version, FILE_VERSION) if version else ():
            MIGRATIONS[step](database)
        database.execute(f"PRAGMA application_id = {_APPLICATION}")
        database.execute(f"PRAGMA user_version = {FILE_VERSION}")
