"""Decode output items while they stream.

A server announces an item, sends its deltas and repeats it whole at its end; some servers omit one
of these. So complete data is compared with the deltas so far, and only what is missing becomes a
chunk.
"""

from itertools import count

import msgspec
from msgspec import Struct, field

from clew.core.ids import CallId
from clew.core.messages import File, Image, Native, Part, Reasoning, Text, ToolCall, ToolResult
from clew.providers.protocol import (
    CallChunk,
    Chunk,
    PartChunk,
    ReasoningChunk,
    ServerToolChunk,
    TextChunk,
)
from clew.providers.wire.responses.output_items import (
    BETWEEN,
    CUSTOM_CALL,
    SEARCH_CALL,
    ItemFields,
    as_text,
    call_name,
    describe_input,
    describe_output,
    has_failed,
    is_server_tool,
    other_fields,
    pack_extra,
    parse_item,
    parse_reasoning,
    tool_name,
    unpack_extra,
)
from clew.providers.wire.surrogates import join_pairs

_MORE = pack_extra({"more": True})
_FREE_TEXT = '{"input":"'
_json = msgspec.json.Encoder()


class TextBuffer(Struct):
    """A text that is arriving, and its index in the response."""

    number: int
    runs: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text so far."""
        return join_pairs("".join(self.runs))

    def take(self, text: str, *, whole: bool = False) -> str:
        """Add a delta, or (`whole`) the complete text, and return what is new."""
        if whole:
            known = self.text
            text = text[len(known) :] if text.startswith(known) else ""
        self.runs.append(text)
        return text


class StreamedItem(Struct):
    """The state of one item."""

    said: dict[int, TextBuffer] = field(default_factory=dict)
    """The content parts of a message, by index."""
    private: TextBuffer | None = None
    """Its reasoning, or the arguments of its call."""
    places: list[tuple[str, int]] = field(default_factory=list)
    """The parts of reasoning, in the order in which they started."""
    head: str = ""
    """The private fields of the item, for its first part if others follow."""
    begun: bool = False
    """True when a call or a server tool has been reported."""
    ended: bool = False


class ItemStream:
    """Converts the events of items to chunks, in order."""

    def __init__(self, provenance: str) -> None:
        self.has_called = False
        self.refusal = ""
        """The words with which the model refused, if it did."""
        self._provenance = provenance
        self._texts, self._thoughts, self._calls = count(), count(), count()
        self._open: TextBuffer | None = None
        """The text that further words would be added to: nothing else began after it."""

    def start_item(self, item: StreamedItem, fields: ItemFields) -> list[Chunk]:
        """Handle an item that starts."""
        kind = as_text(fields.get("type"))
        if is_server_tool(fields):
            return self._start(item, fields)
        if kind in {"function_call", CUSTOM_CALL, SEARCH_CALL}:
            return [self._call(item, fields)]
        if kind == "message" and (
            head := other_fields(fields, "type", "role", "content", "status")
        ):
            item.head = pack_extra({"item": head})
        return []

    def add_text(
        self, item: StreamedItem, place: int, text: str, *, whole: bool = False
    ) -> list[Chunk]:
        """Handle text of a message: a delta, or (`whole`) the complete content part."""
        piece, chunks = item.said.get(place), list[Chunk]()
        if piece is None:
            if not text:
                return []
            first = next(iter(item.said.values()), None)
            if first is not None and first is self._open and item.head:
                chunks.append(TextChunk("", first.number, item.head))
            piece = self._open = item.said[place] = TextBuffer(next(self._texts))
            if first is not None:
                chunks.append(TextChunk("", piece.number, _MORE))
        if text := piece.take(text, whole=whole):
            chunks.append(TextChunk(text, piece.number))
        return chunks

    def add_reasoning(
        self, item: StreamedItem, place: tuple[str, int], text: str, *, whole: bool = False
    ) -> list[Chunk]:
        """Handle reasoning: a delta, or (`whole`) a part without any deltas."""
        if not text or (whole and place in item.places):
            return []
        last = item.places[-1] if item.places else None
        if place != last:
            item.places.append(place)
        piece = self._open_reasoning(item)
        text = piece.take(text if last in {None, place} else BETWEEN + text)
        return [ReasoningChunk(index=piece.number, text=text)]

    def add_arguments(self, item: StreamedItem, text: str, *, whole: bool = False) -> list[Chunk]:
        """Handle the arguments of a call: a delta, or (`whole`) all of them."""
        piece = self._private(item)
        text = piece.take(text, whole=whole)
        return [CallChunk(index=piece.number, arguments=text)] if text else []

    def add_input(self, item: StreamedItem, text: str) -> list[Chunk]:
        """Handle a delta of the free text input of a custom tool."""
        if item.private is None:
            return []
        escaped = _json.encode(text).decode()[1:-1]
        return self.add_arguments(item, escaped if item.private.runs else _FREE_TEXT + escaped)

    def end_item(self, item: StreamedItem, raw: bytes) -> list[Chunk]:
        """Handle the complete item."""
        item.ended = True
        fields, chunks = unpack_extra(raw.decode()), list[Chunk]()
        for place, part in enumerate(parse_item(raw, self._provenance)):
            chunks += self._part(item, place, part, fields)
        return chunks

    def _part(self, item: StreamedItem, place: int, part: Part, fields: ItemFields) -> list[Chunk]:
        match part:
            case Text():
                return self._text(item, place, part)
            case Reasoning():
                return self._reasoning(item, part, fields)
            case ToolCall(arguments=arguments, extra=extra):
                begin = [] if item.begun else [self._call(item, fields)]
                piece = self._private(item)
                text = piece.take(arguments, whole=True)
                last = CallChunk(index=piece.number, arguments=text, extra=extra, complete=True)
                return [*begin, last]
            case Image() | File() | Native():
                self._open = None
                return [*self._finish(item, fields), PartChunk(part)]
            case ToolResult():
                return []

    def _text(self, item: StreamedItem, place: int, part: Text) -> list[Chunk]:
        if unpack_extra(part.extra).get("type") == "refusal":
            self.refusal = part.text
        # Matched by order: some hosts number the content parts of a message wrongly.
        keys = list(item.said)
        key = keys[place] if place < len(keys) else max(keys, default=-1) + 1
        chunks = self.add_text(item, key, part.text, whole=True)
        piece = item.said.get(key)
        if piece is None and part.extra:
            piece = self._open = item.said[key] = TextBuffer(next(self._texts))
        if piece is not None and piece is self._open and part.extra:
            item.head = ""
            chunks.append(TextChunk("", piece.number, part.extra))
        return chunks

    def _reasoning(self, item: StreamedItem, part: Reasoning, fields: ItemFields) -> list[Chunk]:
        if not part.text and not part.signature:
            return []
        piece = self._open_reasoning(item)
        late = piece.take(part.text, whole=True)
        if piece.text != part.text:
            part = parse_reasoning(fields, self._provenance, verbatim=True)
        return [
            ReasoningChunk(
                index=piece.number, text=late, signature=part.signature, extra=part.extra
            )
        ]

    def _call(self, item: StreamedItem, fields: ItemFields) -> CallChunk:
        item.begun = self.has_called = True
        return CallChunk(
            index=self._private(item).number,
            call_id=CallId(as_text(fields.get("call_id") or fields.get("id"))) or None,
            name=call_name(fields),
        )

    def _private(self, item: StreamedItem) -> TextBuffer:
        if item.private is None:
            item.private = TextBuffer(next(self._calls))
            self._open = None
        return item.private

    def _open_reasoning(self, item: StreamedItem) -> TextBuffer:
        if item.private is None:
            item.private = TextBuffer(next(self._thoughts))
            self._open = None
        return item.private

    def _start(self, item: StreamedItem, fields: ItemFields) -> list[Chunk]:
        item.begun = True
        call_id = as_text(fields.get("id") or fields.get("call_id"))
        return [
            ServerToolChunk(call_id=call_id, name=tool_name(fields), text=describe_input(fields))
        ]

    def _finish(self, item: StreamedItem, fields: ItemFields) -> list[Chunk]:
        if not is_server_tool(fields):
            return []
        begin = [] if item.begun else self._start(item, fields)
        ended = ServerToolChunk(
            call_id=as_text(fields.get("id") or fields.get("call_id")),
            name=tool_name(fields),
            text=describe_output(fields) or describe_input(fields),
            ended=True,
            failed=has_failed(fields),
        )
        return [*begin, ended]
