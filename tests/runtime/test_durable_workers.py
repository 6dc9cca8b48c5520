"""Workers in processes of their own, which are killed, stopped and ended while agents run."""

import random
import signal
import sqlite3
import subprocess
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import closing, suppress
from pathlib import Path

import anyio
import msgspec
import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from benchmarks.durable_harness import (
    Agents,
    Cluster,
    WorkerProcess,
    open_agents,
    run_cluster,
    wait_until,
)
from clew.core.entries import MessageAdded, Noted
from clew.core.events import Event, TextDelta
from clew.core.ids import SessionId
from clew.core.messages import Role
from clew.core.permissions import Approval, PermissionAnswer
from clew.core.tasks import TaskStatus
from clew.runtime.durable_runner import DurableRunner
from clew.runtime.manager import BackgroundTaskManager
from clew.sdk.launch import launch
from clew.stores import open_store
from clew.stores.worktree_snapshot import WorktreeSnapshot
from tests.stores.postgres import Server

pytestmark = [pytest.mark.anyio, pytest.mark.req("DST-1")]

SILENT = 10.0
"""Long enough for a busy machine. That a process was killed is seen at once."""
AGENTS = 6


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    address = str(tmp_path / "sessions.db")
    with run_cluster(tmp_path, address, silent_after=SILENT, park_after=0.1) as made:
        yield made


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with a worker, for tests that leave the worker alone."""
    folder = tmp_path_factory.mktemp("served")
    address = str(folder / "sessions.db")
    with run_cluster(folder, address, silent_after=SILENT, park_after=0.1) as made:
        anyio.run(start, made)
        yield made


@pytest.fixture
async def crew(served: Cluster) -> AsyncGenerator[Agents, None]:
    async with open_agents(served) as opened:
        yield opened


@pytest.fixture
async def agents(cluster: Cluster) -> AsyncGenerator[Agents, None]:
    async with open_agents(cluster) as opened:
        yield opened


async def start(cluster: Cluster, count: int = 1) -> list[WorkerProcess]:
    workers = [cluster.start_worker() for _ in range(count)]
    await cluster.wait_ready(workers)
    return workers


async def kill_one_of_three(cluster: Cluster) -> None:
    chance, gate = random.Random(17), cluster.folder / "gate"
    workers = await start(cluster, 3)
    async with open_agents(cluster) as agents:
        for number in range(AGENTS):
            await agents.spawn(number, more=f", step 3 waits for {gate}")
        await wait_until(lambda: len(list(cluster.project.glob("agent-*.txt"))) == AGENTS)
        row = await agents.wait_for(chance.choice(list(agents.steps)), lambda row: row.worker != "")
        next(one for one in workers if one.name == row.worker).kill()
        gate.touch()

        assert await agents.wait() == Counter({TaskStatus.COMPLETED: AGENTS})
        assert await agents.check() == []


@pytest.mark.req("DST-2")
async def test_all_agents_finish_when_a_worker_is_killed(cluster: Cluster) -> None:
    await kill_one_of_three(cluster)


async def test_all_agents_finish_when_a_worker_is_killed_on_postgres(
    tmp_path: Path, postgres: Server
) -> None:
    with run_cluster(tmp_path, postgres.fresh(), silent_after=SILENT) as cluster:
        await kill_one_of_three(cluster)


@pytest.mark.req("DST-2")
async def test_a_paused_worker_that_wakes_up_after_a_takeover_stops_without_writing(
    tmp_path: Path,
) -> None:
    gate, address = tmp_path / "gate", str(tmp_path / "sessions.db")
    with run_cluster(tmp_path, address, silent_after=2.0) as cluster:
        async with open_agents(cluster) as agents:
            [paused] = await start(cluster)
            state = await agents.spawn(1, more=f", step 1 waits for {gate}")
            row = await agents.wait_for(
                state.task_id, lambda row: row.state.action.startswith("Bash")
            )

            with closing(sqlite3.connect(address)) as database:
                promised = database.execute("SELECT silent_after FROM leases").fetchall()

            paused.process.send_signal(signal.SIGSTOP)
            await start(cluster)
            taken = await agents.wait_for(
                state.task_id, lambda row: row.worker not in ("", paused.name)
            )
            paused.process.send_signal(signal.SIGCONT)
            await wait_until(lambda: "was taken by another worker" in paused.lines())
            gate.touch()

            assert promised == [(2.0,)]
            assert taken.epoch > row.epoch
            assert await agents.wait() == Counter({TaskStatus.COMPLETED: 1})
            assert await agents.check() == []


async def test_a_worker_runs_as_many_agents_at_once_as_it_is_told(
    cluster: Cluster, agents: Agents
) -> None:
    await cluster.wait_ready([cluster.start_worker(concurrency=2)])
    ids = [(await agents.spawn(number, steps=2)).task_id for number in range(5)]

    assert await agents.wait() == Counter({TaskStatus.COMPLETED: 5})

    states = [(await agents.durable.get(task_id)).state for task_id in ids]
    spans = [(state.started_at or 0.0, state.ended_at or 0.0) for state in states]
    busiest = max(sum(began <= at < ended for began, ended in spans) for at, _ in spans)
    assert busiest <= 2


@pytest.mark.req("DST-2")
async def test_cancelling_interrupts_a_tool_that_runs(served: Cluster, crew: Agents) -> None:
    state = await crew.start(crew.request(11, more=", 60 s each"))
    await crew.wait_for(state.task_id, lambda row: row.state.action.startswith("Bash"))

    await crew.durable.cancel(state.task_id)

    row = await crew.wait_for(state.task_id, lambda row: row.state.status.is_terminal)
    assert row.state.status is TaskStatus.CANCELLED
    assert not (served.project / "agent-11.txt").exists()


async def test_a_question_parks_an_agent_until_it_is_answered(
    served: Cluster, crew: Agents
) -> None:
    request = crew.request(12, steps=2)
    state = await crew.start(request, permission_mode="default")

    waiting = await crew.wait_for(
        state.task_id, lambda row: row.question is not None and not row.worker
    )
    assert waiting.question is not None
    assert waiting.state.status is TaskStatus.WAITING_PERMISSION
    answer = PermissionAnswer(approval=Approval.ONCE)
    await crew.durable.answer(state.task_id, waiting.question.request_id, answer)

    row = await crew.wait_for(state.task_id, lambda row: row.state.status.is_terminal)
    assert row.state.status is TaskStatus.COMPLETED
    assert (served.project / "agent-12.txt").read_text() == "agent 12 step 1\n"
    assert row.epoch > waiting.epoch


async def test_a_message_continues_an_agent_that_has_ended(served: Cluster, crew: Agents) -> None:
    state = await crew.spawn(13)
    await crew.wait()

    await crew.durable.send(state.task_id, "one more thing")
    await crew.wait()

    store = open_store(served.address)
    _, entries = await store.load(SessionId(state.task_id))
    await store.aclose()
    said = [
        one.body.message.text
        for one in entries
        if isinstance(one.body, MessageAdded) and one.body.message.role is Role.USER
    ]
    assert [text.endswith("one more thing") for text in said] == [False, True]
    assert sum(isinstance(one.body, Noted) for one in entries) == 1
    assert await crew.check() == []


async def test_a_worker_that_is_ended_hands_its_agents_back(
    cluster: Cluster, agents: Agents
) -> None:
    gate = cluster.folder / "gate"
    [first] = await start(cluster)
    state = await agents.spawn(1, more=f", step 1 waits for {gate}")
    await agents.wait_for(state.task_id, lambda row: row.state.action.startswith("Bash"))

    first.process.send_signal(signal.SIGTERM)
    assert first.process.wait(60) == 0
    row = await agents.durable.get(state.task_id)
    assert (row.state.status, row.worker) == (TaskStatus.QUEUED, "")
    assert await agents.durable.tasks.workers() == []
    with closing(sqlite3.connect(cluster.address)) as database:
        held = database.execute("SELECT count(*) FROM leases WHERE owner <> ''").fetchone()
    assert held == (0,)
    assert find_commands(str(gate)) == []

    gate.touch()
    await start(cluster)
    assert await agents.wait() == Counter({TaskStatus.COMPLETED: 1})
    assert await agents.check() == []


@pytest.mark.req("DST-2", "AGT-3")
async def test_uncommitted_files_of_a_dead_worker_are_in_the_worktree_of_its_successor(
    cluster: Cluster, agents: Agents
) -> None:
    gate, project = cluster.folder / "gate", cluster.project
    git(project, "init", "-q")
    git(project, "add", ".")
    git(project, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "first")
    [first] = await start(cluster)
    request = agents.request(1, folder=".", more=f", step 3 waits for {gate}")
    state = await agents.start(replace(request, isolation="worktree"))
    await wait_for_snapshot(agents, state.task_id, project, "agent-1.txt")
    before = (await agents.durable.get(state.task_id)).state.worktree_path

    first.kill()
    git(project, "worktree", "remove", "--force", before)
    gate.touch()
    await start(cluster)
    row = await agents.wait_for(state.task_id, lambda row: row.state.status.is_terminal)

    assert row.state.status is TaskStatus.COMPLETED
    assert row.state.worktree_path != before
    text = read(Path(row.state.worktree_path) / "agent-1.txt")
    assert text == "agent 1 step 1\nagent 1 step 3\n"


@pytest.mark.req("BGT-5")
async def test_a_manager_follows_durable_agents_and_finds_them_again(
    served: Cluster, crew: Agents
) -> None:
    gate, store = served.folder / "gate-14", open_store(served.address)
    published: list[Event] = []

    def publish(event: Event, *, task_id: str = "") -> None:
        published.append(event)

    def manager() -> BackgroundTaskManager:
        runner = DurableRunner(crew.durable, store, session=lambda: to_builtins(served.spec()))
        return BackgroundTaskManager([], durable=runner, publish=publish)

    first = manager()
    request = crew.request(14, more=f", step 3 waits for {gate}")
    task_id = (await first.spawn(request)).task_id
    await crew.wait_for(task_id, lambda row: row.state.action.startswith("Bash"))
    left = first.get(task_id)
    await first.shutdown()
    gate.touch()
    second = manager()
    await second.restore([left])
    ended = await second.wait(task_id)
    log = await second.read_log(task_id)
    await second.shutdown()
    await store.aclose()

    assert (ended.status, ended.result) == (TaskStatus.COMPLETED, "agent 14 is done")
    assert "agent 14 is done" in log.lines
    said = [one.text for one in published if isinstance(one, TextDelta)]
    assert said == ["agent 14 is done"]


@pytest.mark.req("AGT-2")
async def test_a_durable_agent_of_a_session_outlives_it(served: Cluster, crew: Agents) -> None:
    gate = served.folder / "gate-15"
    prompt = crew.request(15, more=f", step 3 waits for {gate}").prompt
    async with launch(served.spec(), environ=served.environ) as launched:
        boss = launched.session.get_session_id()
        await launched.session.execute(f"/agent run --durable --detach {prompt}")
        [state] = launched.session.parts.tasks.manager.list()
        await crew.wait_for(state.task_id, lambda row: row.state.action.startswith("Bash"))
    gate.touch()
    await crew.wait()

    async with launch(replace(served.spec(), resume=boss), environ=served.environ) as launched:
        with anyio.fail_after(60):
            ended = await launched.session.parts.tasks.manager.wait(state.task_id)

    assert (ended.status, ended.result) == (TaskStatus.COMPLETED, "agent 15 is done")


@pytest.mark.req("AGT-2")
async def test_a_durable_agent_may_spend_what_is_left_of_the_budget(
    served: Cluster, crew: Agents
) -> None:
    async with launch(served.spec(), environ=served.environ) as launched:
        launched.session.session.state.set_budget(1.5)
        await launched.session.execute("/agent run --durable --detach do it")
        [state] = launched.session.parts.tasks.manager.list()
        row = await crew.wait_for(state.task_id, lambda row: bool(row.spec))

    assert row.spec["session"]["budget_usd"] == 1.5


async def wait_for_snapshot(agents: Agents, task_id: str, project: Path, file: str) -> None:
    found = ""
    with anyio.fail_after(60):
        while file not in found:
            row = await agents.wait_for(task_id, lambda row: bool(row.snapshot))
            data = await agents.durable.tasks.get_blob(row.snapshot)
            commit = msgspec.json.decode(data or b"", type=WorktreeSnapshot).commit
            found = git(project, "ls-tree", "-r", "--name-only", commit)


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)
    return done.stdout.decode()


def find_commands(mark: str) -> list[str]:
    """Return the command lines of processes that contain a text."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(file.read_bytes().decode(errors="replace"))
    return [line for line in found if mark in line]


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
