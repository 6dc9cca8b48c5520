"""The lock of a journal: writers take turns, and one that leaves blocks nobody."""

from collections.abc import Sequence

import anyio
import anyio.lowlevel
import pytest

from clew import Session, tool
from clew.core.entries import Entry, MessageAdded, Noted
from clew.core.ids import SessionId
from clew.core.permissions import Risk
from clew.providers.scripted import ScriptedProvider, call_reply
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


class WaitingStore(MemoryStore):
    """Lets other tasks run while it writes."""

    async def append(self, session_id: SessionId, entries: Sequence[Entry]) -> None:
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        await super().append(session_id, entries)


async def test_a_truncated_result_names_its_own_entry_although_others_write() -> None:
    async with anyio.create_task_group() as tasks:

        @tool(risk=Risk.INSPECT)
        async def shout() -> str:
            """Return much, while a background task writes to the journal."""
            tasks.start_soon(chat.journal.append, Noted(topic="task", text="ended"))
            await anyio.lowlevel.checkpoint()
            return "loud " * 20_000

        provider = ScriptedProvider([call_reply(("shout", {})), "done"])
        chat = Session(provider, model="m", tools=[shout], store=WaitingStore())
        async with chat:
            await chat.run("shout")
            (entry,) = [
                entry
                for entry in chat.journal.entries
                if isinstance(entry.body, MessageAdded) and entry.body.message.results
            ]

    assert isinstance(entry.body, MessageAdded)
    assert f"entry #{entry.id} has it" in entry.body.message.results[0].text
