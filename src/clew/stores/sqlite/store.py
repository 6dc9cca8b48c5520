"""A store in one SQLite file, safe against a process that dies at any moment."""

import logging
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import anyio
from anyio import to_thread

from clew.core.entries import Entry, SessionRecord
from clew.core.errors import StoreError
from clew.core.ids import EntryId, SessionId
from clew.stores.lease import Heart, this_process
from clew.stores.record import Hit, StoredSession, storable, stored
from clew.stores.sqlite import leases, rows, words
from clew.stores.sqlite.access import Access

logger = logging.getLogger(__name__)


class SqliteStore:
    """Keeps sessions in `path`, which is created with its folder when it is not there.

    Works on threads: the event loop never waits for the disk.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._file = Access(path)
        self._clock = clock
        self._me = this_process()
        self._leased: set[SessionId] = set()
        self._heart = Heart(self._beat)

    async def create(self, record: SessionRecord) -> None:
        """Begin a session."""
        await self._file.run(rows.create, stored(record))

    async def append(self, session_id: SessionId, entries: Sequence[Entry]) -> None:
        """Add entries at the end."""
        if entries:
            now = self._clock()
            await self._file.run(rows.append, session_id, entries, me=self._me, now=now)
        else:
            await self._file.run(rows.record, session_id)

    async def load(
        self, session_id: SessionId, *, after: int = 0
    ) -> tuple[StoredSession, Sequence[Entry]]:
        """Return a session with its entries in order."""
        return await self._file.run(rows.load, session_id, after=after)

    async def salvage(self, session_id: SessionId) -> tuple[StoredSession, Sequence[Entry]]:
        """Return what can be read of a session in a damaged file."""
        return await self._file.run(rows.salvage, session_id)

    async def snapshot(self, session_id: SessionId) -> bytes | None:
        """Return what was kept to open a session fast."""
        return await self._file.run(rows.snapshot, session_id)

    async def save_snapshot(self, session_id: SessionId, data: bytes) -> None:
        """Keep something that helps to open a session fast."""
        await self._file.run(rows.save_snapshot, session_id, data)

    async def record(self, session_id: SessionId) -> StoredSession:
        """Return what is known of a session."""
        return await self._file.run(rows.record, session_id)

    async def sessions(
        self,
        *,
        cwd: str | None = None,
        parent: SessionId | None = None,
        since: float | None = None,
        limit: int | None = None,
    ) -> list[StoredSession]:
        """Return sessions, the one used last first."""
        return await self._file.run(rows.listed, cwd=cwd, parent=parent, since=since, limit=limit)

    async def search(self, query: str, *, limit: int = 20) -> list[Hit]:
        """Find sessions by their names and words."""
        await self._file.run(words.catch_up)
        return await self._file.run(words.search, query, limit=limit)

    async def rename(self, session_id: SessionId, name: str) -> None:
        """Give a session a name."""
        await self._file.run(rows.rename, session_id, storable(name))

    async def annotate(self, session_id: SessionId, fields: Mapping[str, object]) -> None:
        """Set fields of the record's `extra`."""
        await self._file.run(rows.annotate, session_id, fields)

    async def fork(
        self, session_id: SessionId, *, upto: EntryId | None = None, name: str = ""
    ) -> StoredSession:
        """Begin a session with the entries of another one."""
        now = self._clock()
        return await self._file.run(rows.fork, session_id, upto=upto, name=name, now=now)

    async def delete(self, session_id: SessionId) -> None:
        """Remove a session with all traces."""
        await self._file.run(rows.delete, session_id, me=self._me, now=self._clock())

    async def lease(self, session_id: SessionId) -> None:
        """Become the one that writes to a session."""
        await self._file.run(leases.take, session_id, me=self._me, now=self._clock())
        self._leased.add(session_id)
        self._heart.start()

    async def release(self, session_id: SessionId) -> None:
        """Let others write to a session."""
        if session_id in self._leased:
            self._leased.discard(session_id)
            await self._file.run(leases.give_back, me=self._me, session_id=session_id)

    async def aclose(self) -> None:
        """Give back all leases and close the file."""
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(self._heart.stop)
            self._leased.clear()
            await self._file.close(self._give_back)

    def _give_back(self, database: sqlite3.Connection) -> None:
        leases.give_back(database, me=self._me)

    def _beat(self) -> None:
        if not self._leased:
            return
        try:
            self._file.run_here(leases.beat, me=self._me, now=self._clock())
        except StoreError as error:
            logger.warning("no sign of life could be given: %s", error)
