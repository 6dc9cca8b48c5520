"""Ends waits that take too long, with one timer for all waits of an event loop.

A timer for each wait, as `asyncio.timeout` has, takes several times as long as what it guards:
nearly every wait ends in time. Imported by the first request, because it needs asyncio.
"""

import time
from asyncio import (
    AbstractEventLoop,
    CancelledError,
    Task,
    TimerHandle,
    current_task,
    get_running_loop,
)
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary


class Deadline:
    """A block that is cancelled when its time is over, as with `asyncio.timeout`.

    It then ends without an exception, and `is_over` is True.
    """

    __slots__ = ("_cancelling", "_task", "_watch", "due", "is_over")

    def __init__(self, seconds: float) -> None:
        task = current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        self._task: Task[Any] = task
        self._cancelling = task.cancelling()
        self._watch = _watch_for(task.get_loop())
        self.due = time.monotonic() + seconds
        self.is_over = False

    def __enter__(self) -> "Deadline":
        self._watch.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._watch.remove(self)
        if not self.is_over:
            return False
        # The caller may have cancelled the task as well.
        is_only_reason = self._task.uncancel() <= self._cancelling
        self.is_over = is_only_reason and kind is CancelledError
        return self.is_over

    def expire(self) -> None:
        """Cancel the block."""
        self.is_over = True
        self._task.cancel()


class _Watch:
    """The open deadlines of an event loop, and the timer for the first of them.

    It refers to its loop only while there are any, so that a loop which has ended is freed.
    """

    def __init__(self) -> None:
        self._open: set[Deadline] = set()
        self._timer: TimerHandle | None = None
        self._next = 0.0

    def add(self, deadline: Deadline) -> None:
        self._open.add(deadline)
        # Most are due later than the first, for which there is a timer already.
        if self._timer is None or deadline.due < self._next:
            self._set_timer(deadline.due)

    def remove(self, deadline: Deadline) -> None:
        self._open.discard(deadline)
        if not self._open and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next = due
        wait = max(0.0, due - time.monotonic())
        self._timer = get_running_loop().call_later(wait, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = time.monotonic()
        for deadline in [one for one in self._open if one.due <= now]:
            self._open.discard(deadline)
            deadline.expire()
        if self._open:
            self._set_timer(min(one.due for one in self._open))


_watches: "WeakKeyDictionary[AbstractEventLoop, _Watch]" = WeakKeyDictionary()


def _watch_for(loop: AbstractEventLoop) -> _Watch:
    found = _watches.get(loop)
    if found is None:
        found = _watches[loop] = _Watch()
    return found
