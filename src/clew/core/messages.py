"""What goes to a model and comes back: messages made of parts.

A `Message` knows no provider. Adapters turn it into their wire format and decide
there how results are grouped and where the system prompt stands.

What one provider family wrote beside the common fields (an item's id, a citation, a thought
signature on a call) is kept as `extra`: the text of a JSON object, sent back to the family
that the message came from and to no other.
"""

from enum import StrEnum
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from clew.core.ids import CallId


class Role(StrEnum):
    """Who speaks. The system prompt is not a message: it belongs to the setup."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Text(Struct, frozen=True, omit_defaults=True, tag="text"):
    """Words."""

    text: str
    extra: str = ""


class Image(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="image"):
    """A picture: its bytes, or an address the provider fetches."""

    media_type: str = "image/png"
    data: bytes = b""
    url: str = ""
    extra: str = ""


class File(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="file"):
    """A document, a recording or a film: its bytes, or an address the provider fetches."""

    media_type: str
    data: bytes = b""
    url: str = ""
    name: str = ""
    extra: str = ""


class Native(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="native"):
    """A block that only one provider family understands, such as a search it ran itself.

    It is sent back to that family as it came; to any other it is the `note`, or nothing.
    """

    provenance: str
    data: str
    """The JSON of the block, byte for byte."""
    note: str = ""


class Reasoning(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="reasoning"):
    """A model's thinking, kept byte for byte so that its signature stays valid."""

    text: str = ""
    provenance: str = ""
    """The provider family that issued it; only that family may be sent the signature."""
    signature: str = ""
    redacted: str = ""
    """The opaque payload of a block whose text the provider withheld."""
    extra: str = ""


class ToolCall(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="tool_call"):
    """A model's wish to run a tool; answered by exactly one `ToolResult`."""

    call_id: CallId
    name: str
    arguments: str = "{}"
    """JSON exactly as the model wrote it, so that sending it back changes no byte."""
    extra: str = ""

    def decoded(self) -> dict[str, Any]:
        """Return the arguments as an object.

        Raises:
            ValueError: The model did not write a JSON object.
        """
        try:
            return msgspec.json.decode(self.arguments or "{}", type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise ValueError(f"the arguments are not a JSON object: {error}") from error


class ToolResult(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="tool_result"):
    """The answer to exactly one `ToolCall`."""

    call_id: CallId
    name: str
    text: str
    failed: bool = False
    """True when the tool could not do its work; the model reads why and may adapt."""
    images: tuple[Image, ...] = ()
    extra: str = ""


Part: TypeAlias = Text | Image | File | Reasoning | ToolCall | ToolResult | Native


class Message(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a conversation."""

    role: Role
    parts: tuple[Part, ...]
    interrupted: bool = False
    """True when the answer was cut off; what had arrived is all here."""
    provenance: str = ""
    """The provider family that wrote it; each `extra` in it is meant for that family."""

    @property
    def text(self) -> str:
        """The words of the message, without reasoning, calls and results."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the message, in the order the model made them."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results of the message."""
        return tuple(part for part in self.parts if isinstance(part, ToolResult))


def user(text: str, *images: Image) -> Message:
    """Make a user message."""
    return Message(role=Role.USER, parts=(Text(text), *images))


def assistant(*parts: str | Part, interrupted: bool = False) -> Message:
    """Make an assistant message; strings become text."""
    made = tuple(Text(part) if isinstance(part, str) else part for part in parts)
    return Message(role=Role.ASSISTANT, parts=made, interrupted=interrupted)


def tool_result(call: ToolCall, text: str, *, failed: bool = False) -> Message:
    """Make the message that answers `call`."""
    result = ToolResult(call_id=call.call_id, name=call.name, text=text, failed=failed)
    return Message(role=Role.TOOL, parts=(result,))
