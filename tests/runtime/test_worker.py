"""Workers in one process, on a store and a queue in memory."""

import anyio
import pytest

from clew.core.errors import StoreUnavailable
from clew.core.tasks import TaskStatus, TimeoutReason
from clew.runtime.claimed_task import ClaimedTask
from clew.runtime.durable_tasks import make_row
from clew.runtime.protocol import TaskLimits, TaskResult
from clew.runtime.task_takeover import TaskTakeover, WorkerTimes
from clew.runtime.worker import Worker
from clew.stores.task_protocol import ScheduleRow
from tests.runtime.worker_world import QUICK, World, spec, wait_forever

pytestmark = [pytest.mark.anyio, pytest.mark.req("DST-1")]


async def test_a_task_is_stored_run_and_completed() -> None:
    world = World()
    async with world.serving(world.worker()):
        task_id = (await world.durable.spawn(spec())).task_id
        row = await world.wait_ended(task_id)

    assert (row.state.status, row.state.result) == (TaskStatus.COMPLETED, "answer to do it")
    assert (row.worker, row.epoch) == ("", 1)
    assert await world.tasks.workers() == []


async def test_a_worker_that_lost_a_task_stops_it_and_writes_nothing() -> None:
    world, ended = World(), anyio.Event()

    async def work(task: ClaimedTask) -> TaskResult:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        raise AssertionError

    async with world.serving(world.worker(work)):
        task_id = (await world.durable.spawn(spec())).task_id
        await world.wait_for(task_id, lambda row: row.worker == "worker-w1")
        await world.tasks.beat("worker-w2")
        taken = await world.tasks.claim(task_id, "worker-w2")
        with anyio.fail_after(60):
            await ended.wait()

    row = await world.durable.get(task_id)
    assert taken is not None
    assert (row.worker, row.epoch) == ("worker-w2", taken.epoch)
    assert not row.state.status.is_terminal


async def test_only_the_first_of_the_living_workers_takes_over() -> None:
    now = 1_000.0
    world = World(lambda: now)
    task_id = (await world.durable.spawn(spec())).task_id
    await world.tasks.beat("worker-dead")
    await world.tasks.claim(task_id, "worker-dead")
    world.queue.begin(task_id, "worker-dead")
    now += 10
    for name in ("worker-a", "worker-b"):
        await world.tasks.beat(name)

    owners = []
    for name in ("worker-b", "worker-a"):
        times = WorkerTimes(silent_after=5)
        takeover = TaskTakeover(world.tasks, world.queue, worker=name, times=times)
        await takeover.take_over_silent()
        owners.append((await world.durable.get(task_id)).worker)

    assert owners == ["worker-dead", ""]
    assert sorted(one.worker for one in await world.tasks.workers()) == ["worker-a", "worker-b"]
    async with world.serving(world.worker()):
        assert (await world.wait_ended(task_id)).epoch == 3


async def test_a_task_continues_later_when_the_store_fails_for_a_while() -> None:
    world, runs = World(), 0

    async def work(task: ClaimedTask) -> TaskResult:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise StoreUnavailable("the store is away")
        return TaskResult(text="done")

    async with world.serving(world.worker(work)):
        row = await world.wait_ended((await world.durable.spawn(spec())).task_id)

    assert (row.state.status, row.state.result, runs) == (TaskStatus.COMPLETED, "done", 2)


@pytest.mark.req("BGT-2")
async def test_a_task_that_reaches_a_limit_fails_with_the_reason() -> None:
    world = World()
    async with world.serving(world.worker(wait_forever)):
        limits = TaskLimits(max_runtime=0.01)
        row = await world.wait_ended((await world.durable.spawn(spec(limits=limits))).task_id)

    assert row.state.status is TaskStatus.FAILED
    assert row.state.timeout_reason is TimeoutReason.MAX_RUNTIME


@pytest.mark.req("BGT-5")
async def test_a_message_that_comes_while_a_task_ends_is_not_forgotten() -> None:
    world, heard = World(), list[str]()

    async def work(task: ClaimedTask) -> TaskResult:
        fresh = await world.tasks.messages(task.task_id, after=len(heard))
        heard.extend(one.text for one in fresh)
        task.messages_read = len(heard)
        if not heard:
            # The sender sees that the task runs, and leaves it to the worker.
            await world.durable.send(task.task_id, "one more thing")
        return TaskResult(text=" ".join(heard))

    async with world.serving(world.worker(work)):
        task_id = (await world.durable.spawn(spec())).task_id
        row = await world.wait_for(task_id, lambda row: row.state.result)

    assert (row.state.status, row.state.result) == (TaskStatus.COMPLETED, "one more thing")


async def test_cancelling_ends_a_running_task() -> None:
    world = World()
    async with world.serving(world.worker(wait_forever)):
        task_id = (await world.durable.spawn(spec())).task_id
        await world.wait_for(task_id, lambda row: row.worker)
        await world.durable.cancel(task_id)
        row = await world.wait_ended(task_id)

    assert (row.state.status, row.worker) == (TaskStatus.CANCELLED, "")


async def test_a_worker_that_ends_hands_its_tasks_to_the_next_one() -> None:
    world = World()
    async with world.serving(world.worker(wait_forever)):
        task_id = (await world.durable.spawn(spec())).task_id
        await world.wait_for(task_id, lambda row: row.worker)
    handed_back = await world.durable.get(task_id)
    async with world.serving(world.worker(name="worker-w2")):
        row = await world.wait_ended(task_id)

    assert handed_back.state.status is TaskStatus.QUEUED
    assert row.state.status is TaskStatus.COMPLETED


async def test_a_stored_task_that_was_never_submitted_is_found() -> None:
    world = World()
    await world.tasks.save_task(make_row("agent-1", spec(), now=0.0))
    times = WorkerTimes(heartbeat=0.01, silent_after=-1.0, sweep=0.01)
    takeover = TaskTakeover(world.tasks, world.queue, worker="worker-w1", times=times)
    await world.tasks.beat("worker-w1")

    await takeover.sweep()
    async with world.serving(world.worker()):
        row = await world.wait_ended("agent-1")

    assert row.state.status is TaskStatus.COMPLETED


async def test_a_task_of_this_worker_that_nothing_runs_is_queued_again() -> None:
    world = World()
    await world.tasks.save_task(make_row("agent-1", spec(), now=0.0))
    await world.tasks.claim("agent-1", "worker-w1")

    async with world.serving(world.worker()):
        row = await world.wait_ended("agent-1")

    assert row.state.status is TaskStatus.COMPLETED


async def test_a_schedule_that_is_due_starts_one_task_whichever_worker_is_first() -> None:
    world, started, begun = World(), list[str](), anyio.Event()

    async def work(task: ClaimedTask) -> TaskResult:
        started.append(task.task_id)
        begun.set()
        return TaskResult(text="done")

    def next_time(row: ScheduleRow, after: float) -> float:
        return after + 3_600

    await world.tasks.save_schedule(
        ScheduleRow(
            schedule_id="s", text="hourly", cron="0 * * * *", spec=spec(), next_at=1.0, created_at=0
        )
    )
    workers = [
        Worker(world.tasks, world.queue, work, name=name, next_time=next_time, times=QUICK)
        for name in ("worker-w1", "worker-w2")
    ]
    async with world.serving(workers[0]), world.serving(workers[1]):
        with anyio.fail_after(60):
            await begun.wait()
        await world.wait_ended(started[0])

    [schedule] = await world.tasks.schedules()
    assert started == [schedule.last_task_id]
    assert schedule.next_at > 3_600
