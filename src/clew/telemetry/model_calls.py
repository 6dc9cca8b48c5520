"""Model calls as spans, and the metrics: tokens, durations, and how full the context window is."""

import time
from typing import Final

from opentelemetry.metrics import MeterProvider, get_meter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer

from clew._version import __version__
from clew.core.context_state import ContextState
from clew.core.usage import Usage
from clew.providers.message_builder import MessageBuilder
from clew.providers.protocol import Chunk, Finished, RetryChunk, UsageChunk
from clew.telemetry.attributes import (
    CONVERSATION,
    COST,
    ERROR,
    FINISH_REASONS,
    OPERATION,
    PROVIDER,
    PURPOSE,
    REQUEST_MODEL,
    TOKEN_TYPE,
    Attributes,
    describe_input,
    describe_output,
    describe_request,
    describe_usage,
    name_finish_reason,
)
from clew.telemetry.protocol import ModelCall

_TOKENS: Final = [4**power for power in range(14)]
_SECONDS: Final = [0.01 * 2**power for power in range(14)]
"""Both are the bucket boundaries of the conventions."""


class Instruments:
    """Records what model calls use and how full windows are.

    Args:
        provider: Where the metrics go; by default the global one.
    """

    def __init__(self, provider: MeterProvider | None = None) -> None:
        meter = get_meter("clew", __version__, meter_provider=provider)
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Tokens of a model call.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="Duration of a model call.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._used = meter.create_gauge(
            "clew.context.used", unit="{token}", description="Tokens in the context window."
        )
        self._share = meter.create_gauge(
            "clew.context.utilization", unit="1", description="Used share of the context window."
        )

    def record_call(self, seconds: float, usage: Usage | None, attributes: Attributes) -> None:
        """Record a model call that has ended."""
        self._duration.record(seconds, attributes)
        if usage is not None:
            self._tokens.record(usage.input_tokens, {**attributes, TOKEN_TYPE: "input"})
            self._tokens.record(usage.output_tokens, {**attributes, TOKEN_TYPE: "output"})

    def record_context(self, state: ContextState, attributes: Attributes) -> None:
        """Record how full a window is."""
        self._used.set(state.used_tokens, attributes)
        self._share.set(state.used_tokens / state.max_tokens, attributes)


class CallSpan:
    """The span of one model call, which also counts for the metrics.

    Args:
        tracer: Makes the span.
        instruments: Records the call.
        call: What is called.
        content: Record the request and the answer too.
    """

    def __init__(
        self, tracer: Tracer, instruments: Instruments, call: ModelCall, *, content: bool
    ) -> None:
        self._instruments = instruments
        self._call = call
        self._usage: Usage | None = None
        self._finished: Finished | None = None
        self._builder = MessageBuilder(provenance=call.provider) if content else None
        self._started = time.perf_counter()
        self._ended = False
        request = call.request
        attributes = describe_request(request, call.provider)
        attributes[CONVERSATION] = call.session_id
        attributes[PURPOSE] = call.purpose
        if content:
            attributes |= describe_input(request, call.secrets)
        self._span = tracer.start_span(
            f"chat {request.model}", kind=SpanKind.CLIENT, attributes=attributes
        )

    def add(self, chunk: Chunk) -> None:
        """Take note of a chunk; the last one ends the span."""
        if self._builder is not None:
            self._builder.add(chunk)
        match chunk:
            case RetryChunk(reason=reason, attempt=attempt):
                self._span.add_event("clew.retry", {"reason": reason, "attempt": attempt})
            case UsageChunk(usage=usage):
                self._usage = usage
            case Finished():
                self._finished, self._usage = chunk, chunk.usage or self._usage
                self.end("")
            case _:
                pass

    def end(self, error: str) -> None:
        """End the span, once."""
        if self._ended:
            return
        self._ended = True
        if self._usage is not None:
            self._span.set_attributes(describe_usage(self._usage))
            cost = self._finished.cost if self._finished is not None else None
            cost = self._call.price(self._usage) if cost is None else cost
            if cost is not None:
                self._span.set_attribute(COST, cost)
        if self._finished is not None:
            reason = name_finish_reason(self._finished.reason)
            self._span.set_attribute(FINISH_REASONS, [reason])
        if self._builder is not None and (message := self._builder.message()).parts:
            reason = self._finished.reason if self._finished is not None else error
            self._span.set_attributes(describe_output(message, reason, self._call.secrets))
        self._record(error)
        end_span(self._span, error)

    def _record(self, error: str) -> None:
        request = self._call.request
        known = describe_request(request, self._call.provider)
        attributes: Attributes = {
            name: known[name] for name in (OPERATION, PROVIDER, REQUEST_MODEL)
        }
        if error:
            attributes[ERROR] = error
        seconds = time.perf_counter() - self._started
        self._instruments.record_call(seconds, self._usage, attributes)


def end_span(span: Span, error: str) -> None:
    """End a span; `error` is the class of an error, and empty for success."""
    if error:
        span.set_attribute(ERROR, error)
        span.set_status(Status(StatusCode.ERROR))
    span.end()
