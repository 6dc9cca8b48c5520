"""Event buses for tests that listen from the first event on."""

from collections.abc import Callable

from clew.core.events import Event
from clew.session.event_bus import EventBus


def bus_for(listener: Callable[[Event], object]) -> EventBus:
    """Return a bus that calls `listener` with every event of the session itself."""
    bus = EventBus()
    bus.on_any(lambda envelope: None if envelope.task_id else listener(envelope.event))
    return bus
