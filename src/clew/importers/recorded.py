"""A session as it was recorded, whatever tool recorded it."""

from typing import Literal, TypeAlias

from msgspec import Struct

from clew.core.messages import Message
from clew.core.models import ToolSpec
from clew.core.usage import Usage

Source: TypeAlias = Literal["claude_code", "codex", "pi", "clew"]


class Step(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message, and what the recording knows about it."""

    message: Message
    usage: Usage | None = None
    """What the provider counted for this answer; never all zeros."""
    model: str = ""
    """Who wrote it; empty for all but a model's own answers."""
    at: float = 0.0
    """Seconds since the epoch; 0.0 when the recording does not say."""
    is_summary: bool = False
    """True when the text stands for messages that the model no longer saw."""
    compacts: bool = False
    """True for a summary that took the place of every step before it."""


class RecordedSession(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A whole recording.

    Its messages are always a valid conversation: the user begins, and every call is
    followed at once by its results, in the order of the calls.
    """

    source: Source
    id: str = ""
    cwd: str = ""
    name: str = ""
    model: str = ""
    """The model that gave the last answer."""
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    steps: tuple[Step, ...] = ()
    problems: tuple[str, ...] = ()
    """What was repaired, left out or not understood, in words."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of all steps, summaries among them."""
        return tuple(step.message for step in self.steps)
