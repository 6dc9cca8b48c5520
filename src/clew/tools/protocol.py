"""The contract between a session and a tool."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field

from clew.core.access import Access
from clew.core.messages import Image
from clew.core.models import ToolSpec


class ToolOutput(Struct, frozen=True, kw_only=True):
    """What a call produced, for its audiences: the model and the screen."""

    text: str
    """What the model reads."""
    failed: bool = False
    display: str = ""
    """What the screen shows; empty means `text`."""
    images: tuple[Image, ...] = ()
    data: dict[str, object] = field(default_factory=dict)
    """Facts for logs and clients, such as a structured diff."""


class Shell(Struct, kw_only=True):
    """What the command lines of one session leave behind for the next one."""

    cwd: Path | None = None
    """Where the last one ended; None for the folder of the place."""


class ToolContext(Struct, frozen=True, kw_only=True):
    """Where a call runs. A session makes one and hands it to all its calls."""

    cwd: Path
    env: dict[str, str] = {}
    """Variables that processes started by tools get, whatever their names."""
    shell: Shell = field(default_factory=Shell)
    """Kept here and not in the tool, so that sessions may share tools."""
    before_change: Callable[[Path], None] | None = None
    """To be called before a file is changed, made or removed, and from any thread. Keeps what
    is there for a rewind; raises `OSError` when it cannot, and then the file must stay."""


class Tool(Protocol):
    """One thing a model can ask for. Tools hold no conversation."""

    @property
    def spec(self) -> ToolSpec:
        """Name, description and argument schema, as the model sees them."""
        ...

    @property
    def max_output_chars(self) -> int | None:
        """Longest text the model gets of one call, or None for the session's limit."""
        ...

    def access(self, arguments: dict[str, Any], place: ToolContext) -> Access:
        """Say what a call with these arguments would touch. Never raises."""
        ...

    async def run(self, arguments: dict[str, Any], place: ToolContext) -> ToolOutput:
        """Do the work.

        Failure is an output with `failed` set. What is raised all the same is reported
        to the model as a crash by the session; cancellation ends the work at once,
        child processes included.
        """
        ...
