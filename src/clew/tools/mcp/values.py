"""What is known about an MCP server: its state, and what it offers."""

from enum import StrEnum

from msgspec import Struct

from clew.core.models import ToolSpec


class ServerState(StrEnum):
    """Whether a server can be called."""

    STARTING = "starting"
    READY = "ready"
    RETRYING = "retrying"
    """It ended or could not be started; another attempt follows."""
    FAILED = "failed"
    """It could not be started several times; a call makes another attempt."""
    NEEDS_LOGIN = "needs login"
    """The user must log in first: `clew mcp login NAME`."""
    CLOSED = "closed"


class ServerTool(Struct, frozen=True, kw_only=True):
    """A tool of a server."""

    server: str
    own_name: str
    """The name that the server knows."""
    spec: ToolSpec
    """The declaration for models, with the name `mcp__server__tool`."""
    read_only: bool = False
    """True when the server says that the tool only reads."""


class PromptArgument(Struct, frozen=True, kw_only=True):
    """An argument of a prompt."""

    name: str
    required: bool = False


class ServerPrompt(Struct, frozen=True, kw_only=True):
    """A prompt of a server, which is a command."""

    server: str
    own_name: str
    name: str
    """The name of the command: `mcp__server__prompt`."""
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class ServerResource(Struct, frozen=True, kw_only=True):
    """A resource of a server, or a template for the addresses of resources."""

    uri: str
    name: str = ""
    description: str = ""
    is_template: bool = False


class Catalogue(Struct, frozen=True, kw_only=True):
    """What a server offers, each list in a stable order."""

    tools: tuple[ServerTool, ...] = ()
    prompts: tuple[ServerPrompt, ...] = ()
    resources: tuple[ServerResource, ...] = ()
    instructions: str = ""
    """What the server says about itself."""
    problems: tuple[str, ...] = ()
    """What was left out, and why."""


class ServerStatus(Struct, frozen=True, kw_only=True):
    """A server as `/mcp` shows it."""

    name: str
    state: ServerState
    transport: str
    target: str
    origin: str
    error: str = ""
    """Why it cannot be called."""
    output: tuple[str, ...] = ()
    """The last lines that it wrote to standard error before it ended."""
    version: str = ""
    """The protocol version that was agreed on."""
    tools: int = 0
    prompts: int = 0
    resources: int = 0
