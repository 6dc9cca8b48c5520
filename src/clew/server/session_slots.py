"""`SessionSlots`: how many sessions of all users may be open at once."""

from typing import Protocol

import anyio

from clew.server.errors import RequestError


class ClosableSession(Protocol):
    """What a slot must know of its session."""

    last_used: float
    closing: anyio.Event
    closed: anyio.Event

    @property
    def is_busy(self) -> bool:
        """True while it works or a client uses it."""
        ...


class SessionSlot:
    """The slot of one session; it counts until it is given back."""

    def __init__(self, taken: "set[SessionSlot]") -> None:
        self._taken = taken
        self.live: ClosableSession | None = None
        """The session, once it is open."""
        taken.add(self)

    def give_back(self) -> None:
        """Let another session have it."""
        self._taken.discard(self)


class SessionSlots:
    """Where too many sessions would be open, the one that was unused for longest makes room.

    Args:
        limit: How many may be open or being opened.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken: set[SessionSlot] = set()
        self._lock = anyio.Lock()

    def __len__(self) -> int:
        return len(self._taken)

    async def take(self) -> SessionSlot:
        """Return a slot; an unused session is closed for it.

        Raises:
            RequestError: All sessions are in use.
        """
        async with self._lock:
            while len(self._taken) >= self._limit:
                live = self._choose()
                live.closing.set()
                await live.closed.wait()
            return SessionSlot(self._taken)

    def _choose(self) -> ClosableSession:
        """Return a session that ends already, or else the one that was unused for longest."""
        sessions = [slot.live for slot in self._taken if slot.live is not None]
        ends = [live for live in sessions if live.closing.is_set()]
        unused = [live for live in sessions if not live.is_busy]
        if not ends and not unused:
            raise RequestError(
                503,
                f"{self._limit} sessions are open and in use, which is the limit; close one",
                kind="TooManySessions",
            )
        return min(ends or unused, key=lambda live: live.last_used)
