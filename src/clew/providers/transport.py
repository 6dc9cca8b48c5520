"""HTTP requests to a model server, with retries and streaming, for all adapters.

API keys go into headers only: never into a log, a repr or an error.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
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
from clew.providers.protocol import Chunk, RetryChunk, UsageChunk
from clew.providers.response_limits import ResponseGuard
from clew.providers.sse import EventParser, ServerEvent
from clew.providers.wire.base_decoder import Decoder, StreamFraming

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

    def send(
        self, path: str, body: bytes | None, *, method: str = "POST"
    ) -> Awaitable[ResponseStream]:
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
        return self._connections.send(self.endpoint, path, body, method)

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
    framing: Callable[[], StreamFraming] = EventParser,
) -> AsyncGenerator[Chunk, None]:
    """Post `body` and yield the response; ends, raises and closes as `Provider.stream` does.

    Busy servers are retried, but never after the first chunk of a response. A JSON document instead
    of an event stream is accepted too.
    """
    attempt = 0
    while True:
        attempt, begun = attempt + 1, False
        try:
            guard = ResponseGuard(transport.endpoint, transport.provider)
            response, first = await guard.wait(_open(transport, path, body))
            try:
                answer = _Answer(response, guard, decoder(), framing(), first=first)
                while not answer.is_over:
                    for chunk in await answer.read():
                        begun = begun or not isinstance(chunk, UsageChunk)
                        yield chunk
            except ProviderError as error:
                # A server may repeat the key in its error message.
                error.args = (response.mask_secrets(str(error)),)
                raise
            finally:
                response.close()
        except ProviderBusy as busy:
            if begun:
                raise StreamBroken(
                    str(busy), provider=transport.provider, status=busy.status
                ) from busy
            delay = _find_delay(transport, attempt, busy)
            yield RetryChunk(
                reason=_describe_busy(busy),
                delay=delay,
                attempt=attempt + 1,
                attempts=transport.endpoint.retry.attempts,
            )
            await transport.endpoint.retry.sleep(delay)
        else:
            return


async def post(transport: Transport, path: str, body: bytes) -> bytes:
    """Post `body` and return the whole response; busy servers are retried."""
    return await _retry(transport, lambda: _whole(transport, path, body, "POST"))


async def get(transport: Transport, path: str) -> bytes:
    """Fetch `path` and return the whole response; busy servers are retried."""
    return await _retry(transport, lambda: _whole(transport, path, None, "GET"))


async def _open(transport: Transport, path: str, body: bytes) -> tuple[ResponseStream, bytes]:
    """Send a request; returns the response and its first bytes."""
    response = await transport.send(path, body)
    try:
        _reject_page(response, transport)
        return response, await response.read()
    except BaseException:
        response.close()
        raise


def _reject_page(response: ResponseStream, transport: Transport) -> None:
    if response.content_type == _PAGE:
        raise ProviderRejected(
            f"{transport.endpoint.host} returned {_PAGE} instead of a model's response."
            " Check the base URL; it often ends in /v1.",
            provider=transport.provider,
        )


class _Answer:
    """Decodes one response, read by read."""

    def __init__(
        self,
        response: ResponseStream,
        guard: ResponseGuard,
        decoder: Decoder,
        framing: StreamFraming,
        *,
        first: bytes,
    ) -> None:
        self._response = response
        self._guard = guard
        self._decoder = decoder
        self._framing = framing
        self._first: bytes | None = first
        self._size = 0
        """Bytes of the last read."""
        self._is_read = False
        """True when nothing more is read, except what `_drain` drops."""
        self.is_over = False
        """True when everything was returned."""

    async def read(self) -> Iterable[Chunk]:
        """Return the next chunks, which are decoded one by one; the very last is `Finished`."""
        if self._first is not None:
            first, self._first = self._first, None
            return await self._begin(first)
        if self._is_read or self._decoder.done:
            finished = self._decoder.close()
            # Before `Finished`, because most callers stop reading there.
            await _drain(self._response)
            self.is_over = True
            return (finished,)
        data = await self._more()
        self._size = len(data)
        if data:
            return self._decode(self._framing.feed(data))
        self._is_read = True
        return self._decode(self._leftover())

    async def _begin(self, data: bytes) -> Iterable[Chunk]:
        response = self._response
        self._size = len(data)
        if response.is_json or data.lstrip().startswith(b"{"):
            self._is_read = True
            return self._decoder.whole(await _rest(response, self._guard, data))
        return self._decode(self._framing.feed(data))

    def _decode(self, events: Iterable[ServerEvent]) -> Iterator[Chunk]:
        for event in events:
            for chunk in self._decoder.feed(event):
                self._guard.count_chunk(chunk)
                yield chunk

    async def _more(self) -> bytes:
        """Read on; a complete response survives a connection that fails afterwards."""
        guard = self._guard
        if not self._decoder.complete:
            guard.count_bytes(self._size)
            return await guard.wait(self._response.read())
        with suppress(ProviderError), anyio.move_on_after(guard.final_seconds(USAGE_LIMIT)):
            guard.count_bytes(self._size)
            return await self._response.read()
        return b""

    def _leftover(self) -> list[ServerEvent]:
        """Return the events that the end of the response completes."""
        try:
            return self._framing.close()
        except StreamBroken:
            if self._decoder.complete:
                return []
            raise


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
        return await _rest(response, guard)
    finally:
        response.close()


async def _rest(response: ResponseStream, guard: ResponseGuard, begun: bytes = b"") -> bytes:
    """Return the whole document, of which `begun` was read before."""
    pieces, size = [begun], len(begun)
    while data := await guard.wait(response.read()):
        pieces.append(data)
        size += len(data)
        guard.check_document(size)
    return b"".join(pieces)


async def _retry(transport: Transport, work: Callable[[], Awaitable[T]]) -> T:
    for attempt in count(1):
        try:
            return await work()
        except ProviderBusy as busy:
            await transport.endpoint.retry.sleep(_find_delay(transport, attempt, busy))
    raise AssertionError


def _find_delay(transport: Transport, attempt: int, busy: ProviderBusy) -> float:
    """Return the pause before the next attempt; raises `busy` when no attempt is left."""
    delay = transport.endpoint.retry.delay(attempt, busy)
    if delay is None:
        raise busy
    return delay


def _describe_busy(busy: ProviderBusy) -> str:
    match busy.status:
        case 429:
            return "rate limited"
        case 503 | 529:
            return "the server is overloaded"
        case int(status) if status:
            return f"the server failed (HTTP {status})"
        case _:
            return "the connection was lost"
