"""HTTP requests to a model server, with retries and streaming, for all adapters.

API keys go into headers only: never into a log, a repr or an error.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from itertools import count
from typing import TYPE_CHECKING, Protocol, TypeVar

import anyio

from clew.core.errors import (
    ProviderBusy,
    ProviderError,
    ProviderRejected,
    StreamBroken,
)
from clew.providers.endpoint import Endpoint
from clew.providers.protocol import Chunk, UsageChunk
from clew.providers.response_limits import MAX_DOCUMENT, MIB, ResponseGuard, too_large
from clew.providers.sse import EventParser, ServerEvent
from clew.providers.wire.base_decoder import Decoder, Framing

if TYPE_CHECKING:
    import aiohttp

    from clew.providers.connections import Connections


class ResponseStream(Protocol):
    """A response that is being read. Closing it cancels the request."""

    @property
    def is_json(self) -> bool:
        """True when the server sends one JSON document instead of an event stream."""
        ...

    @property
    def content_type(self) -> str:
        """The media type that the server declares, such as `text/event-stream`; may be empty."""
        ...

    async def read(self) -> bytes:
        """Return the next bytes as they arrive; empty at the end.

        Raises:
            ProviderTimeout: No data arrived within the idle timeout.
            ResponseTooLarge: The response is larger than any answer.
            StreamBroken: The connection was lost.
        """
        ...

    @property
    def is_read(self) -> bool:
        """True when everything has arrived and was read."""
        ...

    def mask_secrets(self, text: str) -> str:
        """Return `text` without the key or token of the request."""
        ...

    def close(self) -> None:
        """Release the connection; it is reused if the response was read to its end."""
        ...


class Transport:
    """Sends requests to one endpoint, through its own client or one that the caller owns.

    Its own client is created by the first request, inside the running event loop, and closed by
    `aclose`; a client of the caller stays open.
    """

    def __init__(
        self, endpoint: Endpoint, *, provider: str, client: "aiohttp.ClientSession | None" = None
    ) -> None:
        self.endpoint = endpoint
        self.provider = provider
        self._client = client
        self._connections: Connections | None = None

    def __repr__(self) -> str:
        return f"Transport({self.endpoint.safe_url!r})"

    async def send(self, path: str, body: bytes | None, *, method: str = "POST") -> ResponseStream:
        """Send one request and return its response, which has a success status.

        Raises:
            ProviderBusy: The server asks to retry later.
            ProviderTimeout: No data arrived within the idle timeout.
            ProviderError: The server cannot be reached, or rejected the request.
        """
        if self._connections is None:
            # Importing aiohttp is slow, and only the first request needs it.
            from clew.providers.connections import Connections  # noqa: PLC0415

            self._connections = Connections(provider=self.provider, client=self._client)
        return await self._connections.send(self.endpoint, path, body, method)

    async def aclose(self) -> None:
        """Cancel open requests and close the transport's own client; calling it twice is safe."""
        if self._connections is not None:
            await self._connections.aclose()


DRAIN_LIMIT = 0.1
"""Seconds to wait for the end of the stream after the response, so that the connection can be
reused."""

USAGE_LIMIT = 2.0
"""Seconds to wait for the token counts after a complete response."""

_PAGE = "text/html"
"""No model answers with it, but any web server does."""

T = TypeVar("T")


