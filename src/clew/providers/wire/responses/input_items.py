"""Encode messages as input items."""

from base64 import b64encode
from mimetypes import guess_extension
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from clew.core.json_text import JsonDecoder
from clew.core.messages import (
    File,
    Image,
    Message,
    Native,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from clew.providers.wire.media import data_url
from clew.providers.wire.responses.output_items import (
    BETWEEN,
    CONTENT,
    CUSTOM_CALL,
    SEARCH_CALL,
    SUMMARY,
    ItemFields,
    as_text,
    unpack_extra,
)
from clew.providers.wire.sanitize import NameRule, sanitize_arguments, sanitize_name

RESULT = "function_call_output"
LONGEST_ID = 64
"""Characters that the API accepts in a call id and in a cache key."""

NAMES = NameRule(characters="a-zA-Z0-9_-", longest=64)
IDS = NameRule(longest=LONGEST_ID)

_json = msgspec.json.Encoder()


class InputItem(NamedTuple):
    """One encoded item."""

    kind: str
    data: bytes
    call_id: str = ""
    """Of a call or a result."""


class _Native(Struct):
    type: Any = ""


_native = JsonDecoder(_Native)


def encode_items(message: Message) -> list[InputItem]:
    """Return the items for `message`; empty if nothing of it is sent."""
    writer = _Writer(message.role)
    for part in message.parts:
        writer.add(part)
    writer.flush()
    items = writer.items
    # The API rejects trailing reasoning items.
    while items and items[-1].kind == "reasoning":
        items.pop()
    return items


def encode_output(result: ToolResult) -> str | list[dict[str, Any]]:
    """Return the output of a tool result."""
    text = result.text
    if result.failed and not text.startswith("Error: "):
        text = f"Error: {text}"
    if not result.images:
        return text
    pictures = [
        {"type": "input_image", "image_url": data_url(each)}
        for each in result.images
        if not _is_empty(each)
    ]
    return [{"type": "input_text", "text": text}, *pictures] if text else pictures


class _Writer:
    """Collects items; content parts wait until their message is complete."""

    def __init__(self, role: Role) -> None:
        self.items: list[InputItem] = []
        self._answers = role is Role.ASSISTANT
        self._head: ItemFields = {}
        self._content: list[Any] = []

    def add(self, part: Part) -> None:
        """Add the next part of the message."""
        match part:
            case Text():
                self._text(part)
            case Image() | File():
                self._attach(part)
            case Native(data=data):
                kind = as_text(_native.decode(data).type)
                if kind.startswith("input_"):
                    self._content.append(Raw(data.encode()))
                else:
                    self._put(InputItem(kind, data.encode()))
            case Reasoning():
                self._put(InputItem("reasoning", _json.encode(_encode_reasoning(part))))
            case ToolCall():
                self._put(_encode_call_item(_call(part)))
            case ToolResult():
                result = {
                    "type": RESULT,
                    "call_id": sanitize_name(part.call_id, IDS),
                    "output": encode_output(part),
                }
                self._put(_encode_call_item({**result, **unpack_extra(part.extra)}))

    def flush(self) -> None:
        """End the current message, if any."""
        content, head = self._content, self._head
        self._content, self._head = [], {}
        if not content:
            return
        if self._answers:
            found = {"type": "message", "role": "assistant", **head, "content": content}
        else:
            said = [piece for piece in content if piece != _input("")] or content[:1]
            is_bare = len(said) == 1 and isinstance(said[0], dict) and len(said[0]) == 2
            bare = said[0].get("text") if is_bare else None
            found = {"role": "user", **head, "content": said if bare is None else bare}
        self.items.append(InputItem("message", _json.encode(found)))

    def _put(self, item: InputItem) -> None:
        self.flush()
        self.items.append(item)

    def _say(self, piece: Any, head: ItemFields, *, more: bool = False) -> None:
        """Add a content part; those of an assistant form separate items unless `more`."""
        if head or (self._answers and not more):
            self.flush()
            self._head = head
        self._content.append(piece)

    def _text(self, part: Text) -> None:
        fields = unpack_extra(part.extra)
        head, more = fields.pop("item", {}), fields.pop("more", False)
        if not self._answers:
            self._say({**_input(part.text), **fields}, head)
        elif fields.get("type") == "refusal":
            self._say({"type": "refusal", "refusal": part.text, **fields}, head, more=more)
        elif part.text or part.extra:
            piece = {"type": "output_text", "text": part.text, "annotations": [], **fields}
            self._say(piece, head, more=more)

    def _attach(self, part: Image | File) -> None:
        fields = unpack_extra(part.extra)
        head = fields.pop("item", {})
        if _is_empty(part):
            # The API rejects empty images and files.
            return
        if not self._answers:
            self._say({**_encode_media(part), **fields}, head)
        elif isinstance(part, Image) and head:
            made = {**head, "result": b64encode(part.data).decode()}
            self._put(InputItem(as_text(head.get("type")), _json.encode(made)))
        else:
            # The API accepts no images or files from the assistant.
            what = "picture" if isinstance(part, Image) else "file"
            self._text(Text(f"[A {what} ({part.media_type}) that cannot be shown here.]"))


def _is_empty(part: Image | File) -> bool:
    return not (part.data or part.url or part.extra)


def _encode_call_item(item: dict[str, Any]) -> InputItem:
    return InputItem(item["type"], _json.encode(item), item["call_id"])


def _input(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _encode_media(part: Image | File) -> dict[str, Any]:
    if isinstance(part, Image):
        return {"type": "input_image", "image_url": data_url(part)}
    if part.url:
        return {"type": "input_file", "file_url": part.url}
    name = part.name or f"file{guess_extension(part.media_type) or ''}"
    return {"type": "input_file", "filename": name, "file_data": data_url(part)}


def _call(call: ToolCall) -> dict[str, Any]:
    fields = unpack_extra(call.extra)
    named = {"call_id": sanitize_name(call.call_id, IDS), "name": sanitize_name(call.name, NAMES)}
    if fields.get("type") == SEARCH_CALL:
        asked = Raw(sanitize_arguments(call.arguments).encode())
        return {"type": SEARCH_CALL, "call_id": named["call_id"], "arguments": asked, **fields}
    if fields.get("type") == CUSTOM_CALL:
        return {"type": CUSTOM_CALL, **named, "input": _free_text(call), **fields}
    return {
        "type": "function_call",
        **named,
        "arguments": sanitize_arguments(call.arguments),
        **fields,
    }


def _free_text(call: ToolCall) -> str:
    try:
        return as_text(call.decode_arguments().get("input"))
    except ValueError:
        return call.arguments


def _encode_reasoning(block: Reasoning) -> dict[str, Any]:
    fields = unpack_extra(block.extra)
    whole = [len(block.text)] if block.text else []
    summary, content = fields.pop("summary", whole), fields.pop("content", [])
    found: dict[str, Any] = {"type": "reasoning"}
    found["summary"], at = _pieces(block.text, summary, SUMMARY)
    if content:
        found["content"], _ = _pieces(block.text[at:], content, CONTENT)
    return {**found, "encrypted_content": block.signature or block.redacted, **fields}


def _pieces(text: str, lengths: list[Any], kind: str) -> tuple[list[Any], int]:
    """Divide `text` by the given lengths; entries that are not lengths are parts themselves."""
    found, at = [], 0
    for length in lengths:
        if isinstance(length, int):
            found.append({"type": kind, "text": text[at : at + length]})
            at += length + len(BETWEEN)
        else:
            found.append(length)
    return found, at
