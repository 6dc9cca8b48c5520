"""SQL written once for SQLite and PostgreSQL: what the two share, and the rows of leases.

Every statement uses `:name` parameters. A `SqlDialect` fills in what the two databases spell
differently, and owns the index for word search, which they implement differently.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import asdict

from clew.context.recall.documents import Document
from clew.context.recall.search import IndexQuery, Place
from clew.core.errors import StoreDamaged
from clew.core.ids import SessionId
from clew.stores.leases import LeaseHolder, SessionHeld, is_dead
from clew.stores.stored_entries import session_not_found

_LOCK = "SELECT number FROM {sessions} WHERE id = :id{for_update}"
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
        self, connection: SqlConnection, terms: Sequence[str], *, limit: int
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
        row = self.run(connection, _LOCK, id=session_id).fetchone()
        if row is None:
            raise session_not_found(session_id)
        return int(row[0])


class LeaseRows:
    """Reads and writes leases. Each method runs inside one transaction of its caller."""

    def __init__(self, statements: SqlStatements) -> None:
        self._sql = statements

    def take(
        self, connection: SqlConnection, session_id: SessionId, *, holder: LeaseHolder, now: float
    ) -> None:
        """Make `holder` the writer of a session, unless another one is alive."""
        number = self._sql.lock_session(connection, session_id)
        self.check(connection, session_id, number, holder=holder, now=now)
        lease = {**asdict(holder), "since": now}
        self._sql.run(connection, _TAKE_LEASE, number=number, now=now, **lease)

    def check(
        self,
        connection: SqlConnection,
        session_id: SessionId,
        number: int,
        *,
        holder: LeaseHolder,
        now: float,
    ) -> None:
        """Check that no other live holder has the lease; the session's row must be locked.

        Raises:
            SessionHeld: Another one has it.
        """
        row = self._sql.run(connection, _LEASE, number=number, now=now).fetchone()
        if row is None:
            return
        silence, *facts = row
        other = LeaseHolder(**dict(zip(LeaseHolder.__struct_fields__, facts, strict=True)))
        if other.owner != holder.owner and not is_dead(other, me=holder, silent=silence):
            raise SessionHeld(session_id, other)

    def release(
        self, connection: SqlConnection, session_id: SessionId, *, holder: LeaseHolder
    ) -> None:
        """Delete one lease of `holder`."""
        self._sql.run(connection, _RELEASE_LEASE, owner=holder.owner, id=session_id)

    def release_all(self, connection: SqlConnection, *, holder: LeaseHolder) -> None:
        """Delete all leases of `holder`."""
        self._sql.run(connection, _RELEASE_ALL, owner=holder.owner)

    def renew(self, connection: SqlConnection, *, holder: LeaseHolder, now: float) -> None:
        """Note in all leases of `holder` that it is alive."""
        self._sql.run(connection, _RENEW_LEASES, owner=holder.owner, now=now)
