"""A note on the terminal while a command waits for the first words of a model, or a server."""

import sys
import time
from collections.abc import Callable
from typing import TextIO

import anyio

from clew.core.sanitize import sanitize_line

_QUIET = 2.0
"""Seconds of silence before the note appears."""
_TICK = 0.5
_MAX_NAME = 40
_ERASE = "\r\x1b[K"


class WaitNote:
    """Says on standard error for how long there has been no output; nothing without a terminal.

    Args:
        stream: Where to write; standard error by default.
        clock: The time in seconds.
    """

    def __init__(
        self, stream: TextIO | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._since = clock()
        self._is_shown = False
        self._is_over = not self._stream.isatty()

    async def run(self, name: str) -> None:
        """Update the note until the task is cancelled."""
        while not self._is_over:
            await anyio.sleep(_TICK)
            self.update(name)

    def update(self, name: str) -> None:
        """Write the note if there was no output for a while."""
        waited = self._clock() - self._since
        if self._is_over or waited < _QUIET:
            return
        self._is_shown = True
        shown = sanitize_line(name, _MAX_NAME)
        self._stream.write(f"{_ERASE}waiting for {shown} … {waited:.0f} s")
        self._stream.flush()

    def restart(self) -> None:
        """Erase the note, because something else is written; silence counts from here."""
        self._since = self._clock()
        if self._is_shown:
            self._is_shown = False
            self._stream.write(_ERASE)
            self._stream.flush()

    def end(self) -> None:
        """Erase the note for good: an answer has begun."""
        self.restart()
        self._is_over = True
