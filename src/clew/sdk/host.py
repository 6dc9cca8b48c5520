"""`Host`: owns everything that outlives a single call."""

import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Protocol, Self, TypeVar, TypeVarTuple, Unpack

import anyio

from clew.core.errors import SessionClosed
from clew.session.task_owner import TaskOwner

logger = logging.getLogger(__name__)

_Ts = TypeVarTuple("_Ts")


class Closable(Protocol):
    """Something that a host closes at its end, such as a session, a provider or a store."""

    async def aclose(self) -> None:
        """Close it; must not fail when called again."""
        ...


_Shared = TypeVar("_Shared", bound=Closable)


class Host:
    """Owns a task group, and closes what was added to it, newest first.

    Use as `async with`, or call `start` and `aclose`; these may be called from different tasks,
    because the task group lives in a task of the host's own. Background work such as submitted
    prompts and hooks runs in it. Sessions can share a host; a session without one makes its own.
    """

    def __init__(self) -> None:
        self._owned: list[Closable] = []
        self._shared: dict[Hashable, Any] = {}
        self._tasks = TaskOwner()
        self._closed = False

    @property
    def is_running(self) -> bool:
        """True between `start` and `aclose`."""
        return self._tasks.is_running

    async def start(self) -> Self:
        """Start the task group; calling it again does nothing.

        Raises:
            SessionClosed: The host was closed.
        """
        if self._closed:
            raise SessionClosed("the host was closed; make another one")
        await self._tasks.start()
        return self

    def start_soon(self, work: Callable[[Unpack[_Ts]], Awaitable[Any]], *arguments: *_Ts) -> None:
        """Run `work` in the background until it ends or the host is closed.

        An error in it is logged and ends nothing else.

        Raises:
            SessionClosed: The host is not running.
        """
        if not self._tasks.is_running:
            raise SessionClosed("the host is not running: use `async with`, or await `start` first")
        self._tasks.start_soon(work, *arguments)

    def add(self, resource: Closable) -> None:
        """Own something: it is closed with the host."""
        self._owned.append(resource)

    def share(self, key: Hashable, make: Callable[[], _Shared]) -> _Shared:
        """Return the resource of that key for all who ask; it is made once, and owned."""
        found: _Shared | None = self._shared.get(key)
        if found is None:
            self._shared[key] = found = make()
            self.add(found)
        return found

    def discard(self, resource: Closable) -> None:
        """Stop owning it; does nothing when the host does not own it."""
        if resource in self._owned:
            self._owned.remove(resource)

    def stop(self) -> None:
        """Cancel the background work, without waiting for it."""
        self._closed = True
        self._tasks.stop()

    async def aclose(self) -> None:
        """Close what is owned, newest first, then cancel the background work and wait for it."""
        with anyio.CancelScope(shield=True):
            while self._owned:
                resource = self._owned.pop()
                try:
                    await resource.aclose()
                except Exception:
                    logger.exception("closing %s failed", type(resource).__name__)
            self.stop()
            await self._tasks.aclose()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
