"""Sessions of a server with several replicas: one of them has a session, another may take it over.

A session belongs to the replica that has its lease. When that one dies, the next one to open the
session continues the run that was cut. Each lease has an epoch, and each epoch its own range of
sequence numbers: a client that asks a successor for the events after a number of the replica
before gets `EventsExpired`, never events of another history.
"""

import logging
from collections.abc import Mapping

import anyio

from clew.core.entries import Entry, MessageAdded, Noted
from clew.core.errors import ClewError, ConfigError, SessionBusy
from clew.core.events import (
    EntryAdded,
    Event,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    UserMessage,
)
from clew.core.ids import EntryId
from clew.core.messages import Role
from clew.sdk.launch import LaunchedSession
from clew.sdk.session_store import ProjectStore
from clew.session.journal import Journal
from clew.stores.leases import LeaseLost, ProcessKey, SessionHeld
from clew.stores.record import StoredSession
from clew.stores.replica_protocol import ReplicaRow, ReplicaStore

__all__ = [
    "ProcessKey",
    "ReplicaRow",
    "ReplicaSession",
    "ReplicaStore",
    "find_first_number",
    "find_replicas",
    "is_held_elsewhere",
    "is_run_cut",
]

logger = logging.getLogger(__name__)

SETTLED = "settled"
"""The field in `StoredSession.extra` with the entry up to which the model owes no answer, although
the conversation looks so: a run was aborted, or the user ran a command."""
_FIRST = 1 << 42
"""Above every sequence number that a time makes; with all epochs below 2^53, for JavaScript."""
_PER_EPOCH = 32


def find_replicas(place: ProjectStore) -> ReplicaStore:
    """Return the replicas that share a store.

    Raises:
        ConfigError: The store cannot be shared by replicas.
    """
    found: ReplicaStore | None = getattr(place.store, "replicas", None)
    if found is None:
        raise ConfigError(
            "replicas share a PostgreSQL database: set CLEW_STORE=postgresql://…, the same for all"
        )
    return found


def find_first_number(epoch: int) -> int:
    """Return the sequence number before the first one of an epoch."""
    return _FIRST + (epoch << _PER_EPOCH)


def is_held_elsewhere(error: SessionBusy) -> bool:
    """Return whether a session could not be opened because another process has it."""
    return isinstance(error.__cause__ or error, SessionHeld)


def is_run_cut(journal: Journal) -> bool:
    """Return whether the process before this one died while the model owed an answer."""
    items = journal.view.items
    if not items:
        return False
    last = items[-1]
    if _read_settled(journal) >= last.entry_id:
        return False
    if not items.is_complete:
        return True
    entry = journal.entry(last.entry_id)
    if last.message.role is Role.ASSISTANT or entry is None:
        return False
    # The view may end with a summary, to which no answer is owed.
    is_message = isinstance(entry.body, MessageAdded)
    return is_message and not any(map(_is_failure, journal.since(last.entry_id)))


def _is_failure(entry: Entry) -> bool:
    return isinstance(entry.body, Noted) and entry.body.topic == "error"


def _read_settled(journal: Journal) -> int:
    record = journal.record
    extra: Mapping[str, object] = record.extra if isinstance(record, StoredSession) else {}
    found = extra.get(SETTLED)
    return found if isinstance(found, int) else 0


class ReplicaSession:
    """What an open session of a replica needs beyond one of a single server.

    Args:
        launched: The session, which no client has seen yet.
    """

    def __init__(self, launched: LaunchedSession) -> None:
        session = launched.session.session
        self._journal, self._store = session.journal, launched.place.store
        self._session = launched.session
        self._in_run = False
        self._settled = EntryId(0)
        self._changed = anyio.Event()
        self.begun = anyio.Event()
        """Set when a run has begun, such as the one that is continued."""
        self.lost = anyio.Event()
        """Set when another replica has taken the session."""
        self._leases = find_replicas(launched.place)
        own = self._leases.find_own(session.session_id)
        self.epoch = own.epoch if own is not None else 0
        self._was_held = own is not None and own.was_held
        session.bus.seq = find_first_number(self.epoch)
        session.bus.on_own(self._follow)

    @property
    def is_run_cut(self) -> bool:
        """True if the replica before this one died during a run."""
        return self._was_held and is_run_cut(self._journal)

    async def continue_run(self) -> None:
        """Continue the run that was cut; its events report how it ends."""
        try:
            await self._session.continue_run()
        except ClewError as error:
            logger.warning("the run that was cut is not continued: %s", error)
        finally:
            self.begun.set()

    async def save_settled(self) -> None:
        """Store which entries need no answer, until it is cancelled."""
        while True:
            await self._changed.wait()
            self._changed, settled = anyio.Event(), self._settled
            try:
                await self._store.annotate(self._journal.record.id, {SETTLED: settled})
            except LeaseLost:
                self.lose()
            except ClewError as error:
                logger.warning("a successor may continue an aborted run: %s", error)

    def lose(self) -> None:
        """Write nothing more: another replica has the session."""
        if not self.lost.is_set():
            logger.warning("another replica has taken the session %s", self._journal.record.id)
        self._journal.seal()
        self.lost.set()

    async def hand_over(self) -> None:
        """Let another replica continue the session as it is; here, nothing more is written.

        Raises:
            StoreError: The others do not know; they take it when this replica counts as dead.
        """
        self._journal.seal()
        self.lost.set()
        await self._leases.leave(self._journal.record.id)

    def _follow(self, event: Event) -> None:
        match event:
            case UserMessage():
                self._in_run = True
                self.begun.set()
            case RunFailed(error_type=kind):
                self._in_run = False
                if kind == LeaseLost.__name__:
                    self.lose()
            case RunCompleted():
                self._in_run = False
            case RunInterrupted():
                self._in_run = False
                self._settle()
            case EntryAdded(entry=entry) if not self._in_run:
                if isinstance(entry.body, MessageAdded):
                    self._settle()
            case _:
                pass

    def _settle(self) -> None:
        entries = self._journal.entries
        self._settled = entries[-1].id if entries else EntryId(0)
        self._changed.set()
