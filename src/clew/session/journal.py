"""The journal: the entries of a session in a store, and the view computed from them.

Every change of a session goes through `append`: first it is on disk, then it counts.
"""

import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio

from clew.context.estimate import Meter, text_units
from clew.context.items import Items
from clew.context.lazy_list import LazyList
from clew.context.render import answer_missing_calls
from clew.context.view import View, advance, fold
from clew.core.entries import (
    NO_SPENDING,
    Body,
    Entry,
    MessageAdded,
    ModeChanged,
    SessionRecord,
    SetupChanged,
    spending_of,
)
from clew.core.errors import SessionError, SessionNotFound
from clew.core.ids import EntryId, SessionId, new_session_id
from clew.core.messages import Role
from clew.core.text import make_encodable
from clew.core.usage import Spending
from clew.session.journal_state import (
    JournalState,
    call_ids_of,
    find_damaged,
    is_snapshot_due,
    load_state,
)
from clew.session.write_lock import WriteLock
from clew.stores.protocol import Store
from clew.stores.record import StoredSession

Clock = Callable[[], float]
_WORTH_KEEPING = 64
"""New entries after which closing a journal writes a snapshot."""


class Journal:
    """The append-only record of one session.

    Use `open` or `reopen`. It has one writer; `entries` and `view` may be read at any time.
    A session without messages leaves no trace in the store.
    """

    def __init__(
        self,
        store: Store,
        record: SessionRecord,
        entries: LazyList[Entry],
        start: JournalState,
        *,
        clock: Clock,
    ) -> None:
        self._store = store
        self._clock = clock
        self.record = record
        self.entries = entries
        self.view: View = start.view
        self.spending: Spending = start.spending
        """The cost of the session so far."""
        self.call_ids = start.call_ids
        """The ids of all tool calls, so that none is used twice."""
        self._kept = start.kept
        self.unproven = start.kept > 0
        """True until the parts of the view that come from a snapshot were read."""
        self._saved = self._announced = len(entries)
        self._is_stored = isinstance(record, StoredSession)
        self._in_doubt = False
        self.lock = WriteLock()
        self.on_entry: Callable[[Entry], None] | None = None
        self.is_open = True
        """False for the journal of a session that was not opened, or that was sealed."""

    @classmethod
    async def open(
        cls,
        store: Store,
        *,
        cwd: Path,
        session_id: SessionId | None = None,
        new_id: SessionId | None = None,
        clock: Clock = time.time,
        meter: Meter = text_units,
    ) -> "Journal":
        """Reopen a session, or create it with that id, or with `new_id`, if it is not stored."""
        if session_id is not None:
            try:
                return await cls.reopen(store, session_id, clock=clock, meter=meter)
            except SessionNotFound:
                pass
        record = new_record(session_id or new_id or new_session_id(), cwd, now=clock())
        return cls(store, record, LazyList.of(()), load_state((), meter), clock=clock)

    @classmethod
    async def reopen(
        cls,
        store: Store,
        session_id: SessionId,
        *,
        clock: Clock = time.time,
        meter: Meter = text_units,
    ) -> "Journal":
        """Reopen a session; after a crash, `answer_open_calls` completes its last answer.

        Raises:
            SessionNotFound: There is no such session.
            SessionBusy: Another process writes to it.
        """
        await store.lease(session_id)
        try:
            record, loaded = await store.load(session_id)
            entries = loaded if isinstance(loaded, LazyList) else LazyList.of(loaded)
            start = _load(entries, meter, await store.snapshot(session_id))
            return cls(store, record, entries, start, clock=clock)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await store.release(session_id)
            raise

    async def aclose(self) -> None:
        """Let other processes write to the session; calling it again does nothing."""
        if self._is_stored:
            if self._saved - self._kept >= _WORTH_KEEPING:
                await self._save_snapshot()
            await self._store.release(self.record.id)

    def seal(self) -> None:
        """Write nothing more, as after a crash: another process continues the session."""
        self.is_open = False

    def measure_by(self, meter: Meter) -> None:
        """Measure all texts again, with the tokenizer of another model."""
        if meter is not self.view.meter:
            self.view = fold(self.entries, meter=meter)

    async def append(self, body: Body) -> Entry:
        """Write `body` as the next entry; it is durable when this returns.

        A message that would come between a call and its result is written after failed results
        for the open calls. Setup and mode of a new session are written with its first message.

        Raises `SessionError` if the session is not open or the body cannot be stored, and
        `StoreError` if the store failed; the journal is as it was then.
        """
        if not self.is_open:
            raise SessionError("the session is not open: use `async with`, or await `open` first")
        body = _storable(body)
        if not self.lock.try_acquire():
            await self.lock.wait()
        try:
            entry = await self._add(body)
        finally:
            self.lock.release()
        self._announce()
        if is_snapshot_due(self._saved, self._kept):
            await self._save_snapshot()
        return entry

    async def _add(self, body: Body) -> Entry:
        if self._in_doubt:
            await self._reload()
        bodies = [*_make_missing_results(self.view.items, body), body]
        last = self.entries[-1].id if self.entries else 0
        added = [
            Entry(id=EntryId(number), at=self._clock(), body=one)
            for number, one in enumerate(bodies, last + 1)
        ]
        if self._saved or not isinstance(body, SetupChanged | ModeChanged):
            await self._save(added)
        self.entries.extend(added)
        *missing, entry = added
        for one in missing:
            self.view = self.view.apply(one)
        self.view = advance(self.view, self.entries)
        self.call_ids.update(call_ids_of(body))
        if (spent := spending_of(body)) is not NO_SPENDING:
            self.spending += spent
        return entry

    async def save(self) -> None:
        """Store a new session without waiting for its first message; raises `StoreError`."""
        async with self.lock:
            if not self._saved and self.entries:
                await self._save([])
        self._announce()

    def _announce(self) -> None:
        """Call `on_entry` for the entries that are on disk, each once."""
        if self._announced >= self._saved:
            return
        fresh = self.entries[self._announced : self._saved]
        self._announced = self._saved
        if self.on_entry is not None:
            for entry in fresh:
                self.on_entry(entry)

    async def _save(self, added: list[Entry]) -> None:
        self._in_doubt = True
        if not self._is_stored:
            await self._store.create(self.record)
            self._is_stored = True
            await self._store.lease(self.record.id)
        waiting = added if self._saved else [*self.entries, *added]
        await self._store.append(self.record.id, waiting)
        self._saved = len(self.entries) + len(added)
        self._in_doubt = False

    async def _save_snapshot(self) -> None:
        """Store a snapshot; the session works without it."""
        self._kept = len(self.entries)
        await _store_snapshot(self._store, self)

    async def _reload(self) -> None:
        """Read the stored entries again, after a write that failed or was cancelled."""
        stored: Sequence[Entry] = ()
        self._is_stored = True
        try:
            _, stored = await self._store.load(self.record.id)
        except SessionNotFound:
            # Another process deleted it; the entries in memory are written again.
            self._is_stored = False
        if len(stored) > len(self.entries):
            self.entries.replace_all(stored)
            start = load_state(self.entries, self.view.meter)
            self.view, self.spending, self.call_ids = start.view, start.spending, start.call_ids
        self._saved, self._in_doubt = len(stored), False

    def since(self, entry_id: EntryId) -> Sequence[Entry]:
        """Return the entries after that one."""
        return self.entries[bisect_right(self.entries, entry_id, key=lambda one: one.id) :]

    def entry(self, entry_id: EntryId) -> Entry | None:
        """Return the entry with that id, if there is one."""
        index = entry_id - 1
        if 0 <= index < len(self.entries) and self.entries[index].id == entry_id:
            return self.entries[index]
        return next((entry for entry in self.entries if entry.id == entry_id), None)


