"""One prompt runs, one may wait, and a third is refused."""

from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Self

import anyio

from clew.core.errors import AlreadyRunning, PromptCancelled, QueueFull

_INSIDE: ContextVar["PromptQueue | None"] = ContextVar("clew_prompt_queue", default=None)
"""The queue whose turn the current task is part of: waiting for it again would never end."""


class Ticket:
    """A place in the queue. Enter it with `async with`; the block runs when its turn comes."""

    def __init__(self, queue: "PromptQueue", label: str, *, has_turn: bool) -> None:
        self._queue = queue
        self._mark: Token[PromptQueue | None] | None = None
        self.label = label
        self.turn = anyio.Event()
        self.cancelled = False
        if has_turn:
            self.turn.set()

    async def __aenter__(self) -> Self:
        """Wait for the turn.

        Raises:
            PromptCancelled: The prompt was cancelled while it waited.
        """
        try:
            await self.turn.wait()
        except BaseException:
            self._queue.leave(self)
            raise
        if self.cancelled:
            raise PromptCancelled("the prompt was cancelled while it waited; it was not sent")
        self._mark = _INSIDE.set(self._queue)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._mark is not None:
            _INSIDE.reset(self._mark)
        self._queue.leave(self)


class PromptQueue:
    """Hands out turns, one at a time; the waiting prompt is next, and nothing slips in between."""

    def __init__(self, on_change: Callable[[str | None], None]) -> None:
        self._on_change = on_change
        self._running: Ticket | None = None
        self._waiting: Ticket | None = None
        self._left = anyio.Event()

    @property
    def busy(self) -> bool:
        """True while a prompt or a command has the turn."""
        return self._running is not None

    @property
    def waiting(self) -> str | None:
        """The prompt that waits; None when the queue is empty."""
        return self._waiting.label if self._waiting else None

    @property
    def is_inside(self) -> bool:
        """True when the caller is part of the turn, such as a command, a tool or a handler."""
        return _INSIDE.get() is self

    def join(self, label: str, *, detached: bool = False) -> Ticket:
        """Take a place now; enter the ticket to wait for the turn.

        Args:
            label: What clients are shown while it waits.
            detached: The caller will not wait for the turn itself.

        Raises:
            QueueFull: A prompt is waiting already.
            AlreadyRunning: The caller is part of the turn that would have to end first.
        """
        if self.is_inside and not detached:
            raise AlreadyRunning(
                "a command, a tool or a handler cannot wait for a prompt of its own; submit it"
            )
        if self._running is None:
            self._running = Ticket(self, label, has_turn=True)
            return self._running
        if self._waiting is not None:
            raise QueueFull(
                "a prompt is waiting already, and the queue holds one; wait, or cancel it first"
            )
        self._waiting = Ticket(self, label, has_turn=False)
        self._on_change(label)
        return self._waiting

    def cancel(self) -> bool:
        """Cancel the waiting prompt; returns whether there was one."""
        ticket = self._take_waiting()
        if ticket is None:
            return False
        ticket.cancelled = True
        ticket.turn.set()
        return True

    def leave(self, ticket: Ticket) -> None:
        """Give the place up; the waiting prompt gets the turn."""
        if ticket is self._waiting:
            self._take_waiting()
        elif ticket is self._running:
            self._running = self._take_waiting()
            if self._running is not None:
                self._running.turn.set()
            else:
                self._left.set()
                self._left = anyio.Event()

    async def idle(self) -> None:
        """Wait until nothing runs."""
        while self.busy:
            await self._left.wait()

    def _take_waiting(self) -> Ticket | None:
        ticket, self._waiting = self._waiting, None
        if ticket is not None:
            self._on_change(None)
        return ticket
