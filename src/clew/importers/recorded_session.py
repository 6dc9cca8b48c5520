"""A recorded session, and the drafts that importers build it from."""

import binascii
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from clew.core.ids import CallId
from clew.core.messages import Image, Message, Part, Role, Text, ToolCall, ToolResult
from clew.core.models import ToolSpec
from clew.core.usage import Usage

Source: TypeAlias = Literal["claude_code", "codex", "gemini_cli", "pi", "clew"]


class RecordedStep(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message and its metadata."""

    message: Message
    usage: Usage | None = None
    """The token counts of the provider for this response; never all zeros."""
    model: str = ""
    """The model that wrote it; empty for all other messages."""
    at: float = 0.0
    """Seconds since the epoch; 0.0 when unknown."""
    is_summary: bool = False
    """True when the text replaces messages for the model."""
    compacts: bool = False
    """True for a summary that replaced every step before it."""


class RecordedSession(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A whole recording.

    Its messages are always a valid conversation: it starts with a user message, and results
    directly follow their calls, in the same order.
    """

    source: Source
    id: str = ""
    cwd: str = ""
    name: str = ""
    model: str = ""
    """The model that gave the last answer."""
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    steps: tuple[RecordedStep, ...] = ()
    problems: tuple[str, ...] = ()
    """What was repaired, skipped or not understood."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of all steps, including summaries."""
        return tuple(step.message for step in self.steps)


class Draft(msgspec.Struct, kw_only=True):
    """A message that an importer is still building."""

    role: Role
    parts: list[Part] = msgspec.field(default_factory=list)
    usage: Usage | None = None
    model: str = ""
    at: float = 0.0
    interrupted: bool = False
    is_summary: bool = False
    compacts: bool = False

    def step(self) -> RecordedStep:
        """Return the finished step."""
        message = Message(role=self.role, parts=tuple(self.parts), interrupted=self.interrupted)
        return RecordedStep(
            message=message,
            usage=self.usage,
            model=self.model,
            at=self.at,
            is_summary=self.is_summary,
            compacts=self.compacts,
        )


def text_draft(text: str, *, at: float, role: Role = Role.USER) -> Draft:
    """Create a text message."""
    return Draft(role=role, parts=[Text(text)] if text else [], at=at)


def summary_draft(text: str, *, at: float) -> Draft:
    """Create a summary that replaces everything before it."""
    return Draft(role=Role.USER, parts=[Text(text)], at=at, is_summary=True, compacts=True)


def make_call(call_id: str, name: str, arguments: str | msgspec.Raw) -> ToolCall:
    """Create a tool call; raw arguments keep the bytes of the file."""
    text = arguments if isinstance(arguments, str) else bytes(arguments).decode("utf-8", "replace")
    return ToolCall(call_id=CallId(call_id), name=name, arguments=text or "{}")


def result_draft(
    call_id: str, text: str, *, failed: bool, at: float, images: tuple[Image, ...] = ()
) -> Draft:
    """Create the result of a call; `repair_conversation` adds the name of the tool."""
    made = ToolResult(call_id=CallId(call_id), name="", text=text, failed=failed, images=images)
    return Draft(role=Role.TOOL, parts=[made], at=at)


def usage_or_none(usage: Usage) -> Usage | None:
    """Return `usage`, or None for all zeros: then the tool did not count."""
    return usage if usage.context_tokens else None


def decode_image(data: str, media_type: str) -> Image | None:
    """Decode a base64 image; None when it is invalid."""
    try:
        decoded = binascii.a2b_base64(data, strict_mode=True)
        return Image(media_type=media_type or "image/png", data=decoded)
    except (binascii.Error, ValueError):
        return None


def image_from_url(url: str) -> Image | None:
    """Decode an image from a `data:` URL, or keep the URL of a remote one."""
    if not url.startswith("data:"):
        return Image(url=url) if url else None
    head, _, data = url.partition(",")
    return decode_image(data, head.removeprefix("data:").removesuffix(";base64"))


def parse_time(text: str | float | None) -> float:
    """Parse an ISO date or milliseconds to seconds since the epoch; 0.0 when invalid."""
    if text is None:
        return 0.0
    if not isinstance(text, str):
        return text / 1000
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0
