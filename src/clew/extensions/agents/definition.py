"""What an agent is: a prompt, and what it may use."""

from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

Source: TypeAlias = Literal["builtin", "project", "user", "plugin"]


class AgentDefinition(Struct, frozen=True, kw_only=True):
    """A kind of agent that work can be handed to."""

    name: str
    description: str
    """When to hand work to it, in one line."""
    system_prompt: str
    model: str = ""
    """A model or a shortcut such as `haiku`; empty for that of the caller."""
    max_turns: int | None = None
    tools: tuple[str, ...] | None = None
    """What it may use, as names or patterns; None for all that the caller has."""
    disallowed_tools: tuple[str, ...] = ()
    """What it may not use, whatever `tools` says."""
    source: Source = "builtin"
    path: Path | None = None
    """Where it is defined; None for those that come with Clew."""
    problems: tuple[str, ...] = ()
    """What is wrong with it, or asks for what Clew does not do; it can be used all the same."""
