"""What was typed before the editor was there to read it.

Until then the terminal collects lines and turns Enter into a line break, which in the editor
is another key: Ctrl-J. So what waits is taken over in the old mode, and given back as keys.
"""

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

_BLOCK = 4_096

if sys.platform == "win32":
    FAILURES: tuple[type[Exception], ...] = (OSError, ValueError)

    @contextmanager
    def typed_ahead() -> Iterator[list[KeyPress]]:
        """Nothing waits: the console hands out keys as they are."""
        yield []

    def drop_typed_ahead() -> None:
        """Do nothing: what waits are keys that the console keeps for the next reader."""

else:
    import termios

    FAILURES = (OSError, ValueError, termios.error)
    """What a terminal raises that cannot be used."""

    @contextmanager
    def typed_ahead() -> Iterator[list[KeyPress]]:
        """Yield the keys that were pressed so far; restores the terminal's mode at the end.

        From the beginning of the block on, Enter is no longer turned into anything.
        """
        terminal = sys.stdin.fileno()
        before = termios.tcgetattr(terminal)
        # Read again, as the list holds another one: both would be changed.
        plain = termios.tcgetattr(terminal)
        plain[0] &= ~termios.ICRNL
        termios.tcsetattr(terminal, termios.TCSANOW, plain)
        try:
            yield _waiting(terminal)
        finally:
            termios.tcsetattr(terminal, termios.TCSANOW, before)

    def drop_typed_ahead() -> None:
        """Forget what was typed so far."""
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

    def _waiting(terminal: int) -> list[KeyPress]:
        keys: list[KeyPress] = []
        parser = Vt100Parser(keys.append)
        while select.select([terminal], [], [], 0)[0]:
            text = os.read(terminal, _BLOCK).decode(errors="replace")
            if not text:
                return [*keys, KeyPress(Keys.ControlD)]
            parser.feed(text.replace("\n", "\r"))
        parser.flush()
        return keys
