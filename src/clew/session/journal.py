"""The journal: entries in a store, and the view they lead to.

All that changes a session goes through `append`: first it is on disk, then it counts.
"""

import time
from collections.abc import Callable
from pathlib import Path

import anyio

from clew.context.repair import missing_results
from clew.context.view import View, advance, fold
from clew.core.entries import Body, Entry, MessageAdded, SessionRecord
from clew.core.errors import SessionNotFound
from clew.core.ids import EntryId, SessionId, new_session_id
from clew.session.stores.protocol import Store

Clock = Callable[[], float]


class Journal:
    """The append-only record of one session.

    Made by `open` or `reopen`. Has one writer; `entries` and `view` may be read at any
    time.
    """

    def __init__(
        self, store: Store, record: SessionRecord, entries: list[Entry], clock: Clock
    ) -> None:
        self._store = store
        self._clock = clock
        self.record = record
        self.entries = entries
        self.view: View = fold(entries)
        self._writing = anyio.Lock()
        self.on_entry: Callable[[Entry], None] | None = None

    @classmethod
    async def open(
        cls,
        store: Store,
        *,
        cwd: Path,
        session_id: SessionId | None = None,
        clock: Clock = time.time,
    ) -> "Journal":
        """Go on with the session of that id, or begin it if the store does not have it."""
        if session_id is not None:
            try:
                return await cls.reopen(store, session_id, clock=clock)
            except SessionNotFound:
                pass
        now = clock()
        record = SessionRecord(
            id=session_id or new_session_id(), cwd=str(cwd), created_at=now, updated_at=now
        )
        await store.create(record)
        return cls(store, record, [], clock)

    @classmethod
    async def reopen(
        cls, store: Store, session_id: SessionId, *, clock: Clock = time.time
    ) -> "Journal":
        """Go on with a session. Calls that a crash left unanswered get a failed result.

        Raises:
            SessionNotFound: There is no such session.
        """
        record, entries = await store.load(session_id)
        journal = cls(store, record, entries, clock)
        for message in missing_results(journal.view.items):
            await journal.append(MessageAdded(message=message))
        return journal

    async def append(self, body: Body) -> Entry:
        """Write `body` as the next entry; when this returns, it cannot be lost."""
        async with self._writing:
            last = self.entries[-1].id if self.entries else 0
            entry = Entry(id=EntryId(last + 1), at=self._clock(), body=body)
            await self._store.append(self.record.id, [entry])
            self.entries.append(entry)
            self.view = advance(self.view, self.entries)
        if self.on_entry is not None:
            self.on_entry(entry)
        return entry

    def entry(self, entry_id: EntryId) -> Entry | None:
        """Return the entry with that id, if there is one."""
        index = entry_id - 1
        if 0 <= index < len(self.entries) and self.entries[index].id == entry_id:
            return self.entries[index]
        return next((entry for entry in self.entries if entry.id == entry_id), None)
