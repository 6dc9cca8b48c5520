"""The queue on DBOS, as processes use it that run no tasks themselves."""

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import closing
from pathlib import Path

import pytest

from clew.core.errors import BackgroundTaskError, StoreError, StoreUnavailable
from clew.core.tasks import TaskKind, TaskStatus
from clew.runtime.dbos import DbosScheduler, queue_address
from clew.runtime.durable_tasks import DurableTasks, make_row, make_spec
from clew.runtime.protocol import TaskRequest
from clew.stores.sqlite import SqliteStore
from clew.stores.task_protocol import TaskStore

pytestmark = [pytest.mark.anyio, pytest.mark.req("DST-1")]

SPEC = make_spec(TaskRequest(kind=TaskKind.AGENT, prompt="do it", durable=True), {"cwd": "/"})


class Queue:
    def __init__(self, tasks: TaskStore, address: str) -> None:
        self.tasks = tasks
        self.scheduler = DbosScheduler(tasks, address)
        self.durable = DurableTasks(tasks, self.scheduler)

    async def runs(self) -> list[str]:
        found = await self.scheduler._list()
        return sorted(f"{one.workflow_id} {one.status}" for one in found)


@pytest.fixture
async def queue(tmp_path: Path) -> AsyncGenerator[Queue, None]:
    path = tmp_path / "sessions.db"
    store = SqliteStore(path)
    made = Queue(store.tasks, queue_address(path))
    yield made
    await made.scheduler.aclose()
    await store.aclose()


async def test_a_task_that_is_submitted_twice_runs_once(queue: Queue) -> None:
    await queue.durable.spawn(SPEC, task_id="agent-1")
    await queue.scheduler.submit("agent-1")

    assert await queue.runs() == ["agent-1.0 ENQUEUED"]
    assert await queue.scheduler.status("agent-1") is TaskStatus.QUEUED
    assert await queue.scheduler.find_runs() == []


async def test_a_task_that_a_worker_has_is_not_submitted(queue: Queue) -> None:
    await queue.tasks.save_task(make_row("agent-1", SPEC, now=0.0))
    await queue.tasks.claim("agent-1", "worker-1")

    await queue.scheduler.submit("agent-1")

    assert await queue.runs() == []


async def test_cancelling_a_task_in_the_queue_ends_it_at_once(queue: Queue) -> None:
    await queue.durable.spawn(SPEC, task_id="agent-1")

    await queue.durable.cancel("agent-1")

    row = await queue.durable.get("agent-1")
    assert (row.state.status, row.worker) == (TaskStatus.CANCELLED, "")
    assert row.state.ended_at
    assert await queue.runs() == ["agent-1.0 CANCELLED"]


async def test_a_message_queues_a_task_that_has_ended_under_its_new_epoch(queue: Queue) -> None:
    await queue.durable.spawn(SPEC, task_id="agent-1")
    await queue.durable.cancel("agent-1")

    await queue.durable.send("agent-1", "go on")

    assert await queue.scheduler.status("agent-1") is TaskStatus.QUEUED
    assert await queue.runs() == ["agent-1.0 CANCELLED", "agent-1.1 ENQUEUED"]


async def test_tasks_that_no_run_will_come_for_are_submitted(queue: Queue) -> None:
    await queue.durable.spawn(SPEC, task_id="agent-1")
    await queue.tasks.save_task(make_row("agent-2", SPEC, now=0.0))

    assert await queue.scheduler.submit_lost(["agent-1", "agent-2", "gone"]) == ["agent-2"]
    assert await queue.scheduler.submit_lost(["agent-1", "agent-2"]) == []
    assert await queue.runs() == ["agent-1.0 ENQUEUED", "agent-2.0 ENQUEUED"]


async def test_runs_that_have_ended_are_forgotten(queue: Queue) -> None:
    for name in ("agent-1", "agent-2"):
        await queue.durable.spawn(SPEC, task_id=name)
    await queue.durable.cancel("agent-1")

    assert await queue.scheduler.prune(before="2000-01-01T00:00:00+00:00") == 0
    assert await queue.scheduler.prune(before="2999-01-01T00:00:00+00:00") == 1
    assert await queue.runs() == ["agent-2.0 ENQUEUED"]


async def test_only_agents_can_be_durable(queue: Queue) -> None:
    spec = make_spec(TaskRequest(kind=TaskKind.PROCESS, prompt="make"), {"cwd": "/"})

    with pytest.raises(BackgroundTaskError, match="only agents"):
        await queue.durable.spawn(spec)
    with pytest.raises(BackgroundTaskError, match="there is no task gone"):
        await queue.scheduler.submit("gone")


@pytest.mark.parametrize(
    ("store", "queue_url"),
    [
        ("postgres://me:secret@db/clew", "postgresql://me:secret@db/clew"),
        ("postgresql://clew@/x?host=/run", "postgresql://clew@/x?host=%2Frun"),
        ("/a b/s?.db", "sqlite:////a b/s%3F.db.queue"),
    ],
)
def test_the_queue_is_beside_the_store(store: str, queue_url: str) -> None:
    assert queue_address(store) == queue_url


def test_other_stores_have_no_queue() -> None:
    with pytest.raises(StoreError, match="in a file or in PostgreSQL"):
        queue_address("mongodb://here")


async def test_a_queue_that_cannot_be_opened_is_an_error_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = SqliteStore(tmp_path / "sessions.db")
    scheduler = DbosScheduler(store.tasks, queue_address(tmp_path / "file" / "sessions.db"))
    await store.tasks.save_task(make_row("agent-1", SPEC, now=0.0))

    with pytest.raises(StoreUnavailable, match="the task queue cannot be used"):
        await scheduler.submit("agent-1")
    await store.aclose()


async def test_the_queue_holds_ids_as_json_and_nothing_else_of_a_task(
    queue: Queue, tmp_path: Path
) -> None:
    request = TaskRequest(kind=TaskKind.AGENT, prompt="the red thread", durable=True)
    await queue.durable.spawn(make_spec(request, {"cwd": "/labyrinth"}), task_id="agent-1")

    with closing(sqlite3.connect(tmp_path / "sessions.db.queue")) as database:
        lines = list(database.iterdump())

    [inputs] = [line for line in lines if "positionalArgs" in line]
    assert '"positionalArgs":["agent-1"]' in inputs.replace(" ", "")
    assert not any(word in line for line in lines for word in ("red thread", "labyrinth"))
