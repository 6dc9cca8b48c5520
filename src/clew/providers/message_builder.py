"""Build an assistant message from the chunks of a response."""

from typing import Any

import msgspec
from msgspec import Struct, field

from clew.core.ids import CallId, new_call_id
from clew.core.messages import Message, Native, Part, Reasoning, Role, Text, ToolCall
from clew.core.usage import Usage
from clew.providers.protocol import (
    CallChunk,
    Chunk,
    Finished,
    PartChunk,
    ReasoningChunk,
    ServerToolChunk,
    TextChunk,
    UsageChunk,
)


class _Words(Struct):
    index: int
    pieces: list[str] = field(default_factory=list)
    extra: str = ""

    def part(self) -> Part | None:
        text = "".join(self.pieces)
        return Text(text, self.extra) if text or self.extra else None


class _Whole(Struct):
    kept: Part

    def part(self) -> Part:
        return self.kept


class _Thought(Struct):
    provenance: str
    pieces: list[str] = field(default_factory=list)
    signature: list[str] = field(default_factory=list)
    redacted: list[str] = field(default_factory=list)
    extra: str = ""

    def part(self) -> Part:
        return Reasoning(
            text="".join(self.pieces),
            provenance=self.provenance,
            signature="".join(self.signature),
            redacted="".join(self.redacted),
            extra=self.extra,
        )


class _Call(Struct):
    call_id: CallId | None = None
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    extra: str = ""
    complete: bool = False

    def part(self) -> Part | None:
        arguments = "".join(self.pieces)
        if not self.complete and not _is_whole(arguments):
            return None
        return ToolCall(
            call_id=self.call_id or new_call_id(),
            name=self.name,
            arguments=arguments or "{}",
            extra=self.extra,
        )


class MessageBuilder:
    """Builds the assistant message from the chunks of a response, in the order they started."""

    def __init__(self, *, provenance: str) -> None:
        self._provenance = provenance
        self._slots: list[_Words | _Thought | _Call | _Whole] = []
        self._thoughts: dict[int, _Thought] = {}
        self._calls: dict[int, _Call] = {}
        self.finished: Finished | None = None
        self.usage: Usage | None = None

    def add(self, chunk: Chunk) -> None:
        """Add the next chunk."""
        match chunk:
            case TextChunk():
                self._speak(chunk)
            case ReasoningChunk():
                self._think(chunk)
            case CallChunk():
                self._call(chunk)
            case PartChunk(part=part):
                self._slots.append(_Whole(part))
            case UsageChunk(usage=usage):
                self.usage = usage
            case ServerToolChunk():
                pass
            case Finished():
                for call in self._calls.values():
                    call.complete = True
                self.finished = chunk

    def message(self) -> Message:
        """Return the message so far; without a `Finished` it is marked interrupted.

        An incomplete tool call of an interrupted response is left out.
        """
        parts = [part for slot in self._slots if (part := slot.part()) is not None]
        return Message(
            role=Role.ASSISTANT,
            parts=tuple(parts),
            interrupted=self.finished is None,
            provenance=self._provenance if any(map(_is_private, parts)) else "",
        )

    def _speak(self, chunk: TextChunk) -> None:
        words = self._slots[-1] if self._slots else None
        if not isinstance(words, _Words) or words.index != chunk.index:
            words = _Words(chunk.index)
            self._slots.append(words)
        words.pieces.append(chunk.text)
        words.extra = chunk.extra or words.extra

    def _think(self, chunk: ReasoningChunk) -> None:
        if chunk.index not in self._thoughts:
            thought = _Thought(self._provenance)
            self._thoughts[chunk.index] = thought
            self._slots.append(thought)
        thought = self._thoughts[chunk.index]
        thought.pieces.append(chunk.text)
        thought.signature.append(chunk.signature)
        thought.redacted.append(chunk.redacted)
        thought.extra = chunk.extra or thought.extra

    def _call(self, chunk: CallChunk) -> None:
        if chunk.index not in self._calls:
            self._calls[chunk.index] = _Call()
            self._slots.append(self._calls[chunk.index])
        call = self._calls[chunk.index]
        call.call_id = call.call_id or chunk.call_id
        call.name = call.name or chunk.name
        call.pieces.append(chunk.arguments)
        call.extra = chunk.extra or call.extra
        call.complete = call.complete or chunk.complete


def _is_whole(arguments: str) -> bool:
    try:
        msgspec.json.decode(arguments, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _is_private(part: Part) -> bool:
    return not isinstance(part, Native) and bool(part.extra)