async def stream_call(
    transport: Transport,
    path: str,
    body: bytes,
    *,
    decoder: Callable[[], Decoder],
    framing: Callable[[], Framing] = EventParser,
) -> AsyncGenerator[Chunk, None]:
    """Post `body` and yield the response; ends, raises and closes as `Provider.stream` does.

    Busy servers are retried, but never after the first chunk of a response. A JSON document instead
    of an event stream is accepted too.
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
    """Post `body` and return the whole response; busy servers are retried."""
    return await _retry(transport, lambda: _whole(transport, path, body, "POST"))


async def get(transport: Transport, path: str) -> bytes:
    """Fetch `path` and return the whole response; busy servers are retried."""
    return await _retry(transport, lambda: _whole(transport, path, None, "GET"))


async def _attempt(
    transport: Transport, path: str, body: bytes, *, decoder: Decoder, framing: Framing
) -> AsyncGenerator[Chunk, None]:
    guard = ResponseGuard(transport.endpoint, transport.provider)
    response = await guard.wait(transport.send(path, body))
    try:
        if response.content_type == _PAGE:
            raise ProviderRejected(
                f"{transport.endpoint.host} returned {_PAGE} instead of a model's response."
                " Check the base URL; it often ends in /v1.",
                provider=transport.provider,
            )
        data = await guard.wait(response.read())
        if response.is_json or data.lstrip().startswith(b"{"):
            for chunk in decoder.whole(await _rest(transport, response, guard, data)):
                yield chunk
            yield decoder.close()
            return
        while data:
            for event in framing.feed(data):
                for chunk in decoder.feed(event):
                    guard.count_chunk(chunk)
                    yield chunk
            data = b"" if decoder.done else await _more(response, decoder, guard, len(data))
        for event in _leftover(framing, decoder):
            for chunk in decoder.feed(event):
                yield chunk
        finished = decoder.close()
        # Before `Finished`, because most callers stop reading there.
        await _drain(response)
        yield finished
    except ProviderError as error:
        # A server may repeat the key in its error message.
        error.args = (response.mask_secrets(str(error)),)
        raise
    finally:
        response.close()


def _leftover(framing: Framing, decoder: Decoder) -> list[ServerEvent]:
    """Return the events that the end of the response completes."""
    try:
        return framing.close()
    except StreamBroken:
        if decoder.complete:
            return []
        raise


async def _more(
    response: ResponseStream, decoder: Decoder, guard: ResponseGuard, size: int
) -> bytes:
    """Read on; a complete response survives a connection that fails afterwards."""
    if not decoder.complete:
        guard.count_bytes(size)
        return await guard.wait(response.read())
    with suppress(ProviderError), anyio.move_on_after(guard.final_seconds(USAGE_LIMIT)):
        guard.count_bytes(size)
        return await response.read()
    return b""


async def _drain(response: ResponseStream) -> None:
    """Read the end of the stream, so that the connection can be reused."""
    if not response.is_read:
        with suppress(ProviderError), anyio.move_on_after(DRAIN_LIMIT):
            while await response.read():
                pass


async def _whole(transport: Transport, path: str, body: bytes | None, method: str) -> bytes:
    guard = ResponseGuard(transport.endpoint, transport.provider)
    response = await guard.wait(transport.send(path, body, method=method))
    try:
        return await _rest(transport, response, guard)
    finally:
        response.close()


async def _rest(
    transport: Transport, response: ResponseStream, guard: ResponseGuard, begun: bytes = b""
) -> bytes:
    """Return the whole document, of which `begun` was read before."""
    pieces, size = [begun], len(begun)
    while data := await guard.wait(response.read()):
        pieces.append(data)
        size += len(data)
        if size > MAX_DOCUMENT:
            what = f"a document of more than {MAX_DOCUMENT // MIB} MiB"
            raise too_large(transport.endpoint, transport.provider, what)
    return b"".join(pieces)


async def _retry(transport: Transport, work: Callable[[], Awaitable[T]]) -> T:
    for attempt in count(1):
        try:
            return await work()
        except ProviderBusy as busy:
            await _pause(transport, attempt, busy)
    raise AssertionError


async def _pause(transport: Transport, attempt: int, busy: ProviderBusy) -> None:
    """Wait before the next attempt; raises `busy` when no attempt is left."""
    retry = transport.endpoint.retry
    delay = retry.delay(attempt, busy)
    if delay is None:
        raise busy
    await retry.sleep(delay)
