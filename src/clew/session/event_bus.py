"""The stream of a session's events: published once, in one order for every client.

A listener is a plain function that is called for each event. A stream (`events`) is for clients
that may be slow, join late or reconnect: it reads from a bounded buffer by sequence number, so
it neither misses nor repeats an event, and says so when the buffer no longer reaches back.
"""

import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from inspect import iscoroutinefunction
from typing import Any, TypeAlias

import anyio

from clew.core.errors import EventsExpired, SessionError
from clew.core.events import (
    EVENT_TYPES,
    Envelope,
    Event,
    PermissionRequest,
    PermissionResolved,
    event_name,
)
from clew.core.ids import SessionId

Listener: TypeAlias = Callable[[Any], object]
"""Called with the event."""
EnvelopeListener: TypeAlias = Callable[[Envelope], object]
Unsubscribe: TypeAlias = Callable[[], None]

_CAPACITY = 2_000
_ALL = "all"
"""Listeners that get the envelopes of all events."""
_OWN = "own"
"""Listeners that get all events of the session, but not those of its subagents."""


class _Subscription:
    """One listener, compared by identity: the same function may be subscribed twice."""

    __slots__ = ("call",)

    def __init__(self, call: Listener) -> None:
        self.call = call


_Listeners: TypeAlias = dict[type[Event] | str, tuple[_Subscription, ...]]


