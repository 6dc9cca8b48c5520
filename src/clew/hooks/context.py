"""What a session provides to its hooks: the project folder, the environment, and callbacks."""

import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVarTuple, Unpack

from msgspec import Struct, field

from clew.hooks.protocol import HookInput

_Ts = TypeVarTuple("_Ts")


class AgentTask(Struct, frozen=True, kw_only=True):
    """The task that a hook gives to an agent. The hook's timeout cancels it."""

    agent: str
    """The name of the agent; empty for the general-purpose one."""
    prompt: str
    model: str
    """Empty for the default model."""
    max_turns: int


AskModel: TypeAlias = Callable[[str, str], Awaitable[str]]
"""Asks a model: takes the prompt and the model's name (empty for the default), returns its text."""
RunAgent: TypeAlias = Callable[[AgentTask], Awaitable[str]]
"""Runs an agent and returns its last message."""
RuleMatcher: TypeAlias = Callable[[str, HookInput], bool]
"""Does a permission rule such as `Bash(git *)` match a call? True where that is uncertain."""


class TaskStarter(Protocol):
    """Starts background work, as an anyio task group does."""

    def start_soon(self, func: Callable[[Unpack[_Ts]], Awaitable[Any]], /, *args: *_Ts) -> object:
        """Start a task."""
        ...


def _keep_text(text: str) -> str:
    return text


class HookContext(Struct, frozen=True, kw_only=True):
    """What a session provides to its hooks. Only the project folder is required."""

    project: Path
    """The folder that the session started in, whatever the working directory is now."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """The environment of commands, including API keys: a hook is the user's own program."""
    ask: AskModel | None = None
    """Without it, prompt hooks cannot run."""
    run_agent: RunAgent | None = None
    """Without it, agent hooks cannot run."""
    holds: RuleMatcher | None = None
    """Without it, `if` compares only the name of the tool."""
    background: TaskStarter | None = None
    """Owns the tasks of `async` hooks; without it, the session waits for them."""
    redact: Callable[[str], str] = _keep_text
    """Applied to every text that a hook returns."""
    parallel: int = 8
    """The most hooks of one event that run at the same time."""
