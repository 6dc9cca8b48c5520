"""Decode the content blocks of a response while they stream.

A block begins, grows and ends; each step returns chunks. The blocks of a non-streamed response
begin complete and end at once, so the same code decodes both.
"""

from typing import Any, Protocol, TypeAlias

import msgspec
from msgspec import Raw, Struct

from clew.core.ids import CallId
from clew.core.json_text import JsonDecoder, decode_json
from clew.core.messages import Native
from clew.core.text import truncate_middle
from clew.providers.protocol import (
    CallChunk,
    Chunk,
    PartChunk,
    ReasoningChunk,
    ServerToolChunk,
    TextChunk,
)
from clew.providers.wire.anthropic import block_text

LONGEST_ANSWER = 2_000
"""Characters of a server tool's result to display."""

RawFields: TypeAlias = dict[str, Raw]

_json = msgspec.json.Encoder()
_fields = JsonDecoder(RawFields)
_text = JsonDecoder(str | None)
_list = JsonDecoder(list[Raw] | None)


class BlockDelta(Struct):
    """What is added to a block; each type has its own field."""

    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    citation: Raw = Raw()


_delta = JsonDecoder(BlockDelta)


class StreamedBlock(Protocol):
    """One block of a response."""

    def begin(self) -> list[Chunk]:
        """Return the chunks of the block's initial content."""
        ...

    def grow(self, delta: BlockDelta, raw: Raw) -> list[Chunk]:
        """Return the chunks of a delta; `raw` is the delta as it arrived."""
        ...

    def end(self) -> list[Chunk]:
        """Return the chunks that are known only at the end."""
        ...


class StreamedTextBlock:
    """Text with citations."""

    def __init__(self, index: int, fields: RawFields) -> None:
        self._index = index
        self._said = read_text(fields, "text")
        self._any = bool(self._said)
        self._citations = read_list(fields, "citations")
        self._fields = drop_fields(fields, "text", "citations")

    def begin(self) -> list[Chunk]:
        """Return the initial text."""
        return [TextChunk(self._said, self._index)] if self._said else []

    def grow(self, delta: BlockDelta, raw: Raw) -> list[Chunk]:  # noqa: ARG002
        """Return more text; citations wait for the end."""
        if bytes(delta.citation):
            self._citations.append(delta.citation)
        self._any = self._any or bool(delta.text)
        return [TextChunk(delta.text, self._index)] if delta.text else []

    def end(self) -> list[Chunk]:
        """Return the citations and other fields."""
        citations = {"citations": self._citations} if self._citations else {}
        extra = encode_extra({**self._fields, **citations})
        return [TextChunk("", self._index, extra)] if extra and self._any else []


class StreamedThinkingBlock:
    """Thinking with a signature, or redacted thinking."""

    def __init__(self, index: int, fields: RawFields) -> None:
        self._first = ReasoningChunk(
            index=index,
            text=read_text(fields, "thinking"),
            signature=read_text(fields, "signature"),
            redacted=read_text(fields, "data"),
            extra=encode_extra(drop_fields(fields, "thinking", "signature", "data")),
        )

    def begin(self) -> list[Chunk]:
        """Return the initial content; redacted thinking is complete."""
        return [self._first] if self._first != ReasoningChunk(index=self._first.index) else []

    def grow(self, delta: BlockDelta, raw: Raw) -> list[Chunk]:  # noqa: ARG002
        """Return more thinking, or the signature."""
        if not delta.thinking and not delta.signature:
            return []
        index, text, signature = self._first.index, delta.thinking or "", delta.signature or ""
        return [ReasoningChunk(index=index, text=text, signature=signature)]

    def end(self) -> list[Chunk]:
        """Return nothing: the block is complete."""
        return []


class StreamedToolUseBlock:
    """A call of one of the client's tools."""

    def __init__(self, index: int, fields: RawFields) -> None:
        self._index = index
        self._whole = bytes(fields.get("input", b"{}")).decode()
        self._any = False
        call_id = read_text(fields, "id")
        self._first = CallChunk(
            index=index,
            call_id=CallId(call_id) if call_id else None,
            name=read_text(fields, "name"),
            extra=encode_extra(drop_fields(fields, "id", "name", "input")),
        )

    def begin(self) -> list[Chunk]:
        """Return the id and name; the arguments follow."""
        return [self._first]

    def grow(self, delta: BlockDelta, raw: Raw) -> list[Chunk]:  # noqa: ARG002
        """Return a delta of the arguments."""
        if not delta.partial_json:
            return []
        self._any = True
        return [CallChunk(index=self._index, arguments=delta.partial_json)]

    def end(self) -> list[Chunk]:
        """Return the end of the call, with the arguments if they were in its beginning."""
        rest = "" if self._any else self._whole
        return [CallChunk(index=self._index, arguments=rest, complete=True)]


