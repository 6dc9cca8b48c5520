"""What a line editor does, and what it is told."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from clew.cli.status import Standing
from clew.core.errors import ClewError


@dataclass(frozen=True, slots=True)
class Completion:
    """One line of the menu."""

    text: str
    """What takes the place of the last word before the cursor."""
    display: str = ""
    """What the menu shows; empty means `text`."""
    meta: str = ""
    """What stands beside it."""


Complete = Callable[[str], Sequence[Completion]]
"""Is given the text up to the cursor, which begins with a slash."""


class LineDropped(KeyboardInterrupt):
    """Ctrl-C broke off a line in which something had been typed."""


class EditorFailed(ClewError):
    """The terminal does not let itself be edited on."""


class Editor(Protocol):
    """One way to read what a person types.

    Both methods raise `KeyboardInterrupt` on Ctrl-C, which is `LineDropped` where it can be told
    that keys were pressed, `EOFError` on Ctrl-D in an empty line, and `EditorFailed` when there
    is no reading in this way.
    """

    def read(self, prompt: str, status: Callable[[], Standing]) -> str:
        """Read a line, or several."""
        ...

    def ask(self, prompt: str) -> str:
        """Read an answer that shall be remembered nowhere."""
        ...

    def leave(self) -> None:
        """Have the reading end with `EOFError`; called by a signal's handler while it reads."""
        ...
