"""Reads lines from standard input, for a terminal that can only append lines, or a pipe."""

import contextlib
import sys
from collections.abc import Callable, Iterator

from clew.tui.standard_output import OutputLost, write_out

_PROMPT = "> "


class LineReader:
    """Standard input, line by line; the handlers of signals set its fields."""

    def __init__(self) -> None:
        self.is_reading = False
        """True while a line is read: then Ctrl-C raises `KeyboardInterrupt`."""
        self.is_closed = False
        """True when no more lines are wanted."""
        self.lost: OutputLost | None = None
        """Standard output is closed."""
        if sys.stdin.isatty():
            with contextlib.suppress(ImportError):
                import readline  # noqa: F401, PLC0415 - gives `input` line editing

    def read_all(self, prepare: Callable[[], None]) -> Iterator[str]:
        """Yield the lines that are not empty, until end of file, or Ctrl-C twice.

        Args:
            prepare: Called before each line is read.
        """
        warned = False
        while not self.is_closed:
            prepare()
            try:
                line = self.read(_PROMPT).strip()
            except EOFError:
                write_out("\n")
                return
            except KeyboardInterrupt:
                write_out("\n")
                if warned:
                    return
                warned = True
                write_out("press Ctrl-C again to exit\n")
                continue
            warned = False
            if line:
                yield line

    def read(self, prompt: str) -> str:
        """Show a prompt and read a line.

        Raises:
            EOFError: There is no more input.
            KeyboardInterrupt: The user pressed Ctrl-C.
            OutputLost: Standard output is closed.
        """
        self.check()
        self.is_reading = True
        try:
            return input(prompt)
        finally:
            self.is_reading = False

    def check(self) -> None:
        """Raise `OutputLost` if standard output is closed."""
        write_out("")
        if self.lost is not None:
            raise self.lost
