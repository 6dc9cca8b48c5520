"""Passes requests on to the replica that has their session: answers, event streams, WebSockets.

What the other replica sends is passed on byte by byte, so clients of all replicas get the same
envelopes with the same numbers in the same order.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import aiohttp
import anyio
from aiohttp import WSMsgType, web
from anyio.abc import TaskGroup
from yarl import URL

from clew.server.access.headers import EVENT_STREAM
from clew.server.event_stream import EventResponse, Streams

MISDIRECTED = 421
"""The answer of a replica that does not have the session."""
USER_HEADER = "X-Clew-User"
_PASSED_ON = ("Accept", "Content-Type", "Last-Event-ID")
_CONNECT_SECONDS = 5.0
_CLOSE_SECONDS = 1.0


class Peer:
    """Another replica.

    Args:
        address: Where it listens for replicas.
        secret: What it asks for.
    """

    def __init__(self, address: str, secret: str) -> None:
        self.address = address
        self.secret = secret
        self.lost = anyio.Event()
        """Set when it counts as dead: what was sent to it gets no answer."""


class PeerFailed(Exception):
    """A replica did not answer a request."""

    def __init__(self, *, was_sent: bool) -> None:
        super().__init__("a replica did not answer")
        self.was_sent = was_sent
        """True when it may have carried out the request."""


class Forwarder:
    """Sends requests to other replicas, from `start` to `aclose`."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._http: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Allow requests."""
        self._http = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def aclose(self) -> None:
        """End the connections."""
        if self._http is not None:
            await self._http.close()

    async def forward(self, request: web.Request, peer: Peer, user: str) -> web.StreamResponse:
        """Send a request to another replica, and its answer to the client.

        Raises:
            PeerFailed: There is no answer, and nothing was sent to the client.
        """
        headers = {"Authorization": f"Bearer {peer.secret}", USER_HEADER: user}
        if request.headers.get("Upgrade", "").lower() == "websocket":
            return await self._bridge(request, peer, headers)
        headers |= {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        body = await request.read()
        answer: web.StreamResponse | None = None
        try:
            async with _until_lost(peer), self._open(request, peer, headers, body) as response:
                if response.content_type == EVENT_STREAM:
                    stream = EventResponse(request, self._streams)
                    # From here on, the client has an answer, even if the stream breaks off.
                    answer = stream.response
                    await self._pass_on(request, response, stream)
                else:
                    answer = await _copy(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            refused = isinstance(error, aiohttp.ClientConnectorError)
            raise PeerFailed(was_sent=not refused) from error
        if answer is None:
            raise PeerFailed(was_sent=True)
        return answer

    @asynccontextmanager
    async def _open(
        self, request: web.Request, peer: Peer, headers: Mapping[str, str], body: bytes
    ) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        assert self._http is not None  # noqa: S101 - a mistake of the caller
        async with self._http.request(
            request.method,
            _find_url(peer, request),
            data=body or None,
            headers=headers,
            allow_redirects=False,
        ) as response:
            if response.status == MISDIRECTED:
                raise PeerFailed(was_sent=False)
            yield response

    async def _pass_on(
        self, request: web.Request, response: aiohttp.ClientResponse, stream: EventResponse
    ) -> None:
        """Pass on a stream; when it breaks off, the client's does, and the client reconnects."""
        with self._streams.track(request):
            await stream.start()
            try:
                async for chunk in response.content.iter_any():
                    await stream.send(chunk)
            except (aiohttp.ClientError, TimeoutError):
                pass

    async def _bridge(
        self, request: web.Request, peer: Peer, headers: Mapping[str, str]
    ) -> web.StreamResponse:
        """Pass on the messages of a WebSocket in both directions until one side ends it."""
        assert self._http is not None  # noqa: S101 - a mistake of the caller
        size = request.client_max_size
        try:
            far = await self._http.ws_connect(
                _find_url(peer, request), headers=headers, max_msg_size=size
            )
        except aiohttp.WSServerHandshakeError as error:
            raise PeerFailed(was_sent=False) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise PeerFailed(was_sent=False) from error
        near = web.WebSocketResponse(
            heartbeat=self._streams.heartbeat, compress=False, max_msg_size=size
        )
        async with far:
            await near.prepare(request)
            with self._streams.track(request):
                async with _until_lost(peer) as tasks:
                    tasks.start_soon(_pump, near, far, tasks)
                    await _pump(far, near, tasks)
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await near.close(code=aiohttp.WSCloseCode.GOING_AWAY)
        return near


@asynccontextmanager
async def _until_lost(peer: Peer) -> AsyncGenerator[TaskGroup, None]:
    """Cancel the block when a replica counts as dead."""

    async def cancel() -> None:
        await peer.lost.wait()
        tasks.cancel_scope.cancel()

    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancel)
        try:
            yield tasks
        except Exception as error:  # noqa: BLE001 - raised below, as it is and not as a group
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _pump(
    source: web.WebSocketResponse | aiohttp.ClientWebSocketResponse,
    target: web.WebSocketResponse | aiohttp.ClientWebSocketResponse,
    tasks: TaskGroup,
) -> None:
    try:
        async for message in source:
            if message.type is WSMsgType.TEXT:
                await target.send_str(message.data)
            elif message.type is WSMsgType.BINARY:
                await target.send_bytes(message.data)
    except ConnectionError:
        pass
    tasks.cancel_scope.cancel()


async def _copy(response: aiohttp.ClientResponse) -> web.Response:
    headers = {
        name: response.headers[name]
        for name in ("Content-Type", "Allow")
        if name in response.headers
    }
    return web.Response(status=response.status, body=await response.read(), headers=headers)


def _find_url(peer: Peer, request: web.Request) -> URL:
    return URL(peer.address + request.rel_url.raw_path_qs, encoded=True)
