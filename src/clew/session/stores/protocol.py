"""The contract between a journal and the place that keeps it."""

from collections.abc import Sequence
from typing import Protocol

from clew.core.entries import Entry, SessionRecord
from clew.core.ids import SessionId


class Store(Protocol):
    """Keeps sessions and their entries.

    What `append` has returned from is not lost when the process dies. Entries of one
    session are written by one writer: a second one is told so at its first append.
    """

    async def create(self, record: SessionRecord) -> None:
        """Begin a session.

        Raises:
            SessionBusy: The id is taken.
            StoreUnavailable: The place cannot be written to.
        """
        ...

    async def append(self, session_id: SessionId, entries: Sequence[Entry]) -> None:
        """Add entries at the end, all or none, and note the time in the record.

        Raises:
            SessionBusy: Another writer has used these entry ids.
            SessionNotFound: The session was never created, or was deleted.
            StoreUnavailable: The place cannot be written to.
        """
        ...

    async def load(self, session_id: SessionId) -> tuple[SessionRecord, list[Entry]]:
        """Return a session with its entries in order.

        Raises:
            SessionNotFound: There is no such session.
            StoreDamaged: An entry cannot be read.
        """
        ...

    async def sessions(self) -> list[SessionRecord]:
        """Return all sessions, the one used last first."""
        ...

    async def rename(self, session_id: SessionId, name: str) -> None:
        """Give a session a name.

        Raises:
            SessionNotFound: There is no such session.
        """
        ...

    async def delete(self, session_id: SessionId) -> None:
        """Remove a session and its entries; does nothing when it is not there."""
        ...

    async def aclose(self) -> None:
        """Release the place; harmless when called again."""
        ...
