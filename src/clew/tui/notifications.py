"""Beyond the screen: window title, clipboard, and a sign for a user who looks elsewhere."""

import base64
import time
from collections.abc import Callable
from typing import Final

from prompt_toolkit.output import Output

from clew.core.sanitize import sanitize_line
from clew.tui.blocks import Notice
from clew.tui.options import TerminalOptions

_MAX_TITLE: Final = 80
_MAX_NOTE: Final = 200
_MAX_COPY: Final = 74_994
"""Terminals ignore longer texts."""
_NO_OSC: Final = ("linux", "dumb", "eterm", "vt")
"""The start of `TERM` where operating system commands would be printed."""


class Notifier:
    """Sets the window title, and tells the user when a long run ends or asks.

    Args:
        output: The terminal.
        options: What the user wants.
        term: The type of the terminal.
        clock: Returns seconds; for tests.
    """

    def __init__(
        self,
        output: Output,
        options: TerminalOptions,
        *,
        term: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._output, self._options, self._clock = output, options, clock
        self._has_osc = not term.startswith(_NO_OSC)
        self._title = ""
        self._last_key = clock()

    def note_key(self) -> None:
        """Take note that the user is here."""
        self._last_key = self._clock()

    def set_title(self, text: str) -> None:
        """Set the window title."""
        title = sanitize_line(text, _MAX_TITLE)
        if self._options.title and self._has_osc and title != self._title:
            self._title = title
            self._output.write_raw(f"\x1b]2;{title}\x1b\\")

    def clear_title(self) -> None:
        """Give the window title back."""
        if self._title:
            self._title = ""
            self._output.write_raw("\x1b]2;\x1b\\")
            self._output.flush()

    def copy(self, text: str) -> Notice:
        """Put a text on the clipboard, with OSC 52; returns what to tell the user.

        Terminals may ignore it, and do not say so.
        """
        if not self._has_osc:
            return Notice("not copied: this terminal has no clipboard", "warning")
        whole = text.encode(errors="replace")
        data = base64.b64encode(whole[:_MAX_COPY]).decode()
        self._output.write_raw(f"\x1b]52;c;{data}\x1b\\")
        self._output.flush()
        if len(whole) > _MAX_COPY:
            size = f"{_MAX_COPY:,} of {len(whole):,} bytes"
            return Notice(f"only {size} were copied; /export writes all of it to a file", "warning")
        return Notice("copied to the clipboard of the terminal")

    def notify(self, text: str) -> None:
        """Tell the user something, unless a key was pressed a moment ago."""
        if self._clock() - self._last_key < self._options.notify_after:
            return
        how = self._options.notify
        if how in ("osc9", "both") and self._has_osc:
            self._output.write_raw(f"\x1b]9;{sanitize_line(text, _MAX_NOTE)}\x1b\\")
        if how in ("bell", "both"):
            self._output.write_raw("\x07")
        self._output.flush()
