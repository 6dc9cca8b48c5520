"""A model server on loopback that answers from a script, whatever API it stands in for.

It streams, fails, stalls and hangs up as it is told, remembers what it was asked, and notices
when a client leaves.
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
    """The server drops the connection here."""


class Stall:
    """The server says nothing from here on, until the client leaves or `release` is called."""

    def __init__(self) -> None:
        self.reached = anyio.Event()
        self._free = anyio.Event()

    def release(self) -> None:
        """Let the answer continue."""
        self._free.set()

    async def wait(self) -> None:
        """Say that the place is reached, and wait there."""
        self.reached.set()
        await self._free.wait()


ResponseStep: TypeAlias = bytes | Disconnect | Stall


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedResponse:
    """What the server does with one request. Every piece of bytes is sent on its own."""

    steps: Sequence[ResponseStep]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = ""
    """Of the body; by default a stream of events, and JSON where the status is an error."""


ResponseScript: TypeAlias = ScriptedResponse | Callable[[bytes], ScriptedResponse]
"""An answer, or a function that makes one of the request's body."""


@dataclass(slots=True)
class FakeServer:
    """A running server: its address, what it was asked, and who left."""

    answers: list[ResponseScript]
    url: str = ""
    """Without a slash at its end."""
    methods: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    """As they were sent: with the query, and with what was escaped."""
    bodies: list[bytes] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    peers: list[object] = field(default_factory=list)
    """The client's address for each request: equal ones used one connection."""
    client_left: anyio.Event = field(default_factory=anyio.Event)
    """Set when a client closed the connection before its answer was over."""

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The bodies as objects."""
        return [msgspec.json.decode(body) for body in self.bodies]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Play the next answer; the last one is played again when they run out."""
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
        answers: What to do with each request; the last one goes on for all that follow.
        port: Where to listen on loopback; any free port unless one is given.
        method: The one HTTP method to accept; all of them unless one is given.
        path: The one path to accept; all of them unless one is given.
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
