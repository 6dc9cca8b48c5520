"""Decode the content blocks of a response, streamed or whole."""

from base64 import b64decode
from binascii import Error as NotBase64
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from clew.core.ids import CallId
from clew.core.json_text import JsonDecoder, decode_json
from clew.core.messages import Image, Native
from clew.core.text import truncate_middle
from clew.providers.protocol import (
    CallChunk,
    Chunk,
    PartChunk,
    ReasoningChunk,
    ServerToolChunk,
    TextChunk,
)
from clew.providers.wire.converse import media
from clew.providers.wire.converse.block_encoder import SERVER_CALL

LONGEST_NOTE = 300
NOTHING = Raw()
"""Stands for a missing JSON value."""

_json = msgspec.json.Encoder()


class ToolBlock(Struct, rename="camel"):
    """A tool call or its result."""

    tool_use_id: str | None = None
    name: str | None = None
    type: str | None = None
    status: str | None = None
    input: Raw = NOTHING
    content: list[Raw] | None = None


class _Format(Struct):
    format: str | None = None


class BlockStart(Struct, rename="camel"):
    """The start of a block other than text."""

    tool_use: ToolBlock | None = None
    tool_result: ToolBlock | None = None
    image: _Format | None = None


class _Input(Struct):
    input: str | None = None


class _Thought(Struct, rename="camel"):
    text: str | None = None
    signature: str | None = None
    redacted_content: str | None = None
    reasoning_text: "_Thought | None" = None


class _Source(Struct):
    bytes: str | None = None


class _Picture(Struct):
    source: _Source | None = None


class ConverseDelta(Struct, rename="camel"):
    """A delta of a block."""

    text: str | None = None
    tool_use: _Input | None = None
    tool_result: list[Raw] | None = None
    reasoning_content: _Thought | None = None
    citation: Raw = NOTHING
    image: _Picture | None = None


class _Open(Struct):
    """A block that is still arriving."""

    start: BlockStart = field(default_factory=BlockStart)
    arguments: list[str] = field(default_factory=list)
    results: list[Raw] = field(default_factory=list)
    citations: list[Raw] = field(default_factory=list)
    picture: bytearray = field(default_factory=bytearray)


class _Readable(Struct):
    text: str | None = None
    json: Raw = NOTHING


_keys = JsonDecoder(dict[str, Raw])
_tool = JsonDecoder(ToolBlock)
_thought = JsonDecoder(_Thought)
_readable = JsonDecoder(_Readable)
_texts = JsonDecoder(list[_Readable])
_fields = JsonDecoder(dict[str, Any])


