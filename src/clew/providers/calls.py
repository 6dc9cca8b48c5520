"""One model call from body to chunks, with its retries: the same for every adapter."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from itertools import count
from typing import TypeVar

import anyio

from clew.core.errors import ProviderBusy, ProviderError, ProviderRejected, StreamBroken
from clew.providers.http import Arriving, Transport
from clew.providers.protocol import Chunk, UsageChunk
from clew.providers.sse import EventParser, ServerEvent
from clew.providers.wire.decoder import Decoder, Framing

DRAIN_LIMIT = 0.1
"""Seconds to wait, after the answer, for the end that lets its connection be used again."""

USAGE_LIMIT = 2.0
"""Seconds to wait, after a complete answer, for its token counts."""

_PAGE = "text/html"
"""What no model answers with, but any web server does."""

T = TypeVar("T")


async def stream_call(
    transport: Transport,
    path: str,
    body: bytes,
    *,
    decoder: Callable[[], Decoder],
    framing: Callable[[], Framing] = EventParser,
) -> AsyncGenerator[Chunk, None]:
    """Post `body` and yield the answer; ends, raises and closes as `Provider.stream` does.

    A server that is busy is asked again, but never once it has begun to answer. One that
    answers with a whole document where a stream was asked for is understood too.
    """
    for attempt in count(1):
        begun = False
        try:
            tried = _attempt(transport, path, body, decoder=decoder(), framing=framing())
            async with aclosing(tried) as chunks:
                async for chunk in chunks:
                    begun = begun or not isinstance(chunk, UsageChunk)
                    yield chunk
        except ProviderBusy as busy:
            if begun:
                raise StreamBroken(
                    str(busy), provider=transport.provider, status=busy.status
                ) from busy
            await _pause(transport, attempt, busy)
        else:
            return


async def post(transport: Transport, path: str, body: bytes) -> bytes:
    """Post `body` and return the whole answer; a server that is busy is asked again."""
    return await _retried(transport, lambda: _whole(transport, path, body, "POST"))


async def get(transport: Transport, path: str) -> bytes:
    """Fetch `path` and return the whole answer; a server that is busy is asked again."""
    return await _retried(transport, lambda: _whole(transport, path, None, "GET"))


async def _attempt(
    transport: Transport, path: str, body: bytes, *, decoder: Decoder, framing: Framing
) -> AsyncGenerator[Chunk, None]:
    arriving = await transport.send(path, body)
    try:
        if arriving.content_type == _PAGE:
            raise ProviderRejected(
                f"{transport.endpoint.where} answered with {_PAGE}, not with a stream: is the"
                " address right (often it ends in /v1)?",
                provider=transport.provider,
            )
        data = await arriving.read()
        if arriving.is_json or data.lstrip().startswith(b"{"):
            for chunk in decoder.whole(data + await _rest(arriving)):
                yield chunk
            yield decoder.close()
            return
        while data:
            for event in framing.feed(data):
                for chunk in decoder.feed(event):
                    yield chunk
            data = b"" if decoder.done else await _more(arriving, decoder)
        for event in _leftover(framing, decoder):
            for chunk in decoder.feed(event):
                yield chunk
        finished = decoder.close()
        # Before the end is told, because most callers stop reading there.
        with suppress(ProviderError), anyio.move_on_after(DRAIN_LIMIT):
            await _rest(arriving)
        yield finished
    except ProviderError as error:
        # A server may repeat the key in what it says is wrong.
        error.args = (arriving.without_secrets(str(error)),)
        raise
    finally:
        arriving.close()


def _leftover(framing: Framing, decoder: Decoder) -> list[ServerEvent]:
    """Return what the end of the response completes."""
    try:
        return framing.close()
    except StreamBroken:
        if decoder.complete:
            return []
        raise


async def _more(arriving: Arriving, decoder: Decoder) -> bytes:
    """Read on; an answer that is complete is not lost to what happens to the line after it."""
    if not decoder.complete:
        return await arriving.read()
    with suppress(ProviderError), anyio.move_on_after(USAGE_LIMIT):
        return await arriving.read()
    return b""


async def _whole(transport: Transport, path: str, body: bytes | None, method: str) -> bytes:
    arriving = await transport.send(path, body, method=method)
    try:
        return await _rest(arriving)
    finally:
        arriving.close()


async def _rest(arriving: Arriving) -> bytes:
    pieces = []
    while data := await arriving.read():
        pieces.append(data)
    return b"".join(pieces)


async def _retried(transport: Transport, work: Callable[[], Awaitable[T]]) -> T:
    for attempt in count(1):
        try:
            return await work()
        except ProviderBusy as busy:
            await _pause(transport, attempt, busy)
    raise AssertionError


async def _pause(transport: Transport, attempt: int, busy: ProviderBusy) -> None:
    """Wait before another attempt; raises `busy` when it is not worth one."""
    retry = transport.endpoint.retry
    delay = retry.delay(attempt, busy)
    if delay is None:
        raise busy
    await retry.sleep(delay)
