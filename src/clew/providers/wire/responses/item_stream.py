"""The items of an answer while they arrive.

A server announces an item, sends it in pieces and repeats it whole at its end. Some leave the
announcement, the pieces or the end out. So whatever comes whole is compared with what came
before, and only what is missing becomes a chunk.
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
    ItemFields,
    as_text,
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
    """A run of text that is arriving, and its number among the answer's runs."""

    number: int
    runs: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All that has come."""
        return join_pairs("".join(self.runs))

    def take(self, text: str, *, whole: bool = False) -> str:
        """Take the next text, or (`whole`) all of it, and return what is new."""
        if whole:
            known = self.text
            text = text[len(known) :] if text.startswith(known) else ""
        self.runs.append(text)
        return text


class StreamedItem(Struct):
    """How far one item has come."""

    said: dict[int, TextBuffer] = field(default_factory=dict)
    """The pieces of a message, by their place in it."""
    private: TextBuffer | None = None
    """Its thinking, or the arguments of its call."""
    places: list[tuple[str, int]] = field(default_factory=list)
    """Where the pieces of thinking belong, in the order in which they began."""
    head: str = ""
    """What is kept beside the first piece of a message if others follow."""
    begun: bool = False
    """True when a call, or a tool of the server, has been told of."""
    ended: bool = False


class ItemStream:
    """Turns the pieces of items into chunks, in the order in which they come."""

    def __init__(self, provenance: str) -> None:
        self.has_called = False
        self.refusal = ""
        """The words with which the model refused, if it did."""
        self._provenance = provenance
        self._texts, self._thoughts, self._calls = count(), count(), count()
        self._open: TextBuffer | None = None
        """The text that further words would be added to: nothing else began after it."""

    def announce(self, item: StreamedItem, fields: ItemFields) -> list[Chunk]:
        """Take an item that begins."""
        kind = as_text(fields.get("type"))
        if is_server_tool(fields):
            return self._start(item, fields)
        if kind in {"function_call", CUSTOM_CALL}:
            return [self._call(item, fields)]
        if kind == "message" and (
            head := other_fields(fields, "type", "role", "content", "status")
        ):
            item.head = pack_extra({"item": head})
        return []

    def say(self, item: StreamedItem, place: int, text: str, *, whole: bool = False) -> list[Chunk]:
        """Take words of a message, the next ones or (`whole`) all of that piece."""
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

    def think(
        self, item: StreamedItem, place: tuple[str, int], text: str, *, whole: bool = False
    ) -> list[Chunk]:
        """Take thoughts: the next ones, or (`whole`) all of a piece that had not come at all."""
        if not text or (whole and place in item.places):
            return []
        last = item.places[-1] if item.places else None
        if place != last:
            item.places.append(place)
        piece = self._thought(item)
        text = piece.take(text if last in {None, place} else BETWEEN + text)
        return [ReasoningChunk(index=piece.number, text=text)]

    def argue(self, item: StreamedItem, text: str, *, whole: bool = False) -> list[Chunk]:
        """Take the arguments of a call: the next piece of them, or (`whole`) all."""
        piece = self._private(item)
        text = piece.take(text, whole=whole)
        return [CallChunk(index=piece.number, arguments=text)] if text else []

    def write(self, item: StreamedItem, text: str) -> list[Chunk]:
        """Take the next piece of the free text that a custom tool is called with."""
        if item.private is None:
            return []
        escaped = _json.encode(text).decode()[1:-1]
        return self.argue(item, escaped if item.private.runs else _FREE_TEXT + escaped)

    def end(self, item: StreamedItem, raw: bytes) -> list[Chunk]:
        """Take an item as it is in the end."""
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
        # Found by its order: there are hosts that count the pieces of a message wrongly.
        keys = list(item.said)
        key = keys[place] if place < len(keys) else max(keys, default=-1) + 1
        chunks = self.say(item, key, part.text, whole=True)
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
        piece = self._thought(item)
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
            name=as_text(fields.get("name")),
        )

    def _private(self, item: StreamedItem) -> TextBuffer:
        if item.private is None:
            item.private = TextBuffer(next(self._calls))
            self._open = None
        return item.private

    def _thought(self, item: StreamedItem) -> TextBuffer:
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
