"""A few connections, opened when they are needed and thrown away when they break."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Concatenate, ParamSpec, TypeVar

import anyio
import psycopg
from anyio import to_thread
from psycopg.conninfo import conninfo_to_dict

from clew.core.errors import ConfigError, StoreDamaged, StoreUnavailable
from clew.stores.postgres.schema import prepare

_P = ParamSpec("_P")
_T = TypeVar("_T")
_CONNECT_SECONDS = 10
_UNREADABLE = "XX"
"""The class of errors that mean a damaged database."""


class Pool:
    """Runs work on threads, each with a connection of its own and inside one transaction."""

    def __init__(self, url: str, *, size: int) -> None:
        self._url = url
        self._name = _name(url)
        self._idle: list[psycopg.Connection] = []
        self._lock = threading.Lock()
        self._is_prepared = False
        self._turn = anyio.CapacityLimiter(size)

    async def run(
        self,
        work: Callable[Concatenate[psycopg.Connection, _P], _T],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _T:
        """Do `work`, all of it or nothing.

        Raises:
            StoreUnavailable: The server cannot be reached, or refuses.
            StoreDamaged: The server says that its data are damaged.
        """
        return await to_thread.run_sync(
            lambda: self.run_here(work, *args, **kwargs), limiter=self._turn
        )

    def run_here(
        self,
        work: Callable[Concatenate[psycopg.Connection, _P], _T],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _T:
        """Do `work` on this thread; raises as `run` does."""
        with self._translated(), self._connection() as connection, connection.transaction():
            return work(connection, *args, **kwargs)

    async def close(self) -> None:
        """Close what is open; a later call opens anew."""
        await to_thread.run_sync(self._close_idle, limiter=self._turn)

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection]:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        connection = connection or self._connect()
        try:
            yield connection
        finally:
            if connection.broken or connection.closed:
                # What broke one has most likely broken all: the next call begins afresh.
                connection.close()
                self._close_idle()
            else:
                with self._lock:
                    self._idle.append(connection)

    def _connect(self) -> psycopg.Connection:
        # No prepared statements: poolers between here and the server may not keep them.
        connection = psycopg.connect(
            self._url,
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=_CONNECT_SECONDS,
            application_name="clew",
        )
        try:
            if not self._is_prepared:
                prepare(connection)
                self._is_prepared = True
        except BaseException:
            connection.close()
            raise
        return connection

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            reason = " ".join(str(error).split())
            if (error.sqlstate or "").startswith(_UNREADABLE):
                raise StoreDamaged(
                    f"the session store {self._name} is damaged: {reason}"
                ) from error
            raise StoreUnavailable(
                f"the session store {self._name} cannot be used: {reason}"
            ) from error


def _name(url: str) -> str:
    """Return what a URL names, without its password."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise ConfigError("the URL of the session store is not one of PostgreSQL") from error
    host = parts.get("host") or "this machine"
    return f"{parts.get('dbname') or parts.get('user') or 'default'} on {host}"
