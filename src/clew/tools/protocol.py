"""The contract between a session and a tool."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct, field

from clew.core.messages import Image
from clew.core.models import ToolSpec
from clew.core.permissions import Access, DeniedPaths, PermissionAnswer
from clew.core.results import Report, TerminalResult


class ToolOutput(Struct, frozen=True, gc=False, kw_only=True):
    """The result of a call, for the model and for the screen."""

    text: str
    """The text for the model."""
    failed: bool = False
    display: str = ""
    """The text for the screen; empty means `text`."""
    images: tuple[Image, ...] = ()
    data: dict[str, object] = field(default_factory=dict)
    """Facts for logs and clients, such as a structured diff."""
    loads: tuple[str, ...] = ()
    """The deferred tools whose declarations are the text."""


class Shell(Struct, kw_only=True):
    """The shell state that the commands of one session share."""

    cwd: Path | None = None
    """The working directory after the last command; None for that of the context."""


class Progress(Struct, kw_only=True):
    """How a call reports while it runs. Each call has its own."""

    report: Callable[[str], None]
    """Call this with the newest output, as often as you like. Clients show its last line.

    Lines before the last one help to recognise secrets of several lines, such as private keys."""
    get_partial: Callable[[], str] | None = None
    """Set this to a function that returns the output so far. It becomes part of the result if the
    call is aborted."""


class Documents(Protocol):
    """Text files as an editor has them, with changes that are not saved yet.

    The file tools use it instead of the disk. Both methods are called from worker threads.
    """

    def read(self, path: Path) -> str | None:
        """Return the text of a file; None if the file on disk is to be read."""
        ...

    def write(self, path: Path, text: str) -> bool:
        """Write a file and save it; returns False if it is to be written to disk.

        Raises:
            OSError: The editor has the file, but cannot write it.
        """
        ...


class Terminal(Protocol):
    """A terminal that the user sees, such as that of an editor. The Bash tool runs in it."""

    async def run(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        seconds: float,
        report: Report,
        call_id: str,
    ) -> TerminalResult | None:
        """Run a command to its end; None if it cannot start there and is to run without.

        Cancellation ends the command. Variables that are not in `env` may be set as well.
        """
        ...


AskUser: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[PermissionAnswer | None]]
"""Asks the user a question in the middle of a call: the question, and facts to show beside it.
None means that no client can answer."""
AskModel: TypeAlias = Callable[[str], Awaitable[str]]
"""Asks the session's model outside the conversation, at the session's cost."""


class ToolContext(Struct, frozen=True, kw_only=True):
    """The environment of a call. A session creates one and passes it to all its calls."""

    cwd: Path
    env: dict[str, str] = {}
    """Environment variables for processes that tools start, whatever their names."""
    shell: Shell = field(default_factory=Shell)
    """Kept here and not in the tool, so that sessions can share tools."""
    before_change: Callable[[Path], None] | None = None
    """Call this before a file is changed, created or removed, from any thread. It saves the file
    for a rewind; if it raises `OSError`, the file must stay unchanged."""
    documents: Documents | None = None
    """The files that an editor has open; None to use the disk alone."""
    terminal: Terminal | None = None
    """Where commands run so that the user sees them; None to run them as child processes."""
    allowed_paths: tuple[str, ...] = ()
    """The real paths that this call was allowed to use, for a command first the folder in which it
    starts; empty if nothing was decided."""
    answer: PermissionAnswer | None = None
    """The user's answer to the question of this call; see `Access.question`."""
    find_denied: Callable[[], DeniedPaths] | None = None
    """Finds the paths that processes must not reach. It may read folders: call it in a thread."""
    call_id: str = ""
    """The call that runs."""
    redact_values: tuple[str, ...] | None = ()
    """Texts that the session redacts besides those that look like secrets; None if it redacts
    nothing."""
    progress: Progress | None = None
    """Where a call that takes long reports its output; None if the output is not wanted."""
    ask: AskUser | None = None
    """Asks the user while the call runs; None if no client can answer."""
    ask_model: AskModel | None = None
    """Asks the model while the call runs."""


class Tool(Protocol):
    """Something that a model can call. Tools hold no conversation state."""

    @property
    def spec(self) -> ToolSpec:
        """The name, description and argument schema for the model."""
        ...

    @property
    def max_output_chars(self) -> int | None:
        """The most characters of output that the model gets; None for the session's limit."""
        ...

    def access(self, arguments: dict[str, Any], context: ToolContext) -> Access:
        """Return the access that a call with these arguments needs. Never raises."""
        ...

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        """Run the call.

        A failure is an output with `failed` set. The session reports any exception to the model
        as a crash. Cancellation ends the work at once, including child processes.
        """
        ...


@runtime_checkable
class ChecksArguments(Protocol):
    """A tool that knows before it runs that a call cannot succeed. Optional."""

    def check(self, arguments: dict[str, Any]) -> ToolOutput | None:
        """Return the failure that `run` would return for these arguments, or None.

        It looks at the arguments only: the user has not allowed the call yet. It runs in a worker
        thread.
        """
        ...


@runtime_checkable
class RehearsesCalls(Protocol):
    """A tool that can find out by reading alone that a call cannot succeed. Optional."""

    async def rehearse(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput | None:
        """Return the failure that `run` would return now, or None.

        It changes nothing. A session calls it only where the Read tool may read the targets of the
        call without a question, so the failure tells the model nothing that it may not know.
        """
        ...


@runtime_checkable
class ForwardsCalls(Protocol):
    """A tool that passes its calls on to another tool. Optional.

    Permission rules, hooks and limits see the other tool, as if the model had called it.
    """

    def resolve(self, arguments: dict[str, Any]) -> "tuple[Tool, dict[str, Any]] | ToolOutput":
        """Return the tool to run and its arguments, or why there is none. Never raises."""
        ...


@runtime_checkable
class ReadsResources(Protocol):
    """A tool that reads the resources of servers by `server` and `uri`. Optional."""

    def has_server(self, name: str) -> bool:
        """Return whether there is a server of that name."""
        ...


class ToolSource(Protocol):
    """Tools that come and go while a session runs, such as those of MCP servers.

    Each session has a source of its own. Requests declare what `choose_specs` returned before the
    first model call, and nothing else later: so that new tools do not change the beginning of
    requests, which providers cache. Tools that come later are announced in the conversation.
    """

    async def wait_ready(self) -> None:
        """Wait a short time until the tools are known; later calls return at once."""
        ...

    def find(self, name: str) -> Tool | None:
        """Return the tool of that name, whether it was declared or not."""
        ...

    def list_names(self) -> Sequence[str]:
        """Return the names of all tools that can be called now."""
        ...

    def owns(self, name: str) -> bool:
        """Return whether a tool of that name can only be this source's."""
        ...

    def choose_specs(self, window: int) -> tuple[ToolSpec, ...]:
        """Return the declarations for requests to a model with that context window."""
        ...

    def restrict(self, allows: Callable[[str], bool]) -> "ToolSource":
        """Return a source for another session, which may use only some of the tools."""
        ...

    def take_news(self) -> str:
        """Return what the model should know about changes since the last call; often empty."""
        ...