class EventBus:
    """Numbers events, keeps the newest in a buffer, and calls the listeners.

    The buffer starts when a number is first given out, by `seq`, `on_any` or `events`: before
    that, no client can ask for the events after one.

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
        self.on_detach: Callable[[], None] = _ignore
        """Called when a listener or a stream that could answer questions is gone."""
        self._clock = clock
        self._capacity = capacity
        self._buffer: deque[Envelope] | None = None
        self._seq = int(clock() * 1000)
        self._listeners: _Listeners = {}
        """By kind of event, `_ALL` or `_OWN`; a tuple is replaced, so it can be iterated over, and
        never empty."""
        self._pending: list[Envelope] = []
        self._delivering = False
        self._wakeup: anyio.Event | None = None
        self._closed = False
        self._streams = 0

    @property
    def seq(self) -> int:
        """The number of the newest event."""
        self._start_buffer()
        return self._seq

    @seq.setter
    def seq(self, number: int) -> None:
        """Number the next event one above this; numbers that were given out before expire."""
        self._seq, self._buffer = number, None

    @property
    def answerable(self) -> bool:
        """True while a client is attached that can answer a permission request."""
        return bool(self._streams or self._listeners.get(PermissionRequest))

    def wants(self, kind: type[Event]) -> bool:
        """Return whether an event of that kind would reach a listener or the buffer."""
        heard = self._listeners
        return self._buffer is not None or kind in heard or _ALL in heard or _OWN in heard

    def publish(self, event: Event, *, task_id: str = "") -> None:
        """Number an event, keep it, and call the listeners."""
        self._seq += 1
        if not self._delivering:
            if not self.wants(type(event)):
                return
            if self._buffer is None and self._wakeup is None and _ALL not in self._listeners:
                self._deliver(event, task_id, None)
                return
        envelope = Envelope(
            seq=self._seq,
            session_id=self.session_id,
            task_id=task_id,
            at=self._clock(),
            event=event,
        )
        if self._buffer is not None:
            self._buffer.append(envelope)
        if self._wakeup is not None:
            self._wakeup.set()
            self._wakeup = None
        if self._delivering:
            self._pending.append(envelope)
        else:
            self._deliver(event, task_id, envelope)

    def on(self, name: str, listener: Listener) -> Unsubscribe:
        """Call `listener` with each event of that name; returns a function that unsubscribes.

        Of the events of subagents, only permission requests and their ends are included, because
        each of these needs an answer; `on_any` has all.

        Raises:
            SessionError: There is no such event, or the listener is a coroutine function.
        """
        if name not in EVENT_TYPES:
            known = ", ".join(EVENT_TYPES)
            raise SessionError(f"there is no event {name!r}; the events are: {known}")
        _reject_coroutine(listener)
        return self._subscribe(EVENT_TYPES[name], listener)

    def on_any(self, listener: EnvelopeListener) -> Unsubscribe:
        """Call `listener` with the envelope of every event; returns a function that unsubscribes.

        Raises:
            SessionError: The listener is a coroutine function.
        """
        _reject_coroutine(listener)
        self._start_buffer()
        return self._subscribe(_ALL, listener)

    def on_own(self, listener: Listener) -> Unsubscribe:
        """Call `listener` with every event that `on` has, of all kinds.

        Raises:
            SessionError: The listener is a coroutine function.
        """
        _reject_coroutine(listener)
        return self._subscribe(_OWN, listener)

    def track(self, listener: Listener, *kinds: type[Event]) -> None:
        """Call `listener` with each event of these kinds, before the listeners of `on`."""
        mine = (_Subscription(listener),)
        for kind in kinds:
            self._listeners[kind] = mine + self._listeners.get(kind, ())

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
        return _stream(self, self.seq if after is None else after, answering=answering)

    def close(self) -> None:
        """End all streams; listeners stay subscribed."""
        self._closed = True
        if self._wakeup is not None:
            self._wakeup.set()

    @contextmanager
    def attach(self, *, answering: bool = True) -> Iterator[None]:
        """Count a reader as attached: while one is that answers, requests are not denied."""
        self._streams += answering
        try:
            yield
        finally:
            self._streams -= answering
            self.on_detach()

    async def wait(self, position: int) -> bool:
        """Wait until there are events after that number; False when no more will come."""
        while position == self._seq:
            if self._closed:
                return False
            if self._wakeup is None:
                self._wakeup = anyio.Event()
            await self._wakeup.wait()
        return True

    def _start_buffer(self) -> None:
        if self._buffer is None:
            self._buffer = deque(maxlen=self._capacity)

    def read(self, position: int) -> list[Envelope]:
        """Return the events after that number that there are now; raises as `events` does."""
        buffered = self._buffer or ()
        missed = self._seq - position
        if missed < 0 or missed > len(buffered):
            raise EventsExpired(
                f"events after {position} are no longer available; take a new snapshot and"
                " continue from its seq"
            )
        return [buffered[index] for index in range(len(buffered) - missed, len(buffered))]

    def _subscribe(self, kind: type[Event] | str, call: Listener) -> Unsubscribe:
        subscription = _Subscription(call)
        self._listeners[kind] = (*self._listeners.get(kind, ()), subscription)

        def unsubscribe() -> None:
            before = self._listeners.get(kind, ())
            if subscription not in before:
                return
            self._listeners[kind] = tuple([one for one in before if one is not subscription])
            if not self._listeners[kind]:
                del self._listeners[kind]
            self.on_detach()

        return unsubscribe

    def _deliver(self, event: Event, task_id: str, envelope: Envelope | None) -> None:
        """Call the listeners, then again for each event that they caused."""
        self._delivering = True
        try:
            _call_listeners(self._listeners, event, task_id, envelope)
            while self._pending:
                caused = self._pending.pop(0)
                _call_listeners(self._listeners, caused.event, caused.task_id, caused)
        finally:
            self._delivering = False


def _ignore() -> None:
    """Do nothing."""


async def _stream(
    bus: EventBus, position: int, *, answering: bool
) -> AsyncGenerator[Envelope, None]:
    with bus.attach(answering=answering):
        while True:
            for envelope in bus.read(position):
                position = envelope.seq
                yield envelope
            if not await bus.wait(position):
                return


def _call_listeners(
    listeners: _Listeners, event: Event, task_id: str, envelope: Envelope | None
) -> None:
    everybody = listeners.get(_ALL, ()) if envelope is not None else ()
    if not task_id or isinstance(event, PermissionRequest | PermissionResolved):
        for one in listeners.get(_OWN, ()) + listeners.get(type(event), ()):
            _call(one.call, event, event)
    for one in everybody:
        _call(one.call, envelope, event)


def _call(listener: Listener, argument: Event | Envelope | None, event: Event) -> None:
    try:
        listener(argument)
    except Exception:
        import logging  # noqa: PLC0415 - slow to import, and seldom needed

        logging.getLogger(__name__).exception("a listener failed on %s", event_name(event))


def _reject_coroutine(listener: Callable[..., object]) -> None:
    if iscoroutinefunction(listener):
        raise SessionError(
            "a listener must be a plain function; it may start a task, or use `events()` instead"
        )
