"""The items of an answer, as parts of a message."""

import binascii
from base64 import b64decode, b64encode

from clew.core.ids import CallId
from clew.core.messages import Image, Native, Part, Reasoning, Text, ToolCall
from clew.providers.wire.responses.fields import (
    Fields,
    inners,
    packed,
    rest,
    unpacked,
    words,
)
from clew.providers.wire.responses.notes import is_server_tool, note

BETWEEN = "\n\n"
"""Stands between two pieces of thinking in the text of one block."""
CUSTOM_CALL = "custom_tool_call"
PICTURE = "image_generation_call"
SUMMARY, CONTENT = "summary_text", "reasoning_text"
"""The two kinds of pieces that thinking is made of."""

_WORDS = {"output_text": "text", "input_text": "text", "text": "text", "refusal": "refusal"}
"""The kinds of content that are words, and the field that holds them."""


def read(raw: bytes, provenance: str) -> tuple[Part, ...]:
    """Return one item of an answer as the parts of a message; most items are one part."""
    item = unpacked(raw.decode())
    parts: tuple[Part, ...] | None = None
    match item.get("type") or "message":
        case "message" if item.get("role") == "assistant":
            parts = _texts(item)
        case "reasoning":
            parts = (thought(item, provenance),)
        case "function_call" | "custom_tool_call" if not is_server_tool(item):
            parts = (_call(item),)
        case "image_generation_call":
            parts = _picture(item)
    if parts is None:
        return (Native(provenance=provenance, data=raw.decode(), note=note(item)),)
    return parts


def thought(item: Fields, provenance: str, *, verbatim: bool = False) -> Reasoning:
    """Return an item of thinking; `verbatim` keeps its pieces instead of their lengths."""
    summary, content = inners(item.get("summary")), inners(item.get("content"))
    texts = [words(piece.get("text")) for piece in (*summary, *content)]
    extra = rest(item, "type", "summary", "content", "encrypted_content")
    if verbatim or not (_are_plain(summary, SUMMARY) and _are_plain(content, CONTENT)):
        extra |= {"summary": summary, "content": content}
    elif content or len(summary) > 1 or texts == [""]:
        lengths = [len(text) for text in texts]
        extra |= {"summary": lengths[: len(summary)], "content": lengths[len(summary) :]}
    return Reasoning(
        text=BETWEEN.join(texts),
        provenance=provenance,
        signature=words(item.get("encrypted_content")),
        extra=packed(extra),
    )


def _texts(item: Fields) -> tuple[Part, ...] | None:
    content = item.get("content")
    if isinstance(content, str):
        content = [{"type": "output_text", "text": content}]
    found: list[Part] = []
    for piece in inners(content):
        kind = words(piece.get("type"))
        if kind not in _WORDS:
            return None
        extra = rest(piece, "type", _WORDS[kind])
        if kind == "refusal":
            extra["type"] = kind
        if found:
            extra["more"] = True
        elif head := rest(item, "type", "role", "content"):
            extra["item"] = head
        found.append(Text(words(piece.get(_WORDS[kind])), packed(extra)))
    return tuple(found)


def _call(item: Fields) -> ToolCall:
    extra = rest(item, "type", "call_id", "name", "arguments", "input")
    arguments = words(item.get("arguments"))
    if item.get("type") == CUSTOM_CALL:
        arguments = packed({"input": words(item.get("input"))})
        extra["type"] = CUSTOM_CALL
    return ToolCall(
        call_id=CallId(words(item.get("call_id") or item.get("id"))),
        name=words(item.get("name")),
        arguments=arguments,
        extra=packed(extra),
    )


def _picture(item: Fields) -> tuple[Part, ...] | None:
    result = words(item.get("result"))
    try:
        data = b64decode(result, validate=True)
    except (binascii.Error, ValueError):
        return None
    if not data or b64encode(data).decode() != result:
        return None
    media_type = f"image/{item.get('output_format') or 'png'}"
    extra = packed({"item": rest(item, "result")})
    return (Image(media_type=media_type, data=data, extra=extra),)


def _are_plain(pieces: list[Fields], kind: str) -> bool:
    return all(
        piece.keys() == {"type", "text"}
        and piece["type"] == kind
        and isinstance(piece["text"], str)
        for piece in pieces
    )
