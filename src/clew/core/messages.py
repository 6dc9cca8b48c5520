"""Messages to and from a model, made of parts.

A `Message` is independent of providers. Adapters translate it to their wire format, group
tool results and place the system prompt.

`extra` keeps fields that only one provider family understands (an item's id, a citation, a
thought signature on a call): the text of a JSON object, sent back to that family and to no
other.

Here and elsewhere, values that a session holds or makes by the thousand have `gc=False`: they
cannot be part of a reference cycle, so the garbage collector need not visit them. Loops over all
messages compare `type(part)`: for a class like these, `isinstance` takes several times as long
where the answer is no.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, ClassVar, TypeAlias

import msgspec
from msgspec import Struct

from clew.core.ids import CallId
from clew.core.json_text import decode_json

PARAGRAPH = "\n\n"
"""Between two texts that became one."""
_CONTINUING = frozenset(".,;:!?)]}…。，、；：！？）")


class Role(StrEnum):
    """The author of a message. The system prompt is not a message; it belongs to the setup."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Text(Struct, frozen=True, gc=False, omit_defaults=True, tag="text"):
    """Plain text."""

    text: str
    extra: str = ""


class Image(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="image"):
    """An image: its bytes, or a URL that the provider fetches."""

    media_type: str = "image/png"
    data: bytes = b""
    url: str = ""
    extra: str = ""


class File(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="file"):
    """A document, audio or video: its bytes, or a URL that the provider fetches."""

    media_type: str
    data: bytes = b""
    url: str = ""
    name: str = ""
    extra: str = ""


class Native(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="native"):
    """A block that only one provider family understands, such as its own web search.

    That family gets it back unchanged; others get the `note`, or nothing.
    """

    provenance: str
    data: str
    """The JSON of the block, byte for byte."""
    note: str = ""
    extra: ClassVar[str] = ""
    """Never set, because `data` has every field."""


class Reasoning(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="reasoning"):
    """A model's thinking, kept byte for byte so its signature stays valid."""

    text: str = ""
    provenance: str = ""
    """The provider family that issued it; only that family may be sent the signature."""
    signature: str = ""
    redacted: str = ""
    """The opaque payload of a block whose text the provider redacted."""
    extra: str = ""


class ToolCall(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="tool_call"):
    """A model's request to run a tool; answered by exactly one `ToolResult`."""

    call_id: CallId
    name: str
    arguments: str = "{}"
    """JSON exactly as the model wrote it, so sending it back changes no byte."""
    extra: str = ""

    def decode_arguments(self) -> dict[str, Any]:
        """Decode the arguments.

        Raises:
            ValueError: The model did not write a JSON object.
        """
        try:
            return decode_json(self.arguments or "{}", type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise ValueError(f"the arguments are not a JSON object: {error}") from error


class ToolResult(
    Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="tool_result"
):
    """The answer to exactly one `ToolCall`."""

    call_id: CallId
    name: str
    text: str
    failed: bool = False
    """True if the tool failed; the model reads why and can adapt."""
    images: tuple[Image, ...] = ()
    extra: str = ""
    loads: tuple[str, ...] = ()
    """The tools whose declarations are the text; a provider may load them itself instead."""


Part: TypeAlias = Text | Image | File | Reasoning | ToolCall | ToolResult | Native


class Message(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One step of a conversation."""

    role: Role
    parts: tuple[Part, ...]
    interrupted: bool = False
    """True if the answer was cut off; the message contains everything received."""
    provenance: str = ""
    """The provider family that wrote it; every `extra` in it is for that family only."""

    @property
    def text(self) -> str:
        """The text parts, without reasoning, calls and results; see `join_texts`."""
        if len(self.parts) == 1:
            (part,) = self.parts
            return part.text if type(part) is Text else ""
        return join_texts(self.parts)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in the order in which the model made them."""
        return tuple([part for part in self.parts if type(part) is ToolCall])

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results."""
        return tuple([part for part in self.parts if type(part) is ToolResult])


def join_texts(parts: Iterable[Part]) -> str:
    """Return the text parts as one text, with a blank line between separate ones."""
    joined, before = "", None
    for part in parts:
        if type(part) is Text and part.text:
            joined += PARAGRAPH if joined and _is_separate(joined, part, before) else ""
            joined += part.text
        before = part
    return joined


def merge_split_texts(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return `parts` with one text for each that a provider split to cite or to sign a piece."""
    if not any(isinstance(part, Text) and part.extra for part in parts):
        return parts
    merged: list[Part] = []
    before: Part | None = None
    for part in parts:
        last = merged[-1] if merged else None
        if isinstance(part, Text) and isinstance(last, Text) and _is_split(before, part):
            merged[-1] = Text(last.text + part.text)
        else:
            merged.append(part)
        before = part
    return tuple(merged)


def _is_separate(joined: str, part: Text, before: Part | None) -> bool:
    if joined[-1].isspace() or part.text[0].isspace() or part.text[0] in _CONTINUING:
        return False
    return not _is_split(before, part)


def _is_split(before: Part | None, part: Text) -> bool:
    """Return whether `part` continues the text before it."""
    if not isinstance(before, Text):
        return False
    # In the Responses API, `item` begins another message.
    return bool(before.extra or part.extra) and '"item":' not in part.extra


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
