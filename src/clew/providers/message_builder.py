"""Build an assistant message from the chunks of a response."""

from typing import Any

import msgspec
from msgspec import Struct, field

from clew.core.ids import CallId, new_call_id
from clew.core.json_text import decode_json
from clew.core.messages import Message, Native, Part, Reasoning, Role, Text, ToolCall
from clew.core.usage import Usage
from clew.providers.protocol import (
    CallChunk,
    Chunk,
    Finished,
    PartChunk,
    ReasoningChunk,
    TextChunk,
    UsageChunk,
)


class _TextSlot(Struct, gc=False):
    index: int
    deltas: list[str] = field(default_factory=list)
    extra: str = ""

    def part(self) -> Part | None:
        text = "".join(self.deltas)
        return Text(text, self.extra) if text or self.extra else None


class _PartSlot(Struct, gc=False):
    whole: Part

    def part(self) -> Part:
        return self.whole


class _ReasoningSlot(Struct, gc=False):
    provenance: str
    deltas: list[str] = field(default_factory=list)
    signature: list[str] = field(default_factory=list)
    redacted: list[str] = field(default_factory=list)
    extra: str = ""

    def part(self) -> Part:
        return Reasoning(
            text="".join(self.deltas),
            provenance=self.provenance,
            signature="".join(self.signature),
            redacted="".join(self.redacted),
            extra=self.extra,
        )


class _CallSlot(Struct, gc=False):
    call_id: CallId | None = None
    name: str = ""
    deltas: list[str] = field(default_factory=list)
    extra: str = ""
    complete: bool = False

    def part(self) -> Part | None:
        arguments = "".join(self.deltas)
        if not self.complete and not _is_complete_json(arguments):
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
        self._slots: list[_TextSlot | _ReasoningSlot | _CallSlot | _PartSlot] = []
        self._reasoning: dict[int, _ReasoningSlot] = {}
        self._calls: dict[int, _CallSlot] = {}
        self.finished: Finished | None = None
        self.usage: Usage | None = None

    def add(self, chunk: Chunk) -> None:
        """Add the next chunk."""
        if type(chunk) is TextChunk:
            self._add_text(chunk)
        elif type(chunk) is CallChunk:
            self._add_call(chunk)
        else:
            self._add_other(chunk)

    def _add_other(self, chunk: Chunk) -> None:
        match chunk:
            case ReasoningChunk():
                self._add_reasoning(chunk)
            case PartChunk(part=part):
                self._slots.append(_PartSlot(part))
            case UsageChunk(usage=usage):
                self.usage = usage
            case Finished():
                for call in self._calls.values():
                    call.complete = True
                self.finished = chunk
            case _:
                pass

    def message(self) -> Message:
        """Return the message so far; without a `Finished` it is marked interrupted.

        An incomplete tool call of an interrupted response is left out.
        """
        parts = [part for slot in self._slots if (part := slot.part()) is not None]
        return Message(
            role=Role.ASSISTANT,
            parts=tuple(parts),
            interrupted=self.finished is None,
            provenance=self._provenance if any(map(_has_private_fields, parts)) else "",
        )

    def _add_text(self, chunk: TextChunk) -> None:
        slot = self._slots[-1] if self._slots else None
        if not isinstance(slot, _TextSlot) or slot.index != chunk.index:
            slot = _TextSlot(chunk.index)
            self._slots.append(slot)
        slot.deltas.append(chunk.text)
        slot.extra = chunk.extra or slot.extra

    def _add_reasoning(self, chunk: ReasoningChunk) -> None:
        if chunk.index not in self._reasoning:
            block = _ReasoningSlot(self._provenance)
            self._reasoning[chunk.index] = block
            self._slots.append(block)
        block = self._reasoning[chunk.index]
        block.deltas.append(chunk.text)
        block.signature.append(chunk.signature)
        block.redacted.append(chunk.redacted)
        block.extra = chunk.extra or block.extra

    def _add_call(self, chunk: CallChunk) -> None:
        call = self._calls.get(chunk.index)
        if call is None:
            call = self._calls[chunk.index] = _CallSlot()
            self._slots.append(call)
        call.deltas.append(chunk.arguments)
        if not call.call_id:
            call.call_id = chunk.call_id
        if not call.name:
            call.name = chunk.name
        if chunk.extra:
            call.extra = chunk.extra
        if chunk.complete:
            call.complete = True


def _is_complete_json(arguments: str) -> bool:
    try:
        decode_json(arguments, type=dict[str, Any])
    except msgspec.DecodeError:
        return False
    return True


def _has_private_fields(part: Part) -> bool:
    return not isinstance(part, Native) and bool(part.extra)
