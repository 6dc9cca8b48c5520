"""What is known of a skill before it is called: everything but its text."""

from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

Source: TypeAlias = Literal["project", "user", "plugin"]


class Skill(Struct, frozen=True, kw_only=True):
    """Instructions in a file, which a person or a model may call by name."""

    name: str
    """What follows the slash. A command in a subfolder is named with it: `db:migrate`."""
    description: str
    """One line."""
    path: Path
    source: Source
    when_to_use: str = ""
    """More words on when a model should call it."""
    argument_hint: str = ""
    model_invocable: bool = True
    """False: a model does not learn that it exists."""
    user_invocable: bool = True
    """False: it is not offered to a person who types a slash."""
    fork: bool = False
    """It runs in a session of its own, and only its answer comes back."""
    agent: str = ""
    """Who runs it when it forks; empty for the general-purpose agent."""
    allowed_tools: tuple[str, ...] = ()
    """Names or patterns such as `Bash(git *)`; empty when it does not say."""
    model: str = ""
    """A model or a shortcut such as `haiku`; empty for that of the session."""
    tree: Path | None = None
    """The folder that the file must lie in, whatever links say; None for anywhere."""
    problems: tuple[str, ...] = ()
    """What is wrong with it, or asks for what Clew does not do; it can be called all the same."""

    @property
    def folder(self) -> Path:
        """Where the files lie that come with it."""
        return self.path.parent
