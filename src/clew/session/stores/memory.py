"""A store that forgets everything when the process ends."""

from collections.abc import Sequence

import msgspec

from clew.core.entries import Entry, SessionRecord
from clew.core.errors import SessionBusy, SessionNotFound
from clew.core.ids import SessionId


class MemoryStore:
    """Keeps sessions in dictionaries; for tests and for sessions nobody resumes."""

    def __init__(self) -> None:
        self._records: dict[SessionId, SessionRecord] = {}
        self._entries: dict[SessionId, list[Entry]] = {}

    async def create(self, record: SessionRecord) -> None:
        """Begin a session."""
        if record.id in self._records:
            raise SessionBusy(f"session {record.id} exists already")
        self._records[record.id] = record
        self._entries[record.id] = []

    async def append(self, session_id: SessionId, entries: Sequence[Entry]) -> None:
        """Add entries at the end."""
        record = self._record(session_id)
        held = self._entries[session_id]
        last = held[-1].id if held else 0
        if entries and entries[0].id <= last:
            raise SessionBusy(f"session {session_id} was written to by someone else")
        held.extend(entries)
        if entries:
            self._records[session_id] = msgspec.structs.replace(record, updated_at=entries[-1].at)

    async def load(self, session_id: SessionId) -> tuple[SessionRecord, list[Entry]]:
        """Return a session with its entries in order."""
        return self._record(session_id), list(self._entries[session_id])

    async def sessions(self) -> list[SessionRecord]:
        """Return all sessions, the one used last first."""
        return sorted(self._records.values(), key=lambda record: -record.updated_at)

    async def rename(self, session_id: SessionId, name: str) -> None:
        """Give a session a name."""
        self._records[session_id] = msgspec.structs.replace(self._record(session_id), name=name)

    async def delete(self, session_id: SessionId) -> None:
        """Remove a session and its entries."""
        self._records.pop(session_id, None)
        self._entries.pop(session_id, None)

    async def aclose(self) -> None:
        """Do nothing: there is nothing to release."""

    def _record(self, session_id: SessionId) -> SessionRecord:
        try:
            return self._records[session_id]
        except KeyError:
            raise SessionNotFound(f"there is no session {session_id}") from None
