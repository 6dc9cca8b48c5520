"""Small translations that several recording formats share."""

import binascii
from datetime import datetime

import msgspec

from clew.core.ids import CallId
from clew.core.messages import Image, Message, Part, Role, Text, ToolCall, ToolResult
from clew.core.usage import Usage
from clew.importers.recorded import Step


class Draft(msgspec.Struct, kw_only=True):
    """A message that is still being put together from the lines of a file."""

    role: Role
    parts: list[Part] = msgspec.field(default_factory=list)
    usage: Usage | None = None
    model: str = ""
    at: float = 0.0
    interrupted: bool = False
    is_summary: bool = False
    compacts: bool = False

    def step(self) -> Step:
        """Return the finished step."""
        message = Message(role=self.role, parts=tuple(self.parts), interrupted=self.interrupted)
        return Step(
            message=message,
            usage=self.usage,
            model=self.model,
            at=self.at,
            is_summary=self.is_summary,
            compacts=self.compacts,
        )


def words(text: str, *, at: float, role: Role = Role.USER) -> Draft:
    """Make a message of text alone."""
    return Draft(role=role, parts=[Text(text)] if text else [], at=at)


def summary(text: str, *, at: float) -> Draft:
    """Make the summary that took the place of everything before it."""
    return Draft(role=Role.USER, parts=[Text(text)], at=at, is_summary=True, compacts=True)


def call(call_id: str, name: str, arguments: str | msgspec.Raw) -> ToolCall:
    """Make a tool call; raw arguments keep the bytes of the file."""
    text = arguments if isinstance(arguments, str) else bytes(arguments).decode("utf-8", "replace")
    return ToolCall(call_id=CallId(call_id), name=name, arguments=text or "{}")


def result(
    call_id: str, text: str, *, failed: bool, at: float, images: tuple[Image, ...] = ()
) -> Draft:
    """Make the answer to a call; `tidy` gives it the name of its tool."""
    made = ToolResult(call_id=CallId(call_id), name="", text=text, failed=failed, images=images)
    return Draft(role=Role.TOOL, parts=[made], at=at)


def usage_or_none(usage: Usage) -> Usage | None:
    """Return `usage` unless nothing was counted: such zeros mean that nobody counted."""
    return usage if usage.context_tokens else None


def image(data: str, media_type: str) -> Image | None:
    """Decode a picture in base64; None when it is not one."""
    try:
        decoded = binascii.a2b_base64(data, strict_mode=True)
        return Image(media_type=media_type or "image/png", data=decoded)
    except (binascii.Error, ValueError):
        return None


def image_at(url: str) -> Image | None:
    """Read a picture from a `data:` address, or keep the address of one elsewhere."""
    if not url.startswith("data:"):
        return Image(url=url) if url else None
    head, _, data = url.partition(",")
    return image(data, head.removeprefix("data:").removesuffix(";base64"))


def moment(text: str | float | None) -> float:
    """Return an ISO date, or milliseconds, as seconds since the epoch; 0.0 when it is neither."""
    if text is None:
        return 0.0
    if not isinstance(text, str):
        return text / 1000
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0
