"""A scripted model server on loopback, for any API.

It streams, fails, stalls and disconnects according to its script, records the requests, and notices
when a client disconnects.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel
import msgspec
from aiohttp import web

_ANY_PATH = "/{path:.*}"


class Disconnect:
    """The server closes the connection here."""


class Stall:
    """The server sends nothing more, until the client disconnects or `release` is called."""

    def __init__(self) -> None:
        self.reached = anyio.Event()
        self._free = anyio.Event()

    def release(self) -> None:
        """Let the response continue."""
        self._free.set()

    async def wait(self) -> None:
        """Set `reached` and wait for the release."""
        self.reached.set()
        await self._free.wait()


ResponseStep: TypeAlias = bytes | Disconnect | Stall


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedResponse:
    """The response to one request. Every bytes object is sent separately."""

    steps: Sequence[ResponseStep]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = ""
    """By default an event stream, or JSON if the status is an error."""


ResponseScript: TypeAlias = ScriptedResponse | Callable[[bytes], ScriptedResponse]
"""A response, or a function that creates one from the request's body."""


@dataclass(slots=True)
class FakeServer:
    """A running server: its address, the requests it received, and disconnected clients."""

    answers: list[ResponseScript]
    url: str = ""
    """Without a trailing slash."""
    methods: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    """As they were sent: with the query, and escaped."""
    bodies: list[bytes] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    peers: list[object] = field(default_factory=list)
    """The client's address for each request: equal addresses mean one connection."""
    client_left: anyio.Event = field(default_factory=anyio.Event)
    """Set when a client disconnected before its response was complete."""

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The bodies, decoded."""
        return [msgspec.json.decode(body) for body in self.bodies]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Send the next response; the last one is repeated."""
        body = await request.read()
        self.methods.append(request.method)
        self.paths.append(request.raw_path)
        self.bodies.append(body)
        self.headers.append(request.headers)
        self.peers.append(request.transport and request.transport.get_extra_info("peername"))
        script = self.answers[min(len(self.bodies), len(self.answers)) - 1]
        over = False
        try:
            response = await _play(
                script if isinstance(script, ScriptedResponse) else script(body), request
            )
            over = True
        finally:
            if not over:
                self.client_left.set()
        return response


async def _play(answer: ScriptedResponse, request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, headers=answer.headers)
    usual = "text/event-stream" if answer.status == 200 else "application/json"
    response.content_type = answer.content_type or usual
    if not (answer.steps and isinstance(answer.steps[0], Disconnect)):
        await response.prepare(request)
    for step in answer.steps:
        if isinstance(step, Disconnect):
            if request.transport is not None:
                request.transport.abort()
            break
        if isinstance(step, Stall):
            await step.wait()
        else:
            await response.write(step)
            # A client in the same loop gets to read this piece before the next is written.
            await anyio.lowlevel.checkpoint()
    return response


@asynccontextmanager
async def serve(
    *answers: ResponseScript, port: int = 0, method: str = "*", path: str = _ANY_PATH
) -> AsyncIterator[FakeServer]:
    """Serve `answers` in order while the block runs.

    Args:
        answers: The response to each request; the last one is repeated.
        port: The port on loopback; a free one by default.
        method: The only HTTP method to accept; by default all.
        path: The only path to accept; by default all.
    """
    server = FakeServer(list(answers) or [ScriptedResponse(steps=[])])
    app = web.Application(client_max_size=2**30)
    app.router.add_route(method, path, server.handle)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, backlog=4096)
    await site.start()
    host, bound = runner.addresses[0][:2]
    server.url = f"http://{host}:{bound}"
    try:
        yield server
    finally:
        with anyio.CancelScope(shield=True):
            await runner.cleanup()
