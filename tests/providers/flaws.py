"""Adapters that break the contract, each in its own way, and the check that must notice."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace as altered
from functools import partial
from typing import Any, TypeAlias

import anyio
import msgspec
from msgspec.structs import replace

from clew.context.reasoning import strip_reasoning
from clew.core.errors import ProviderBusy, ProviderError, ProviderTimeout, StreamBroken
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from clew.providers.protocol import (
    CallChunk,
    Chunk,
    Finished,
    Provider,
    ReasoningChunk,
    Request,
    StopReason,
    TextChunk,
)
from clew.providers.retry import Retry
from clew.providers.sse import EventParser, ServerEvent
from clew.providers.transport import stream_call
from clew.testing.providers import AdapterParams
from tests.providers.tiny import Tiny, TinyDecoder, encode

Spoil: TypeAlias = Callable[[AsyncIterator[Chunk]], AsyncGenerator[Chunk, None]]


def tiny(at: AdapterParams) -> Tiny:
    return Tiny(at.url, api_key=at.api_key, **at.options)


class Spoilt(Tiny):
    """Hands on the answer after something was done to it."""

    spoil: Spoil

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        async with aclosing(super().stream(request)) as whole, aclosing(self.spoil(whole)) as rest:
            async for chunk in rest:
                yield chunk


def spoilt(spoil: Spoil) -> Callable[[AdapterParams], Provider]:
    def make(at: AdapterParams) -> Provider:
        provider = Spoilt(at.url, api_key=at.api_key, **at.options)
        provider.spoil = spoil
        return provider

    return make


def changed(change: Callable[[Chunk], Chunk]) -> Callable[[AdapterParams], Provider]:
    async def spoil(chunks: AsyncIterator[Chunk]) -> AsyncGenerator[Chunk, None]:
        async for chunk in chunks:
            yield change(chunk)

    return spoilt(spoil)


def stripped(chunk: Chunk) -> Chunk:
    return TextChunk(chunk.text.strip()) if isinstance(chunk, TextChunk) else chunk


def spelled_anew(chunk: Chunk) -> Chunk:
    if not isinstance(chunk, CallChunk):
        return chunk
    value = msgspec.json.decode(chunk.arguments)
    return replace(chunk, arguments=msgspec.json.encode(value).decode())


def loosely(chunk: Chunk) -> Chunk:
    return replace(spelled_anew(chunk), call_id=None) if isinstance(chunk, CallChunk) else chunk


def all_in_one_call(chunk: Chunk) -> Chunk:
    return replace(chunk, index=0) if isinstance(chunk, CallChunk) else chunk


def without_object(chunk: Chunk) -> Chunk:
    empty = isinstance(chunk, CallChunk) and chunk.arguments == "{}"
    return replace(chunk, arguments="null") if empty else chunk


def thinking_aloud(chunk: Chunk) -> Chunk:
    return TextChunk(chunk.text) if isinstance(chunk, ReasoningChunk) else chunk


def unsealed(chunk: Chunk) -> Chunk:
    if not isinstance(chunk, ReasoningChunk):
        return chunk
    return replace(chunk, signature=chunk.signature.rstrip("="))


def uncounted(chunk: Chunk) -> Chunk:
    return replace(chunk, usage=Usage()) if isinstance(chunk, Finished) else chunk


def always_done(chunk: Chunk) -> Chunk:
    return replace(chunk, reason=StopReason.DONE) if isinstance(chunk, Finished) else chunk


async def ended_twice(chunks: AsyncIterator[Chunk]) -> AsyncGenerator[Chunk, None]:
    async for chunk in chunks:
        yield chunk
    yield Finished(reason=StopReason.DONE)


async def never_empty(chunks: AsyncIterator[Chunk]) -> AsyncGenerator[Chunk, None]:
    found = [chunk async for chunk in chunks]
    if len(found) == 1:
        raise StreamBroken("The answer is empty.", provider="tiny")
    for chunk in found:
        yield chunk


async def gathered(chunks: AsyncIterator[Chunk]) -> AsyncGenerator[Chunk, None]:
    for chunk in [each async for each in chunks]:
        yield chunk


async def glossed_over(chunks: AsyncIterator[Chunk]) -> AsyncGenerator[Chunk, None]:
    try:
        async for chunk in chunks:
            yield chunk
    except StreamBroken:
        yield Finished(reason=StopReason.DONE)


async def of_one_kind(chunks: AsyncIterator[Chunk]) -> AsyncGenerator[Chunk, None]:
    try:
        async for chunk in chunks:
            yield chunk
    except ProviderError as error:
        raise ProviderError(str(error), provider="tiny", status=error.status) from error


async def in_a_hurry(chunks: AsyncIterator[Chunk]) -> AsyncGenerator[Chunk, None]:
    start = anyio.current_time()
    async for chunk in chunks:
        if anyio.current_time() - start > 0.6:
            raise ProviderTimeout("too slow", provider="tiny")
        yield chunk


class Mixing(Tiny):
    """Has one parser for the bytes of all its answers."""

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        parser = self.__dict__.setdefault("parser", EventParser())
        body = encode(request)
        decoder = partial(TinyDecoder, self.name)
        return stream_call(self.transport, "", body, decoder=decoder, framing=lambda: parser)


class Remembering(Tiny):
    """Has one decoder for all its answers, and so one end."""

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        decoder = self.__dict__.setdefault("decoder", TinyDecoder(self.name))
        return stream_call(self.transport, "", encode(request), decoder=lambda: decoder)


class Leaking(Tiny):
    """Goes on listening to an answer that nobody wants any more."""

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        self.__dict__.setdefault("kept", []).append(chunks := super().stream(request))
        async for chunk in chunks:
            yield chunk

    async def aclose(self) -> None:
        for chunks in self.__dict__.pop("kept", []):
            await chunks.aclose()
        await super().aclose()


class Detached(Tiny):
    """Waits for each chunk in a task of its own, which a cancellation does not reach."""

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        self.chunks = super().stream(request)
        while True:
            self.waiting = asyncio.ensure_future(anext(self.chunks, None))
            chunk = await asyncio.shield(self.waiting)
            if chunk is None:
                return
            yield chunk

    async def aclose(self) -> None:
        self.waiting.cancel()
        await asyncio.wait([self.waiting])
        await super().aclose()


class AskingAgain(Tiny):
    """Asks again whatever happened, though words were shown."""

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        try:
            async for chunk in super().stream(request):
                yield chunk
        except StreamBroken:
            async for chunk in super().stream(request):
                yield chunk


class Unbuffered:
    """Takes what comes at once for whole events."""

    def feed(self, data: bytes) -> list[ServerEvent]:
        return EventParser().feed(data)

    def close(self) -> list[ServerEvent]:
        return []


class Impatient(Tiny):
    """Takes what comes at once for whole events."""

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        decoder = partial(TinyDecoder, self.name)
        body = encode(request)
        return stream_call(self.transport, "", body, decoder=decoder, framing=Unbuffered)


class Forgetful(Tiny):
    """Does not send the results of tools."""

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        kept = tuple(message for message in request.messages if not message.results)
        return super().stream(replace(request, messages=kept))


class Thoughtless(Tiny):
    """Does not send thinking back."""

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        kept = tuple(map(strip_reasoning, request.messages))
        return super().stream(replace(request, messages=kept))


class Curt(TinyDecoder):
    """Passes over calls in an answer that came whole, and what is wrong with an answer."""

    def whole(self, body: bytes) -> list[Chunk]:
        return [chunk for chunk in super().whole(body) if not isinstance(chunk, CallChunk)]

    def _read(self, data: str | bytes) -> dict[str, Any]:
        return msgspec.json.decode(data, type=dict[str, Any])


class Brusque(Tiny):
    """Reads answers curtly."""

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        decoder = partial(Curt, self.name)
        return stream_call(self.transport, "", encode(request), decoder=decoder)


class Backwards(Tiny):
    """Sends the newest message first."""

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        return super().stream(replace(request, messages=request.messages[::-1]))


class Boastful(Tiny):
    """Takes every model for the best, and shows its key to everyone."""

    def __repr__(self) -> str:
        return f"Boastful({self.transport.endpoint.api_key!r})"

    def facts(self, model: str) -> ModelFacts:
        return ModelFacts(name="the best")


class ClosedOnce(Tiny):
    """Must not be closed again."""

    async def aclose(self) -> None:
        if self.__dict__.setdefault("closed", False):
            raise RuntimeError("closed already")
        self.__dict__["closed"] = True
        await super().aclose()


class Deaf(Retry):
    """Waits as it likes, not as it is asked."""

    def delay(self, attempt: int, busy: ProviderBusy) -> float | None:
        return super().delay(attempt, ProviderBusy(str(busy), provider="tiny"))


def made(kind: type[Tiny]) -> Callable[[AdapterParams], Provider]:
    return lambda at: kind(at.url, api_key=at.api_key, **at.options)


def once(at: AdapterParams) -> Provider:
    return tiny(altered(at, retry=altered(at.retry, attempts=1)))


def stubborn(at: AdapterParams) -> Provider:
    return tiny(altered(at, retry=altered(at.retry, attempts=99)))


def deaf(at: AdapterParams) -> Provider:
    retry = Deaf(attempts=at.retry.attempts, sleep=at.retry.sleep, random=at.retry.random)
    return tiny(altered(at, retry=retry))


def ever_waiting(at: AdapterParams) -> Provider:
    return tiny(altered(at, idle_timeout=60.0))


FLAWS: list[tuple[str, Callable[[AdapterParams], Provider]]] = [
    ("streams_text_in_order", changed(stripped)),
    ("delivers_one_tool_call", changed(spelled_anew)),
    ("delivers_parallel_tool_calls", changed(all_in_one_call)),
    ("reports_usage", changed(uncounted)),
    ("reports_stop_reason", changed(always_done)),
    ("ends_with_one_finished", spoilt(ended_twice)),
    ("keeps_no_state_between_calls", spoilt(ended_twice)),
    ("streams_without_buffering", spoilt(gathered)),
    ("detects_truncated_streams", spoilt(glossed_over)),
    ("never_retries_after_first_chunk", spoilt(glossed_over)),
    ("reports_mid_stream_errors", spoilt(glossed_over)),
    ("maps_http_errors", spoilt(of_one_kind)),
    ("detects_context_overflow", spoilt(of_one_kind)),
    ("compacts_after_overflow", spoilt(of_one_kind)),
    ("keeps_slow_streams_open", spoilt(in_a_hurry)),
    ("isolates_concurrent_responses", made(Mixing)),
    ("cancels_request_when_closed", made(Leaking)),
    ("cancels_request_with_its_task", made(Detached)),
    ("continues_after_abort", made(Detached)),
    ("isolates_concurrent_responses", made(Remembering)),
    ("never_retries_after_first_chunk", made(AskingAgain)),
    ("reports_mid_stream_errors", made(AskingAgain)),
    ("parses_any_chunk_boundary", made(Impatient)),
    ("separates_reasoning", changed(thinking_aloud)),
    ("preserves_signatures", changed(unsealed)),
    ("delivers_empty_arguments", changed(without_object)),
    ("accepts_empty_response", spoilt(never_empty)),
    ("has_facts_for_unknown_models", made(Boastful)),
    ("matches_non_streaming_response", made(Brusque)),
    ("rejects_unreadable_responses", made(Brusque)),
    ("echoes_reasoning", made(Thoughtless)),
    ("runs_tools", made(Forgetful)),
    ("runs_tools", made(Backwards)),
    ("continues_after_abort", made(Forgetful)),
    ("never_leaks_api_key", made(Boastful)),
    ("marks_unknown_models", made(Boastful)),
    ("closes_repeatedly", made(ClosedOnce)),
    ("retries_busy_servers", once),
    ("retries_after_disconnect", once),
    ("retries_error_in_first_event", once),
    ("limits_retries", stubborn),
    ("honors_retry_after", deaf),
    ("applies_idle_timeout", ever_waiting),
]
