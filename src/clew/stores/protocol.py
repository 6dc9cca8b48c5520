"""The contract between a journal and the store that keeps it."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from clew.core.entries import Entry, SessionRecord
from clew.core.ids import EntryId, SessionId
from clew.stores.record import SearchHit, StoredSession

if TYPE_CHECKING:
    from clew.context.recall.query import RecallQuery
    from clew.context.recall.search import Found


class Store(Protocol):
    """Keeps sessions and their entries.

    When `append` has returned, its entries survive the death of the process and a power cut. A
    session has one writer, and one store counts as one writer: while a store holds the `lease`
    of a session, stores of other processes cannot write to it.

    Every method raises `StoreUnavailable` when the place cannot be reached or written to, and
    `StoreDamaged` when it cannot be read as a store. After either, the store can be used
    again as soon as the cause is gone.
    """

    async def create(self, record: SessionRecord) -> None:
        """Begin a session. The counts and words of a `StoredSession` are not taken over.

        Raises:
            SessionBusy: The id is in use.
        """
        ...

    async def append(self, session_id: SessionId, entries: Sequence[Entry]) -> None:
        """Add entries at the end, all or none, and update the session's record.

        Raises:
            SessionBusy: Another writer has used these entry ids, or holds the lease.
            SessionNotFound: The session does not exist.
        """
        ...

    async def load(
        self, session_id: SessionId, *, after: int = 0
    ) -> tuple[StoredSession, Sequence[Entry]]:
        """Return a session with its entries in order, or with those after entry `after`.

        An entry may be decoded only when it is accessed. One that cannot be decoded is logged
        and returned as an unknown body.

        Raises:
            SessionNotFound: The session does not exist.
        """
        ...

    async def snapshot(self, session_id: SessionId) -> bytes | None:
        """Return the last saved snapshot; None if there is no snapshot or no session."""
        ...

    async def save_snapshot(self, session_id: SessionId, data: bytes) -> None:
        """Save data that make the session open faster, in place of the previous snapshot.

        A snapshot may be lost at any time: it can be computed from the entries. Does nothing
        when the session does not exist.
        """
        ...

    async def record(self, session_id: SessionId) -> StoredSession:
        """Return the record of a session without its entries.

        Raises:
            SessionNotFound: The session does not exist.
        """
        ...

    async def sessions(
        self,
        *,
        cwd: str | None = None,
        parent: SessionId | None = None,
        since: float | None = None,
        kind: str | None = None,
        limit: int | None = None,
    ) -> list[StoredSession]:
        """Return sessions, the last used first.

        Args:
            cwd: Only sessions that began in this folder.
            parent: Only forks and agents of this session.
            since: Only sessions that were used at this time or later.
            kind: Only sessions of this kind: empty for those that people use, `agent` for those
                of subagents.
            limit: The maximum number of sessions.
        """
        ...

    async def search(
        self, query: str, *, kind: str | None = None, limit: int = 20
    ) -> list[SearchHit]:
        """Find sessions by their names and the text of all their entries.

        A name or an entry matches when each word of `query` begins a word of it. The last
        used session comes first. `kind` means the same as for `sessions`.
        """
        ...

    async def recall(
        self,
        query: "RecallQuery",
        *,
        session_id: SessionId | None = None,
        cwd: str | None = None,
        limit: int = 8,
        skip: Collection[int] = (),
    ) -> "Found":
        """Find entries by their words, the best first; all that were appended can be found.

        Args:
            query: What to look for; see `clew.context.recall.query.parse_query`.
            session_id: Only this session; the default is all.
            cwd: Only sessions that began in this folder.
            limit: The maximum number of hits.
            skip: Entries that are not wanted, by number.

        Raises:
            SessionNotFound: The session does not exist.
        """
        ...

    async def rename(self, session_id: SessionId, name: str) -> None:
        """Give a session a name.

        Raises:
            SessionNotFound: The session does not exist.
        """
        ...

    async def annotate(self, session_id: SessionId, fields: Mapping[str, object]) -> None:
        """Set JSON fields of the record's `extra`; None removes a field.

        Raises:
            SessionNotFound: The session does not exist.
        """
        ...

    async def fork(
        self, session_id: SessionId, *, upto: EntryId | None = None, name: str = ""
    ) -> StoredSession:
        """Begin a session with the entries of another one, which does not change.

        Args:
            session_id: The session to copy; another process may be writing to it.
            upto: The last entry to copy; the default is all.
            name: The name of the fork; lists show its first words if it is empty.

        Raises:
            SessionNotFound: The session does not exist.
        """
        ...

    async def delete(self, session_id: SessionId) -> None:
        """Delete a session with all traces; does nothing when it does not exist.

        The sessions of its agents and its tasks are deleted with it, its forks are not.

        Raises:
            SessionBusy: Another process holds its lease, or that of one of its agents.
        """
        ...

    async def lease(self, session_id: SessionId, *, silent_after: float | None = None) -> None:
        """Become the only writer of a session, until `release` or `aclose`.

        Taking a lease again is harmless. The lease of a process that has died is taken over. If
        that process is alive after all, each of its writes fails with `SessionBusy`, also when
        the new holder has released the lease, until it takes the lease again.

        Args:
            session_id: The session.
            silent_after: Promise to renew the lease more often than this many seconds, on a
                thread of the store. When that fails, others may take the lease over, even if
                the process exists. Without it, only a process that is gone, or one on another
                machine that is silent for 90 seconds, is taken for dead.

        Raises:
            SessionBusy: Another process holds it; the error names the process.
            SessionNotFound: The session does not exist.
        """
        ...

    async def release(self, session_id: SessionId) -> None:
        """Let others write to a session; does nothing when the lease is not held."""
        ...

    async def aclose(self) -> None:
        """Release all leases and close the place; harmless when called again."""
        ...
