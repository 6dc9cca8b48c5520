"""What hooks run with: the place, and the seams to the rest of a session."""

import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVarTuple, Unpack

from msgspec import Struct, field

from clew.hooks.protocol import HookInput

_Ts = TypeVarTuple("_Ts")


class AgentTask(Struct, frozen=True, kw_only=True):
    """What an agent is asked to find out for a hook."""

    agent: str
    """Which agent; empty for one without special instructions."""
    prompt: str
    model: str
    """Empty for the usual one."""
    max_turns: int
    seconds: float
    """When this time is over, the call is cancelled."""


Ask: TypeAlias = Callable[[str, str], Awaitable[str]]
"""Asks a model: the prompt, and the model's name, empty for the usual one."""
RunAgent: TypeAlias = Callable[[AgentTask], Awaitable[str]]
"""Runs an agent and returns its last words."""
Holds: TypeAlias = Callable[[str, HookInput], bool]
"""Does a permission rule such as `Bash(git *)` hold for a call? True where it cannot be told."""
Wake: TypeAlias = Callable[[str], None]
"""Brings words of a hook in the background to the model at once."""


class Starts(Protocol):
    """Where work begins that nobody waits for, such as a task group."""

    def start_soon(self, func: Callable[[Unpack[_Ts]], Awaitable[Any]], /, *args: *_Ts) -> object:
        """Begin some work."""
        ...


def _as_it_is(text: str) -> str:
    return text


class HookContext(Struct, frozen=True, kw_only=True):
    """What hooks run with. Only the project's folder is needed."""

    project: Path
    """Where the session was started; it stays when the working folder changes."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """What commands inherit, keys included: a hook is the user's own program."""
    ask: Ask | None = None
    """Without it, prompt hooks cannot run here."""
    run_agent: RunAgent | None = None
    """Without it, agent hooks cannot run here."""
    holds: Holds | None = None
    """Without it, `if` compares the tool's name alone."""
    wake: Wake | None = None
    """Without it, such words wait for the next prompt."""
    background: Starts | None = None
    """Where `async` hooks run, and who ends them; without it, they are waited for."""
    redact: Callable[[str], str] = _as_it_is
    """Every text that a hook says goes through this."""
    parallel: int = 8
    """How many hooks of one event run at once."""
