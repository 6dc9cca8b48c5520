"""Model calls as they were recorded: what was sent, as far as that is known, and what came back."""

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
    """What a call was asked. What a recording does not hold is None, and is not compared."""

    keep: int = 0
    """How many leading messages are those of the recorded call before."""
    new: tuple[Message, ...] = ()
    """The messages after those."""
    model: str | None = None
    system: str | None = None
    tools: tuple[ToolSpec, ...] | None = None
    head: dict[str, Any] | None = None
    """All other fields of the request that are not as they always are."""


class RecordedCall(Struct, frozen=True, kw_only=True):
    """One call: a request, and the chunks or the error that answered it, or first one then both."""

    request: RecordedRequest | None
    """None when it cannot be made out; then any request will do."""
    chunks: tuple[Chunk, ...] = ()
    error: ProviderError | None = None
    provider: str = "replay"
    """The family that answered."""
    is_turn: bool = True
    """False for a call beside the conversation, such as a summary."""


class Recording(Struct, frozen=True, kw_only=True):
    """The calls of a session, in order."""

    calls: tuple[RecordedCall, ...]
    models: dict[str, ModelFacts] = {}
    """What was known of the models that were asked."""

    @property
    def turns(self) -> "Recording":
        """The same, with nothing but the calls of the conversation itself."""
        return replace(self, calls=tuple(call for call in self.calls if call.is_turn))


def extra_fields(request: Request) -> dict[str, Any]:
    """Return the fields of a request beside model, messages, system prompt and tools.

    Those that are as they always are, are left out.
    """
    return {
        name: msgspec.to_builtins(value)
        for name in request.__struct_fields__
        if name not in _NAMED and (value := getattr(request, name)) != getattr(_EMPTY, name)
    }


def to_chunks(message: Message, finished: Finished | None) -> tuple[Chunk, ...]:
    """Return chunks that put together make `message`; without an end, they break off."""
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
