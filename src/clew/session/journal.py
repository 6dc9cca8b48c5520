"""The journal: entries in a store, and the view they lead to.

All that changes a session goes through `append`: first it is on disk, then it counts.
"""

import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio

from clew.context.estimate import Meter, text_units
from clew.context.lazy_list import LazyList
from clew.context.render import answer_missing_calls
from clew.context.view import View, advance, fold
from clew.core.entries import (
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
from clew.session.resuming import Standing, asked, is_due, keep, pack, stand, torn
from clew.stores.protocol import Store

Clock = Callable[[], float]
_WORTH_KEEPING = 64
"""New entries that are worth a snapshot when a journal is closed."""


class Journal:
    """The append-only record of one session.

    Made by `open` or `reopen`. Has one writer; `entries` and `view` may be read at any
    time. A session in which nothing was said leaves no trace in the store.
    """

    def __init__(
        self,
        store: Store,
        record: SessionRecord,
        entries: LazyList[Entry],
        standing: Standing,
        *,
        clock: Clock,
    ) -> None:
        self._store = store
        self._clock = clock
        self.record = record
        self.entries = entries
        self.view: View = standing.view
        self.spending: Spending = standing.spending
        """What the session has cost so far."""
        self.call_ids = standing.call_ids
        """Every id that a tool call of this session ever had."""
        self._kept = standing.kept
        self.unproven = standing.kept > 0
        """True as long as parts of the view were never read: they come from a snapshot."""
        self._saved = self._told = len(entries)
        self._is_stored = bool(entries)
        self._in_doubt = False
        self._writing = anyio.Lock(fast_acquire=True)
        self.on_entry: Callable[[Entry], None] | None = None

    @classmethod
    async def open(
        cls,
        store: Store,
        *,
        cwd: Path,
        session_id: SessionId | None = None,
        clock: Clock = time.time,
        meter: Meter = text_units,
    ) -> "Journal":
        """Go on with the session of that id, or begin it if the store does not have it."""
        if session_id is not None:
            try:
                return await cls.reopen(store, session_id, clock=clock, meter=meter)
            except SessionNotFound:
                pass
        now = clock()
        record = SessionRecord(
            id=session_id or new_session_id(), cwd=str(cwd), created_at=now, updated_at=now
        )
        return cls(store, record, LazyList.of(()), stand((), meter), clock=clock)

    @classmethod
    async def reopen(
        cls,
        store: Store,
        session_id: SessionId,
        *,
        clock: Clock = time.time,
        meter: Meter = text_units,
    ) -> "Journal":
        """Go on with a session. Calls that a crash left unanswered get a failed result.

        Raises:
            SessionNotFound: There is no such session.
            SessionBusy: Another process writes to it.
        """
        await store.lease(session_id)
        try:
            record, loaded = await store.load(session_id)
            entries = loaded if isinstance(loaded, LazyList) else LazyList.of(loaded)
            standing = stand(entries, meter, await store.snapshot(session_id))
            journal = cls(store, record, entries, standing, clock=clock)
            for message in answer_missing_calls(journal.view.items):
                await journal.append(MessageAdded(message=message))
        except BaseException:
            with anyio.CancelScope(shield=True):
                await store.release(session_id)
            raise
        return journal

    async def aclose(self) -> None:
        """Let others write to the session; harmless when called again, or before a write."""
        if self._is_stored:
            if self._saved - self._kept >= _WORTH_KEEPING:
                await self._keep()
            await self._store.release(self.record.id)

    def measure_by(self, meter: Meter) -> None:
        """Measure all texts anew, as another model counts them."""
        if meter is not self.view.meter:
            self.view = fold(self.entries, meter=meter)

    def prove(self) -> list[EntryId]:
        """Read all that the view shows, once; returns the entries that turn out to be damaged.

        Where there are any, the view is what it is without them.
        """
        self.unproven = False
        found = torn(self.entries, self.view)
        if found:
            self.view = fold(self.entries, meter=self.view.meter)
        return found

    async def append(self, body: Body) -> Entry:
        """Write `body` as the next entry; when this returns, it cannot be lost.

        A message that would stand between a call and its result makes the missing results
        be written first. What is set up before anything is said is written with the first
        word.

        Raises:
            SessionError: The body holds something that cannot be stored.
            StoreError: The store failed; the journal is as it was.
        """
        body = _storable(body)
        async with self._writing:
            if self._in_doubt:
                await self._look_again()
            fresh = [self._next(b, after=n) for n, b in enumerate(self._owed(body))]
            entry = self._next(body, after=len(fresh))
            added = [*fresh, entry]
            if self._saved or not isinstance(body, SetupChanged | ModeChanged):
                await self._save(added)
            self.entries.extend(added)
            for one in fresh:
                self.view = self.view.apply(one)
            self.view = advance(self.view, self.entries)
            self.call_ids.update(asked(body))
            self.spending += spending_of(body)
        self._tell()
        if is_due(self._saved, self._kept):
            await self._keep()
        return entry

    def _tell(self) -> None:
        """Tell of the entries that are on disk, each once."""
        fresh = self.entries[self._told : self._saved]
        self._told = max(self._told, self._saved)
        if self.on_entry is not None:
            for entry in fresh:
                self.on_entry(entry)

    async def _save(self, added: list[Entry]) -> None:
        self._in_doubt = True
        if not self._is_stored:
            await self._store.create(self.record)
            self._is_stored = True
            await self._store.lease(self.record.id)
        waiting = [] if self._saved else self.entries
        await self._store.append(self.record.id, [*waiting, *added])
        self._saved = len(self.entries) + len(added)
        self._in_doubt = False

    async def _keep(self) -> None:
        """Write down where the journal stands; a session goes on without it."""
        self._kept = len(self.entries)
        data = pack(self.view, self.spending, self.call_ids, self.entries)
        await keep(self._store, self.record.id, data)

    async def _look_again(self) -> None:
        """Find out what the store has, after a write that was cut off or failed."""
        stored: Sequence[Entry] = ()
        try:
            _, stored = await self._store.load(self.record.id)
            self._is_stored = True
        except SessionNotFound:
            # Somebody has deleted it: what is in memory is written again.
            self._is_stored = False
        if len(stored) > len(self.entries):
            self.entries.replace_all(stored)
            standing = stand(self.entries, self.view.meter)
            self.view, self.spending = standing.view, standing.spending
            self.call_ids = standing.call_ids
        self._saved = len(stored)
        self._in_doubt = False

    def _owed(self, body: Body) -> list[Body]:
        if isinstance(body, MessageAdded) and body.message.role is not Role.TOOL:
            return [MessageAdded(message=m) for m in answer_missing_calls(self.view.items)]
        return []

    def _next(self, body: Body, *, after: int = 0) -> Entry:
        last = self.entries[-1].id if self.entries else 0
        return Entry(id=EntryId(last + after + 1), at=self._clock(), body=body)

    def since(self, entry_id: EntryId) -> Sequence[Entry]:
        """Return the entries that came after that one."""
        return self.entries[bisect_right(self.entries, entry_id, key=lambda one: one.id) :]

    def entry(self, entry_id: EntryId) -> Entry | None:
        """Return the entry with that id, if there is one."""
        index = entry_id - 1
        if 0 <= index < len(self.entries) and self.entries[index].id == entry_id:
            return self.entries[index]
        return next((entry for entry in self.entries if entry.id == entry_id), None)


def _storable(body: Body) -> Body:
    try:
        return make_encodable(body)
    except TypeError as error:
        raise SessionError(f"this cannot be stored: {error}") from error
