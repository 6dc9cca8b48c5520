"""`TaskOwner`: a task group that lives longer than the call that starts work in it."""

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVarTuple, Unpack

import anyio

if TYPE_CHECKING:
    from asyncio import Future

    from anyio.abc import TaskGroup

logger = logging.getLogger(__name__)

_Ts = TypeVarTuple("_Ts")


class TaskOwner:
    """Owns a task group in a task of its own, so any task may start, stop and close it.

    A task group has to be left by the task that entered it; a session is often opened by one
    task and closed by another.
    """

    def __init__(self) -> None:
        self._tasks: TaskGroup | None = None
        self._main: Future[None] | None = None
        self._started = anyio.Event()
        self._stop = anyio.Event()

    @property
    def is_running(self) -> bool:
        """True between `start` and `stop`."""
        return self._tasks is not None and not self._stop.is_set()

    async def start(self) -> None:
        """Start the task group, and wait until it runs; calling it again does nothing."""
        if self._main is None:
            # Slow to import, and an event loop that runs has done so.
            from asyncio import ensure_future  # noqa: PLC0415

            # The one task that nothing else owns: it is the owner. `aclose` waits for its end.
            self._main = ensure_future(self._run())
        await self._started.wait()

    def start_soon(self, work: Callable[[Unpack[_Ts]], Awaitable[Any]], *arguments: *_Ts) -> None:
        """Run `work` until it ends or the owner is closed; an error in it is logged."""
        assert self._tasks is not None  # noqa: S101 - callers check `is_running`
        self._tasks.start_soon(_log_errors, work, arguments)

    def stop(self) -> None:
        """Cancel all work, without waiting for it."""
        self._stop.set()

    async def aclose(self) -> None:
        """Cancel all work and wait for its end; calling it again does nothing."""
        with anyio.CancelScope(shield=True):
            self.stop()
            if self._main is not None:
                from asyncio import wait  # noqa: PLC0415 - as above

                await wait([self._main])

    async def _run(self) -> None:
        async with anyio.create_task_group() as self._tasks:
            self._started.set()
            await self._stop.wait()
            self._tasks.cancel_scope.cancel()


async def _log_errors(
    work: Callable[[Unpack[_Ts]], Awaitable[Any]], arguments: tuple[*_Ts]
) -> None:
    try:
        await work(*arguments)
    except Exception:
        logger.exception("background work failed")
