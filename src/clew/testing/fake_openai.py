"""A Chat Completions server on loopback that answers from a script.

It stands in for any OpenAI-compatible host: it streams, fails, stalls and hangs up as it
is told, and notices when a client leaves.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
import msgspec
from aiohttp import web


class Hangup:
    """The server drops the connection here."""


class Stall:
    """The server says nothing from here on, until the client leaves or `go_on` is called."""

    def __init__(self) -> None:
        self.reached = anyio.Event()
        self._free = anyio.Event()

    def go_on(self) -> None:
        """Let the answer continue."""
        self._free.set()

    async def wait(self) -> None:
        """Say that the place is reached, and wait there."""
        self.reached.set()
        await self._free.wait()


Step: TypeAlias = bytes | Hangup | Stall


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the server does with one request."""

    steps: Sequence[Step]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


def event(payload: object) -> bytes:
    """Return `payload` as one server-sent event."""
    return b"data: " + msgspec.json.encode(payload) + b"\n\n"


DONE = b"data: [DONE]\n\n"


def delta(finish_reason: str | None = None, **fields: object) -> bytes:
    """Return the event for one delta of the answer."""
    choice = {"index": 0, "delta": fields, "finish_reason": finish_reason}
    return event({"object": "chat.completion.chunk", "choices": [choice]})


def usage(prompt: int, completion: int, *, cached: int = 0) -> bytes:
    """Return the event that ends an answer with its token counts."""
    counts = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    return event({"object": "chat.completion.chunk", "choices": [], "usage": counts})


def says(*words: str) -> Answer:
    """Return an answer that streams `words` and ends in good order."""
    steps = [delta(content=word) for word in words]
    return Answer(steps=[*steps, delta("stop"), usage(10, len(words)), DONE])


def calls(name: str, arguments: str, *, call_id: str = "call_1") -> Answer:
    """Return an answer that calls one tool, its arguments in two pieces."""
    half = len(arguments) // 2
    first = {"index": 0, "id": call_id, "type": "function"}
    return Answer(
        steps=[
            delta(tool_calls=[{**first, "function": {"name": name, "arguments": ""}}]),
            delta(tool_calls=[{"index": 0, "function": {"arguments": arguments[:half]}}]),
            delta(tool_calls=[{"index": 0, "function": {"arguments": arguments[half:]}}]),
            delta("tool_calls"),
            usage(10, 5),
            DONE,
        ]
    )


def fails(status: int, body: object, **headers: str) -> Answer:
    """Return an error answer; `retry_after="2"` becomes the header `retry-after`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(steps=[msgspec.json.encode(body)], status=status, headers=named)


@dataclass(slots=True)
class FakeOpenAI:
    """The running server: its address, what it was asked, and who left."""

    answers: list[Answer]
    url: str = ""
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
        self.bodies.append(await request.read())
        self.headers.append(request.headers)
        self.peers.append(request.transport and request.transport.get_extra_info("peername"))
        answer = self.answers[min(len(self.bodies), len(self.answers)) - 1]
        over = False
        try:
            response = await _play(answer, request)
            over = True
        finally:
            if not over:
                self.client_left.set()
        return response


async def _play(answer: Answer, request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, headers=answer.headers)
    response.content_type = "text/event-stream" if answer.status == 200 else "application/json"
    if not (answer.steps and isinstance(answer.steps[0], Hangup)):
        await response.prepare(request)
    for step in answer.steps:
        if isinstance(step, Hangup):
            if request.transport is not None:
                request.transport.abort()
            break
        if isinstance(step, Stall):
            await step.wait()
        else:
            await response.write(step)
    return response


@asynccontextmanager
async def fake_openai(*answers: Answer) -> AsyncIterator[FakeOpenAI]:
    """Serve `answers` in order on a free port while the block runs."""
    server = FakeOpenAI(list(answers) or [says("ok")])
    app = web.Application(client_max_size=2**30)
    app.router.add_post("/v1/chat/completions", server.handle)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=4096)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.url = f"http://{host}:{port}/v1"
    try:
        yield server
    finally:
        with anyio.CancelScope(shield=True):
            await runner.cleanup()