class StreamedNativeBlock:
    """Any other block: kept as it arrived, so that it can be sent back."""

    def __init__(self, raw: Raw, provenance: str, tools: dict[str, str]) -> None:
        """Store the name of a called tool in `tools`, or look up the tool of a result."""
        self._raw = raw
        self._provenance = provenance
        self._tools = tools
        self._fields = _fields.decode(raw)
        self._changed = False
        self._input: list[str] = []

    def begin(self) -> list[Chunk]:
        """Return nothing: the block is reported when it is complete."""
        return []

    def grow(self, delta: BlockDelta, raw: Raw) -> list[Chunk]:
        """Merge a delta into the block: text fields are appended, others replaced."""
        if delta.partial_json is not None:
            self._input.append(delta.partial_json)
            return []
        self._changed = True
        for name, value in drop_fields(_fields.decode(raw)).items():
            before, added = read_text(self._fields, name), read_text({name: value}, name)
            self._fields[name] = Raw(_json.encode(before + added)) if before and added else value
        return []

    def end(self) -> list[Chunk]:
        """Return the block and what to display of it."""
        data = self._data()
        block = decode_json(data, type=dict[str, Any])
        kind, shown = str(block.get("type", "")), list[Chunk]()
        tool = ""
        if kind.endswith("tool_use"):
            call_id, tool = str(block.get("id", "")), str(block.get("name", ""))
            self._tools[call_id] = tool
            text = block_text.describe_input(block)
            shown.append(ServerToolChunk(call_id=call_id, name=tool, text=text))
        elif kind.endswith("tool_result"):
            call_id = str(block.get("tool_use_id", ""))
            tool = self._tools.get(call_id, kind.removesuffix("_tool_result"))
            text = truncate_middle(block_text.describe_result(block), LONGEST_ANSWER)
            failed = block_text.is_failed(block)
            shown.append(
                ServerToolChunk(call_id=call_id, name=tool, text=text, ended=True, failed=failed)
            )
        note = block_text.summarize_block(block, tool)
        part = Native(provenance=self._provenance, data=data.decode(), note=note)
        return [*shown, PartChunk(part)]

    def _data(self) -> bytes:
        if written := "".join(self._input):
            try:
                decode_json(written)
            except msgspec.DecodeError:
                written = "{}"
            self._fields["input"] = Raw(written.encode())
        changed = self._changed or bool(self._input)
        return _json.encode(self._fields) if changed else bytes(self._raw)


def open_block(index: int, raw: Raw, provenance: str, tools: dict[str, str]) -> StreamedBlock:
    """Return the decoder of the block that begins with `raw`; all blocks share `tools`."""
    fields = _fields.decode(raw)
    match read_text(fields, "type"):
        case "text":
            return StreamedTextBlock(index, fields)
        case "thinking" | "redacted_thinking":
            return StreamedThinkingBlock(index, fields)
        case "tool_use":
            return StreamedToolUseBlock(index, fields)
        case _:
            return StreamedNativeBlock(raw, provenance, tools)


def read_delta(raw: Raw) -> BlockDelta:
    """Parse a delta; one of an unknown type is empty."""
    try:
        return _delta.decode(raw)
    except msgspec.ValidationError:
        return BlockDelta()


def read_text(fields: RawFields, name: str) -> str:
    """Return a text field, or an empty string if it is missing or has another type."""
    try:
        return _text.decode(fields[name]) or "" if name in fields else ""
    except msgspec.ValidationError:
        return ""


def read_list(fields: RawFields, name: str) -> list[Raw]:
    """Return the elements of a list field."""
    found = _list.decode(fields[name]) if name in fields else None
    return list(found or ())


def drop_fields(fields: RawFields, *names: str) -> RawFields:
    """Return the fields other than `type` and `names`."""
    return {name: value for name, value in fields.items() if name not in {"type", *names}}


def encode_extra(fields: dict[str, Any]) -> str:
    """Return fields as a JSON object; empty if there are none."""
    return _json.encode(fields).decode() if fields else ""
