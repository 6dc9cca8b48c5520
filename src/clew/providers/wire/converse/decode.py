"""The answers of Converse, streamed or whole, as chunks."""

import msgspec
from msgspec import Raw, Struct

from clew.core.errors import ProviderError, StreamBroken
from clew.core.usage import Usage
from clew.providers.eventstream import EXCEPTION
from clew.providers.failures import error_for
from clew.providers.protocol import Chunk, Finished, StopReason, UsageChunk
from clew.providers.sse import ServerEvent
from clew.providers.wire.converse.answer import Answer, Delta, Start


class _Usage(Struct, rename="camel"):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None


class _Guardrail(Struct, rename="camel"):
    action_reason: str | None = None


class _Trace(Struct):
    guardrail: _Guardrail | None = None


class _Message(Struct):
    content: list[Raw] | None = None


class _Output(Struct):
    message: _Message | None = None


class _Payload(Struct, rename="camel"):
    """Any event of a stream, and the whole answer too: their fields have different names."""

    content_block_index: int | None = None
    start: Start | None = None
    delta: Delta | None = None
    output: _Output | None = None
    stop_reason: str | None = None
    usage: _Usage | None = None
    trace: _Trace | None = None


class _Failure(Struct, rename="camel"):
    original_status_code: int | None = None


_payload = msgspec.json.Decoder(_Payload)
_failure = msgspec.json.Decoder(_Failure)

_REASONS = {
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.LENGTH,
    "guardrail_intervened": StopReason.REFUSED,
    "content_filtered": StopReason.REFUSED,
    "refusal": StopReason.REFUSED,
}
_PLAIN = frozenset({"end_turn", "stop_sequence", "tool_use", "max_tokens"})
"""Reasons that need no further word."""
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
"""The status that an exception has outside of a stream; any other is the server's own fault."""


class Decoder:
    """Folds one answer into chunks: feed every event, or the whole answer, then close once."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._answer = Answer(provider)
        self._reason = ""
        self._detail = ""
        self._usage: Usage | None = None
        self._ended = False

    @property
    def done(self) -> bool:
        """True when the answer has ended and its usage is known: that comes last."""
        return self._ended and self._usage is not None

    def feed(self, event: ServerEvent) -> list[Chunk]:
        """Return the chunks of one event.

        Raises:
            ProviderError: The event reports an error.
            StreamBroken: The event cannot be read.
        """
        if event.name.startswith(EXCEPTION):
            raise self._failure(event)
        payload = self._read(event.data.encode())
        index = payload.content_block_index or 0
        match event.name:
            case "contentBlockStart" if payload.start is not None:
                return self._answer.start(index, payload.start)
            case "contentBlockDelta" if payload.delta is not None:
                return self._answer.add(index, payload.delta)
            case "contentBlockStop":
                return self._answer.stop(index)
            case "messageStop":
                self._end(payload)
                return self._answer.stop_all()
            case "metadata":
                return self._account(payload)
        return []

    def whole(self, body: bytes) -> list[Chunk]:
        """Return the chunks of an answer that came in one piece; raises as `feed` does."""
        payload = self._read(body)
        if payload.output is None or payload.output.message is None:
            raise error_for(None, body.decode(errors="replace"), {}, self._provider)
        try:
            found = [
                chunk
                for index, block in enumerate(payload.output.message.content or ())
                for chunk in self._answer.whole(index, block)
            ]
        except msgspec.DecodeError as error:
            raise self._unreadable(error) from error
        self._end(payload)
        self._account(payload)
        return found

    def close(self) -> Finished:
        """Return the end of the answer.

        Raises:
            StreamBroken: The server stopped without ending the answer.
        """
        if not self._ended:
            raise StreamBroken(
                f"{self._provider} stopped in the middle of the answer."
                " What had arrived is kept; send the message again to go on.",
                provider=self._provider,
            )
        # Some models say that they are done though they called tools.
        usual = StopReason.TOOL_CALLS if self._answer.calls else StopReason.DONE
        told = [] if self._reason in _PLAIN else [self._reason, self._detail]
        return Finished(
            reason=_REASONS.get(self._reason, usual),
            usage=self._usage,
            detail=": ".join(filter(None, told)),
        )

    def _read(self, data: bytes) -> _Payload:
        try:
            return _payload.decode(data)
        except msgspec.DecodeError as error:
            raise self._unreadable(error) from error

    def _end(self, payload: _Payload) -> None:
        self._ended = True
        self._reason = payload.stop_reason or ""

    def _account(self, payload: _Payload) -> list[Chunk]:
        if payload.trace is not None and payload.trace.guardrail is not None:
            self._detail = payload.trace.guardrail.action_reason or ""
        if payload.usage is None:
            return []
        self._usage = _usage(payload.usage)
        return [] if self._ended else [UsageChunk(self._usage)]

    def _failure(self, event: ServerEvent) -> ProviderError:
        kind = event.name.removeprefix(EXCEPTION)
        try:
            status = _failure.decode(event.data).original_status_code
        except msgspec.DecodeError:
            status = None
        usual = _STATUS.get(kind.lower(), 500)
        return error_for(status or usual, event.data or kind, {}, self._provider)

    def _unreadable(self, error: Exception) -> StreamBroken:
        return StreamBroken(
            f"{self._provider} sent something that is not an answer of Converse ({error})."
            " Check that the endpoint leads to Bedrock.",
            provider=self._provider,
        )


def _usage(found: _Usage) -> Usage:
    read = found.cache_read_input_tokens or 0
    written = found.cache_write_input_tokens or 0
    # Bedrock counts what it read from the cache, or wrote there, beside the input.
    return Usage(
        input_tokens=(found.input_tokens or 0) + read + written,
        output_tokens=found.output_tokens or 0,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )
