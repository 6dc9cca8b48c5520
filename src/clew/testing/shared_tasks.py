"""Conformance checks for two task stores in the same place, each with the sessions of its tasks.

@pytest.mark.anyio
@pytest.mark.parametrize("check", SHARED_TASK_CHECKS)
async def test_two_of_my_stores_in_one_place_share_their_tasks(check):
    await check(MyStore(place), MyStore(place))
"""

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from clew.core.errors import SessionBusy
from clew.core.ids import SessionId
from clew.core.tasks import TaskStatus
from clew.stores.protocol import Store
from clew.stores.task_protocol import TaskStore
from clew.testing.stores import A, a_record, agent_record, an_entry, entries_in, expect_error
from clew.testing.task_blobs import a_snapshot, list_blobs
from clew.testing.tasks import YES, a_question, a_task, claim, found, ids, with_status

SharedTaskCheck = Callable[[Store, Store], Awaitable[None]]
"""Takes two stores that keep their sessions and tasks in the same place."""


async def fences_a_worker_that_was_replaced(one: Store, other: Store) -> None:
    """After a takeover, the old worker can change neither the task nor the journal."""
    old_tasks, new_tasks = task_store_of(one), task_store_of(other)
    agent = SessionId("t")
    await one.create(a_record("a"))
    await one.create(agent_record(agent, parent=A))
    await old_tasks.save_task(a_task("t"))
    old = await claim(old_tasks, "old")
    await one.lease(agent, silent_after=600.0)
    await one.append(agent, [an_entry(1)])

    new = await claim(new_tasks, "new")
    await expect_error(SessionBusy, one.append(agent, [an_entry(2, "stale")]))
    await other.lease(agent, silent_after=600.0)
    await other.append(agent, [an_entry(2)])
    await new_tasks.save_task(with_status(new, TaskStatus.COMPLETED), epoch=new.epoch)
    await other.release(agent)

    stale = with_status(old, TaskStatus.FAILED)
    await expect_error(SessionBusy, old_tasks.save_task(stale, epoch=old.epoch))
    await expect_error(SessionBusy, one.append(agent, [an_entry(3, "stale")]))
    assert await entries_in(other, agent) == [an_entry(1), an_entry(2)]
    assert (await found(old_tasks)).state.status is TaskStatus.COMPLETED


async def deletes_snapshots_with_a_session(one: Store, other: Store) -> None:
    """A session that is deleted takes the snapshots of its agents along, and no others."""
    tasks = task_store_of(other)
    own, stays = [await a_snapshot(tasks, data) for data in (b"own", b"stays")]
    await one.create(a_record("a"))
    await one.create(agent_record(SessionId("t"), parent=A))
    await tasks.save_task(replace(a_task("t"), snapshot=own))
    await tasks.save_task(replace(a_task("u", session="b"), snapshot=stays))

    await one.delete(A)

    assert await list_blobs(tasks, b"own", b"stays") == [False, True]
    assert await tasks.get_blob(own) is None
    assert await tasks.get_blob(stays) is not None


async def shares_tasks(one: Store, other: Store) -> None:
    """What one store does to a task, the other sees at once."""
    mine, theirs = task_store_of(one), task_store_of(other)
    await mine.save_task(a_task())
    await mine.ask("t", a_question())
    await theirs.answer("t", "q", YES)
    await theirs.send("t", "hello")
    await theirs.request_cancel("t")
    await theirs.beat("theirs")

    row = await found(mine)

    assert (row.answer, row.cancel_requested) == (YES, True)
    assert [message.text for message in await mine.messages("t")] == ["hello"]
    assert [worker.worker for worker in await mine.workers()] == ["theirs"]
    assert await mine.find_cancelled(["t"]) == {"t"}


async def deletes_tasks_with_their_session(one: Store, other: Store) -> None:
    """A deleted session leaves no task of its own, and no message to one."""
    mine, theirs = task_store_of(one), task_store_of(other)
    await one.create(a_record("a"))
    await one.create(agent_record(SessionId("t"), parent=A))
    await mine.save_task(a_task("t"))
    await mine.save_task(a_task("process"))
    await mine.send("t", "hello")
    await mine.save_task(a_task("kept", session="b"))

    await other.delete(A)

    assert await ids(theirs.tasks()) == ["kept"]
    assert await mine.messages("t") == []


def task_store_of(store: Store) -> TaskStore:
    """Return the task store of a store that has one."""
    tasks: TaskStore = store.tasks  # type: ignore[attr-defined]
    return tasks


SHARED_TASK_CHECKS: tuple[SharedTaskCheck, ...] = (
    fences_a_worker_that_was_replaced,
    shares_tasks,
    deletes_tasks_with_their_session,
    deletes_snapshots_with_a_session,
)
