"""One thing at a time, and one that waits."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio

from clew.core.errors import PromptCancelled, QueueFull


class _Waiting:
    """Somebody who waits for their turn."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.called = anyio.Event()
        self.cancelled = False


class Turnstile:
    """Lets one task in; a second may wait, a third is told to come again.

    Whoever leaves hands over to the one who waits, so that nobody can slip in between.
    """

    def __init__(self, on_change: Callable[[str | None], None]) -> None:
        self._on_change = on_change
        self._busy = False
        self._waiting: _Waiting | None = None
        self._left = anyio.Event()

    @property
    def busy(self) -> bool:
        """True while somebody is inside."""
        return self._busy

    @property
    def waiting(self) -> str | None:
        """What waits; None when nothing does."""
        return self._waiting.label if self._waiting else None

    def cancel(self) -> bool:
        """Send away the one who waits; returns whether there was one."""
        waiting = self._take()
        if waiting is None:
            return False
        waiting.cancelled = True
        waiting.called.set()
        return True

    @asynccontextmanager
    async def turn(self, label: str) -> AsyncIterator[None]:
        """Do the work of the `with` block when it is this one's turn.

        Raises:
            QueueFull: Something waits already.
            PromptCancelled: It was taken back while it waited.
        """
        if self._busy:
            await self._wait(label)
        self._busy = True
        try:
            yield
        finally:
            self._hand_over()

    async def idle(self) -> None:
        """Wait until nobody is inside."""
        while self._busy:
            await self._left.wait()

    async def _wait(self, label: str) -> None:
        if self._waiting is not None:
            raise QueueFull(
                "a prompt waits already, and only one can: wait for it, or take it back first"
            )
        mine = self._waiting = _Waiting(label)
        self._on_change(label)
        try:
            await mine.called.wait()
        except BaseException:
            # Cancelled: either while in the queue, or when the turn had just been given.
            if self._waiting is mine:
                self._take()
            elif not mine.cancelled:
                self._hand_over()
            raise
        if mine.cancelled:
            raise PromptCancelled("the prompt was taken back while it waited; it was not sent")

    def _hand_over(self) -> None:
        following = self._take()
        if following is None:
            self._busy = False
            self._left.set()
            self._left = anyio.Event()
        else:
            following.called.set()

    def _take(self) -> _Waiting | None:
        taken, self._waiting = self._waiting, None
        if taken is not None:
            self._on_change(None)
        return taken
