"""A proxy on loopback that cuts connections: at once, or after a number of bytes."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Self

import anyio
from anyio.abc import SocketAttribute, SocketStream


class CutProxy:
    """Forwards connections to a port; the next streams of events are cut after so many bytes.

    Args:
        lengths: After how many bytes of an event stream, one stream after the other.
    """

    def __init__(self, lengths: Sequence[int] = ()) -> None:
        self._lengths = list(lengths)
        self._open: set[anyio.CancelScope] = set()
        self._closing = AsyncExitStack()
        self.connections = 0

    async def __aenter__(self) -> Self:
        self._tasks = await self._closing.enter_async_context(anyio.create_task_group())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._tasks.cancel_scope.cancel()
        await self._closing.aclose()

    async def start(self, port: int) -> str:
        """Start to forward to this port; returns the proxy's address."""
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)

        async def serve() -> None:
            async with listener:
                await listener.serve(forward)

        async def forward(near: SocketStream) -> None:
            self.connections += 1
            with anyio.CancelScope() as scope:
                self._open.add(scope)
                async with (
                    near,
                    await anyio.connect_tcp("127.0.0.1", port) as far,
                    anyio.create_task_group() as tasks,
                ):
                    limit: list[int] = []
                    tasks.start_soon(self._send_requests, near, far, limit, scope)
                    tasks.start_soon(_send_answers, far, near, limit, scope)
            self._open.discard(scope)

        self._tasks.start_soon(serve)
        return f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"

    def cut(self) -> None:
        """Cut every connection."""
        for scope in self._open:
            scope.cancel()

    async def _send_requests(
        self, near: SocketStream, far: SocketStream, limit: list[int], scope: anyio.CancelScope
    ) -> None:
        try:
            async for data in near:
                if b"/events?" in data and self._lengths:
                    limit[:] = [self._lengths.pop(0)]
                await far.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        scope.cancel()


async def _send_answers(
    far: SocketStream, near: SocketStream, limit: list[int], scope: anyio.CancelScope
) -> None:
    try:
        async for data in far:
            await near.send(data[: limit[0]] if limit else data)
            if limit:
                limit[0] -= len(data)
                if limit[0] <= 0:
                    break
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass
    scope.cancel()
