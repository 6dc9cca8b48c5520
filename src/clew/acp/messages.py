"""The parameters and results of the methods of the Agent Client Protocol, version 1.

Unknown fields of an editor are ignored; `None` is accepted for every optional one.
"""

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from clew.acp.content import ConfigOption, ContentBlock, ToolCallFields, Update

PROTOCOL_VERSION = 1


class FileSystem(Struct, frozen=True, rename="camel"):
    """Which files an editor reads and writes for the agent."""

    read_text_file: bool | None = False
    write_text_file: bool | None = False


class ClientCapabilities(Struct, frozen=True, rename="camel"):
    """What an editor can do."""

    fs: FileSystem | None = None
    terminal: bool | None = False


class Implementation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The name and version of a program."""

    name: str
    version: str = ""
    title: str | None = None


class InitializeParams(Struct, frozen=True, rename="camel"):
    """The first request of an editor."""

    protocol_version: int
    client_capabilities: ClientCapabilities | None = None


class Empty(Struct, frozen=True):
    """An object without fields."""


class PromptCapabilities(Struct, frozen=True, kw_only=True, rename="camel"):
    """Which blocks a prompt may have beside text and links."""

    image: bool = True
    audio: bool = False
    embedded_context: bool = True


class McpCapabilities(Struct, frozen=True, kw_only=True):
    """Which MCP servers an editor may pass to a session, beside those on stdio."""

    http: bool = True
    sse: bool = True


class SessionCapabilities(
    Struct,
    frozen=True,
    kw_only=True,
    rename={"list_": "list", "directories": "additionalDirectories"},
):
    """The optional methods for sessions."""

    list_: Empty = Empty()
    fork: Empty = Empty()
    resume: Empty = Empty()
    close: Empty = Empty()
    directories: Empty = Empty()


class AgentCapabilities(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the agent can do."""

    load_session: bool = True
    prompt_capabilities: PromptCapabilities = PromptCapabilities()
    mcp_capabilities: McpCapabilities = McpCapabilities()
    session_capabilities: SessionCapabilities = SessionCapabilities()


