"""The stream of a session's events: published once, in one order for every client.

A listener is a plain function that is called for each event. A stream (`events`) is for clients
that may be slow, join late or reconnect: it reads from a bounded buffer by sequence number, so
it neither misses nor repeats an event, and says so when the buffer no longer reaches back.
"""

import logging
import time
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable
from inspect import iscoroutinefunction
from typing import Any, TypeAlias

import anyio

from clew.core.errors import EventsExpired, SessionError
from clew.core.events import EVENT_TYPES, Envelope, Event, event_name
from clew.core.ids import SessionId

logger = logging.getLogger(__name__)

Listener: TypeAlias = Callable[[Any], object]
"""Called with the event."""
EnvelopeListener: TypeAlias = Callable[[Envelope], object]
Unsubscribe: TypeAlias = Callable[[], None]

_CAPACITY = 2_000


class _Subscription:
    """One listener, compared by identity: the same function may be subscribed twice."""

    __slots__ = ("call",)

    def __init__(self, call: EnvelopeListener) -> None:
        self.call = call


class EventBus:
    """Numbers events, keeps the newest in a buffer, and calls the listeners.

    An event that a listener causes is delivered after all listeners got the current one, so
    the order is the same for all. A listener that raises is logged and stops nothing. Sequence
    numbers start at the current time in milliseconds: a number from an earlier process is never
    mistaken for one of this process.
    """

    def __init__(
        self, *, capacity: int = _CAPACITY, clock: Callable[[], float] = time.time
    ) -> None:
        self.session_id = SessionId("")
        """Set when the session is opened."""
        self.on_detach: Callable[[], None] | None = None
        """Called when a listener or a stream that could answer questions is gone."""
        self._clock = clock
        self._buffer: deque[Envelope] = deque(maxlen=capacity)
        self._seq = int(clock() * 1000)
        self._named: defaultdict[str, list[_Subscription]] = defaultdict(list)
        self._all: list[_Subscription] = []
        self._pending: deque[Envelope] = deque()
        self._delivering = False
        self._wakeup: anyio.Event | None = None
        self._closed = False
        self._streams = 0

    @property
    def seq(self) -> int:
        """The number of the newest event."""
        return self._seq

    @property
    def answerable(self) -> bool:
        """True while a client is attached that can answer a permission request."""
        return bool(self._streams or self._named["permission_request"])

    def publish(self, event: Event, *, task_id: str = "") -> None:
        """Number an event, keep it, and call the listeners."""
        self._seq += 1
        envelope = Envelope(
            seq=self._seq,
            session_id=self.session_id,
            task_id=task_id,
            at=self._clock(),
            event=event,
        )
        self._buffer.append(envelope)
        if self._wakeup is not None:
            self._wakeup.set()
            self._wakeup = None
        self._pending.append(envelope)
        if not self._delivering:
            self._deliver()

    def on(self, name: str, listener: Listener) -> Unsubscribe:
        """Call `listener` with each event of that name; returns a function that unsubscribes.

        Events of subagents are not included; `on_any` has them.

        Raises:
            SessionError: There is no such event, or the listener is a coroutine function.
        """
        if name not in EVENT_TYPES:
            known = ", ".join(EVENT_TYPES)
            raise SessionError(f"there is no event {name!r}; the events are: {known}")
        _reject_coroutine(listener)

        def call(envelope: Envelope) -> object:
            return None if envelope.task_id else listener(envelope.event)

        return self._subscribe(self._named[name], call)

    def on_any(self, listener: EnvelopeListener) -> Unsubscribe:
        """Call `listener` with the envelope of every event; returns a function that unsubscribes.

        Raises:
            SessionError: The listener is a coroutine function.
        """
        _reject_coroutine(listener)
        return self._subscribe(self._all, listener)

    def events(
        self, *, after: int | None = None, answering: bool = True
    ) -> AsyncGenerator[Envelope, None]:
        """Yield every event after that number, or from now on; ends when the session is closed.

        Args:
            after: A sequence number.
            answering: The reader answers permission requests. False for one that only watches.

        Raises:
            EventsExpired: While iterating, the buffer does not reach back that far, or the
                number is not of this session. Take a new snapshot and continue from its `seq`.
        """
        return self._stream(self._seq if after is None else after, answering=answering)

    def close(self) -> None:
        """End all streams; listeners stay subscribed."""
        self._closed = True
        if self._wakeup is not None:
            self._wakeup.set()

    async def _stream(self, position: int, *, answering: bool) -> AsyncGenerator[Envelope, None]:
        self._streams += answering
        try:
            while True:
                for envelope in self._after(position):
                    position = envelope.seq
                    yield envelope
                if position < self._seq:
                    continue
                if self._closed:
                    return
                if self._wakeup is None:
                    self._wakeup = anyio.Event()
                await self._wakeup.wait()
        finally:
            self._streams -= answering
            if self.on_detach is not None:
                self.on_detach()

    def _after(self, position: int) -> list[Envelope]:
        """Return the buffered events after a number, as they are now."""
        missed = self._seq - position
        if missed < 0 or missed > len(self._buffer):
            raise EventsExpired(
                f"events after {position} are no longer available; take a new snapshot and"
                " continue from its seq"
            )
        if not missed:
            return []
        buffered = self._buffer
        return [buffered[index] for index in range(len(buffered) - missed, len(buffered))]

    def _subscribe(self, listeners: list[_Subscription], call: EnvelopeListener) -> Unsubscribe:
        subscription = _Subscription(call)
        listeners.append(subscription)

        def unsubscribe() -> None:
            if subscription in listeners:
                listeners.remove(subscription)
                if self.on_detach is not None:
                    self.on_detach()

        return unsubscribe

    def _deliver(self) -> None:
        self._delivering = True
        try:
            while self._pending:
                envelope = self._pending.popleft()
                named = self._named.get(event_name(envelope.event), ())
                for subscription in (*named, *self._all):
                    try:
                        subscription.call(envelope)
                    except Exception:
                        logger.exception("a listener failed on %s", envelope.name)
        finally:
            self._delivering = False


def _reject_coroutine(listener: Callable[..., object]) -> None:
    if iscoroutinefunction(listener):
        raise SessionError(
            "a listener must be a plain function; it may start a task, or use `events()` instead"
        )
