"""Work that nobody waits for, and that ends with the session."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVarTuple, Unpack

_Ts = TypeVarTuple("_Ts")


class Behind:
    """Starts tasks that outlive their callers.

    A task group would have to be left by the task that entered it; a session may be opened
    and shut down by different ones.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Future[None]] = set()

    def start_soon(self, work: Callable[[Unpack[_Ts]], Awaitable[None]], *arguments: *_Ts) -> None:
        """Begin some work; it must keep its errors to itself."""
        task = asyncio.ensure_future(work(*arguments))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """End what still runs."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
