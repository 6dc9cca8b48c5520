"""`DurableRunner`: a manager follows tasks that workers run."""

import pytest
from msgspec.structs import replace

from clew.core.errors import StoreUnavailable
from clew.core.events import Event, PermissionRequest, PermissionResolved
from clew.core.permissions import Approval, PermissionAnswer, Risk
from clew.core.tasks import TaskKind, TaskStatus
from clew.runtime.claimed_task import ClaimedTask
from clew.runtime.durable_runner import DurableRunner
from clew.runtime.durable_tasks import make_row
from clew.runtime.manager import BackgroundTaskManager
from clew.runtime.protocol import TaskRequest, TaskResult
from clew.stores.memory import MemoryStore
from clew.stores.memory_tasks import MemoryTaskStore
from clew.stores.task_protocol import TaskRow
from tests.runtime.worker_world import World, spec

pytestmark = [pytest.mark.anyio, pytest.mark.req("BGT-5")]


def make_manager(world: World, published: list[Event] | None = None) -> BackgroundTaskManager:
    def publish(event: Event, *, task_id: str = "") -> None:
        if published is not None:
            published.append(event)

    runner = DurableRunner(world.durable, MemoryStore(), session=lambda: {"cwd": "/"})
    return BackgroundTaskManager([], durable=runner, publish=publish)


async def store_ended(world: World) -> TaskRow:
    row = make_row("agent-1", spec("do it"), now=0.0)
    ended = replace(row.state, status=TaskStatus.COMPLETED, result="done")
    await world.tasks.save_task(replace(row, state=ended))
    return await world.durable.get("agent-1")


async def test_a_restored_message_to_an_agent_is_not_sent_again() -> None:
    world = World()
    ended = await store_ended(world)
    manager = make_manager(world)
    before = replace(ended.state, status=TaskStatus.RUNNING, prompt="one more thing", result="")

    await manager.restore([before])
    state = await manager.wait("agent-1")
    await manager.shutdown()

    assert (state.status, state.result) == (TaskStatus.COMPLETED, "done")
    assert await world.tasks.messages("agent-1") == []


async def test_a_message_that_repeats_the_prompt_of_an_agent_is_sent() -> None:
    world = World()
    await store_ended(world)
    manager = make_manager(world)

    async def work(task: ClaimedTask) -> TaskResult:
        fresh = await world.tasks.messages(task.task_id)
        task.messages_read = len(fresh)
        return TaskResult(text=f"read {[one.text for one in fresh]}")

    async with world.serving(world.worker(work)):
        request = TaskRequest(kind=TaskKind.AGENT, prompt="do it", task_id="agent-1", durable=True)
        await manager.spawn(request)
        state = await manager.wait("agent-1")
    await manager.shutdown()

    assert state.result == "read ['do it']"


async def test_a_store_that_fails_for_a_while_does_not_end_a_followed_task() -> None:
    class Flaky(MemoryTaskStore):
        reads = 0

        async def task(self, task_id: str) -> TaskRow | None:
            self.reads += 1
            if self.reads == 3:
                raise StoreUnavailable("away")
            return await super().task(task_id)

    world = World(tasks=(tasks := Flaky()))
    ended = await store_ended(world)
    manager = make_manager(world)

    await manager.restore([replace(ended.state, status=TaskStatus.RUNNING)])
    state = await manager.wait("agent-1")
    await manager.shutdown()

    assert (state.status, state.result) == (TaskStatus.COMPLETED, "done")
    assert tasks.reads == 4


async def test_a_denial_by_someone_else_is_reported_as_one() -> None:
    published = list[Event]()
    request = PermissionRequest(
        request_id="q", tool_name="Bash", target="ls", risk=Risk.EXECUTE, reason="why"
    )
    row = make_row("agent-1", spec("do it"), now=0.0)
    waiting = replace(row.state, status=TaskStatus.WAITING_PERMISSION)
    asked = replace(row, state=waiting, question=request)
    denied = replace(asked, answer=PermissionAnswer(approval=Approval.NO))
    ended = replace(row, state=replace(row.state, status=TaskStatus.COMPLETED, result="done"))
    rows = [asked, asked, denied, ended]

    class Scripted(MemoryTaskStore):
        async def task(self, task_id: str) -> TaskRow | None:
            return rows.pop(0)

    manager = make_manager(World(tasks=Scripted()), published)
    await manager.restore([replace(row.state, status=TaskStatus.RUNNING)])
    await manager.wait("agent-1")
    await manager.shutdown()

    resolved = [one.approved for one in published if isinstance(one, PermissionResolved)]
    assert resolved == [False]
