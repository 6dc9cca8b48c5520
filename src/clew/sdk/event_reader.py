"""`EventReader`: the events of a session for a client on a connection, as many as there are."""

from collections.abc import Iterator
from contextlib import contextmanager

from clew.core.events import Envelope
from clew.sdk.session import InteractiveSession
from clew.session.event_bus import EventBus


class EventReader:
    """Reads events by sequence number. Unlike `events`, waiting can be interrupted and resumed.

    Made by `read_events`.
    """

    def __init__(self, bus: EventBus, after: int | None) -> None:
        self._bus = bus
        self.position = bus.seq if after is None else after
        """The newest event that was read."""

    def peek(self, limit: int) -> list[Envelope]:
        """Return at most `limit` events that are there already; set `position` as you use them.

        Raises:
            EventsExpired: Events are missing; take a new snapshot and continue from its `seq`.
        """
        return self._bus.read(self.position)[:limit]

    def read(self, limit: int) -> list[Envelope]:
        """Return at most `limit` events that are there already, each once; raises as `peek`."""
        found = self.peek(limit)
        if found:
            self.position = found[-1].seq
        return found

    def check(self) -> None:
        """Make sure that no event is missing; raises as `peek`."""
        self._bus.read(self.position)

    async def wait(self) -> bool:
        """Wait until there are events to read; False when the session is closed."""
        return await self._bus.wait(self.position)


@contextmanager
def read_events(
    session: InteractiveSession, *, after: int | None = None, answering: bool = True
) -> Iterator[EventReader]:
    """Attach a reader to a session; the arguments are those of `SessionClient.events`."""
    bus = session.session.bus
    with bus.attach(answering=answering):
        yield EventReader(bus, after)
