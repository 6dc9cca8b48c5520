"""Limits on connections: how many there are, and how long the first request may take.

A client needs no token to open a connection. So when all places are taken, the connection that
waits longest for its first accepted request is closed, and the new one gets its place: thousands
of idle connections lock no client out.
"""

import asyncio
import resource
from collections import OrderedDict
from collections.abc import Callable
from typing import cast

from aiohttp import web

from clew.core.errors import ServerBusy
from clew.server.access.options import RequestLimits
from clew.server.access.refusals import format_refusal

_OTHER_FILES = 1_024
"""Files that sessions, stores and tools may have open."""
_FEWEST = 64


class ConnectionGuard:
    """Makes the protocols of a server's connections; give it to `loop.create_server`."""

    def __init__(
        self, make_protocol: Callable[[], asyncio.Protocol], limits: RequestLimits
    ) -> None:
        """Guard the connections of a server.

        Args:
            make_protocol: Makes the protocol that is guarded: the server of a runner.
            limits: How many connections there may be, and how slow they may begin.
        """
        self._make_protocol = make_protocol
        self._limits = limits
        self._accepted: set[GuardedConnection] = set()
        self._waiting: OrderedDict[GuardedConnection, None] = OrderedDict()

    def __call__(self) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        return GuardedConnection(self, self._make_protocol())

    def __len__(self) -> int:
        return len(self._accepted) + len(self._waiting)

    @property
    def head_seconds(self) -> float:
        """How long the first request of a connection may take."""
        return self._limits.head_seconds

    def add(self, connection: "GuardedConnection") -> bool:
        """Give a new connection a place; return False if there is none."""
        if len(self) >= self._limits.max_connections:
            if not self._waiting:
                return False
            oldest, _ = self._waiting.popitem(last=False)
            oldest.abort()
        self._waiting[connection] = None
        return True

    def accept(self, connection: "GuardedConnection") -> None:
        """Let a connection keep its place: it has sent a request that was accepted."""
        if connection in self._waiting:
            del self._waiting[connection]
            self._accepted.add(connection)

    def remove(self, connection: "GuardedConnection") -> None:
        """Forget a connection that has ended."""
        self._waiting.pop(connection, None)
        self._accepted.discard(connection)


class GuardedConnection(asyncio.Protocol):
    """Passes everything on to the protocol that it guards, unless the server is full."""

    def __init__(self, guard: ConnectionGuard, inner: asyncio.Protocol) -> None:
        self._guard = guard
        self._inner: asyncio.Protocol | None = inner
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, or refuse if the server is full."""
        self._transport = cast("asyncio.Transport", transport)
        if self._inner is None or not self._guard.add(self):
            busy = ServerBusy("the server has as many connections as it accepts; try again later")
            self._inner = None
            self._transport.write(format_refusal(busy))
            self._transport.close()
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._guard.head_seconds, self.abort)
        self._inner.connection_made(transport)

    def begin_request(self) -> None:
        """Note that a request has arrived: its head was not too slow."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def accept(self) -> None:
        """Note that the client may use the server."""
        self._guard.accept(self)

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Pass on data."""
        if self._inner is not None:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass on the end of data."""
        return self._inner.eof_received() if self._inner is not None else None

    def pause_writing(self) -> None:
        """Pass on that the client reads too slowly."""
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that the client reads again."""
        if self._inner is not None:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        self.begin_request()
        self._guard.remove(self)
        self._transport = None
        if self._inner is not None:
            self._inner.connection_lost(exc)


def find_connection(request: web.BaseRequest) -> GuardedConnection | None:
    """Return the guarded connection of a request, or None if the server has no guard."""
    transport = request.transport
    protocol = transport.get_protocol() if transport is not None else None
    return protocol if isinstance(protocol, GuardedConnection) else None


def raise_file_limit(connections: int) -> int:
    """Raise the limit on open files to fit a number of connections.

    Returns:
        How many connections there may be; fewer if the system does not allow more.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return max(_FEWEST, allowed - _OTHER_FILES)
