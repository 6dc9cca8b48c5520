"""`WriteLock`: one write at a time, in the order in which the writers came.

`anyio.Lock` raises a cancellation that is pending when it is taken. This lock does not: a task is
cancelled only while it waits for another writer. So where no other task writes and nothing waits
inside, as with a store in memory, a write cannot be interrupted and needs no shield.
"""

from contextlib import AbstractContextManager, nullcontext

import anyio

from clew.stores.memory import MemoryStore
from clew.stores.protocol import Store

_NOTHING = nullcontext()


class WriteLock:
    """Held by one writer at a time; take it with `try_acquire`, or else wait for it."""

    __slots__ = ("_is_held", "_waiting")

    def __init__(self) -> None:
        self._is_held = False
        self._waiting: tuple[anyio.Event, ...] = ()

    def try_acquire(self) -> bool:
        """Take the lock if it is free; returns whether it was."""
        was_held, self._is_held = self._is_held, True
        return not was_held

    async def wait(self) -> None:
        """Wait until the writers before this one are done; then the lock is taken."""
        turn = anyio.Event()
        self._waiting += (turn,)
        try:
            await turn.wait()
        except BaseException:
            if turn.is_set():
                self.release()
            else:
                self._waiting = tuple([one for one in self._waiting if one is not turn])
            raise

    async def __aenter__(self) -> None:
        if not self.try_acquire():
            await self.wait()

    async def __aexit__(self, *_: object) -> None:
        self.release()

    async def settle(self) -> None:
        """Wait until there is no writer; returns at once if there is none."""
        while self._is_held:
            await self.wait()
            self.release()

    def release(self) -> None:
        """Pass the lock to the next writer, or free it."""
        if self._waiting:
            first, *others = self._waiting
            self._waiting = tuple(others)
            first.set()
        else:
            self._is_held = False


def shield_writes(store: Store) -> AbstractContextManager[object]:
    """Return a block in which a cancellation waits until the entries are written.

    A store in memory never waits, so nothing can interrupt a write to it. A subclass may wait.
    """
    return _NOTHING if type(store) is MemoryStore else anyio.CancelScope(shield=True)
