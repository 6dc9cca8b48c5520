"""A store in a PostgreSQL database."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence

import anyio
from anyio import to_thread

from clew.core.entries import Entry, SessionRecord
from clew.core.errors import StoreError
from clew.core.ids import EntryId, SessionId
from clew.stores.lease import Heart, this_process
from clew.stores.postgres import leases, rows
from clew.stores.postgres.pool import Pool
from clew.stores.record import Hit, StoredSession, storable, stored

logger = logging.getLogger(__name__)


class PostgresStore:
    """Keeps sessions in the database at `url`, whose tables it makes when they are not there.

    A connection that breaks costs the call that it breaks in; the next one opens another.
    """

    def __init__(
        self, url: str, *, connections: int = 4, clock: Callable[[], float] = time.time
    ) -> None:
        """Take note of the place; it is first reached when something is asked for.

        Args:
            url: As psycopg takes it, such as `postgresql://user:password@host/database`.
            connections: How many calls may be under way at once.
            clock: Dates forks and leases.

        Raises:
            ConfigError: The URL cannot be understood.
        """
        self._pool = Pool(url, size=connections)
        self._clock = clock
        self._me = this_process()
        self._leased: set[SessionId] = set()
        self._heart = Heart(self._beat)

    async def create(self, record: SessionRecord) -> None:
        """Begin a session."""
        await self._pool.run(rows.create, stored(record))

    async def append(self, session_id: SessionId, entries: Sequence[Entry]) -> None:
        """Add entries at the end."""
        if entries:
            await self._pool.run(rows.append, session_id, entries, me=self._me)
        else:
            await self._pool.run(rows.record, session_id)

    async def load(
        self, session_id: SessionId, *, after: int = 0
    ) -> tuple[StoredSession, Sequence[Entry]]:
        """Return a session with its entries in order."""
        return await self._pool.run(rows.load, session_id, after=after)

    async def snapshot(self, session_id: SessionId) -> bytes | None:
        """Return what was kept to open a session fast."""
        return await self._pool.run(rows.snapshot, session_id)

    async def save_snapshot(self, session_id: SessionId, data: bytes) -> None:
        """Keep something that helps to open a session fast."""
        await self._pool.run(rows.save_snapshot, session_id, data)

    async def record(self, session_id: SessionId) -> StoredSession:
        """Return what is known of a session."""
        return await self._pool.run(rows.record, session_id)

    async def sessions(
        self,
        *,
        cwd: str | None = None,
        parent: SessionId | None = None,
        since: float | None = None,
        limit: int | None = None,
    ) -> list[StoredSession]:
        """Return sessions, the one used last first."""
        return await self._pool.run(rows.listed, cwd=cwd, parent=parent, since=since, limit=limit)

    async def search(self, query: str, *, limit: int = 20) -> list[Hit]:
        """Find sessions by their names and words."""
        return await self._pool.run(rows.search, query, limit=limit)

    async def rename(self, session_id: SessionId, name: str) -> None:
        """Give a session a name."""
        await self._pool.run(rows.rename, session_id, storable(name))

    async def annotate(self, session_id: SessionId, fields: Mapping[str, object]) -> None:
        """Set fields of the record's `extra`."""
        await self._pool.run(rows.annotate, session_id, fields)

    async def fork(
        self, session_id: SessionId, *, upto: EntryId | None = None, name: str = ""
    ) -> StoredSession:
        """Begin a session with the entries of another one."""
        now = self._clock()
        return await self._pool.run(rows.fork, session_id, upto=upto, name=name, now=now)

    async def delete(self, session_id: SessionId) -> None:
        """Remove a session."""
        await self._pool.run(rows.delete, session_id, me=self._me)

    async def lease(self, session_id: SessionId) -> None:
        """Become the one that writes to a session."""
        await self._pool.run(leases.take, session_id, me=self._me, now=self._clock())
        self._leased.add(session_id)
        self._heart.start()

    async def release(self, session_id: SessionId) -> None:
        """Let others write to a session."""
        if session_id in self._leased:
            self._leased.discard(session_id)
            await self._pool.run(leases.give_back, me=self._me, session_id=session_id)

    async def aclose(self) -> None:
        """Give back all leases and close the connections."""
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(self._heart.stop)
            if self._leased:
                self._leased.clear()
                try:
                    await self._pool.run(leases.give_back, me=self._me)
                except StoreError as error:
                    logger.warning("the leases could not be given back: %s", error)
            await self._pool.close()

    def _beat(self) -> None:
        if not self._leased:
            return
        try:
            self._pool.run_here(leases.beat, me=self._me)
        except StoreError as error:
            logger.warning("no sign of life could be given: %s", error)
