"""The lines of a Claude Code session, as far as Clew reads them."""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from clew.core.json_text import JsonDecoder

_PROMPT = "prompt"
_QUEUED = "queued_command"


class ImageSource(Struct, frozen=True):
    """Where an image is: its bytes or its URL."""

    type: str = ""
    media_type: str = ""
    data: str = ""
    url: str = ""


class LineBlock(Struct, frozen=True):
    """A content block of the Messages API."""

    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    id: str = ""
    name: str = ""
    input: Raw = Raw(b"{}")
    tool_use_id: str = ""
    content: "str | list[LineBlock] | None" = None
    is_error: bool | None = None
    source: ImageSource | None = None


class CacheCreation(Struct, frozen=True):
    """The cache writes of a response by their lifetime."""

    ephemeral_1h_input_tokens: int | None = None


class LineUsage(Struct, frozen=True):
    """The token counts of a response."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_creation: CacheCreation | None = None


class LineMessage(Struct, frozen=True):
    """A message, or the part of it that the line contains."""

    id: str | None = None
    model: str | None = None
    content: str | list[LineBlock] | None = None
    usage: LineUsage | None = None
    stop_reason: str | None = None


class Attachment(Struct, frozen=True, rename="camel"):
    """What Claude Code added to a request."""

    type: str = ""
    prompt: str | list[LineBlock] | None = None
    command_mode: str = _PROMPT

    @property
    def is_prompt(self) -> bool:
        """True for a prompt that was typed during a run and delivered in the middle of it."""
        return self.type == _QUEUED and self.command_mode == _PROMPT and bool(self.prompt)


_attachment = JsonDecoder(Attachment)


class SessionLine(Struct, frozen=True, rename="camel"):
    """One line of a session."""

    type: str = ""
    subtype: str = ""
    uuid: str = ""
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    is_sidechain: bool = False
    is_meta: bool = False
    is_compact_summary: bool = False
    is_api_error_message: bool = False
    session_id: str = ""
    cwd: str = ""
    timestamp: str = ""
    summary: str = ""
    leaf_uuid: str = ""
    custom_title: str = ""
    ai_title: str = ""
    message: LineMessage | None = None
    attachment: Raw = Raw(b"{}")
    operation: str = ""
    """What happened to the queue of prompts."""
    content: Any = None
    reason: Any = None

    @property
    def speaks(self) -> bool:
        """True for a line with a message of the conversation."""
        return (
            self.type in {"user", "assistant"}
            and self.message is not None
            and not self.is_meta
            and not self.is_api_error_message
        )

    @property
    def blocks(self) -> list[LineBlock]:
        """The content as blocks; a string becomes one block."""
        content = self.message.content if self.message else None
        if isinstance(content, str):
            return [LineBlock(type="text", text=content)]
        return content or []

    def read_attachment(self) -> Attachment:
        """Return what was added to the request; empty if it has an unknown format."""
        try:
            return _attachment.decode(self.attachment)
        except msgspec.DecodeError:
            return Attachment()


def join_text(blocks: list[LineBlock]) -> str:
    """Return the text of `blocks`."""
    return "\n".join(block.text for block in blocks if block.type == "text")
