"""Signals that end the program: Clew aborts the run and saves the partial answer first."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_NAMES = ("SIGTERM", "SIGHUP")
_SIGNAL_BASE = 128
"""Shells add this to the signal number for the exit code."""


def ending_signals() -> list[signal.Signals]:
    """Return the signals to handle: those that the parent process does not ignore."""
    known = [signal.Signals[name] for name in _NAMES if name in signal.Signals.__members__]
    return [number for number in known if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def handle_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Call a function on each of these signals in the `with` block; main thread only."""
    before = {number: signal.signal(number, handler) for number in ending_signals()}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Leave the `with` block with `SystemExit` on the first of these signals; main thread only.

    So what the block has changed, such as the mode of the terminal, is restored.
    """
    is_leaving = False

    def leave(number: int, _frame: FrameType | None) -> None:
        nonlocal is_leaving
        if not is_leaving:
            is_leaving = True
            raise SystemExit(exit_code(number))

    with handle_signals(leave):
        yield


def exit_code(number: int) -> int:
    """Return the exit code of a program that a signal ended, as shells report it."""
    return _SIGNAL_BASE + number