class BlockDecoder:
    """Decodes the blocks of one response into chunks."""

    def __init__(self, provenance: str) -> None:
        self.calls = 0
        """How many calls of our own tools were seen."""
        self._provenance = provenance
        self._open: dict[int, _Open] = {}
        self._server_calls: dict[str, str] = {}

    def start(self, index: int, start: BlockStart) -> list[Chunk]:
        """Start a block."""
        self._open[index] = _Open(start=start)
        tool = start.tool_use
        if tool is None or tool.type == SERVER_CALL:
            return []
        self.calls += 1
        call_id = CallId(tool.tool_use_id) if tool.tool_use_id else None
        return [CallChunk(index=index, call_id=call_id, name=tool.name or "")]

    def add(self, index: int, delta: ConverseDelta) -> list[Chunk]:
        """Add a delta to a block; text and reasoning need no start."""
        opened = self._open.setdefault(index, _Open())
        chunks: list[Chunk] = []
        if delta.text:
            chunks.append(TextChunk(delta.text, index))
        if delta.reasoning_content is not None:
            chunks.append(_decode_thinking(index, delta.reasoning_content))
        if delta.tool_use is not None and delta.tool_use.input:
            chunks += self._arguments(index, opened, delta.tool_use.input)
        if delta.citation:
            opened.citations.append(delta.citation)
        if delta.image is not None and delta.image.source is not None:
            opened.picture += _decode_base64(delta.image.source.bytes or "")
        opened.results += delta.tool_result or ()
        return chunks

    def stop(self, index: int) -> list[Chunk]:
        """End a block."""
        opened = self._open.pop(index, _Open())
        match opened.start:
            case BlockStart(tool_use=ToolBlock(type=kind) as tool) if kind == SERVER_CALL:
                text = "".join(opened.arguments) or "{}"
                data = _json.encode({"toolUse": _native_call(tool, text)})
                return self._server_call(tool, text, data.decode())
            case BlockStart(tool_use=ToolBlock()):
                return [CallChunk(index=index, complete=True)]
            case BlockStart(tool_result=ToolBlock() as tool):
                data = _json.encode({"toolResult": _native_result(tool, opened.results)})
                return self._server_result(tool, opened.results, data.decode())
            case BlockStart(image=_Format(format=form)) if opened.picture:
                made = Image(media_type=f"image/{form}", data=bytes(opened.picture))
                return [PartChunk(made)]
        if opened.citations:
            extra = _json.encode({"citations": opened.citations}).decode()
            return [TextChunk("", index, extra)]
        return []

    def stop_all(self) -> list[Chunk]:
        """End the blocks that the server left open."""
        return [chunk for index in sorted(self._open) for chunk in self.stop(index)]

    def whole(self, index: int, block: Raw) -> list[Chunk]:
        """Return the chunks of a complete block."""
        found = _keys.decode(block)
        for kind, inner in found.items():
            match kind:
                case "text":
                    text = decode_json(inner, type=str)
                    return [TextChunk(text, index)] if text else []
                case "reasoningContent":
                    return [_decode_thinking(index, _thought.decode(inner))]
                case "citationsContent":
                    text, extra = parse_citations(inner)
                    return [TextChunk(text, index, extra)]
                case "toolUse" | "toolResult":
                    return self._tool(index, kind, _tool.decode(inner), _text(block))
                case _ if kind in media.KINDS:
                    part = media.parse_media(kind, _fields.decode(inner))
                    return [PartChunk(part or self._native(_text(block)))]
        return [PartChunk(self._native(_text(block)))]

    def _arguments(self, index: int, opened: _Open, text: str) -> list[Chunk]:
        tool = opened.start.tool_use
        if tool is not None and tool.type == SERVER_CALL:
            opened.arguments.append(text)
            return []
        return [CallChunk(index=index, arguments=text)]

    def _tool(self, index: int, kind: str, tool: ToolBlock, data: str) -> list[Chunk]:
        arguments = _text(tool.input) or "{}"
        if kind == "toolResult":
            return self._server_result(tool, tool.content or [], data)
        if tool.type == SERVER_CALL:
            return self._server_call(tool, arguments, data)
        self.calls += 1
        call_id = CallId(tool.tool_use_id) if tool.tool_use_id else None
        name = tool.name or ""
        return [
            CallChunk(index=index, call_id=call_id, name=name, arguments=arguments, complete=True)
        ]

    def _server_call(self, tool: ToolBlock, arguments: str, data: str) -> list[Chunk]:
        call_id, name = tool.tool_use_id or "", tool.name or ""
        self._server_calls[call_id] = name
        started = ServerToolChunk(call_id=call_id, name=name, text=arguments)
        return [started, PartChunk(self._native(data, f"[{name}: {arguments}]"))]

    def _server_result(self, tool: ToolBlock, results: list[Raw], data: str) -> list[Chunk]:
        call_id = tool.tool_use_id or ""
        name = self._server_calls.get(call_id, "")
        text = "\n".join(filter(None, map(_words, results)))
        failed = tool.status == "error"
        ended = ServerToolChunk(call_id=call_id, name=name, text=text, ended=True, failed=failed)
        return [ended, PartChunk(self._native(data, f"[{name} answered: {text}]"))]

    def _native(self, data: str, note: str = "") -> Native:
        line = truncate_middle(" ".join(note.split()), LONGEST_NOTE)
        return Native(provenance=self._provenance, data=data, note=" ".join(line.split()))


def parse_citations(block: Raw) -> tuple[str, str]:
    """Return the text of a block with citations, and its private fields."""
    fields = _keys.decode(block)
    content = fields.get("content")
    pieces = _texts.decode(content) if content is not None else []
    text = "".join(piece.text or "" for piece in pieces)
    if content is not None and decode_json(content) == [{"text": text}]:
        del fields["content"]
    return text, _json.encode(fields).decode()


def _decode_thinking(index: int, thought: _Thought) -> ReasoningChunk:
    inner = thought.reasoning_text or thought
    return ReasoningChunk(
        index=index,
        text=inner.text or "",
        signature=inner.signature or "",
        redacted=thought.redacted_content or "",
    )


def _native_call(tool: ToolBlock, arguments: str) -> dict[str, Any]:
    return {
        "toolUseId": tool.tool_use_id,
        "name": tool.name,
        "input": Raw(arguments.encode()),
        "type": tool.type,
    }


def _native_result(tool: ToolBlock, results: list[Raw]) -> dict[str, Any]:
    said = {"status": tool.status, "type": tool.type}
    told = {name: value for name, value in said.items() if value is not None}
    return {"toolUseId": tool.tool_use_id, "content": results, **told}


def _words(result: Raw) -> str:
    try:
        found = _readable.decode(result)
    except msgspec.DecodeError:
        return ""
    return found.text or _text(found.json)


def _decode_base64(text: str) -> bytes:
    try:
        return b64decode(text)
    except NotBase64:
        return b""


def _text(raw: Raw) -> str:
    return bytes(raw).decode(errors="replace")
