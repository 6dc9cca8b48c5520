"""Encode messages as content blocks of Converse."""

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

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
from clew.providers.wire.converse import media
from clew.providers.wire.message_cache import merge_extra
from clew.providers.wire.sanitize import NameRule, sanitize_arguments, sanitize_name

IDS = NameRule(characters="A-Za-z0-9_.:-", longest=64)
"""What Converse accepts as a call id."""
SERVER_CALL = "server_tool_use"
NO_OUTPUT = "(no output)"
SEE_DOCUMENT = "See the attached document."

_json = msgspec.json.Encoder()
_object = JsonDecoder(dict[str, Raw])
_BAD_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")


class _Named(Struct):
    name: Any = ""


_named = JsonDecoder(_Named)


class DocumentBlock(Struct, frozen=True):
    """A document's block with a gap for its name: names must be unique in a request."""

    before: bytes
    name: str
    after: bytes


EncodedBlock: TypeAlias = bytes | DocumentBlock


class EncodedContent(Struct, frozen=True, kw_only=True):
    """An encoded message, with what matters for its neighbours and the rest of the body."""

    role: str
    pieces: tuple[bytes, ...] = ()
    """The joined blocks; a document's name goes between each piece and the next."""
    documents: tuple[str, ...] = ()
    """The names of the documents."""
    calls: tuple[str, ...] = ()
    """The tools that are called, or whose results are here."""
    server_calls: tuple[str, ...] = ()
    """The server tools that are called."""
    thinks: bool = False
    """It starts with signed reasoning."""
    answers: bool = False
    """It contains tool results."""
    shows: bool = False
    """It contains a document or a video."""
    marked: bool = False
    """It already has cache points."""
    markable: bool = False
    """A cache point may follow it."""


def encode_content(message: Message) -> tuple[EncodedContent, int]:
    """Return `message` encoded, and its size in bytes; without pieces if nothing is sent."""
    role = "assistant" if message.role is Role.ASSISTANT else "user"
    parts = [part for part in message.parts if _belongs(part, role)]
    while parts and isinstance(parts[-1], Reasoning):
        # The API rejects a message that ends with reasoning, as an interrupted one may.
        parts.pop()
    made = [_block(part, role) for part in parts]
    kinds = [kind for kind, _ in made]
    blocks = [block for _, block in made]
    if "document" in kinds and "text" not in kinds:
        # The API rejects a document without text.
        blocks.insert(0, _json.encode({"text": SEE_DOCUMENT}))
    pieces, names = _join_blocks(blocks)
    found = EncodedContent(
        role=role,
        pieces=pieces,
        documents=names,
        calls=tuple(part.name for part in parts if isinstance(part, ToolCall | ToolResult)),
        server_calls=tuple(filter(None, map(_server_call, parts))),
        thinks=kinds[:1] == ["reasoningContent"],
        answers=role == "user" and "toolResult" in kinds,
        shows=not {"document", "video"}.isdisjoint(kinds),
        marked="cachePoint" in kinds,
        # The API rejects a cache point after a document or a video.
        markable=role == "user" and bool(kinds) and kinds[-1] not in {"document", "video"},
    )
    return found, sum(map(len, pieces))


def tool_name(name: str) -> str:
    """Return `name` with only the characters that a tool name may have."""
    return _BAD_IN_NAME.sub("_", name)[:64] or "_"


def _belongs(part: Part, role: str) -> bool:
    match part:
        case ToolCall() | Reasoning():
            return role == "assistant"
        case ToolResult():
            return role == "user"
        case Text(text=text):
            # The API rejects blank text and a citation without text.
            return bool(text.strip())
        case Image() | File() | Native():
            return True


def _block(part: Part, role: str) -> tuple[str, EncodedBlock]:
    """Return the type and the encoded block of `part`."""
    match part:
        case Native(data=data):
            return next(iter(_keys(data)), ""), data.encode()
        case Image() | File():
            return _media(part, role)
        case Text() | Reasoning() | ToolCall() | ToolResult():
            fields = _fields(part)
            return next(iter(fields)), _json.encode(fields)


def _fields(part: Text | Reasoning | ToolCall | ToolResult) -> dict[str, Any]:
    match part:
        case Text(text=text, extra=""):
            return {"text": text}
        case Text(text=text, extra=extra):
            return {"citationsContent": merge_extra({"content": [{"text": text}]}, extra)}
        case Reasoning(redacted=redacted, extra=extra) if redacted:
            return {"reasoningContent": merge_extra({"redactedContent": redacted}, extra)}
        case Reasoning(text=text, signature=signature, extra=extra):
            thought = {"text": text, "signature": signature} if signature else {"text": text}
            return {"reasoningContent": merge_extra({"reasoningText": thought}, extra)}
        case ToolCall():
            return {"toolUse": _call(part)}
        case ToolResult():
            return {"toolResult": _result(part)}


def _call(call: ToolCall) -> dict[str, Any]:
    fields = {
        "toolUseId": sanitize_name(call.call_id, IDS),
        "name": tool_name(call.name),
        "input": Raw(sanitize_arguments(call.arguments).encode()),
    }
    return merge_extra(fields, call.extra)


def _result(result: ToolResult) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if result.text.strip():
        content.append({"text": result.text})
    for image in result.images:
        found = media.media_block(image)
        content.append({found[0]: found[1]} if found else {"text": media.media_note(image)})
    fields: dict[str, Any] = {
        "toolUseId": sanitize_name(result.call_id, IDS),
        "content": content or [{"text": NO_OUTPUT}],
    }
    if result.failed:
        fields["status"] = "error"
    return merge_extra(fields, result.extra)


def _media(part: Image | File, role: str) -> tuple[str, EncodedBlock]:
    # Assistant messages must not contain images or files.
    found = media.media_block(part) if role == "user" else None
    if found is None:
        return "text", _json.encode({"text": media.media_note(part)})
    kind, fields = found
    if kind != "document":
        return kind, _json.encode({kind: fields})
    name = str(fields.pop("name"))
    rest = b"," + _json.encode(fields)[1:] + b"}"
    return kind, DocumentBlock(b'{"document":{"name":', name, rest)


def _server_call(part: Part) -> str:
    """Return the name of the server tool that `part` calls, if any."""
    if not isinstance(part, Native):
        return ""
    call = _keys(part.data).get("toolUse")
    name = _named.decode(call).name if call else ""
    return name if isinstance(name, str) else ""


def _keys(data: str) -> dict[str, Raw]:
    try:
        return _object.decode(data)
    except msgspec.DecodeError:
        return {}


def _join_blocks(blocks: Sequence[EncodedBlock]) -> tuple[tuple[bytes, ...], tuple[str, ...]]:
    """Join blocks with commas into the pieces around the names of documents."""
    if not blocks:
        return (), ()
    names: list[str] = []
    pieces: list[list[bytes]] = [[]]
    for index, block in enumerate(blocks):
        if index:
            pieces[-1].append(b",")
        if isinstance(block, DocumentBlock):
            pieces[-1].append(block.before)
            pieces.append([block.after])
            names.append(block.name)
        else:
            pieces[-1].append(block)
    return tuple(map(b"".join, pieces)), tuple(names)
