"""A store in a PostgreSQL database, for sessions that many machines share."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import psycopg
from psycopg import IsolationLevel
from psycopg.conninfo import conninfo_to_dict

from clew.core.errors import ConfigError, StoreDamaged, StoreUnavailable
from clew.stores.postgres_dialect import PostgresConnection, PostgresDialect, create_tables
from clew.stores.postgres_replicas import PostgresReplicas
from clew.stores.replica_protocol import ReplicaStore
from clew.stores.sql import SqlConnection, SqlDatabase
from clew.stores.sql_store import SqlStore

_CONNECT_SECONDS = 10
_END_ABANDONED = "SET idle_in_transaction_session_timeout = '10s'"
"""A process that is stopped in a transaction must not hold its locks: others wait for them."""
_DAMAGED = "XX"
"""The class of error codes that mean a damaged database."""


class PostgresStore(SqlStore):
    """Keeps sessions in the database at `url`, whose tables it makes if they do not exist.

    A connection that breaks fails the call that uses it; the next call opens another one.
    """

    def __init__(
        self,
        url: str,
        *,
        connections: int = 4,
        clock: Callable[[], float] = time.time,
        silent_after: float | None = None,
    ) -> None:
        """Check the URL; the first call connects.

        Args:
            url: As psycopg takes it, such as `postgresql://user:password@host/database`.
            connections: How many calls may run at once.
            clock: Dates forks and leases.
            silent_after: What it promises for its leases, unless `lease` says otherwise.

        Raises:
            ConfigError: The URL is malformed.
        """
        database = PostgresDatabase(url, size=connections)
        super().__init__(database, PostgresDialect(), clock=clock, silent_after=silent_after)
        self.replicas: ReplicaStore = PostgresReplicas(database, self._rows.leases, self._leases)


class PostgresDatabase(SqlDatabase):
    """A pool of connections, opened when needed and dropped when broken."""

    def __init__(self, url: str, *, size: int) -> None:
        super().__init__(threads=size)
        self._url = url
        self._name = _name(url)
        self._idle: list[psycopg.Connection] = []
        self._lock = threading.Lock()
        self._has_tables = False

    async def erase_deleted(self) -> None:
        """Do nothing: the server reuses the space of deleted rows."""

    def _read_transaction(self) -> AbstractContextManager[SqlConnection]:
        return self._transaction(IsolationLevel.REPEATABLE_READ)

    def _write_transaction(self) -> AbstractContextManager[SqlConnection]:
        return self._transaction(None)

    @contextmanager
    def _transaction(self, isolation: IsolationLevel | None) -> Iterator[PostgresConnection]:
        with self._translate_errors(), self._connection() as connection:
            connection.isolation_level = isolation
            with connection.transaction():
                yield PostgresConnection(connection)

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection]:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        connection = connection or self._connect()
        try:
            yield connection
        finally:
            if connection.broken or connection.closed:
                # What broke one connection has most likely broken all: the next call reconnects.
                connection.close()
                self._close()
            else:
                with self._lock:
                    self._idle.append(connection)

    def _connect(self) -> psycopg.Connection:
        # No prepared statements: a pooler between here and the server may not keep them.
        connection = psycopg.connect(
            self._url,
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=_CONNECT_SECONDS,
            application_name="clew",
        )
        try:
            connection.execute(_END_ABANDONED)
            if not self._has_tables:
                create_tables(connection)
                self._has_tables = True
        except BaseException:
            connection.close()
            raise
        return connection

    def _close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn errors of psycopg into errors of a store."""
        try:
            yield
        except psycopg.Error as error:
            reason = " ".join(str(error).split())
            if (error.sqlstate or "").startswith(_DAMAGED):
                raise StoreDamaged(
                    f"the session store {self._name} is damaged: {reason}"
                ) from error
            raise StoreUnavailable(
                f"the session store {self._name} cannot be used: {reason}"
            ) from error


def _name(url: str) -> str:
    """Return the database that a URL names, without the password."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise ConfigError("the URL of the session store is not a PostgreSQL URL") from error
    host = parts.get("host") or "this machine"
    return f"{parts.get('dbname') or parts.get('user') or 'default'} on {host}"
