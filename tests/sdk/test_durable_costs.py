"""A session pays for its durable agents: each of their calls once, whoever ran them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from clew import InteractiveSession
from clew.core.entries import Charged, Entry, MessageAdded, SessionRecord
from clew.core.ids import EntryId, SessionId
from clew.core.messages import assistant
from clew.core.tasks import TaskKind, TaskStatus
from clew.core.usage import Usage
from clew.providers.scripted import ScriptedProvider
from clew.runtime.durable_runner import DurableRunner
from clew.runtime.durable_tasks import make_row, make_spec
from clew.runtime.manager import BackgroundTaskManager
from clew.runtime.protocol import TaskRequest
from clew.sdk.durable_costs import DurableCosts
from clew.stores.memory import MemoryStore
from tests.runtime.worker_world import World

pytestmark = [pytest.mark.anyio, pytest.mark.req("AGT-2", "DST-1")]

AGENT = SessionId("agent-1")
BOSS = "boss"


class Company:
    """A session, and an agent whose workers are played by the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = MemoryStore()
        self.world = World()
        self.calls = 0

    @asynccontextmanager
    async def follow(self) -> AsyncIterator[tuple[InteractiveSession, BackgroundTaskManager]]:
        async with InteractiveSession(
            cwd=self.folder,
            provider=ScriptedProvider(["hello"]),
            model="scripted",
            agents=True,
            store=self.store,
            session_id=BOSS,
            budget_usd=10.0,
        ) as session:
            setup = session.parts.agents.setup
            runner = DurableRunner(
                self.world.durable, self.store, session=dict, costs=DurableCosts(setup)
            )
            manager = BackgroundTaskManager([], durable=runner, publish=lambda *_, **__: None)
            row = await self.world.tasks.task(AGENT)
            assert row is not None
            await manager.restore([replace(row.state, status=TaskStatus.RUNNING)])
            yield session, manager
            await manager.shutdown()

    async def begin(self) -> None:
        request = TaskRequest(kind=TaskKind.AGENT, prompt="do it", durable=True)
        await self.world.tasks.save_task(make_row(AGENT, make_spec(request, {}), now=0.0))
        record = SessionRecord(id=AGENT, cwd=str(self.folder), created_at=0.0, updated_at=0.0)
        await self.store.create(record)

    async def work(self, worker: str, usd: float) -> None:
        """Make a call that costs that much, on a worker that takes the task from the last one."""
        self.calls += 1
        body = MessageAdded(message=assistant("done"), usage=Usage(output_tokens=1), cost=usd)
        await self.store.append(AGENT, [Entry(id=EntryId(self.calls), at=0.0, body=body)])
        row = await self.world.tasks.claim(AGENT, worker)
        assert row is not None
        state = replace(row.state, cost_usd=row.state.cost_usd + usd, status=TaskStatus.RUNNING)
        await self.world.tasks.save_task(replace(row, state=state), epoch=row.epoch)

    async def end(self) -> None:
        row = await self.world.durable.get(AGENT)
        state = replace(row.state, status=TaskStatus.COMPLETED, result="done")
        await self.world.tasks.save_task(replace(row, state=state, worker=""), epoch=row.epoch)


@pytest.fixture
def company(tmp_path: Path) -> Company:
    return Company(tmp_path)


def find_charges(session: InteractiveSession) -> list[float | None]:
    bodies = [entry.body for entry in session.session.journal.entries]
    return [body.cost for body in bodies if isinstance(body, Charged)]


async def wait_until_left(session: InteractiveSession, usd: float) -> None:
    state = session.session.state
    with anyio.fail_after(60):
        while state.budget_left != pytest.approx(usd):  # noqa: ASYNC110 - it is polled
            await anyio.sleep(0.01)


async def test_an_agent_is_charged_once_after_a_takeover(company: Company) -> None:
    await company.begin()
    await company.work("worker-dead", 1.0)
    async with company.follow() as (session, manager):
        await wait_until_left(session, 9.0)
        await company.work("worker-two", 2.0)
        await wait_until_left(session, 7.0)
        await company.end()
        state = await manager.wait(AGENT)

        assert (state.status, state.cost_usd) == (TaskStatus.COMPLETED, 3.0)
        assert find_charges(session) == [3.0]
        assert session.session.state.budget_left == pytest.approx(7.0)
        assert session.session.get_cost().usd == pytest.approx(3.0)


async def test_a_session_that_was_closed_meanwhile_pays_for_the_rest_only(
    company: Company,
) -> None:
    await company.begin()
    await company.work("worker-one", 1.0)
    async with company.follow() as (session, _):
        await wait_until_left(session, 9.0)
    await company.work("worker-one", 0.5)
    await company.work("worker-two", 0.25)
    await company.end()
    for _ in range(2):
        # The second one is a session that ended before it could record the end of the agent.
        async with company.follow() as (session, manager):
            await manager.wait(AGENT)

            assert find_charges(session) == [1.0, 0.75]
            assert session.session.state.budget_left == pytest.approx(8.25)


async def test_a_cancelled_agent_is_charged(company: Company) -> None:
    await company.begin()
    await company.work("worker-one", 1.0)
    async with company.follow() as (session, manager), anyio.create_task_group() as group:
        await wait_until_left(session, 9.0)
        group.start_soon(manager.cancel, AGENT, "stop")
        with anyio.fail_after(60):
            while not (await company.world.durable.get(AGENT)).cancel_requested:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        await company.work("worker-one", 0.5)
        await company.end()
        await manager.wait(AGENT)

        assert find_charges(session) == [1.5]
