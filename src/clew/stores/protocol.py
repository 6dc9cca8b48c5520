"""The contract between a journal and the place that keeps it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from clew.core.entries import Entry, SessionRecord
from clew.core.ids import EntryId, SessionId
from clew.stores.record import Hit, StoredSession


class Store(Protocol):
    """Keeps sessions and their entries.

    What `append` has returned from is not lost when the process dies, or when the power
    goes. A session has one writer, and one store counts as one writer: whoever holds the
    `lease` of a session keeps the stores of other processes from writing to it.

    Every method raises `StoreUnavailable` when the place cannot be reached or written to, and
    `StoreDamaged` when it is not readable as a store. After either, the store can be used
    again as soon as the cause is gone.
    """

    async def create(self, record: SessionRecord) -> None:
        """Begin a session. What a `StoredSession` says of counts and words is not taken over.

        Raises:
            SessionBusy: The id is taken.
        """
        ...

    async def append(self, session_id: SessionId, entries: Sequence[Entry]) -> None:
        """Add entries at the end, all or none, and note in the record what they add to it.

        Raises:
            SessionBusy: Another writer has used these entry ids, or holds the lease.
            SessionNotFound: The session was never created, or was deleted.
        """
        ...

    async def load(
        self, session_id: SessionId, *, after: int = 0
    ) -> tuple[StoredSession, Sequence[Entry]]:
        """Return a session with its entries in order, or with those that follow `after`.

        An entry may be read only when it is looked at. One that cannot be read is reported and
        returned as an unknown body.

        Raises:
            SessionNotFound: There is no such session.
        """
        ...

    async def snapshot(self, session_id: SessionId) -> bytes | None:
        """Return what `save_snapshot` kept last; None when there is nothing, or no such session."""
        ...

    async def save_snapshot(self, session_id: SessionId, data: bytes) -> None:
        """Keep something that helps to open a session fast, in place of what was kept before.

        It may be lost at any time: all of it can be had from the entries. Does nothing when
        there is no such session.
        """
        ...

    async def record(self, session_id: SessionId) -> StoredSession:
        """Return what is known of a session without its entries.

        Raises:
            SessionNotFound: There is no such session.
        """
        ...

    async def sessions(
        self,
        *,
        cwd: str | None = None,
        parent: SessionId | None = None,
        since: float | None = None,
        limit: int | None = None,
    ) -> list[StoredSession]:
        """Return sessions, the one used last first.

        Args:
            cwd: Only those that were begun in this folder.
            parent: Only forks of this session.
            since: Only those that were used at this time or later.
            limit: Not more than so many.
        """
        ...

    async def search(self, query: str, *, limit: int = 20) -> list[Hit]:
        """Find sessions by their names and by all that was ever said in them.

        A name or an entry matches when each word of `query` begins a word of it. The session
        used last comes first.
        """
        ...

    async def rename(self, session_id: SessionId, name: str) -> None:
        """Give a session a name.

        Raises:
            SessionNotFound: There is no such session.
        """
        ...

    async def annotate(self, session_id: SessionId, fields: Mapping[str, object]) -> None:
        """Set fields of the record's `extra`; what JSON can hold. None takes a field away.

        Raises:
            SessionNotFound: There is no such session.
        """
        ...

    async def fork(
        self, session_id: SessionId, *, upto: EntryId | None = None, name: str = ""
    ) -> StoredSession:
        """Begin a session with the entries of another one, which stays as it is.

        Args:
            session_id: The session to begin from; someone may be writing to it.
            upto: The last entry to take over; all of them unless given.
            name: What to call the fork; empty for its first words.

        Raises:
            SessionNotFound: There is no such session.
        """
        ...

    async def delete(self, session_id: SessionId) -> None:
        """Remove a session with all traces; does nothing when it is not there.

        Raises:
            SessionBusy: Another process holds its lease.
        """
        ...

    async def lease(self, session_id: SessionId) -> None:
        """Become the one that writes to a session, until `release` or `aclose`.

        Holding it already is fine. The lease of a process that has died is taken over.

        Raises:
            SessionBusy: Another process holds it; the error says which.
            SessionNotFound: There is no such session.
        """
        ...

    async def release(self, session_id: SessionId) -> None:
        """Let others write to a session; does nothing when the lease is not held."""
        ...

    async def aclose(self) -> None:
        """Give back all leases and release the place; harmless when called again."""
        ...
