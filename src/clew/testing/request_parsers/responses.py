"""Parse a request body of the Responses API."""

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable
from itertools import groupby
from mimetypes import guess_type

import msgspec
from msgspec import Raw

from clew.core.ids import CallId
from clew.core.messages import File, Image, Message, Native, Part, Role, Text, ToolCall, ToolResult
from clew.core.models import ToolSpec
from clew.providers.protocol import Request
from clew.providers.wire.responses.input_items import RESULT, encode_output
from clew.providers.wire.responses.output_items import (
    ItemFields,
    as_fields,
    as_text,
    list_fields,
    other_fields,
    pack_extra,
    parse_item,
    unpack_extra,
)

FREE_TEXT: dict[str, object] = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}
"""The input of a custom tool, as a schema that other providers understand."""

_RESULTS = frozenset({RESULT, "custom_tool_call_output"})
_CLIENT_SENDS = frozenset(
    {
        "additional_tools",
        "apply_patch_call_output",
        "computer_call_output",
        "item_reference",
        "local_shell_call_output",
        "mcp_approval_response",
    }
)
_DATA = re.compile(r"data:([^;,]+);base64,([A-Za-z0-9+/=]*)")
_OWN = frozenset(
    {
        "input",
        "instructions",
        "max_output_tokens",
        "model",
        "prompt_cache_key",
        "stream",
        "temperature",
        "tools",
    }
)

_body = msgspec.json.Decoder(dict[str, Raw])
_items = msgspec.json.Decoder(str | list[Raw])


def parse_request(body: bytes, *, provenance: str) -> Request:
    """Parse a request body.

    Raises:
        ValueError: It is not a request of the Responses API.
    """
    try:
        found = _body.decode(body)
        items = _items.decode(found.get("input", Raw(b"[]")))
        fields = {name: msgspec.json.decode(raw) for name, raw in found.items() if name != "input"}
    except msgspec.DecodeError as error:
        raise ValueError(f"not a request of the Responses API: {error}") from error
    tools = list_fields(fields.get("tools"))
    own = _OWN if tools else _OWN - {"tools"}
    return Request(
        model=as_text(fields.get("model")),
        messages=tuple(_messages(items, provenance)),
        system=as_text(fields.get("instructions")),
        tools=tuple(_tool(tool) for tool in tools if tool.get("type") in {"function", "custom"}),
        native_tools=tuple(
            dict(tool) for tool in tools if tool.get("type") not in {"function", "custom"}
        ),
        max_output_tokens=fields.get("max_output_tokens"),
        temperature=fields.get("temperature"),
        cache_key=as_text(fields.get("prompt_cache_key")),
        options={name: value for name, value in fields.items() if name not in own},
    )


def _tool(tool: ItemFields) -> ToolSpec:
    extra = other_fields(tool, "type", "name", "description", "parameters")
    if custom := tool.get("type") == "custom":
        extra["type"] = "custom"
    else:
        extra.setdefault("strict", None)
    return ToolSpec(
        name=as_text(tool.get("name")),
        description=as_text(tool.get("description")),
        schema=FREE_TEXT if custom else dict(as_fields(tool.get("parameters"))),
        extra=extra,
    )


def _messages(items: str | list[Raw], provenance: str) -> Iterable[Message]:
    """Group the items of one response into one message."""
    if isinstance(items, str):
        items = [Raw(msgspec.json.encode({"role": "user", "content": items}))]
    names: dict[str, str] = {}
    found = [_read(bytes(raw), provenance, names) for raw in items]
    keys = [-1 if role is Role.ASSISTANT else place for place, (role, _) in enumerate(found)]
    for _, group in groupby(zip(keys, found, strict=True), lambda each: each[0]):
        together = [each for _, each in group]
        parts = tuple(part for _, inside in together for part in inside)
        if parts:
            yield Message(
                role=together[0][0],
                parts=parts,
                provenance=provenance if any(map(_is_private, parts)) else "",
            )