class InitializeResult(Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to the first request."""

    protocol_version: int = PROTOCOL_VERSION
    agent_capabilities: AgentCapabilities = AgentCapabilities()
    agent_info: Implementation
    auth_methods: tuple[Empty, ...] = ()


class AuthenticateParams(Struct, frozen=True, rename="camel"):
    """A way to log in; Clew has none."""

    method_id: str


class NameValue(Struct, frozen=True):
    """An environment variable or a header."""

    name: str
    value: str


class McpServer(Struct, frozen=True, kw_only=True):
    """An MCP server that the editor passes to a session."""

    name: str
    type: Literal["stdio", "http", "sse"] = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[NameValue, ...] = ()
    url: str = ""
    headers: tuple[NameValue, ...] = ()

    def make_entry(self) -> dict[str, Any]:
        """Return the server in the format of the settings."""
        if self.type == "stdio":
            env = {one.name: one.value for one in self.env}
            return {"command": self.command, "args": list(self.args), "env": env}
        headers = {one.name: one.value for one in self.headers}
        return {"type": self.type, "url": self.url, "headers": headers}


class NewSessionParams(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a session works."""

    cwd: str
    mcp_servers: tuple[McpServer, ...] | None = ()
    additional_directories: tuple[str, ...] | None = ()


class OpenSessionParams(NewSessionParams, frozen=True, kw_only=True, rename="camel"):
    """A stored session to load, resume or fork."""

    session_id: str


class Mode(Struct, frozen=True, kw_only=True):
    """A mode that the user can choose."""

    id: str
    name: str
    description: str


class ModeState(Struct, frozen=True, kw_only=True, rename="camel"):
    """The modes, and the one that is set."""

    current_mode_id: str
    available_modes: tuple[Mode, ...]


class SessionResult(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The state of a session that was opened."""

    modes: ModeState
    config_options: tuple[ConfigOption, ...]
    session_id: str | None = None
    """The id of a session that is new."""


class SessionParams(Struct, frozen=True, rename="camel"):
    """An open session."""

    session_id: str


class ListSessionsParams(Struct, frozen=True, kw_only=True):
    """Which sessions to list."""

    cwd: str | None = None
    cursor: str | None = None


class SessionInfo(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A stored session in a list."""

    session_id: str
    cwd: str
    title: str | None = None
    updated_at: str | None = None


class ListSessionsResult(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A page of the list."""

    sessions: tuple[SessionInfo, ...]
    next_cursor: str | None = None


class SetModeParams(Struct, frozen=True, kw_only=True, rename="camel"):
    """Another mode for a session."""

    session_id: str
    mode_id: str


class SetConfigParams(Struct, frozen=True, kw_only=True, rename="camel"):
    """Another value for an option."""

    session_id: str
    config_id: str
    value: str


class ConfigResult(Struct, frozen=True, kw_only=True, rename="camel"):
    """All options with their values."""

    config_options: tuple[ConfigOption, ...]


class PromptParams(Struct, frozen=True, kw_only=True, rename="camel"):
    """A prompt."""

    session_id: str
    prompt: tuple[ContentBlock, ...]


StopReason: TypeAlias = Literal[
    "end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"
]


class TurnUsage(Struct, frozen=True, kw_only=True, rename="camel"):
    """The tokens of a turn."""

    total_tokens: int
    input_tokens: int
    output_tokens: int
    cached_read_tokens: int
    cached_write_tokens: int


class PromptResult(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """How a turn ended."""

    stop_reason: StopReason
    usage: TurnUsage | None = None


class UpdateParams(Struct, frozen=True, rename="camel"):
    """Something happened in a session."""

    session_id: str
    update: Update


PermissionKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class PermissionOption(Struct, frozen=True, kw_only=True, rename="camel"):
    """An answer that the user can choose."""

    option_id: str
    name: str
    kind: PermissionKind


class PermissionParams(Struct, frozen=True, kw_only=True, rename="camel"):
    """A question to the user about a tool call."""

    session_id: str
    tool_call: ToolCallFields
    options: tuple[PermissionOption, ...]


class PermissionOutcome(Struct, frozen=True, kw_only=True, rename="camel"):
    """The chosen answer, or `cancelled`."""

    outcome: Literal["selected", "cancelled"]
    option_id: str = ""


class PermissionResult(Struct, frozen=True):
    """The answer of the editor."""

    outcome: PermissionOutcome


class ReadFileParams(Struct, frozen=True, kw_only=True, rename="camel"):
    """A file to read, as the editor has it."""

    session_id: str
    path: str


class ReadFileResult(Struct, frozen=True):
    """The text of a file."""

    content: str


class EnvVariable(Struct, frozen=True):
    """A variable for a command."""

    name: str
    value: str


class CreateTerminalParams(Struct, frozen=True, kw_only=True, rename="camel"):
    """A command to run in a terminal of the editor."""

    session_id: str
    command: str
    args: tuple[str, ...]
    env: tuple[EnvVariable, ...]
    cwd: str
    output_byte_limit: int


class CreateTerminalResult(Struct, frozen=True, rename="camel"):
    """The terminal in which the command runs."""

    terminal_id: str


class TerminalParams(Struct, frozen=True, kw_only=True, rename="camel"):
    """A terminal of the editor."""

    session_id: str
    terminal_id: str


class TerminalOutput(Struct, frozen=True):
    """What a command has written so far."""

    output: str


class ExitStatus(Struct, frozen=True, rename="camel"):
    """How a command ended."""

    exit_code: int | None = None
    signal: str | None = None


class WriteFileParams(Struct, frozen=True, kw_only=True, rename="camel"):
    """A file to write."""

    session_id: str
    path: str
    content: str


class CancelRequestParams(Struct, frozen=True, rename="camel"):
    """A request whose result is no longer needed."""

    request_id: int | str | None
