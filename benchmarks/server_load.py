"""Clients that cost as little as they can, for measuring a server: streams and requests."""

import asyncio
import re
import time
from bisect import bisect_left
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import cast

import anyio

_EVENT = re.compile(rb'id: (\d+)\nevent: [^\n]*\ndata: \{[^\n]*?"at":([\d.]+)')
_CONNECTING = 50
"""Streams that are opened at the same time."""
_SECONDS = 30.0
"""For what takes milliseconds, even on a busy machine."""


@dataclass(frozen=True, slots=True)
class Target:
    """A server, and the session that its clients follow."""

    port: int
    token: str
    session_id: str = ""

    @property
    def snapshot_path(self) -> str:
        """Where the session's snapshot is."""
        return f"/api/v1/sessions/{self.session_id}"

    def write_request(self, path: str, accept: str = "application/json") -> bytes:
        """Return a GET request."""
        return (
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAccept: {accept}\r\n"
            f"Authorization: Bearer {self.token}\r\n\r\n"
        ).encode()


class Stream(asyncio.Protocol):
    """One client of a stream of events: keeps the bytes and when they came."""

    def __init__(self, request: bytes) -> None:
        loop = asyncio.get_running_loop()
        self._request = request
        self.transport: asyncio.Transport | None = None
        self.opened: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.pieces: list[bytes] = []
        self.times: list[float] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Keep what came."""
        self.pieces.append(data)
        self.times.append(time.time())
        if not self.opened.done():
            if data.startswith(b"HTTP/1.1 200"):
                self.opened.set_result(None)
            else:
                self.opened.set_exception(ConnectionError(data[:200].decode()))

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end."""
        if not self.opened.done():
            self.opened.set_exception(exc or ConnectionError("closed before the answer"))
        self.closed.set_result(None)


@asynccontextmanager
async def open_streams(target: Target, count: int) -> AsyncGenerator[list[Stream], None]:
    """Open streams, and wait until the server has answered all of them."""
    request = target.write_request(f"{target.snapshot_path}/events", "text/event-stream")
    streams: list[Stream] = []
    try:
        while missing := count - len(streams):
            async with anyio.create_task_group() as tasks:
                for _ in range(min(_CONNECTING, missing)):
                    tasks.start_soon(_connect, target.port, request, streams)
        yield streams
    finally:
        for stream in streams:
            if stream.transport is not None:
                stream.transport.abort()
        for stream in streams:
            await stream.closed


async def _connect(port: int, request: bytes, streams: list[Stream]) -> None:
    loop = asyncio.get_running_loop()
    _, stream = await loop.create_connection(lambda: Stream(request), "127.0.0.1", port)
    streams.append(stream)
    with anyio.fail_after(_SECONDS):
        await stream.opened


@dataclass(frozen=True, slots=True)
class Received:
    """What one client got."""

    ids: Sequence[int]
    delays: Sequence[float]
    """Seconds from the making of each event to its arrival."""

    def count_faults(self, wanted: int) -> int:
        """Return how many of the expected events are lost, repeated or out of order."""
        breaks = sum(after != before + 1 for before, after in pairwise(self.ids))
        return abs(wanted - len(self.ids)) + breaks


def read_received(stream: Stream) -> Received:
    """Read the events that a client got, and when each was complete."""
    ends = list(accumulate(map(len, stream.pieces)))
    ids: list[int] = []
    delays: list[float] = []
    for found in _EVENT.finditer(b"".join(stream.pieces)):
        ids.append(int(found[1]))
        delays.append(stream.times[bisect_left(ends, found.end())] - float(found[2]))
    return Received(ids, delays)


async def count_requests(target: Target, path: str, *, connections: int, seconds: float) -> float:
    """Return the requests per second of connections that send one after the other."""
    request = target.write_request(path)
    counts: list[int] = []
    start = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for _ in range(connections):
            tasks.start_soon(_send_requests, target.port, request, start + seconds, counts)
    return sum(counts) / (time.perf_counter() - start)


async def _send_requests(port: int, request: bytes, end: float, counts: list[int]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count = 0
    try:
        while time.perf_counter() < end:
            writer.write(request)
            await read_body(reader)
            count += 1
    finally:
        writer.close()
        await writer.wait_closed()
    counts.append(count)


async def read_body(reader: asyncio.StreamReader) -> bytes:
    """Read an answer that has a length; raises ConnectionError unless its status is 200."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _SECONDS)
    if not head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")):
        raise ConnectionError(head.decode())
    length = re.search(rb"(?i)content-length: (\d+)", head)
    return await reader.readexactly(int(length[1]) if length else 0)
