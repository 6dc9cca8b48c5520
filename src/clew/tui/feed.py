"""Brings events from the session's thread to the terminal's, in batches of one update each."""

import logging
import time
from asyncio import AbstractEventLoop, TimerHandle
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from clew.core.events import Envelope

logger = logging.getLogger(__name__)

FRAME: Final = 0.05
"""Seconds between two updates that events cause: at most 20 updates per second."""


class EventFeed:
    """Collects events from any thread and delivers them in the event loop of the terminal.

    What arrives while the terminal is not running waits for it.

    Args:
        deliver: Called with all events since the last update, and without any when something
            else asked for an update.
    """

    def __init__(self, deliver: Callable[[Sequence[Envelope]], None]) -> None:
        self._deliver = deliver
        self._inbox: deque[Envelope] = deque()
        self._calls: deque[Callable[[], None]] = deque()
        self._loop: AbstractEventLoop | None = None
        self._update: TimerHandle | None = None
        self._timers: set[TimerHandle] = set()
        self._last = 0.0

    def attach(self, loop: AbstractEventLoop) -> None:
        """Start to deliver in this loop."""
        self._loop = loop
        loop.call_soon(self._wake)

    def detach(self) -> None:
        """Stop to deliver; what arrives from now on waits."""
        self._loop = None
        for timer in (*self._timers, *([self._update] if self._update else ())):
            timer.cancel()
        self._timers.clear()
        self._update = None

    def post(self, envelope: Envelope) -> None:
        """Add an event; called from any thread."""
        self._inbox.append(envelope)
        self._wake_from_outside()

    def run(self, work: Callable[[], None]) -> None:
        """Call a function in the loop of the terminal; called from any thread."""
        self._calls.append(work)
        self._wake_from_outside()

    def later(self, seconds: float, work: Callable[[], None]) -> None:
        """Call a function after some time, unless the terminal has ended by then."""
        if self._loop is None:
            return

        def call() -> None:
            self._timers.discard(timer)
            work()

        timer = self._loop.call_later(seconds, call)
        self._timers.add(timer)

    def wake(self) -> None:
        """Ask for an update; called in the loop of the terminal."""
        if self._loop is not None and self._update is None:
            wait = max(0.0, self._last + FRAME - time.monotonic())
            self._update = self._loop.call_later(wait, self.flush)

    def flush(self) -> None:
        """Deliver what has arrived, now."""
        if self._update is not None:
            self._update.cancel()
        self._update, self._last = None, time.monotonic()
        envelopes = [self._inbox.popleft() for _ in range(len(self._inbox))]
        self._deliver(envelopes)
        has_calls = bool(self._calls)
        while self._calls and self._loop is not None:
            try:
                self._calls.popleft()()
            except Exception:
                # A bug must not end the prompt.
                logger.exception("a result cannot be shown")
        if has_calls:
            self._deliver([])
        self._wake()

    def _wake(self) -> None:
        if self._inbox or self._calls:
            self.wake()

    def _wake_from_outside(self) -> None:
        loop = self._loop
        if loop is not None:
            try:
                loop.call_soon_threadsafe(self._wake)
            except RuntimeError:
                # The loop was closed a moment ago: what arrived waits for the next one.
                return
