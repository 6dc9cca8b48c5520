"""Decode the responses of Converse, streamed or whole."""

from typing import ClassVar

import msgspec
from msgspec import UNSET, Raw, Struct

from clew.core.errors import ProviderError
from clew.core.json_text import JsonDecoder
from clew.core.usage import Usage
from clew.providers.eventstream import EXCEPTION
from clew.providers.http_errors import error_for
from clew.providers.protocol import Chunk, Finished, StopReason, UsageChunk
from clew.providers.sse import ServerEvent
from clew.providers.wire.base_decoder import EventDecoder
from clew.providers.wire.converse.block_decoder import BlockDecoder, BlockStart, ConverseDelta


class _CacheDetail(Struct, rename="camel"):
    input_tokens: int | None = None
    ttl: str | None = None


class _Usage(Struct, rename="camel"):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None
    cache_details: list[_CacheDetail] | None = None


class _Guardrail(Struct, rename="camel"):
    action_reason: str | None = None


class _Trace(Struct):
    guardrail: _Guardrail | None = None


class _Message(Struct):
    content: list[Raw] | None = None


class _Output(Struct):
    message: _Message | None = None


class _Payload(Struct, rename="camel"):
    """Any event of a stream, and a whole response: their fields have different names."""

    content_block_index: int | None = None
    start: BlockStart | None = None
    delta: ConverseDelta | None = None
    output: _Output | None = None
    stop_reason: str | None = None
    usage: _Usage | None = None
    trace: _Trace | None = None


class _Failure(Struct, rename="camel"):
    original_status_code: int | None = None


_payload = JsonDecoder(_Payload)
_failure = JsonDecoder(_Failure)

_REASONS = {
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.LENGTH,
    "guardrail_intervened": StopReason.REFUSED,
    "content_filtered": StopReason.REFUSED,
    "refusal": StopReason.REFUSED,
}
_PLAIN = frozenset({"end_turn", "stop_sequence", "tool_use", "max_tokens"})
"""Stop reasons that need no detail."""
_STATUS = {
    "throttlingexception": 429,
    "modelnotreadyexception": 429,
    "servicequotaexceededexception": 429,
    "serviceunavailableexception": 503,
    "modeltimeoutexception": 408,
    "validationexception": 400,
    "accessdeniedexception": 403,
    "resourcenotfoundexception": 404,
}
"""The HTTP status of each exception; any other is a server error."""


def converse_decoder(provider: str) -> EventDecoder:
    """Return the decoder of one response of `provider`."""
    return EventDecoder(provider, ConverseResponse(provider))


class ConverseResponse:
    """Interprets one response; see `clew.providers.wire.base_decoder.ResponseFormat`."""

    name: ClassVar = "a Converse response"
    advice: ClassVar = "Check that the endpoint is that of Bedrock."

    def __init__(self, provider: str) -> None:
        self.done = False
        self._provider = provider
        self._answer = BlockDecoder(provider)
        self._reason = ""
        self._detail = ""
        self._usage: Usage | None = None
        self._ended = False

    @property
    def complete(self) -> bool:
        """True when the message has ended; usage comes last."""
        return self._ended

    def finish(self) -> Finished:
        """Return the end of the response."""
        # Some models report `end_turn` although they called tools.
        usual = StopReason.TOOL_CALLS if self._answer.calls else StopReason.DONE
        told = [] if self._reason in _PLAIN else [self._reason, self._detail]
        return Finished(
            reason=_REASONS.get(self._reason, usual),
            usage=self._usage,
            detail=": ".join(filter(None, told)),
        )

    def take(self, event: ServerEvent) -> list[Chunk]:
        """Return the chunks of one event."""
        if event.name.startswith(EXCEPTION):
            raise self._failure(event)
        payload = _payload.decode(event.data)
        index = payload.content_block_index or 0
        match event.name:
            case "contentBlockStart" if payload.start is not None:
                return self._answer.start(index, payload.start)
            case "contentBlockDelta" if payload.delta is not None:
                return self._answer.add(index, payload.delta)
            case "contentBlockStop":
                return self._answer.stop(index)
            case "messageStop":
                chunks = self._answer.stop_all()
                self._end(payload)
                return chunks
            case "metadata":
                return self._account(payload)
        return []

    def take_whole(self, body: bytes) -> list[Chunk]:
        """Return the chunks of a non-streamed response."""
        payload = _payload.decode(body)
        if payload.output is None or payload.output.message is None:
            raise error_for(None, body.decode(errors="replace"), {}, self._provider)
        found = [
            chunk
            for index, block in enumerate(payload.output.message.content or ())
            for chunk in self._answer.whole(index, block)
        ]
        self._end(payload)
        self._account(payload)
        return found

    def _end(self, payload: _Payload) -> None:
        self._ended = True
        self._reason = payload.stop_reason or ""
        self.done = self._usage is not None

    def _account(self, payload: _Payload) -> list[Chunk]:
        if payload.trace is not None and payload.trace.guardrail is not None:
            self._detail = payload.trace.guardrail.action_reason or ""
        if payload.usage is None:
            return []
        self._usage = _usage(payload.usage)
        self.done = self._ended
        return [] if self._ended else [UsageChunk(self._usage)]

    def _failure(self, event: ServerEvent) -> ProviderError:
        kind = event.name.removeprefix(EXCEPTION)
        try:
            status = _failure.decode(event.data).original_status_code
        except msgspec.DecodeError:
            status = None
        usual = _STATUS.get(kind.lower(), 500)
        return error_for(status or usual, event.data or kind, {}, self._provider)


def _usage(found: _Usage) -> Usage:
    read = found.cache_read_input_tokens or 0
    written = found.cache_write_input_tokens or 0
    hourly = (each.input_tokens or 0 for each in found.cache_details or () if each.ttl == "1h")
    # Bedrock counts cache reads and writes separately from the input.
    return Usage(
        input_tokens=(found.input_tokens or 0) + read + written,
        output_tokens=found.output_tokens or 0,
        cache_read_tokens=read,
        cache_write_tokens=written,
        cache_write_1h_tokens=sum(hourly) or UNSET,
    )
