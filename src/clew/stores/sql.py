"""SQL written once for SQLite and PostgreSQL: what the two share.

Every statement uses `:name` parameters. A `SqlDialect` fills in what the two databases spell
differently, and owns the index for word search, which they implement differently.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import anyio
from anyio import to_thread
from msgspec import Struct

from clew.context.recall.documents import Document
from clew.context.recall.search import IndexQuery, Place
from clew.core.errors import StoreDamaged
from clew.core.ids import SessionId
from clew.stores.stored_entries import session_not_found

LOCK_SESSION = "SELECT number FROM {sessions} WHERE id = :id{for_update}"
"""Keeps other writers from a session until the transaction ends; returns its number."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


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


class IndexDamaged(StoreDamaged):
    """Only the index for word search cannot be read; it can be built again."""


class Scope(Struct, frozen=True, kw_only=True):
    """The sessions in which a search looks; all of them by default."""

    number: int | None = None
    """One session."""
    cwd: str | None = None
    """The sessions that began in this folder."""


class SqlDialect(Protocol):
    """What one database spells differently, and its index for word search."""

    names: Mapping[str, str]
    """Fills the fields in braces of the shared statements: tables, columns, expressions."""

    def add_documents(
        self, connection: SqlConnection, number: int, documents: Iterable[Document]
    ) -> None:
        """Let entries of a session be found by their words."""
        ...

    def index_name(self, connection: SqlConnection, number: int, name: str) -> None:
        """Let a session be found by its name, and no longer by its old one."""
        ...

    def remove_words(self, connection: SqlConnection, number: int) -> None:
        """Remove all words of a deleted session."""
        ...

    def rebuild_index(self, connection: SqlConnection) -> None:
        """Make an empty index in place of a damaged one; it has the names of sessions only."""
        ...

    def is_index_sound(self, connection: SqlConnection) -> bool:
        """Return whether the index finds entries that it should contain."""
        ...

    def search(
        self, connection: SqlConnection, terms: Sequence[str], *, kind: str | None, limit: int
    ) -> Iterable[Sequence[Any]]:
        """Find sessions whose name or an entry has a word for each term.

        Returns:
            For each session, the last used first: its record's columns, the number of the
            newest entry that matches, how many match, and that entry's line. The last three
            mean nothing when no entry matches.
        """
        ...

    def count_entries(self, connection: SqlConnection, scope: Scope, words: Sequence[str]) -> int:
        """Count the indexed entries that contain all of `words`; see `EntryIndex`."""
        ...

    def find_entries(
        self, connection: SqlConnection, scope: Scope, query: IndexQuery, *, limit: int
    ) -> list[Place]:
        """Find the indexed entries that match best; see `EntryIndex`."""
        ...

    def read_words(self, connection: SqlConnection, places: Sequence[Place]) -> Mapping[Place, str]:
        """Return the words of indexed entries, as the index has them."""
        ...

    def make_counter(self, word: str) -> Callable[[str], int]:
        """Return a function that counts a word in a text of `read_words`."""
        ...


class SqlDatabase(ABC):
    """Opens connections when they are needed, and runs work on threads, in transactions.

    Every method raises `StoreUnavailable` when the database cannot be used, and `StoreDamaged`
    when it cannot be read, `IndexDamaged` when that is true of the index for word search only.

    Args:
        threads: How many calls may run at once; the others wait.
    """

    def __init__(self, *, threads: int) -> None:
        self._limiter = anyio.CapacityLimiter(threads)

    async def read(
        self,
        work: Callable[Concatenate[SqlConnection, _P], _T],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _T:
        """Run `work` in a transaction that sees one state of the database."""

        def run() -> _T:
            with self._read_transaction() as connection:
                return work(connection, *args, **kwargs)

        return await self._run_in_thread(run)

    async def write(
        self,
        work: Callable[Concatenate[SqlConnection, _P], _T],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _T:
        """Run `work` in a transaction: all of its changes are committed, or none."""
        return await self._run_in_thread(lambda: self.write_here(work, *args, **kwargs))

    def write_here(
        self,
        work: Callable[Concatenate[SqlConnection, _P], _T],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _T:
        """The same as `write`, on the calling thread."""
        with self._write_transaction() as connection:
            return work(connection, *args, **kwargs)

    @abstractmethod
    async def erase_deleted(self) -> None:
        """Overwrite deleted rows, where the database leaves them on disk for a while."""

    async def aclose(self) -> None:
        """Close all connections; later work opens new ones."""
        await self._run_in_thread(self._close)

    async def _run_in_thread(self, work: Callable[[], _T]) -> _T:
        return await to_thread.run_sync(work, limiter=self._limiter)

    @abstractmethod
    def _read_transaction(self) -> AbstractContextManager[SqlConnection]: ...

    @abstractmethod
    def _write_transaction(self) -> AbstractContextManager[SqlConnection]: ...

    @abstractmethod
    def _close(self) -> None: ...


class SqlStatements:
    """Runs shared statements in one dialect."""

    def __init__(self, dialect: SqlDialect) -> None:
        self._fill = cache(lambda statement: statement.format_map(dialect.names))

    def run(self, connection: SqlConnection, statement: str, **values: Any) -> SqlCursor:
        """Run a statement whose fields in braces are names of `SqlDialect.names`."""
        return connection.execute(self._fill(statement), values)

    def run_many(
        self, connection: SqlConnection, statement: str, rows: Iterable[Mapping[str, Any]]
    ) -> None:
        """Run a statement once for each row of parameters."""
        connection.executemany(self._fill(statement), rows)

    def lock_session(self, connection: SqlConnection, session_id: SessionId) -> int:
        """Return a session's number; no other writer changes its row in this transaction.

        Raises:
            SessionNotFound: The session does not exist.
        """
        row = self.run(connection, LOCK_SESSION, id=session_id).fetchone()
        if row is None:
            raise session_not_found(session_id)
        return int(row[0])
