"""Recorded model calls: what was sent, as far as known, and what was received."""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.core.errors import ProviderError
from clew.core.messages import Message, Reasoning, Text, ToolCall, ToolResult
from clew.core.models import ModelFacts, ToolSpec
from clew.providers.protocol import (
    CallChunk,
    Chunk,
    Finished,
    PartChunk,
    ReasoningChunk,
    Request,
    TextChunk,
)

_NAMED = frozenset({"model", "messages", "system", "tools"})
_EMPTY = Request(model="", messages=())


class RecordedRequest(Struct, frozen=True, kw_only=True):
    """A recorded request. A field that the recording lacks is None and is not compared."""

    keep: int = 0
    """How many leading messages equal those of the previous recorded call."""
    new: tuple[Message, ...] = ()
    """The messages after those."""
    model: str | None = None
    system: str | None = None
    tools: tuple[ToolSpec, ...] | None = None
    head: dict[str, Any] | None = None
    """All other fields of the request that differ from their defaults."""


class RecordedCall(Struct, frozen=True, kw_only=True):
    """One call: a request, and the chunks, the error, or both that followed."""

    request: RecordedRequest | None
    """None when the request is unknown; then any request matches."""
    chunks: tuple[Chunk, ...] = ()
    error: ProviderError | None = None
    provider: str = "replay"
    """The provider that answered."""
    is_turn: bool = True
    """False for a call outside the conversation, such as a summary."""


class Recording(Struct, frozen=True, kw_only=True):
    """The recorded calls of a session, in order."""

    calls: tuple[RecordedCall, ...]
    models: dict[str, ModelFacts] = {}
    """The known facts about the models that were called."""

    @property
    def turns(self) -> "Recording":
        """The same recording with only the calls of the conversation."""
        return replace(self, calls=tuple(call for call in self.calls if call.is_turn))


def extra_fields(request: Request) -> dict[str, Any]:
    """Return the fields of a request other than model, messages, system prompt and tools.

    Fields with default values are left out.
    """
    return {
        name: msgspec.to_builtins(value)
        for name in request.__struct_fields__
        if name not in _NAMED and (value := getattr(request, name)) != getattr(_EMPTY, name)
    }


def to_chunks(message: Message, finished: Finished | None) -> tuple[Chunk, ...]:
    """Return chunks that build `message`; without `finished` the stream ends early."""
    return (*_pieces(message), *([finished] if finished else []))


def _pieces(message: Message) -> Iterator[Chunk]:
    for index, part in enumerate(message.parts):
        match part:
            case Text(text=text, extra=extra):
                yield TextChunk(text, index, extra)
            case Reasoning():
                yield ReasoningChunk(
                    index=index,
                    text=part.text,
                    signature=part.signature,
                    redacted=part.redacted,
                    extra=part.extra,
                )
            case ToolCall():
                yield CallChunk(
                    index=index,
                    call_id=part.call_id,
                    name=part.name,
                    arguments=part.arguments,
                    extra=part.extra,
                    complete=True,
                )
            case ToolResult():
                pass
            case whole:
                yield PartChunk(whole)
