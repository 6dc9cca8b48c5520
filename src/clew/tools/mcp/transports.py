"""Opens the transport of a server, and notices when the server is gone."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared._stream_protocols import ReadStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse

from clew.tools.mcp.config import ServerConfig
from clew.tools.mcp.stdio import MAX_MESSAGE, ErrorTail, open_stdio

_CONNECT = 10.0
"""Seconds to connect to an HTTP server."""
_SESSION = "mcp-session-id"
_READ = 3_600.0
"""Seconds without data on a stream; calls have a timeout of their own."""


class Signs:
    """What a transport notices about its server."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin with a new connection."""
        self.lost = anyio.Event()
        """The server has ended."""
        self.forgotten = anyio.Event()
        """The server no longer knows this client: it was started again, or dropped the client."""

    def was_forgotten(self) -> bool:
        """Return whether the server no longer knows this client."""
        return self.forgotten.is_set()


@asynccontextmanager
async def open_transport(
    config: ServerConfig,
    *,
    cwd: Path,
    environ: Mapping[str, str],
    errors: ErrorTail,
    auth: httpx2.Auth | None = None,
    signs: Signs,
) -> AsyncGenerator[TransportStreams, None]:
    """Start or connect to a server and yield its streams; sets `signs.lost` when they end."""
    stdio = partial(open_stdio, cwd=cwd, environ=environ, errors=errors)
    async with _choose(config, stdio, auth, signs) as (incoming, outgoing):
        yield _Watched(incoming, signs.lost), outgoing


def _choose(
    config: ServerConfig,
    start: Callable[[ServerConfig], AbstractAsyncContextManager[Any]],
    auth: httpx2.Auth | None,
    signs: Signs,
) -> AbstractAsyncContextManager[Any]:
    match config.transport:
        case "stdio":
            return start(config)
        case "http":
            return _open_http(config, auth, signs)
        case "sse":
            return sse_client(
                config.url,
                headers=dict(config.headers),
                timeout=_CONNECT,
                sse_read_timeout=_READ,
                auth=auth,
            )


@asynccontextmanager
async def _open_http(
    config: ServerConfig, auth: httpx2.Auth | None, signs: Signs
) -> AsyncGenerator[TransportStreams, None]:
    timeout = httpx2.Timeout(_CONNECT, read=_READ)
    client = create_mcp_http_client(headers=dict(config.headers), timeout=timeout, auth=auth)
    forgotten = signs.forgotten

    async def look(response: httpx2.Response) -> None:
        if response.status_code == HTTPStatus.NOT_FOUND and _SESSION in response.request.headers:
            forgotten.set()
        kind = response.headers.get("content-type", "").lower()
        if kind.startswith("application/json") and isinstance(
            response.stream, httpx2.AsyncByteStream
        ):
            response.stream = _Limited(response.stream)

    # A compressed body could be far longer than what arrives.
    client.headers["accept-encoding"] = "identity"
    client.event_hooks = {"response": [look]}
    async with client, streamable_http_client(config.url, http_client=client) as streams:
        yield streams


class _Limited(httpx2.AsyncByteStream):
    """The body of an answer, which breaks off where a message is too long."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        length = 0
        async for chunk in self._inner:
            length += len(chunk)
            if length > MAX_MESSAGE:
                raise httpx2.StreamError(f"it has more than {MAX_MESSAGE:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Watched:
    """The messages of a server; sets an event when there are no more."""

    def __init__(self, inner: ReadStream[SessionMessage | Exception], lost: anyio.Event) -> None:
        self._inner, self._lost = inner, lost

    @property
    def last_context(self) -> Any:
        """The context of the sender, which the SDK looks for."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        try:
            received = await self._inner.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._lost.set()
            raise
        if isinstance(received, SessionMessage) and isinstance(received.message, JSONRPCResponse):
            # The protocol says that a result without a type is complete; the SDK refuses it.
            received.message.result.setdefault("resultType", "complete")
        return received

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lost.set()
        await self.aclose()
