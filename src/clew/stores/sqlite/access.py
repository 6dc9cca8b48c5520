"""One connection to the file, used by one thread at a time."""

import logging
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import anyio
from anyio import to_thread

from clew.core.errors import StoreUnavailable
from clew.stores.sqlite.file import connect, translated

logger = logging.getLogger(__name__)

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Access:
    """Opens the file when it is first needed, and again after `close`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database: sqlite3.Connection | None = None
        self._inode = 0
        self._turn = anyio.CapacityLimiter(1)
        # A cancelled task gives its turn back while its thread may still be at work.
        self._lock = threading.Lock()

    async def run(
        self,
        work: Callable[Concatenate[sqlite3.Connection, _P], _T],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _T:
        """Do `work` on a thread, when all that was asked for before is done.

        Raises:
            StoreUnavailable: The file cannot be opened, read or written.
            StoreDamaged: The file is not readable as a database.
        """
        return await to_thread.run_sync(
            lambda: self.run_here(work, *args, **kwargs), limiter=self._turn
        )

    def run_here(
        self,
        work: Callable[Concatenate[sqlite3.Connection, _P], _T],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _T:
        """Do `work` on this thread; raises as `run` does."""
        with self._lock, translated(self._path):
            return work(self._opened(), *args, **kwargs)

    async def close(self, last: Callable[[sqlite3.Connection], None]) -> None:
        """Do one `last` thing, which may fail, and close the file if it is open."""

        def work() -> None:
            with self._lock:
                database, self._database = self._database, None
                if database is None:
                    return
                try:
                    last(database)
                except sqlite3.Error as error:
                    logger.warning("%s could not be left tidy: %s", self._path, error)
                database.close()

        await to_thread.run_sync(work, limiter=self._turn)

    def _opened(self) -> sqlite3.Connection:
        if self._database is None:
            self._database = connect(self._path)
            self._inode = self._path.stat().st_ino
        elif self._has_moved():
            database, self._database = self._database, None
            database.close()
            raise StoreUnavailable(
                f"the session store {self._path} was moved or deleted while it was in use; what "
                "was written to it is where it went"
            )
        return self._database

    def _has_moved(self) -> bool:
        try:
            return self._path.stat().st_ino != self._inode
        except FileNotFoundError:
            return True
