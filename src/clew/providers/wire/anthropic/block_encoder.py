"""Encode the parts of a message as content blocks of the Messages API.

Every block starts with its type, so `is_thinking` and `is_text` only look at its first bytes.
"""

from base64 import b64encode
from typing import Any

import msgspec

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
from clew.providers.wire.message_cache import merge_extra
from clew.providers.wire.sanitize import NameRule, sanitize_arguments, sanitize_name

SILENT_FAILURE = "The tool failed and gave no reason."

NAMES = NameRule(characters="a-zA-Z0-9_-", longest=128)
"""What the API accepts as a name and as an id."""
PDF = "application/pdf"
WEB = ("https://", "http://")
"""The schemes of URLs that the provider can fetch."""
PICTURES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_TEXTUAL = frozenset({"application/json", "application/xml", "application/yaml"})
_THINKING = (b'{"type":"thinking"', b'{"type":"redacted_thinking"')

_json = msgspec.json.Encoder()


def is_thinking(block: bytes) -> bool:
    """Return whether a block contains thinking, redacted or not."""
    return block.startswith(_THINKING)


def is_text(block: bytes) -> bool:
    """Return whether a block is plain text."""
    return block.startswith(b'{"type":"text"')


def result_blocks(message: Message) -> tuple[bytes, ...]:
    """Return the tool results of `message`."""
    return tuple(_json.encode(_result(result)) for result in message.results)


def other_blocks(message: Message) -> tuple[bytes, ...]:
    """Return the content of `message` other than tool results, without blank text."""
    block = _answer_block if message.role is Role.ASSISTANT else _user_block
    found: list[bytes] = []
    for part in message.parts:
        if isinstance(part, Native):
            found.append(part.data.encode())
        elif (made := block(part)) is not None:
            found.append(_json.encode(made))
    return tuple(found)


def _answer_block(part: Part) -> dict[str, Any] | None:
    match part:
        case Text():
            return _text(part)
        case Reasoning(redacted=data) if data:
            return merge_extra({"type": "redacted_thinking", "data": data}, part.extra)
        case Reasoning(text=text, signature=signature):
            block = {"type": "thinking", "thinking": text, "signature": signature}
            return merge_extra(block, part.extra)
        case ToolCall():
            return _call(part)
        case Image() | File():
            # The API accepts neither from the assistant, so a note replaces them.
            return _note(part)
        case _:
            return None


def _user_block(part: Part) -> dict[str, Any] | None:
    match part:
        case Text():
            return _text(part)
        case Image():
            return _image(part)
        case File():
            return _file(part)
        case _:
            return None


def _text(part: Text) -> dict[str, Any] | None:
    # The API rejects blank text and empty blocks.
    if not part.text.strip():
        return None
    return merge_extra({"type": "text", "text": part.text}, part.extra)


def _call(call: ToolCall) -> dict[str, Any]:
    block = {
        "type": "tool_use",
        "id": sanitize_name(call.call_id, NAMES),
        "name": sanitize_name(call.name, NAMES),
        "input": msgspec.Raw(sanitize_arguments(call.arguments).encode()),
    }
    return merge_extra(block, call.extra)


def _result(result: ToolResult) -> dict[str, Any]:
    block: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": sanitize_name(result.call_id, NAMES),
    }
    content = [{"type": "text", "text": result.text}] if result.text.strip() else []
    if result.failed:
        # An error must contain text, and nothing else.
        content += map(_note, result.images)
        block["content"] = content or [{"type": "text", "text": SILENT_FAILURE}]
        block["is_error"] = True
    elif result.loads:
        # The API writes the declarations of these tools in the place of the references.
        block["content"] = [{"type": "tool_reference", "tool_name": name} for name in result.loads]
    elif content or result.images:
        block["content"] = content + [_image(image) for image in result.images]
    return merge_extra(block, result.extra)


def _image(image: Image) -> dict[str, Any]:
    head, _, held = image.url.partition(";base64,")
    kind = head.removeprefix("data:") if held else image.media_type
    source: dict[str, Any]
    if image.url.startswith(WEB):
        source = {"type": "url", "url": image.url}
    elif kind in PICTURES and (held or image.data):
        data = held or b64encode(image.data).decode()
        source = {"type": "base64", "media_type": kind, "data": data}
    else:
        return _note(image)
    return merge_extra({"type": "image", "source": source}, image.extra)


def _file(file: File) -> dict[str, Any]:
    if file.media_type in PICTURES:
        return _image(Image(media_type=file.media_type, data=file.data, url=file.url))
    source = _source(file)
    if source is None:
        return _note(file)
    block: dict[str, Any] = {"type": "document", "source": source}
    if file.name:
        block["title"] = file.name
    return merge_extra(block, file.extra)


def _source(file: File) -> dict[str, Any] | None:
    """Return a document's source, or None for a type that the API cannot read."""
    if file.media_type == PDF:
        if file.url.startswith(WEB):
            return {"type": "url", "url": file.url}
        data = b64encode(file.data).decode()
        return {"type": "base64", "media_type": PDF, "data": data} if data else None
    if file.url or not (file.media_type.startswith("text/") or file.media_type in _TEXTUAL):
        return None
    text = file.data.decode(errors="replace")
    return {"type": "text", "media_type": "text/plain", "data": text} if text.strip() else None


def _note(part: Image | File) -> dict[str, Any]:
    kind = "picture" if isinstance(part, Image) else "file"
    name = f" {part.name!r}" if isinstance(part, File) and part.name else ""
    where = f" at {part.url}" if part.url and not part.url.startswith("data:") else ""
    text = f"[A {kind}{name} ({part.media_type}){where} that cannot be shown here.]"
    return {"type": "text", "text": text}
