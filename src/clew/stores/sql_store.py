"""A store in an SQL database: one implementation over the drivers for SQLite and PostgreSQL."""

import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeVar

import anyio

from clew.context.recall.query import RecallQuery
from clew.context.recall.search import Found
from clew.core.entries import Entry, SessionRecord
from clew.core.errors import StoreError
from clew.core.ids import EntryId, SessionId
from clew.stores.record import SearchHit, StoredSession, clean_for_storage, new_record
from clew.stores.sql import IndexDamaged, SqlDatabase, SqlDialect
from clew.stores.sql_leases import SqlLeases
from clew.stores.sql_rows import SqlRows
from clew.stores.sql_tasks import SqlTaskStore
from clew.stores.task_protocol import TaskStore

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


class SqlStore:
    """Keeps sessions in a database; see `Store` for what each method promises."""

    def __init__(
        self,
        database: SqlDatabase,
        dialect: SqlDialect,
        *,
        clock: Callable[[], float] = time.time,
        silent_after: float | None = None,
    ) -> None:
        self._database = database
        self._rows = SqlRows(dialect)
        self._clock = clock
        leases = self._rows.leases
        self._leases = SqlLeases(database, leases, clock=clock, silent_after=silent_after)
        self.tasks: TaskStore = SqlTaskStore(database, dialect, leases=self._leases, clock=clock)
        """The tasks of the sessions in this store, and of all its workers."""

    async def create(self, record: SessionRecord) -> None:
        """Begin a session."""
        await self._database.write(self._rows.create, new_record(record))

    async def append(self, session_id: SessionId, entries: Sequence[Entry]) -> None:
        """Add entries at the end, in one transaction."""
        if not entries:
            await self.record(session_id)
            return
        is_index_due = await self._database.write(
            self._rows.append, session_id, entries, writer=self._leases.writer(session_id)
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
        await self._database.write(
            self._rows.save_snapshot, session_id, data, writer=self._leases.writer(session_id)
        )

    async def record(self, session_id: SessionId) -> StoredSession:
        """Return the record of a session."""
        return await self._database.read(self._rows.record, session_id)

    async def sessions(
        self,
        *,
        cwd: str | None = None,
        parent: SessionId | None = None,
        since: float | None = None,
        kind: str | None = None,
        limit: int | None = None,
    ) -> list[StoredSession]:
        """Return sessions, the last used first."""
        return await self._database.read(
            self._rows.sessions, cwd=cwd, parent=parent, since=since, kind=kind, limit=limit
        )

    async def search(
        self, query: str, *, kind: str | None = None, limit: int = 20
    ) -> list[SearchHit]:
        """Find sessions by their names and words."""
        return await self._with_index(
            None,
            lambda: self._database.read(self._rows.search, query, kind=kind, limit=limit),
            is_empty=lambda hits: not hits,
        )

    async def recall(
        self,
        query: RecallQuery,
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
        name, writer = clean_for_storage(name), self._leases.writer(session_id)
        await self._database.write(self._rows.rename, session_id, name, writer=writer)

    async def annotate(self, session_id: SessionId, fields: Mapping[str, object]) -> None:
        """Set fields of the record's `extra`."""
        await self._database.write(
            self._rows.annotate, session_id, fields, writer=self._leases.writer(session_id)
        )

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
        await self._database.write(
            self._rows.delete, session_id, writer=self._leases.writer(session_id)
        )
        await self._database.erase_deleted()

    async def lease(self, session_id: SessionId, *, silent_after: float | None = None) -> None:
        """Become the only writer of a session."""
        await self._leases.take(session_id, silent_after=silent_after)

    async def release(self, session_id: SessionId) -> None:
        """Let others write to a session."""
        await self._leases.release(session_id)

    async def aclose(self) -> None:
        """Release all leases and close the database."""
        with anyio.CancelScope(shield=True):
            await self._leases.release_all()
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
