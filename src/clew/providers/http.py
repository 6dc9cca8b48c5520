"""The way to a model server over HTTP, shared by the adapters.

A key goes into the headers and nowhere else: not into a log, a repr or an error.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from itertools import count
from typing import TYPE_CHECKING, Protocol, TypeVar

import anyio

from clew.core.errors import ProviderBusy, ProviderError, ProviderRejected, StreamBroken
from clew.providers.endpoint import Endpoint
from clew.providers.protocol import Chunk, UsageChunk
from clew.providers.sse import EventParser, ServerEvent
from clew.providers.wire.base_decoder import Decoder, Framing

if TYPE_CHECKING:
    import aiohttp

    from clew.providers.connections import Connections


class ResponseStream(Protocol):
    """An answer that is being read. Its owner closes it, which ends the request at once."""

    @property
    def is_json(self) -> bool:
        """True when the server sends one JSON document, not a stream of events."""
        ...

    @property
    def content_type(self) -> str:
        """What the server says it sends, such as `text/event-stream`; empty if it does not."""
        ...

    async def read(self) -> bytes:
        """Return the next bytes as they come; empty at the end.

        Raises:
            ProviderTimeout: No byte came for the idle timeout.
            StreamBroken: The connection was lost.
        """
        ...

    def without_secrets(self, text: str) -> str:
        """Return `text` without the key or the token that the request was made with."""
        ...

    def close(self) -> None:
        """Let go of the connection; one whose answer was read to its end is used again."""
        ...


class Transport:
    """Posts to one endpoint through a client of its own, or one that the caller owns.

    A client of its own is made on first use, inside the running loop, and closed by
    `aclose`; a borrowed one is left alone.
    """

    def __init__(
        self, endpoint: Endpoint, *, provider: str, client: "aiohttp.ClientSession | None" = None
    ) -> None:
        self.endpoint = endpoint
        self.provider = provider
        self._client = client
        self._connections: Connections | None = None

    def __repr__(self) -> str:
        return f"Transport({self.endpoint.shown!r})"

    async def send(self, path: str, body: bytes | None, *, method: str = "POST") -> ResponseStream:
        """Make one request and return its answer, which has a good status.

        Raises:
            ProviderBusy: The server asks to come back later.
            ProviderTimeout: No byte came for the idle timeout.
            ProviderError: The server cannot be reached, or refused.
        """
        if self._connections is None:
            # Imported here because nobody needs an HTTP client before the first request.
            from clew.providers.connections import Connections  # noqa: PLC0415

            self._connections = Connections(provider=self.provider, client=self._client)
        return await self._connections.send(self.endpoint, path, body, method)

    async def aclose(self) -> None:
        """End what is under way, and close the client if it is our own; harmless again."""
        if self._connections is not None:
            await self._connections.aclose()


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


async def _more(arriving: ResponseStream, decoder: Decoder) -> bytes:
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


async def _rest(arriving: ResponseStream) -> bytes:
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
