"""Decode the responses of the Messages API, streamed or whole."""

from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, Raw, Struct

from clew.core.errors import ProviderError
from clew.core.json_text import JsonDecoder
from clew.core.usage import Usage
from clew.providers.http_errors import error_for
from clew.providers.protocol import Chunk, Finished, StopReason, UsageChunk
from clew.providers.sse import ServerEvent
from clew.providers.wire.anthropic.block_decoder import StreamedBlock, open_block, read_delta
from clew.providers.wire.base_decoder import EventDecoder


class _CacheCreation(Struct):
    ephemeral_1h_input_tokens: int | None = None


class _Usage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_creation: _CacheCreation | None = None


class _StopDetails(Struct):
    category: str | None = None
    explanation: str | None = None


class _Ending(Struct):
    """Why a response ended: in the delta of a stream, or in a whole response."""

    stop_reason: str | None = None
    stop_details: _StopDetails | None = None


class _Message(_Ending):
    type: str | None = None
    content: list[Raw] = []
    usage: _Usage | None = None
    error: Any = None


class _Event(Struct):
    """An event whose fields are parsed once its type is known."""

    type: str | None = None
    index: int | None = None
    message: Raw = Raw(b"{}")
    content_block: Raw = Raw(b"{}")
    delta: Raw = Raw(b"{}")
    usage: Raw = Raw(b"null")
    error: Any = None


_event = JsonDecoder(_Event)
_message = JsonDecoder(_Message)
_ending = JsonDecoder(_Ending)
_counts = JsonDecoder(_Usage | None)

_REASONS = {
    "end_turn": StopReason.DONE,
    "stop_sequence": StopReason.DONE,
    "tool_use": StopReason.TOOL_CALLS,
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.LENGTH,
    "refusal": StopReason.REFUSED,
    "pause_turn": StopReason.PAUSED,
    "compaction": StopReason.PAUSED,
}
# The HTTP status that a mid-stream error would have had before the stream.
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


def messages_decoder(provider: str) -> EventDecoder:
    """Return the decoder of one response of `provider`."""
    return EventDecoder(provider, MessagesResponse(provider))


class MessagesResponse:
    """Interprets one response; see `clew.providers.wire.base_decoder.ResponseFormat`."""

    name: ClassVar = "a response of the Messages API"
    advice: ClassVar = "Check that the base URL is that of a server with this API."

    def __init__(self, provider: str) -> None:
        self.done = False
        self._provider = provider
        self._ended: _Ending | None = None
        self._usage: Usage | None = None
        self._blocks: dict[int, StreamedBlock] = {}
        self._tools: dict[str, str] = {}

    @property
    def complete(self) -> bool:
        """True when the stop reason has arrived."""
        return self._ended is not None

    def finish(self) -> Finished:
        """Return the end of the response."""
        ended = self._ended or _Ending()
        said = ended.stop_reason or ""
        details = ended.stop_details or _StopDetails()
        reason = _REASONS.get(said, StopReason.DONE)
        detail = details.explanation or details.category or ""
        if not detail and said == "model_context_window_exceeded":
            detail = "the context window is full"
        return Finished(reason=reason, usage=self._usage, detail=detail)

    def take_whole(self, body: bytes) -> list[Chunk]:
        """Return the chunks of a non-streamed response."""
        message = _message.decode(body)
        if message.error is not None:
            raise self._failure(message.error, body.decode(errors="replace"))
        if message.type != "message":
            raise ValueError(f"its type is {message.type!r}")
        self._count(message.usage)
        chunks = [
            chunk
            for index, raw in enumerate(message.content)
            for chunk in self._begin(index, raw) + self._end(index)
        ]
        self.done, self._ended = True, message
        return chunks

    def take(self, event: ServerEvent) -> list[Chunk]:
        """Return the chunks of one event."""
        return [] if event.data == "[DONE]" else self._fold(event.data)

    def _fold(self, text: str) -> list[Chunk]:
        event = _event.decode(text)
        if event.error is not None:
            raise self._failure(event.error, text)
        index = event.index or 0
        match event.type:
            case "content_block_delta":
                block = self._blocks.get(index)
                return block.grow(read_delta(event.delta), event.delta) if block else []
            case "content_block_start":
                return self._begin(index, event.content_block)
            case "content_block_stop":
                return self._end(index)
            case "message_start":
                return self._count(_message.decode(event.message).usage)
            case "message_delta":
                ending = _ending.decode(event.delta)
                self._ended = ending if ending.stop_reason else self._ended
                return self._count(_counts.decode(event.usage))
            case "message_stop":
                self.done = True
                self._ended = self._ended or _Ending()
        return []

    def _begin(self, index: int, raw: Raw) -> list[Chunk]:
        self._blocks[index] = block = open_block(index, raw, self._provider, self._tools)
        return block.begin()

    def _end(self, index: int) -> list[Chunk]:
        block = self._blocks.pop(index, None)
        return block.end() if block else []

    def _count(self, found: _Usage | None) -> list[Chunk]:
        """Update the usage; each report replaces the previous one."""
        if found is None:
            return []
        usage = _usage(found)
        known = self._usage or Usage()
        if found.input_tokens is not None and usage.input_tokens:
            # The end of a stream repeats the counts without their lifetimes.
            hourly = known.cache_write_1h_tokens if found.cache_creation is None else None
            known = msgspec.structs.replace(
                usage,
                output_tokens=known.output_tokens,
                cache_write_1h_tokens=usage.cache_write_1h_tokens if hourly is None else hourly,
            )
        output = usage.output_tokens or known.output_tokens
        self._usage = msgspec.structs.replace(known, output_tokens=output)
        return [UsageChunk(self._usage)]

    def _failure(self, error: object, text: str) -> ProviderError:
        kind = error.get("type") if isinstance(error, dict) else None
        return error_for(_STATUS.get(str(kind)), text, {}, self._provider)


def _usage(found: _Usage) -> Usage:
    read, written = found.cache_read_input_tokens or 0, found.cache_creation_input_tokens or 0
    return Usage(
        input_tokens=(found.input_tokens or 0) + read + written,
        output_tokens=found.output_tokens or 0,
        cache_read_tokens=read,
        cache_write_tokens=written,
        cache_write_1h_tokens=(found.cache_creation or _CacheCreation()).ephemeral_1h_input_tokens
        or UNSET,
    )
