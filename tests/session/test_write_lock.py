"""The lock of a journal: writers take turns, and one that leaves blocks nobody."""

import anyio
import anyio.lowlevel
import pytest

from clew.session.write_lock import WriteLock, shield_writes
from clew.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio


class _SlowStore(MemoryStore):
    """A store that may wait."""


async def _write(lock: WriteLock, done: list[int], number: int) -> None:
    if not lock.try_acquire():
        await lock.wait()
    try:
        await anyio.lowlevel.checkpoint()
        done.append(number)
    finally:
        lock.release()


async def test_writers_take_turns_in_the_order_in_which_they_came() -> None:
    lock, done = WriteLock(), list[int]()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(_write, lock, done, number)

    assert done == [0, 1, 2, 3, 4]
    assert lock.try_acquire()


async def test_a_writer_that_is_cancelled_while_it_waits_leaves_the_queue() -> None:
    lock, done = WriteLock(), list[int]()
    assert lock.try_acquire()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            with anyio.move_on_after(0):
                await _write(lock, done, 1)
            tasks.start_soon(_write, lock, done, 2)
            await anyio.lowlevel.checkpoint()
            lock.release()

    assert done == [2]
    assert lock.try_acquire()


async def test_a_writer_that_is_cancelled_when_its_turn_comes_passes_it_on() -> None:
    lock, done = WriteLock(), list[int]()
    assert lock.try_acquire()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            first = anyio.CancelScope()

            async def write_first() -> None:
                with first:
                    await _write(lock, done, 1)

            tasks.start_soon(write_first)
            tasks.start_soon(_write, lock, done, 2)
            await anyio.lowlevel.checkpoint()
            lock.release()
            first.cancel()

    assert done == [2]
    assert lock.try_acquire()


async def test_only_a_store_that_never_waits_needs_no_shield() -> None:
    assert not isinstance(shield_writes(MemoryStore()), anyio.CancelScope)
    assert isinstance(shield_writes(_SlowStore()), anyio.CancelScope)
