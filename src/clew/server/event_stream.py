"""Server-sent events: the envelopes of a session as they happen.

A client that reads too slowly holds no memory: it is behind in the buffer of the session, and when
that no longer reaches back, the stream ends with the error `EventsExpired`. It then takes a new
snapshot and continues from its `seq`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

import anyio
import msgspec
from aiohttp import web

from clew.core.errors import EventsExpired
from clew.core.events import Envelope, RunCompleted, RunFailed, RunInterrupted
from clew.core.ids import RunId
from clew.sdk.client_json import encode_error
from clew.sdk.event_reader import EventReader
from clew.server.access.headers import EVENT_STREAM
from clew.server.live_sessions import LiveSession

HEARTBEAT = b": alive\n\n"
BATCH = 100
"""Events that are read at once."""
_CHECK_SECONDS = 1.0

IsLast: TypeAlias = Callable[[Envelope], bool]


class Streams:
    """The open streams of all clients; they end when the server stops or the client has left.

    Args:
        heartbeat: Seconds of silence after which a comment is sent.
        stall: Seconds after which a client that reads nothing is disconnected.
    """

    def __init__(self, *, heartbeat: float, stall: float) -> None:
        self.heartbeat = heartbeat
        self.stall = stall
        self.sent = 0
        """Events that were sent to clients."""
        self._open: dict[anyio.CancelScope, web.Request] = {}
        self._stopping = False

    def __len__(self) -> int:
        return len(self._open)

    @contextmanager
    def track(self, request: web.Request) -> Iterator[None]:
        """Run a stream: it ends, silently, when the client leaves or the server stops."""
        with anyio.CancelScope() as scope, suppress(ConnectionError):
            self._open[scope] = request
            if self._stopping:
                scope.cancel()
            try:
                yield
            finally:
                del self._open[scope]

    def stop(self) -> None:
        """End all streams, including those that start later."""
        self._stopping = True
        for scope in self._open:
            scope.cancel()

    async def watch(self) -> None:
        """End the streams of clients that have left; aiohttp tells only those who write."""
        while True:
            await anyio.sleep(_CHECK_SECONDS)
            for scope, request in list(self._open.items()):
                if request.transport is None or request.transport.is_closing():
                    scope.cancel()


class EventResponse:
    """One stream of server-sent events to one client."""

    def __init__(self, request: web.Request, streams: Streams) -> None:
        self._request = request
        self._streams = streams
        self.response = web.StreamResponse(
            headers={
                "Content-Type": EVENT_STREAM,
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",
            }
        )

    async def start(self) -> None:
        """Send the headers."""
        await self.response.prepare(self._request)

    async def send_value(self, name: str, value: object) -> None:
        """Send a value that is not an envelope."""
        data = msgspec.json.encode(value)
        await self.send(b"".join((b"event: ", name.encode(), b"\ndata: ", data, b"\n\n")))

    async def send_pending(self, live: LiveSession, reader: EventReader) -> None:
        """Send the envelopes that are there already."""
        await self.follow(live, reader, wait=False)

    async def follow(
        self,
        live: LiveSession,
        reader: EventReader,
        *,
        is_last: IsLast | None = None,
        wait: bool = True,
    ) -> None:
        """Send envelopes until the session is closed, or up to one that `is_last` accepts.

        A client that is too far behind gets the error `EventsExpired` and no more envelopes.
        `stream_end` tells that the session was closed, unlike a connection that is lost, or a
        session that another replica has taken.
        """
        try:
            while True:
                batch, has_ended = _cut(reader.peek(BATCH), is_last)
                if batch:
                    self._streams.sent += len(batch)
                    for reader.position, piece in live.envelopes.join_events(batch):
                        # A write that is cancelled has reached the connection already.
                        await self.send(piece)
                elif not wait:
                    return
                elif not await self._wait(reader):
                    if not live.is_lost:
                        await self.send_value("stream_end", {})
                    return
                if has_ended:
                    return
        except EventsExpired as error:
            await self.send_value("stream_error", encode_error(error))

    async def _wait(self, reader: EventReader) -> bool:
        """Wait for more events; sends a comment now and then. False when none will come."""
        while True:
            with anyio.move_on_after(self._streams.heartbeat):
                return await reader.wait()
            await self.send(HEARTBEAT)

    async def send(self, data: bytes) -> None:
        """Send bytes; a client that does not take them is disconnected."""
        with anyio.move_on_after(self._streams.stall) as scope:
            await self.response.write(data)
        if scope.cancelled_caught and self._request.transport is not None:
            self._request.transport.abort()
            raise ConnectionResetError("the client takes no data")


def _cut(batch: list[Envelope], is_last: IsLast | None) -> tuple[list[Envelope], bool]:
    """Return the envelopes up to the last one that is wanted, and whether it is among them."""
    if is_last is None:
        return batch, False
    for index, envelope in enumerate(batch):
        if is_last(envelope):
            return batch[: index + 1], True
    return batch, False


def ends_run(run_id: RunId) -> IsLast:
    """Return a test for the event that ends a run."""

    def is_end(envelope: Envelope) -> bool:
        match envelope.event:
            case RunCompleted(result=result) | RunInterrupted(result=result):
                return result.run_id == run_id
            case RunFailed(run_id=failed):
                return failed == run_id
            case _:
                return False

    return is_end
