"""What a worker does when a process died between two steps, or two processes meet."""

from collections.abc import Sequence

import anyio
import pytest
from msgspec.structs import replace

from clew.core.errors import ConfigError, SessionBusy, StoreUnavailable
from clew.core.events import PermissionRequest
from clew.core.permissions import Approval, PermissionAnswer, Risk
from clew.core.tasks import TaskErrorCategory, TaskStatus
from clew.runtime.claimed_task import ClaimedTask, StopCause
from clew.runtime.due_schedules import DueSchedules
from clew.runtime.durable_tasks import find_reopening, make_row
from clew.runtime.protocol import TaskResult
from clew.runtime.running_tasks import MAX_TAKEOVERS, release
from clew.runtime.task_takeover import SWEEP_BATCH, QueuedRun, TaskTakeover, WorkerTimes
from clew.stores.memory_tasks import MemoryTaskStore
from clew.stores.task_protocol import ScheduleRow, TaskRow
from tests.runtime.memory_queue import MemoryQueue
from tests.runtime.worker_world import QUICK, World, answer, spec

pytestmark = [pytest.mark.anyio, pytest.mark.req("DST-1")]


class SlowStore(MemoryTaskStore):
    """Writes the progress of tasks when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = anyio.Event()
        self.gate = anyio.Event()

    async def save_task(self, row: TaskRow, *, epoch: int | None = None) -> None:
        if row.state.status is TaskStatus.RUNNING:
            self.begun.set()
            await self.gate.wait()
        await super().save_task(row, epoch=epoch)


async def test_a_slow_write_of_progress_does_not_undo_the_end_of_a_task() -> None:
    tasks = SlowStore()
    await tasks.save_task(make_row("agent-1", spec(), now=0.0))
    row = await tasks.claim("agent-1", "worker-w1")
    assert row is not None
    task = ClaimedTask(tasks, row)
    task.start()

    async with anyio.create_task_group() as group:
        group.start_soon(task.save)
        await tasks.begun.wait()
        task.stop(StopCause.CANCELLED)
        group.start_soon(task.settle, None)
        await anyio.wait_all_tasks_blocked()
        tasks.gate.set()
    task.note_progress()
    await task.save()

    ended = await tasks.task("agent-1")
    assert ended is not None
    assert (ended.state.status, ended.worker) == (TaskStatus.CANCELLED, "")


async def test_a_task_of_a_dead_worker_without_a_run_continues() -> None:
    now = 1_000.0
    world = World(lambda: now)
    await world.tasks.save_task(make_row("agent-1", spec(), now=0.0))
    await world.tasks.claim("agent-1", "worker-dead")
    await world.tasks.beat("worker-dead")

    now += 10
    await world.tasks.beat("worker-w1")
    times = WorkerTimes(silent_after=5)
    await TaskTakeover(world.tasks, world.queue, worker="worker-w1", times=times).take_over_silent()
    async with world.serving(world.worker()):
        row = await world.wait_ended("agent-1")

    assert row.state.status is TaskStatus.COMPLETED


async def test_a_task_of_a_worker_that_left_without_a_run_continues() -> None:
    world = World()
    await world.tasks.save_task(make_row("agent-1", spec(), now=0.0))
    await world.tasks.claim("agent-1", "worker-gone")
    await world.tasks.beat("worker-w1")

    await world.takeover().sweep()
    async with world.serving(world.worker()):
        row = await world.wait_ended("agent-1")

    assert row.state.status is TaskStatus.COMPLETED


async def test_a_sweep_leaves_the_tasks_of_a_worker_that_starts_meanwhile() -> None:
    tasks = MemoryTaskStore()

    class Busy(MemoryQueue):
        async def find_runs(self, worker: str | None = None) -> list[QueuedRun]:
            await tasks.beat("worker-w2")
            await tasks.claim("agent-1", "worker-w2")
            return [QueuedRun(run_id="agent-1.0", task_id="agent-1", worker="worker-w2")]

    world = World(tasks=tasks)
    world.queue = Busy(tasks)
    await tasks.save_task(make_row("agent-1", spec(), now=0.0))
    await tasks.beat("worker-w1")

    await world.takeover().sweep()

    assert (await world.durable.get("agent-1")).worker == "worker-w2"


@pytest.mark.parametrize("wanted", [TaskStatus.COMPLETED, TaskStatus.CANCELLED])
async def test_a_parked_task_is_woken_when_its_caller_died_before_it_could(
    wanted: TaskStatus,
) -> None:
    world = World()
    parked = make_row("agent-1", spec(), now=0.0)
    state = replace(parked.state, status=TaskStatus.WAITING_PERMISSION)
    await world.tasks.save_task(replace(parked, state=state))
    request = PermissionRequest(
        request_id="q", tool_name="Bash", target="ls", risk=Risk.EXECUTE, reason="why"
    )
    await world.tasks.ask("agent-1", request)
    if wanted is TaskStatus.COMPLETED:
        await world.tasks.answer("agent-1", "q", PermissionAnswer(approval=Approval.ONCE))
    else:
        await world.tasks.request_cancel("agent-1")
    await world.tasks.beat("worker-w1")

    await world.takeover().sweep()
    async with world.serving(world.worker()):
        row = await world.wait_ended("agent-1")

    assert row.state.status is wanted


async def test_a_task_between_two_workers_is_queued_again() -> None:
    world = World()
    row = make_row("agent-1", spec(), now=0.0)
    await world.tasks.save_task(replace(row, state=replace(row.state, status=TaskStatus.RUNNING)))
    await world.tasks.beat("worker-w1")

    await world.takeover().sweep()

    assert (await world.durable.get("agent-1")).state.status is TaskStatus.QUEUED


def make_schedule(name: str) -> ScheduleRow:
    return ScheduleRow(
        schedule_id=name, text="hourly", cron=name, spec=spec(), next_at=1.0, created_at=0.0
    )


def next_time(row: ScheduleRow, after: float) -> float:
    if row.schedule_id == "broken":
        raise ValueError(row.cron)
    return after + 3_600


async def test_a_schedule_that_cannot_be_read_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    for name in ("broken", "good"):
        await world.tasks.save_schedule(make_schedule(name))
    schedules = DueSchedules(world.durable, next_time)

    for _ in range(3):
        await schedules.fire()

    [row] = await world.tasks.tasks()
    fired = {one.schedule_id: one.last_task_id for one in await world.tasks.schedules()}
    assert fired == {"broken": "", "good": row.state.task_id}
    assert sum("broken" in one.getMessage() for one in caplog.records) == 1


@pytest.mark.parametrize("step", ["save_task", "claim_schedule", "submit"])
async def test_a_time_of_a_schedule_is_kept_whenever_its_worker_dies(step: str) -> None:
    world, failing = World(), True
    await world.tasks.save_schedule(make_schedule("s"))

    class Dying:
        """A store and queue that end before or after a step."""

        def __init__(self, inner: object) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> object:
            work = getattr(self._inner, name)

            async def die(*args: object, **options: object) -> object:
                if name == "submit":
                    raise StoreUnavailable("away")
                await work(*args, **options)
                raise StoreUnavailable("away")

            return die if failing and name == step else work

    durable = World(tasks=world.tasks).durable
    durable.tasks, durable.scheduler = Dying(world.tasks), Dying(world.queue)  # type: ignore[assignment]
    schedules = DueSchedules(durable, next_time)
    with pytest.raises(StoreUnavailable):
        await schedules.fire()
    failing = False
    await schedules.fire()
    await world.tasks.beat("worker-w1")
    await world.takeover().sweep()

    [row] = await world.tasks.tasks()
    [schedule] = await world.tasks.schedules()
    assert schedule.last_task_id == row.state.task_id
    async with world.serving(world.worker()):
        ended = await world.wait_ended(row.state.task_id)
    assert (ended.state.status, ended.epoch) == (TaskStatus.COMPLETED, 1)


async def test_a_task_that_cannot_be_read_fails_once() -> None:
    world = World()
    row = make_row("agent-1", spec(), now=0.0)
    await world.tasks.save_task(replace(row, spec={"request": {"kind": "from the future"}}))
    await world.queue.submit("agent-1")

    async with world.serving(world.worker()):
        ended = await world.wait_ended("agent-1")

    assert ended.state.error_category is TaskErrorCategory.VALIDATION
    assert (ended.epoch, ended.worker) == (1, "")


async def test_a_task_that_ends_its_workers_fails_after_some_of_them() -> None:
    world, statuses = World(), list[TaskStatus]()
    await world.tasks.save_task(make_row("agent-1", spec(), now=0.0))
    for _ in range(MAX_TAKEOVERS + 1):
        row = await world.tasks.claim("agent-1", "worker-dead")
        assert row is not None
        await release(world.tasks, row)
        statuses.append((await world.durable.get("agent-1")).state.status)

    ended = await world.durable.get("agent-1")
    assert statuses == [TaskStatus.QUEUED] * MAX_TAKEOVERS + [TaskStatus.FAILED]
    assert ended.state.error_category is TaskErrorCategory.CRASH


async def test_takeovers_of_a_task_that_comes_further_do_not_count() -> None:
    world = World()
    await world.tasks.save_task(make_row("agent-1", spec(), now=0.0))
    for _ in range(MAX_TAKEOVERS + 1):
        row = await world.tasks.claim("agent-1", "worker-dead")
        assert row is not None
        task = ClaimedTask(world.tasks, row)
        task.note_progress()
        await task.save()
        await release(world.tasks, task.row)

    assert (await world.durable.get("agent-1")).state.status is TaskStatus.QUEUED


async def test_a_task_whose_session_is_open_elsewhere_is_tried_again_later() -> None:
    world, runs = World(), 0

    async def work(task: ClaimedTask) -> TaskResult:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise SessionBusy("a terminal has it open")
        return await answer(task)

    times = replace(QUICK, silent_after=-1.0, heartbeat=3_600.0)
    async with world.serving(world.worker(work, times=times)):
        row = await world.wait_ended((await world.durable.spawn(spec())).task_id)

    assert (row.state.status, runs) == (TaskStatus.COMPLETED, 2)


async def test_a_message_is_sent_although_a_worker_takes_the_task_at_this_moment() -> None:
    class Taken(MemoryTaskStore):
        async def save_task(self, row: TaskRow, *, epoch: int | None = None) -> None:
            if epoch is not None:
                raise SessionBusy("taken")
            await super().save_task(row)

    world = World(tasks=Taken())
    row = make_row("agent-1", spec(), now=0.0)
    await world.tasks.save_task(replace(row, state=replace(row.state, status=TaskStatus.COMPLETED)))

    await world.durable.send("agent-1", "hello")

    assert [one.text for one in await world.tasks.messages("agent-1")] == ["hello"]


@pytest.mark.parametrize(
    ("status", "reopened"),
    [(TaskStatus.CANCELLED, 1), (TaskStatus.FAILED, 1), (TaskStatus.WAITING_PERMISSION, 0)],
)
async def test_a_message_says_that_it_makes_an_ended_task_run_again(
    status: TaskStatus, reopened: int
) -> None:
    world = World()
    row = make_row("agent-1", spec(), now=0.0)
    await world.tasks.save_task(replace(row, state=replace(row.state, status=status)))

    await world.durable.send("agent-1", "hello")

    sent = await world.durable.get("agent-1")
    assert (sent.state.status, find_reopening(sent)) == (TaskStatus.QUEUED, reopened)


async def test_an_error_in_the_care_for_tasks_does_not_end_a_worker() -> None:
    class Broken(MemoryQueue):
        async def submit_lost(self, task_ids: Sequence[str]) -> list[str]:
            raise RuntimeError("a bug")

    world = World()
    world.queue = Broken(world.tasks)
    world.durable.scheduler = world.queue
    async with world.serving(world.worker()):
        row = await world.wait_ended((await world.durable.spawn(spec())).task_id)

    assert row.state.status is TaskStatus.COMPLETED


@pytest.mark.parametrize("status", [TaskStatus.FAILED, TaskStatus.WAITING_PERMISSION])
async def test_a_message_that_a_run_could_not_read_does_not_start_it_again_and_again(
    status: TaskStatus,
) -> None:
    async def work(task: ClaimedTask) -> TaskResult:
        if status is TaskStatus.FAILED:
            raise ConfigError("there is no key for the model")
        task.report(
            PermissionRequest(
                request_id="q", tool_name="Bash", target="ls", risk=Risk.EXECUTE, reason="why"
            )
        )
        task.stop(StopCause.PARKED)
        await anyio.sleep_forever()
        raise AssertionError

    world = World()
    await world.tasks.save_task(make_row("agent-1", spec(), now=0.0))
    await world.tasks.send("agent-1", "hello")

    await world.worker(work).run("agent-1")

    assert (await world.durable.get("agent-1")).state.status is status


async def test_a_sweep_reaches_every_forgotten_task_however_many_others_wait() -> None:
    """A task behind thousands of others is found, and so is one that was there before them."""
    world = World(lambda: now)
    now, asked = 1_000.0, 3 * SWEEP_BATCH
    first = make_row("agent-first", spec(), now=0.0)
    parked = replace(first.state, status=TaskStatus.WAITING_PERMISSION)
    for number in range(asked):
        now += 1
        state = replace(parked, task_id=f"agent-{number}")
        await world.tasks.save_task(replace(first, state=state))
    for number in (0, asked // 2, asked - 1):
        await world.tasks.request_cancel(f"agent-{number}")
    await world.tasks.save_task(first)
    await world.tasks.beat("worker-w1")

    takeover = world.takeover()
    for _ in range(4):
        await takeover.sweep()
        now += 1
        busy = replace(parked, task_id="agent-busy")
        await world.tasks.save_task(replace(first, state=busy))

    rows = await world.tasks.tasks(statuses=(TaskStatus.QUEUED,))
    woken = {row.state.task_id for row in rows}
    assert woken == {"agent-first", "agent-0", f"agent-{asked // 2}", f"agent-{asked - 1}"}
    assert len(world.queue.waiting) == len(woken)