def prove_view(journal: Journal) -> list[EntryId]:
    """Read everything in the view once; returns the damaged entries, which leave the view."""
    journal.unproven = False
    found = find_damaged(journal.entries, journal.view)
    if found:
        journal.view = fold(journal.entries, meter=journal.view.meter)
    return found


async def answer_open_calls(journal: Journal) -> None:
    """Give each tool call without a result, such as after a crash, a failed one."""
    for message in answer_missing_calls(journal.view.items):
        await journal.append(MessageAdded(message=message))


async def find_next_id(journal: Journal) -> EntryId:
    """Wait until no task writes, and return the id of the next entry.

    It is the id of what you append, if you await nothing before: background tasks write too.
    """
    await journal.lock.settle()
    return EntryId(journal.entries[-1].id + 1) if journal.entries else EntryId(1)


def new_record(session_id: SessionId, cwd: Path, *, now: float = 0.0) -> SessionRecord:
    """Return the record of a session that is not in a store yet."""
    return SessionRecord(id=session_id, cwd=str(cwd), created_at=now, updated_at=now)


def make_unopened_journal(store: Store, record: SessionRecord, setup: SetupChanged) -> Journal:
    """Return the journal of a session that is not open: it is empty and cannot be written."""
    view = fold([Entry(id=EntryId(1), at=record.created_at, body=setup)])
    start = JournalState(view=view, spending=Spending(), call_ids=set())
    journal = Journal(store, record, LazyList.of(()), start, clock=time.time)
    journal.is_open = False
    return journal


def _load(entries: Sequence[Entry], meter: Meter, snapshot: bytes | None) -> JournalState:
    if not snapshot:
        return load_state(entries, meter)
    # Imported here because only long sessions have a snapshot.
    from clew.session.journal_snapshot import restore_state  # noqa: PLC0415

    return restore_state(entries, meter, snapshot)


async def _store_snapshot(store: Store, journal: Journal) -> None:
    from clew.session.journal_snapshot import encode_snapshot, save_snapshot  # noqa: PLC0415

    data = encode_snapshot(journal.view, journal.spending, journal.call_ids, journal.entries)
    await save_snapshot(store, journal.record.id, data)


def _make_missing_results(items: Items, body: Body) -> Sequence[Body]:
    """Return results for the calls that `body` would leave without one."""
    if not isinstance(body, MessageAdded) or body.message.role is Role.TOOL or items.is_complete:
        return ()
    return [MessageAdded(message=message) for message in answer_missing_calls(items)]


def _storable(body: Body) -> Body:
    try:
        return make_encodable(body)
    except TypeError as error:
        raise SessionError(f"an entry cannot be stored: {error}") from error
