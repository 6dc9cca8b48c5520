"""Signals that ask a program to end: what is under way is aborted and kept first."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_NAMES = ("SIGTERM", "SIGHUP")
_SIGNALLED = 128
"""What shells add to a signal's number for the exit code."""


def ending_signals() -> list[signal.Signals]:
    """Return the signals to heed: not those that whoever started Clew has switched off."""
    known = [signal.Signals[name] for name in _NAMES if name in signal.Signals.__members__]
    return [number for number in known if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def handle_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Have a function called on each such signal in the `with` block; main thread only."""
    before = {number: signal.signal(number, handler) for number in ending_signals()}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def exit_code(number: int) -> int:
    """Return the code that a shell would report for a program that a signal ended."""
    return _SIGNALLED + number