def _read(raw: bytes, provenance: str, names: dict[str, str]) -> tuple[Role, tuple[Part, ...]]:
    """Read one item; `names` has the tool of each call id."""
    item = unpack_extra(raw.decode())
    kind = item.get("type") or "message"
    if kind == "message" and item.get("role") != "assistant":
        return Role.USER, tuple(_content(raw, item, provenance))
    if kind in _RESULTS:
        return Role.TOOL, (_result(item, names),)
    if kind in _CLIENT_SENDS or (kind, item.get("execution")) == ("tool_search_output", "client"):
        return Role.USER, (Native(provenance=provenance, data=raw.decode()),)
    parts = parse_item(raw, provenance)
    names |= {part.call_id: part.name for part in parts if isinstance(part, ToolCall)}
    return Role.ASSISTANT, parts


def _is_private(part: Part) -> bool:
    return isinstance(part, Native) or bool(part.extra)


def _result(item: ItemFields, names: dict[str, str]) -> ToolResult:
    extra = other_fields(item, "type", "call_id", "output")
    if item.get("type") != RESULT:
        extra["type"] = item["type"]
    found, pieces = item.get("output"), list_fields(item.get("output"))
    texts = [as_text(piece.get("text")) for piece in pieces if piece.get("type") == "input_text"]
    call_id = CallId(as_text(item.get("call_id")))
    result = ToolResult(
        call_id=call_id,
        name=names.get(call_id, ""),
        text="\n".join(texts) if pieces else as_text(found),
        images=tuple(_picture(piece) for piece in pieces if piece.get("image_url")),
    )
    if encode_output(result) != found:
        extra["output"] = found
    return msgspec.structs.replace(result, extra=pack_extra(extra))


def _content(raw: bytes, item: ItemFields, provenance: str) -> list[Part]:
    content = item.get("content")
    if isinstance(content, str):
        content = [{"type": "input_text", "text": content}]
    head = other_fields(item, "type", "content")
    if head.get("role") == "user":
        del head["role"]
    parts = [
        _piece(piece, {"item": head} if head and not place else {}, provenance)
        for place, piece in enumerate(list_fields(content))
    ]
    if head and (not parts or isinstance(parts[0], Native)):
        return [Native(provenance=provenance, data=raw.decode())]
    return parts


def _piece(piece: ItemFields, more: ItemFields, provenance: str) -> Part:
    match piece:
        case {"type": "input_text", "text": str(text)}:
            return Text(text, pack_extra({**other_fields(piece, "type", "text"), **more}))
        case {"type": "input_image", "image_url": str()}:
            extra = pack_extra({**other_fields(piece, "type", "image_url"), **more})
            return msgspec.structs.replace(_picture(piece), extra=extra)
        case {"type": "input_file"} if (found := _file(piece)) is not None:
            extra = pack_extra(
                {**other_fields(piece, "type", "file_url", "filename", "file_data"), **more}
            )
            return msgspec.structs.replace(found, extra=extra)
    return Native(provenance=provenance, data=pack_extra(piece))


def _picture(piece: ItemFields) -> Image:
    url = as_text(piece.get("image_url"))
    if held := _decode_data_url(url):
        return Image(media_type=held[0], data=held[1])
    return Image(media_type=guess_type(url)[0] or "image/png", url=url)


def _file(piece: ItemFields) -> File | None:
    if url := as_text(piece.get("file_url")):
        return File(media_type=guess_type(url)[0] or "application/octet-stream", url=url)
    held, name = _decode_data_url(as_text(piece.get("file_data"))), as_text(piece.get("filename"))
    return File(media_type=held[0], data=held[1], name=name) if held and name else None


def _decode_data_url(address: str) -> tuple[str, bytes] | None:
    """Decode a data URL; None if encoding it again would change it."""
    found = _DATA.fullmatch(address)
    if found is None:
        return None
    try:
        data = b64decode(found[2])
    except binascii.Error:
        return None
    return (found[1], data) if b64encode(data).decode() == found[2] else None
