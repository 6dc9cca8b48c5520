"""A store in memory, for tests and for sessions that are not resumed."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec.structs import replace

from clew.core.entries import Entry, SessionRecord, encode
from clew.core.ids import EntryId, SessionId
from clew.stores.record import (
    AGENT_KIND,
    Growth,
    SearchHit,
    StoredSession,
    clean_for_storage,
    fork_record,
    merge_extra,
    new_record,
)
from clew.stores.stored_entries import (
    check_order,
    make_changed_error,
    session_exists,
    session_not_found,
)

if TYPE_CHECKING:
    from clew.context.recall.query import RecallQuery
    from clew.context.recall.search import Found
    from clew.stores.memory_index import MemoryIndex
    from clew.stores.task_protocol import TaskStore


class MemoryStore:
    """Keeps sessions in dictionaries, until the process ends; see `Store` for the promises."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._records: dict[SessionId, StoredSession] = {}
        self._entries: dict[SessionId, list[Entry]] = {}
        self._counted: dict[SessionId, int] = {}
        """Entries that the record of a session includes; `_record` adds the others."""
        self._snapshots: dict[SessionId, bytes] = {}
        self._index: MemoryIndex | None = None

    @cached_property
    def tasks(self) -> "TaskStore":
        """The tasks of the sessions in this store."""
        from clew.stores.memory_tasks import MemoryTaskStore  # noqa: PLC0415 - seldom needed

        return MemoryTaskStore(clock=self._clock)

    async def create(self, record: SessionRecord) -> None:
        """Begin a session."""
        if record.id in self._records:
            raise session_exists(record.id)
        self._records[record.id] = new_record(record)
        self._entries[record.id] = []
        self._counted[record.id] = 0

    async def append(self, session_id: SessionId, entries: Sequence[Entry]) -> None:
        """Add entries at the end."""
        held = self._get_entries(session_id)
        if not entries:
            return
        check_order(session_id, entries)
        if held and entries[0].id <= held[-1].id:
            raise make_changed_error(session_id)
        held.extend(entries)

    async def load(
        self, session_id: SessionId, *, after: int = 0
    ) -> tuple[StoredSession, Sequence[Entry]]:
        """Return a session with its entries in order."""
        record = self._record(session_id)
        return record, [entry for entry in self._entries[session_id] if entry.id > after]

    async def snapshot(self, session_id: SessionId) -> bytes | None:
        """Return the snapshot that was saved last."""
        return self._snapshots.get(session_id)

    async def save_snapshot(self, session_id: SessionId, data: bytes) -> None:
        """Replace the snapshot of a session."""
        if session_id in self._records:
            self._snapshots[session_id] = data

    async def record(self, session_id: SessionId) -> StoredSession:
        """Return the record of a session."""
        return self._record(session_id)

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
        found = [
            record
            for record in map(self._record, reversed(self._records))
            if (cwd is None or record.cwd == cwd)
            and (parent is None or record.parent == parent)
            and (since is None or record.updated_at >= since)
            and (kind is None or record.kind == kind)
        ]
        return sorted(found, key=lambda record: -record.updated_at)[:limit]

    async def search(
        self, query: str, *, kind: str | None = None, limit: int = 20
    ) -> list[SearchHit]:
        """Find sessions by their names and words."""
        from clew.stores.memory_index import find_session  # noqa: PLC0415 - see `_load_index`

        hits = (
            find_session(query, record, self._entries[record.id])
            for record in await self.sessions(kind=kind)
        )
        return [hit for hit in hits if hit is not None][:limit]

    async def recall(
        self,
        query: "RecallQuery",
        *,
        session_id: SessionId | None = None,
        cwd: str | None = None,
        limit: int = 8,
        skip: Collection[int] = (),
    ) -> "Found":
        """Find entries by their words."""
        if session_id is not None:
            self._get_entries(session_id)
        return self._load_index().search(
            {
                record.id: self._entries[record.id]
                for record in self._records.values()
                if session_id in (None, record.id) and cwd in (None, record.cwd)
            },
            query,
            limit=limit,
            skip=skip,
        )

    async def rename(self, session_id: SessionId, name: str) -> None:
        """Give a session a name."""
        self._records[session_id] = replace(self._record(session_id), name=clean_for_storage(name))

    async def annotate(self, session_id: SessionId, fields: Mapping[str, object]) -> None:
        """Set fields of the record's `extra`."""
        record = self._record(session_id)
        self._records[session_id] = replace(record, extra=merge_extra(record.extra, fields))

    async def fork(
        self, session_id: SessionId, *, upto: EntryId | None = None, name: str = ""
    ) -> StoredSession:
        """Begin a session with the entries of another one."""
        record, entries = await self.load(session_id)
        kept = [entry for entry in entries if upto is None or entry.id <= upto]
        last = kept[-1].id if kept else None
        fork = fork_record(record, last=last, name=name, now=self._clock())
        await self.create(fork)
        await self.append(fork.id, kept)
        return self._record(fork.id)

    async def delete(self, session_id: SessionId) -> None:
        """Delete a session with its agents and tasks."""
        for record in await self.sessions(parent=session_id, kind=AGENT_KIND):
            await self.delete(record.id)
        for row in await self.tasks.tasks(session_id=session_id):
            await self.tasks.delete_task(row.state.task_id)
        await self.tasks.delete_task(session_id)
        self._records.pop(session_id, None)
        self._entries.pop(session_id, None)
        self._counted.pop(session_id, None)
        self._snapshots.pop(session_id, None)
        if self._index is not None:
            self._index.remove(session_id)

    async def lease(self, session_id: SessionId, *, silent_after: float | None = None) -> None:  # noqa: ARG002
        """Check that the session exists: no other process can reach this store."""
        self._get_entries(session_id)

    async def release(self, session_id: SessionId) -> None:
        """Do nothing: see `lease`."""

    async def aclose(self) -> None:
        """Do nothing: there is nothing to release."""

    def _load_index(self) -> "MemoryIndex":
        if self._index is None:
            # Searching is slow to import, and most programs with such a store never search.
            from clew.stores.memory_index import MemoryIndex  # noqa: PLC0415

            self._index = MemoryIndex()
        return self._index

    def _record(self, session_id: SessionId) -> StoredSession:
        """Return the record of a session after adding the entries since it was last wanted."""
        fresh = self._get_entries(session_id)[self._counted[session_id] :]
        record = self._records[session_id]
        if fresh:
            record = Growth.of(fresh, [encode(entry) for entry in fresh]).apply_to(record)
            self._records[session_id] = record
            self._counted[session_id] += len(fresh)
        return record

    def _get_entries(self, session_id: SessionId) -> list[Entry]:
        try:
            return self._entries[session_id]
        except KeyError:
            raise session_not_found(session_id) from None
