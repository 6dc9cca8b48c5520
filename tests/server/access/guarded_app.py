"""A small application behind `AccessControl`, on a loopback port, and raw requests to it."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import msgspec
from aiohttp import web

from clew.server.access import AccessControl, AccessOptions, get_user
from clew.server.access.audit import AuditLine

TOKEN = "clew_" + "t" * 43


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back on a raw connection."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> str:
        """The type of the error."""
        return str(msgspec.json.decode(self.body)["type"])

    @property
    def message(self) -> str:
        """The text of the error."""
        return str(msgspec.json.decode(self.body)["message"])


@dataclass(slots=True)
class GuardedApp:
    """The running application."""

    access: AccessControl
    port: int
    seen: list[str] = field(default_factory=list)
    """What reached a route."""
    hold: anyio.Event = field(default_factory=anyio.Event)
    """Set to end the streams."""

    async def send(
        self,
        method: str = "GET",
        path: str = "/api/v1/thing",
        *,
        token: str | None = TOKEN,
        body: bytes = b"",
        **headers: str,
    ) -> Answer:
        """Send a request and return the answer; underscores in header names mean hyphens."""
        lines = {"Host": f"127.0.0.1:{self.port}", "Connection": "close"}
        if token is not None:
            lines["Authorization"] = f"Bearer {token}"
        if body:
            lines["Content-Length"] = str(len(body))
        lines |= {name.replace("_", "-"): value for name, value in headers.items()}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value)
        return await self.send_raw(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)

    async def send_raw(self, data: bytes) -> Answer:
        """Send bytes on a new connection and return the answer."""
        with anyio.fail_after(60):
            stream = await anyio.connect_tcp("127.0.0.1", self.port)
            async with stream:
                await stream.send(data)
                return await read_answer(stream)


async def read_answer(stream: anyio.abc.ByteReceiveStream) -> Answer:
    """Return the answer to a request: of a WebSocket or a stream, what comes first."""
    data = b""
    with suppress(anyio.BrokenResourceError):
        async for part in stream:
            data += part
            head, end, body = data.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
            if end and (length is None or len(body) >= int(length[1])):
                break
    return parse_answer(data)


def parse_answer(data: bytes) -> Answer:
    """Return the parts of an answer."""
    head, _, body = data.partition(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}
    return Answer(int(first.split()[1]), headers, body)


def read_audit(path: Path) -> list[AuditLine]:
    """Return the lines of an audit log."""
    return [msgspec.json.decode(line, type=AuditLine) for line in path.read_bytes().splitlines()]


@asynccontextmanager
async def serve(options: AccessOptions) -> AsyncIterator[GuardedApp]:
    """Serve the application while the block runs."""
    access = AccessControl(options)
    app = web.Application(client_max_size=options.limits.max_body)
    access.install(app)
    runner = web.AppRunner(app, access_log=None, **access.runner_options)
    guarded = GuardedApp(access, 0)

    async def answer(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        guarded.seen.append(f"{get_user(request).name} {request.method} {len(body)}")
        return web.json_response({"user": get_user(request).name})

    async def public(request: web.Request) -> web.StreamResponse:
        return web.Response(text="public")

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b": open\n\n")
        await guarded.hold.wait()
        return response

    async def socket(request: web.Request) -> web.StreamResponse:
        response = web.WebSocketResponse()
        await response.prepare(request)
        await response.close()
        return response

    app.router.add_route("*", "/api/v1/thing", answer)
    app.router.add_route("*", "/api/v1/sessions/{session_id}", answer)
    app.router.add_get("/api/v1/events", stream)
    app.router.add_get("/api/v1/socket", socket)
    app.router.add_get("/api/v1/health", public)
    app.router.add_get("/", public)
    await runner.setup()
    assert runner.server is not None
    loop = asyncio.get_running_loop()
    server = await loop.create_server(access.guard(runner.server), "127.0.0.1", 0)
    guarded.port = server.sockets[0].getsockname()[1]
    try:
        yield guarded
    finally:
        guarded.hold.set()
        server.close()
        await runner.cleanup()
        access.close()
