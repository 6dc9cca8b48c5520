"""The result of a command that ran in a terminal which the user sees, such as that of an editor."""

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

Report: TypeAlias = Callable[[str], None]
"""Takes the output of a command so far."""


class TerminalResult(Struct, frozen=True, kw_only=True):
    """How a command ended."""

    output: str
    code: int
    """The exit code; the negative signal number if a signal ended it."""
    timed_out: bool = False
