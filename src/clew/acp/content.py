"""What the Agent Client Protocol shows: content blocks, tool calls and session updates.

The names of fields are those of protocol version 1, in camel case on the wire.
"""

from typing import Any, Literal, TypeAlias

from msgspec import Struct


class TextBlock(
    Struct, frozen=True, omit_defaults=True, rename="camel", tag_field="type", tag="text"
):
    """Text, which editors render as Markdown."""

    text: str


class ImageBlock(
    Struct, frozen=True, omit_defaults=True, rename="camel", tag_field="type", tag="image"
):
    """An image."""

    data: str
    """The bytes in base64."""
    mime_type: str
    uri: str | None = None


class AudioBlock(
    Struct, frozen=True, omit_defaults=True, rename="camel", tag_field="type", tag="audio"
):
    """Sound; Clew does not accept it."""

    data: str
    mime_type: str


class ResourceLink(
    Struct, frozen=True, omit_defaults=True, rename="camel", tag_field="type", tag="resource_link"
):
    """The name and address of something that the agent can read itself, usually a file."""

    name: str
    uri: str
    mime_type: str | None = None


class ResourceContents(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The content of a resource: a text, or a blob in base64."""

    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None


class EmbeddedResource(
    Struct, frozen=True, omit_defaults=True, rename="camel", tag_field="type", tag="resource"
):
    """A resource with its content, such as a selection or an unsaved file."""

    resource: ResourceContents


ContentBlock: TypeAlias = TextBlock | ImageBlock | AudioBlock | ResourceLink | EmbeddedResource

ToolKind: TypeAlias = Literal[
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    "other",
]
ToolStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed"]


class ToolContent(Struct, frozen=True, tag_field="type", tag="content"):
    """A block in the result of a tool call."""

    content: ContentBlock


class ToolDiff(
    Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename="camel",
    tag_field="type",
    tag="diff",
):
    """A change of one file, or of a stretch of it."""

    path: str
    """An absolute path."""
    new_text: str
    old_text: str | None = None
    """None if the file is new."""


class ToolTerminal(Struct, frozen=True, rename="camel", tag_field="type", tag="terminal"):
    """A terminal of the editor, which shows the output of the command while it runs."""

    terminal_id: str


ToolCallContent: TypeAlias = ToolContent | ToolDiff | ToolTerminal


class Location(Struct, frozen=True, omit_defaults=True):
    """A file that a tool call reads or changes, so that the editor can follow."""

    path: str
    line: int | None = None


class ToolCallFields(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A tool call; what is None stays as it was."""

    tool_call_id: str
    title: str | None = None
    kind: ToolKind | None = None
    status: ToolStatus | None = None
    content: tuple[ToolCallContent, ...] | None = None
    locations: tuple[Location, ...] | None = None
    raw_input: dict[str, Any] | None = None


class ToolCallStart(ToolCallFields, frozen=True, tag_field="sessionUpdate", tag="tool_call"):
    """A new tool call; its title is always there."""


class ToolCallUpdate(
    ToolCallFields, frozen=True, tag_field="sessionUpdate", tag="tool_call_update"
):
    """A change of a tool call that the editor knows."""


class UserMessageChunk(
    Struct, frozen=True, tag_field="sessionUpdate", tag="user_message_chunk", gc=False
):
    """A part of a prompt, when a stored session is loaded."""

    content: ContentBlock


class AgentMessageChunk(
    Struct, frozen=True, tag_field="sessionUpdate", tag="agent_message_chunk", gc=False
):
    """A part of the answer."""

    content: ContentBlock


class AgentThoughtChunk(
    Struct, frozen=True, tag_field="sessionUpdate", tag="agent_thought_chunk", gc=False
):
    """A part of the reasoning, or a note of Clew."""

    content: ContentBlock


class PlanEntry(Struct, frozen=True, kw_only=True):
    """One step of a plan."""

    content: str
    priority: Literal["high", "medium", "low"] = "medium"
    status: Literal["pending", "in_progress", "completed"] = "pending"


class PlanUpdate(Struct, frozen=True, tag_field="sessionUpdate", tag="plan"):
    """The whole plan, which replaces the one before."""

    entries: tuple[PlanEntry, ...]


class CommandInput(Struct, frozen=True):
    """What a command takes after its name."""

    hint: str


class AvailableCommand(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command that the user can start a prompt with."""

    name: str
    description: str
    input: CommandInput | None = None


class CommandsUpdate(
    Struct, frozen=True, rename="camel", tag_field="sessionUpdate", tag="available_commands_update"
):
    """All commands."""

    available_commands: tuple[AvailableCommand, ...]


class CurrentModeUpdate(
    Struct, frozen=True, rename="camel", tag_field="sessionUpdate", tag="current_mode_update"
):
    """The mode of the session changed."""

    current_mode_id: str


class ConfigChoice(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One value of an option."""

    value: str
    name: str
    description: str | None = None


class ConfigOption(
    Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename="camel",
    tag_field="type",
    tag="select",
):
    """A setting of the session with a list of values."""

    id: str
    name: str
    category: Literal["mode", "model", "thought_level"]
    current_value: str
    options: tuple[ConfigChoice, ...]
    description: str | None = None


class ConfigUpdate(
    Struct, frozen=True, rename="camel", tag_field="sessionUpdate", tag="config_option_update"
):
    """All options of the session with their values."""

    config_options: tuple[ConfigOption, ...]


class SessionInfoUpdate(
    Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename="camel",
    tag_field="sessionUpdate",
    tag="session_info_update",
):
    """The title of the session changed."""

    title: str | None = None
    updated_at: str | None = None


class Cost(Struct, frozen=True, kw_only=True):
    """Money that a session has cost."""

    amount: float
    currency: str = "USD"


class UsageUpdate(
    Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag_field="sessionUpdate",
    tag="usage_update",
):
    """How full the context window is."""

    used: int
    size: int
    cost: Cost | None = None


Update: TypeAlias = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCallStart
    | ToolCallUpdate
    | PlanUpdate
    | CommandsUpdate
    | CurrentModeUpdate
    | ConfigUpdate
    | SessionInfoUpdate
    | UsageUpdate
)
