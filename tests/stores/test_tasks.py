"""What every task store must do, shown on all of them."""

import json
import signal
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import anyio.lowlevel
import pytest

from clew.core.errors import SessionBusy
from clew.core.ids import SessionId
from clew.core.tasks import TaskStatus
from clew.stores import open_store
from clew.stores.memory import MemoryStore
from clew.stores.protocol import Store
from clew.stores.sql import SqlConnection
from clew.stores.sqlite import SqliteStore
from clew.testing.shared_tasks import SHARED_TASK_CHECKS, SharedTaskCheck, task_store_of
from clew.testing.task_blobs import BLOB_CHECKS
from clew.testing.tasks import (
    TASK_STORE_CHECKS,
    TaskStoreCheck,
    a_question,
    a_schedule,
    a_task,
    with_status,
)
from tests.stores.store_child import RACED, RECORD, SHARED, child, entry, line, tell

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store that processes share is kept."""
    if request.param == "sqlite":
        return str(tmp_path / "s.db")
    url: str = request.getfixturevalue("postgres").fresh()
    return url


@pytest.fixture
async def stores(place: str) -> AsyncIterator[tuple[Store, Store]]:
    """Two stores in one place."""
    async with AsyncExitStack() as stack:
        one, other = open_store(place), open_store(place)
        stack.push_async_callback(one.aclose)
        stack.push_async_callback(other.aclose)
        yield one, other


@pytest.mark.req("DST-2")
@pytest.mark.parametrize("check", TASK_STORE_CHECKS + BLOB_CHECKS, ids=lambda check: check.__name__)
async def test_a_task_store_in_memory_keeps_the_contract(check: TaskStoreCheck) -> None:
    await check(MemoryStore().tasks)


@pytest.mark.req("DST-2")
@pytest.mark.parametrize("check", TASK_STORE_CHECKS + BLOB_CHECKS, ids=lambda check: check.__name__)
async def test_the_task_store_keeps_the_contract(
    stores: tuple[Store, Store], check: TaskStoreCheck
) -> None:
    await check(task_store_of(stores[0]))


@pytest.mark.req("DST-2", "STO-1")
@pytest.mark.parametrize("check", SHARED_TASK_CHECKS, ids=lambda check: check.__name__)
async def test_two_task_stores_in_one_place_keep_the_contract(
    stores: tuple[Store, Store], check: SharedTaskCheck
) -> None:
    await check(*stores)


@pytest.mark.req("DST-2")
async def test_finished_tasks_are_not_read_to_list_the_others(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    await store.tasks.save_task(a_task("1", cwd="/work"))
    statements: list[str] = []

    def plan(connection: SqlConnection, statement: str, values: Mapping[str, object]) -> str:
        rows = connection.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()
        return " / ".join(row[3] for row in rows)

    def trace(connection: SqlConnection) -> None:
        assert isinstance(connection, sqlite3.Connection)
        connection.set_trace_callback(statements.append)

    await store._database.read(trace)
    await store.tasks.tasks(statuses={TaskStatus.RUNNING}, limit=5)
    await store.tasks.tasks(statuses={TaskStatus.COMPLETED}, cwd="/work", limit=5)
    await store.tasks.tasks(statuses={TaskStatus.FAILED}, session_id=SessionId("a"))
    await store.tasks.tasks(statuses={TaskStatus.QUEUED}, worker="w")

    lists = [one for one in statements if "FROM tasks" in one]
    plans = [await store._database.read(plan, one, {}) for one in lists]
    await store.aclose()
    assert plans == [
        "SEARCH tasks USING INDEX tasks_status (status=?)",
        "SEARCH tasks USING INDEX tasks_cwd (cwd=? AND status=?)",
        "SEARCH tasks USING INDEX tasks_session (session_id=? AND status=?)",
        "SEARCH tasks USING INDEX tasks_worker (worker=? AND status=?)",
    ]


@pytest.mark.req("DST-2")
@pytest.mark.slow("starts processes")
async def test_of_processes_that_race_for_tasks_each_is_claimed_once(
    place: str, stores: tuple[Store, Store]
) -> None:
    tasks = task_store_of(stores[0])
    for number in range(RACED):
        await tasks.save_task(a_task(str(number)))
        await tasks.ask(str(number), a_question(str(number)))
        await tasks.save_schedule(a_schedule(str(number)))
    with ExitStack() as stack:
        racers = [stack.enter_context(child(place, "race_tasks")) for _ in range(3)]
        assert [line(racer) for racer in racers] == ["ready"] * 3
        for racer in racers:
            tell(racer)
        won = [json.loads(line(racer)) for racer in racers]

    for what in ("claimed", "answered", "fired"):
        assert sorted(one for each in won for one in each[what]) == sorted(map(str, range(RACED)))
    rows = await tasks.tasks()
    assert {row.epoch for row in rows} == {1}
    assert len({row.worker for row in rows}) >= 1


@pytest.mark.req("DST-2", "STO-1")
@pytest.mark.slow("starts processes")
async def test_a_worker_that_was_stopped_is_replaced_and_refused_when_it_wakes_up(
    place: str, stores: tuple[Store, Store]
) -> None:
    store, _ = stores
    tasks = task_store_of(store)
    await store.create(RECORD)
    await tasks.save_task(a_task(SHARED))
    with child(place, "work") as old, anyio.fail_after(60):
        assert line(old) == "working"
        old.send_signal(signal.SIGSTOP)
        # The lease alone ends the old worker once it was silent for long enough.
        while True:
            try:
                await store.lease(SHARED, silent_after=60.0)
                break
            except SessionBusy:
                await anyio.lowlevel.checkpoint()
        row = await tasks.claim(SHARED, "new")
        assert row is not None
        await store.append(SHARED, [entry(1, "of the new worker")])
        done = with_status(row, TaskStatus.COMPLETED)
        await tasks.save_task(done, epoch=row.epoch)
        await store.release(SHARED)

        old.send_signal(signal.SIGCONT)
        tell(old)

        assert line(old) == "append: LeaseLost"
        assert line(old) == "save_task: SessionBusy"
    assert (await store.load(SHARED))[1] == [entry(1, "of the new worker")]
    stored = await tasks.task(SHARED)
    assert stored is not None
    assert stored.state.status is TaskStatus.COMPLETED
