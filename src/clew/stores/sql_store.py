"""A store in an SQL database: one implementation over the drivers for SQLite and PostgreSQL."""

import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import anyio
from anyio import to_thread

from clew.context.recall.query import Query
from clew.context.recall.search import Found
from clew.core.entries import Entry, SessionRecord
from clew.core.errors import StoreError
from clew.core.ids import EntryId, SessionId
from clew.stores.leases import Heartbeat, current_holder
from clew.stores.record import SearchHit, StoredSession, clean_for_storage, new_record
from clew.stores.sql import IndexDamaged, SqlConnection, SqlDialect
from clew.stores.sql_rows import SqlRows

logger = logging.getLogger(__name__)

_P = ParamSpec("_P")
_T = TypeVar("_T")


class SqlDatabase(Protocol):
    """Opens connections when they are needed, and runs work on threads, in transactions.

    Every method raises `StoreUnavailable` when the database cannot be used, and `StoreDamaged`
    when it cannot be read, `IndexDamaged` when that is true of the index for word search only.
    """

    async def read(
        self,
        work: Callable[Concatenate[SqlConnection, _P], _T],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _T:
        """Run `work` in a transaction that sees one state of the database."""
        ...

    async def write(
        self,
        work: Callable[Concatenate[SqlConnection, _P], _T],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _T:
        """Run `work` in a transaction: all of its changes are committed, or none."""
        ...

    def write_here(
        self,
        work: Callable[Concatenate[SqlConnection, _P], _T],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _T:
        """The same as `write`, on the calling thread."""
        ...

    async def erase_deleted(self) -> None:
        """Overwrite deleted rows, where the database leaves them on disk for a while."""
        ...

    async def aclose(self) -> None:
        """Close all connections; later work opens new ones."""
        ...


class SqlStore:
    """Keeps sessions in a database; see `Store` for what each method promises."""

    def __init__(
        self,
        database: SqlDatabase,
        dialect: SqlDialect,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._rows = SqlRows(dialect)
        self._clock = clock
        self._holder = current_holder()
        self._leased: set[SessionId] = set()
        self._heartbeat = Heartbeat(self._renew_leases)

    async def create(self, record: SessionRecord) -> None:
        """Begin a session."""
        await self._database.write(self._rows.create, new_record(record))

    async def append(self, session_id: SessionId, entries: Sequence[Entry]) -> None:
        """Add entries at the end, in one transaction."""
        if not entries:
            await self.record(session_id)
            return
        is_index_due = await self._database.write(
            self._rows.append, session_id, entries, holder=self._holder, now=self._clock()
        )
        if is_index_due:
            try:
                await self._update_index(session_id)
            except StoreError as error:
                logger.warning("the entries are stored, but not indexed yet: %s", error)

    async def load(
        self, session_id: SessionId, *, after: int = 0
    ) -> tuple[StoredSession, Sequence[Entry]]:
        """Return a session with its entries in order."""
        return await self._database.read(self._rows.load, session_id, after=after)

    async def snapshot(self, session_id: SessionId) -> bytes | None:
        """Return the snapshot that was saved last."""
        return await self._database.read(self._rows.snapshot, session_id)

    async def save_snapshot(self, session_id: SessionId, data: bytes) -> None:
        """Replace the snapshot of a session."""
        await self._database.write(self._rows.save_snapshot, session_id, data)

    async def record(self, session_id: SessionId) -> StoredSession:
        """Return the record of a session."""
        return await self._database.read(self._rows.record, session_id)

    async def sessions(
        self,
        *,
        cwd: str | None = None,
        parent: SessionId | None = None,
        since: float | None = None,
        limit: int | None = None,
    ) -> list[StoredSession]:
        """Return sessions, the last used first."""
        return await self._database.read(
            self._rows.sessions, cwd=cwd, parent=parent, since=since, limit=limit
        )

    async def search(self, query: str, *, limit: int = 20) -> list[SearchHit]:
        """Find sessions by their names and words."""
        return await self._with_index(
            None,
            lambda: self._database.read(self._rows.search, query, limit=limit),
            is_empty=lambda hits: not hits,
        )

    async def recall(
        self,
        query: Query,
        *,
        session_id: SessionId | None = None,
        cwd: str | None = None,
        limit: int = 8,
        skip: Collection[int] = (),
    ) -> Found:
        """Find entries by their words."""
        return await self._with_index(
            session_id,
            lambda: self._database.read(
                self._rows.index.recall,
                query,
                session_id=session_id,
                cwd=cwd,
                limit=limit,
                skip=skip,
            ),
            is_empty=lambda found: not found.hits,
        )

    async def rename(self, session_id: SessionId, name: str) -> None:
        """Give a session a name."""
        await self._database.write(self._rows.rename, session_id, clean_for_storage(name))

    async def annotate(self, session_id: SessionId, fields: Mapping[str, object]) -> None:
        """Set fields of the record's `extra`."""
        await self._database.write(self._rows.annotate, session_id, fields)

    async def fork(
        self, session_id: SessionId, *, upto: EntryId | None = None, name: str = ""
    ) -> StoredSession:
        """Begin a session with the entries of another one."""
        now = self._clock()
        return await self._database.write(
            self._rows.fork, session_id, upto=upto, name=name, now=now
        )

    async def delete(self, session_id: SessionId) -> None:
        """Delete a session with all traces."""
        now = self._clock()
        await self._database.write(self._rows.delete, session_id, holder=self._holder, now=now)
        await self._database.erase_deleted()

    async def lease(self, session_id: SessionId) -> None:
        """Become the only writer of a session."""
        now = self._clock()
        await self._database.write(self._rows.leases.take, session_id, holder=self._holder, now=now)
        self._leased.add(session_id)
        self._heartbeat.start()

    async def release(self, session_id: SessionId) -> None:
        """Let others write to a session."""
        if session_id in self._leased:
            self._leased.discard(session_id)
            await self._database.write(self._rows.leases.release, session_id, holder=self._holder)

    async def aclose(self) -> None:
        """Release all leases and close the database."""
        with anyio.CancelScope(shield=True):
            if await to_thread.run_sync(self._heartbeat.stop):
                self._leased.clear()
                try:
                    await self._database.write(self._rows.leases.release_all, holder=self._holder)
                except StoreError as error:
                    logger.warning("the leases could not be released: %s", error)
            await self._database.aclose()

    async def _with_index(
        self,
        session_id: SessionId | None,
        search: Callable[[], Awaitable[_T]],
        is_empty: Callable[[_T], bool],
    ) -> _T:
        """Search after the index has caught up; a damaged or empty index is made anew."""
        try:
            await self._update_index(session_id)
            found = await search()
            if not is_empty(found) or await self._database.read(self._rows.index.is_sound):
                return found
            damage = "it does not find what it contains"
        except IndexDamaged as error:
            damage = str(error)
        logger.warning("the search index is damaged and is built again: %s", damage)
        await self._database.write(self._rows.index.rebuild)
        await self._update_index(session_id)
        return await search()

    async def _update_index(self, session_id: SessionId | None) -> None:
        """Index the entries that the index misses, in short transactions."""
        while await self._database.read(self._rows.index.is_behind, session_id):
            await self._database.write(self._rows.index.index_next, session_id)

    def _renew_leases(self) -> None:
        if not self._leased:
            return
        try:
            self._database.write_here(
                self._rows.leases.renew, holder=self._holder, now=self._clock()
            )
        except StoreError as error:
            logger.warning("the leases could not be renewed: %s", error)
