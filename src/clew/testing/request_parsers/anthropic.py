"""Parse a request body of the Messages API.

The reverse of `encode`, for recorded traffic. Content without a common form is kept in `extra`, as
`Native` or as an option. Encoding the result gives the same body, except for equivalent forms:

- content, system prompt and tool result as a string instead of a list with one text block;
- consecutive messages of one role, which the API merges itself;
- `stream` and `is_error` if they are false, and blank text blocks;
- a different order of client and server tools.
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from clew.core.ids import CallId
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
from clew.core.models import ToolSpec
from clew.providers.protocol import Request
from clew.providers.wire.anthropic import block_text
from clew.providers.wire.anthropic.block_decoder import (
    RawFields,
    drop_fields,
    encode_extra,
    read_text,
)
from clew.providers.wire.anthropic.block_encoder import PDF, PICTURES, WEB


class _Message(Struct):
    role: str
    content: Raw


class _Source(Struct, forbid_unknown_fields=True):
    """Where a picture or a document is; other kinds have no common form."""

    type: str
    media_type: str = ""
    data: str = ""
    url: str = ""


_fields = msgspec.json.Decoder(RawFields)
_message = msgspec.json.Decoder(_Message)
_messages = msgspec.json.Decoder(list[Raw])
_content = msgspec.json.Decoder(str | list[Raw])
_source = msgspec.json.Decoder(_Source)
_tools = msgspec.json.Decoder(list[dict[str, Any]])
_OWN = frozenset({"messages", "model", "system", "max_tokens", "temperature", "tools", "stream"})


def parse_request(body: bytes, *, provenance: str) -> Request:
    """Parse a request body.

    Args:
        body: The JSON of a request for an answer, or for a count of its tokens.
        provenance: Whose messages these are, for what only that provider understands.

    Raises:
        ValueError: The body is not such a request.
    """
    fields = _fields.decode(body)
    if "messages" not in fields:
        raise ValueError("a body without messages is not a request")
    reader = _Reader(provenance)
    options = {name: decode(fields, name) for name in fields if name not in _OWN}
    system, blocks = _system(decode(fields, "system"))
    if blocks:
        options["system"] = blocks
    tools = _tools.decode(fields.get("tools", b"[]"))
    if "tools" in fields and not tools:
        options["tools"] = []
    return Request(
        model=read_text(fields, "model"),
        messages=tuple(
            message for raw in _messages.decode(fields["messages"]) for message in reader.read(raw)
        ),
        system=system,
        tools=tuple(_tool(tool) for tool in tools if _is_ours(tool)),
        native_tools=tuple(tool for tool in tools if not _is_ours(tool)),
        max_output_tokens=decode(fields, "max_tokens"),
        temperature=decode(fields, "temperature"),
        options=options,
    )


def decode(fields: RawFields, name: str) -> Any:
    """Return the value of a field; None where it is missing."""
    return msgspec.json.decode(fields[name]) if name in fields else None


def _system(given: Any) -> tuple[str, list[Any] | None]:
    """Return the system prompt as one text, and its blocks if they contain more than text."""
    if given is None or isinstance(given, str):
        return given or "", None
    text = "\n\n".join(block.get("text", "") for block in given)
    plain = [{"type": "text", "text": text}]
    return text, None if given == plain else given


def _is_ours(tool: dict[str, Any]) -> bool:
    return "input_schema" in tool


def _tool(given: dict[str, Any]) -> ToolSpec:
    own = {"name", "description", "input_schema"}
    return ToolSpec(
        name=given["name"],
        description=given.get("description", ""),
        schema=given["input_schema"],
        extra={name: value for name, value in given.items() if name not in own},
    )


class _Reader:
    """Reads the messages of one body in order, and remembers the names of called tools."""

    def __init__(self, provenance: str) -> None:
        self._provenance = provenance
        self._names: dict[str, str] = {}

    def read(self, raw: Raw) -> list[Message]:
        """Return a message of the API as one message, or as its results and the rest."""
        message = _message.decode(raw)
        if message.role not in {"user", "assistant"}:
            return [self._make_message(Role.USER, [self._native(raw)])]
        content = _content.decode(message.content)
        parts: list[Part] = [Text(content)] if isinstance(content, str) else []
        parts += [] if isinstance(content, str) else map(self._part, content)
        if message.role == "assistant":
            return [self._make_message(Role.ASSISTANT, parts)]
        results = [part for part in parts if isinstance(part, ToolResult)]
        rest = [part for part in parts if not isinstance(part, ToolResult)]
        found = [self._make_message(Role.TOOL, results)] if results else []
        return found + ([self._make_message(Role.USER, rest)] if rest or not results else [])

    def _make_message(self, role: Role, parts: Sequence[Part]) -> Message:
        private = any(isinstance(part, Native) or part.extra for part in parts)
        provenance = self._provenance if private else ""
        return Message(role=role, parts=tuple(parts), provenance=provenance)

    def _part(self, raw: Raw) -> Part:
        fields = _fields.decode(raw)
        match read_text(fields, "type"):
            case "text":
                return Text(read_text(fields, "text"), encode_extra(drop_fields(fields, "text")))
            case "thinking" | "redacted_thinking":
                return self._parse_reasoning(fields)
            case "tool_use":
                return self._call(fields)
            case "tool_result":
                return self._result(fields)
            case "image":
                return _image(fields) or self._native(raw)
            case "document":
                return _document(fields) or self._native(raw)
            case _:
                return self._native(raw)

    def _native(self, raw: Raw) -> Native:
        block = msgspec.json.decode(raw, type=dict[str, Any])
        tool = self._names.get(str(block.get("tool_use_id", "")), "")
        if str(block.get("type", "")).endswith("tool_use"):
            self._names[str(block.get("id", ""))] = str(block.get("name", ""))
        note = block_text.summarize_block(block, tool)
        return Native(provenance=self._provenance, data=bytes(raw).decode(), note=note)

    def _parse_reasoning(self, fields: RawFields) -> Reasoning:
        return Reasoning(
            text=read_text(fields, "thinking"),
            provenance=self._provenance,
            signature=read_text(fields, "signature"),
            redacted=read_text(fields, "data"),
            extra=encode_extra(drop_fields(fields, "thinking", "signature", "data")),
        )

    def _call(self, fields: RawFields) -> ToolCall:
        call_id, name = CallId(read_text(fields, "id")), read_text(fields, "name")
        self._names[call_id] = name
        return ToolCall(
            call_id=call_id,
            name=name,
            arguments=bytes(fields.get("input", b"{}")).decode(),
            extra=encode_extra(drop_fields(fields, "id", "name", "input")),
        )

    def _result(self, fields: RawFields) -> ToolResult:
        call_id = CallId(read_text(fields, "tool_use_id"))
        extra = drop_fields(fields, "tool_use_id", "content", "is_error")
        text, images = _answer(fields)
        if images is None:
            extra["content"] = fields["content"]
        return ToolResult(
            call_id=call_id,
            name=self._names.get(call_id, ""),
            text=text,
            failed=bool(decode(fields, "is_error")),
            images=images or (),
            extra=encode_extra(extra),
        )


def _answer(fields: RawFields) -> tuple[str, tuple[Image, ...] | None]:
    """Return the text and images of a tool result; no images if it has other content too."""
    content = _content.decode(fields.get("content", b"[]"))
    if isinstance(content, str):
        return content, ()
    text, images = "", list[Image]()
    for place, raw in enumerate(content):
        block = _fields.decode(raw)
        image = _image(block) if read_text(block, "type") == "image" else None
        if image is not None:
            images.append(image)
        elif place == 0 and block.keys() == {"type", "text"}:
            text = read_text(block, "text")
        else:
            return block_text.describe_result({"content": decode(fields, "content")}), None
    return text, tuple(images)


def _image(fields: RawFields) -> Image | None:
    source = _read_source(fields, PICTURES)
    extra = encode_extra(drop_fields(fields, "source"))
    match source:
        case _Source(type="url") if source.url.startswith(WEB):
            return Image(url=source.url, extra=extra)
        case _Source(type="base64"):
            return Image(media_type=source.media_type, data=b64decode(source.data), extra=extra)
    return None


def _document(fields: RawFields) -> File | None:
    source = _read_source(fields, frozenset({PDF}))
    name = read_text(fields, "title")
    extra = encode_extra(drop_fields(fields, "source", *(["title"] if name else [])))
    match source:
        case _Source(type="url") if source.url.startswith(WEB):
            return File(media_type=PDF, url=source.url, name=name, extra=extra)
        case _Source(type="base64"):
            data = b64decode(source.data)
            return File(media_type=PDF, data=data, name=name, extra=extra)
        case _Source(type="text", media_type="text/plain") if source.data.strip():
            data = source.data.encode()
            return File(media_type="text/plain", data=data, name=name, extra=extra)
    return None


def _read_source(fields: RawFields, kinds: frozenset[str]) -> _Source | None:
    """Return a source, unless encoding would change its bytes."""
    try:
        source = _source.decode(fields.get("source", b"null"))
        if source.type == "base64":
            same = b64encode(b64decode(source.data)).decode() == source.data
            return source if same and source.data and source.media_type in kinds else None
    except ValueError:
        return None
    return source
