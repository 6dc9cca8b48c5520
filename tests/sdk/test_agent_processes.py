"""Subagents that run in processes of their own."""

import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import msgspec
import pytest

from clew.core.errors import BackgroundTaskError
from clew.core.events import Envelope, Event, RunCompleted, UserMessage
from clew.core.ids import SessionId
from clew.core.permissions import Approval, PermissionMode
from clew.core.tasks import TaskErrorCategory, TaskState, TaskStatus
from clew.providers.prices import Price
from clew.providers.scripted import Pause, text_reply
from clew.runtime.protocol import TaskRunner
from clew.sdk.agent_child import _Agent
from clew.sdk.agent_pipe import FinishAgent, SendText
from clew.sdk.agent_process_runner import ProcessAgentRunner, _RemoteAgent
from clew.sdk.agent_setup import AgentSetup
from clew.sdk.launch import launch
from clew.sdk.session import InteractiveSession
from clew.sdk.session_spec import SessionSpec
from clew.stores.memory import MemoryStore
from clew.stores.sqlite import SqliteStore
from clew.testing.fake_openai import (
    FakeOpenAI,
    ScriptedResponse,
    Stall,
    delta,
    fake_openai,
    text_response,
    tool_call_response,
)
from tests.runtime.worktree_tasks import Task
from tests.sdk.places import Place

pytestmark = pytest.mark.anyio

SECONDS = 60.0


PRICES = {"m": Price(input=1.0, output=1.0)}


@asynccontextmanager
async def open_session(
    place: Place, server: FakeOpenAI, *, budget: float | None = None
) -> AsyncIterator[InteractiveSession]:
    """Open a session whose agents run in processes and talk to the server."""
    store = SqliteStore(place.root / "sessions.db")
    spec = SessionSpec(
        cwd=str(place.project),
        base_url=server.url,
        model="m",
        store=str(place.root / "sessions.db"),
        sandbox="off",
        options={"prices": PRICES},
    )
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(place.home),
        "CLEW_HOME": str(place.clew_home),
    }

    def make_runner(setup: AgentSetup) -> TaskRunner:
        return ProcessAgentRunner(setup, spec, environ)

    with anyio.fail_after(SECONDS):
        try:
            async with place.session(
                agents=True,
                store=store,
                subagent_runner_factory=make_runner,
                budget_usd=budget,
                prices=PRICES,
            ) as session:
                yield session
        finally:
            with anyio.CancelScope(shield=True):
                await store.aclose()


def write_hooks(place: Place) -> Path:
    """Let hooks write what they are called with to a file; returns its path."""
    place.clew_home.mkdir(parents=True)
    log = place.root / "hooks.log"
    write = f"line=$(cat); printf '%s\\n' \"$line\" >> {log}"
    hook = [{"hooks": [{"type": "command", "command": write}]}]
    hooks = dict.fromkeys(("SubagentStart", "SubagentStop", "SessionStart"), hook)
    (place.clew_home / "settings.json").write_text(json.dumps({"hooks": hooks}))
    return log


def read_hooks(log: Path, agent_id: str) -> list[str]:
    """Return the events of an agent that hooks were called with."""
    called = [msgspec.json.decode(line) for line in log.read_text().splitlines()]
    return [one["hook_event_name"] for one in called if one.get("agent_id") == agent_id]


async def start(session: InteractiveSession, prompt: str) -> str:
    result = await session.execute_command("agent", f"run --detach {prompt}")
    assert result is not None
    assert result.success, result.message
    return session.parts.agents.list()[-1].task_id


async def find_pid(session: InteractiveSession) -> int:
    """Wait until the process of the newest agent has started."""
    while (pid := session.parts.agents.list()[-1].pid) is None:
        await anyio.lowlevel.checkpoint()
    return pid


async def wait_for(session: InteractiveSession, agent_id: str) -> TaskState:
    return await session.parts.agents.manager.wait(agent_id)


@pytest.mark.req("BGT-4", "AGT-3", "HOK-1", "PRM-3", "CTX-9")
async def test_an_agent_works_in_a_process_and_asks_through_its_parent(place: Place) -> None:
    log = write_hooks(place)
    arguments = json.dumps({"file_path": "a.txt", "content": "from the process"})
    stall, heard = Stall(), list[Envelope]()
    last = text_response("written")
    async with (
        fake_openai(
            tool_call_response("Write", arguments),
            ScriptedResponse(steps=[stall, *last.steps]),
            text_response("and told"),
        ) as server,
        open_session(place, server) as session,
    ):
        session.on_any(heard.append)
        session.on("permission_request", lambda one: session.answer(one.request_id, Approval.ONCE))
        agent_id = await start(session, "write it")
        await stall.reached.wait()
        sent = await session.execute_command("agent", f"send {agent_id} say it again")
        assert sent is not None
        assert "next step" in sent.message
        stall.release()
        state = await wait_for(session, agent_id)
        record = await session.parts.store.record(SessionId(agent_id))
        parent_id, cost = session.get_session_id(), session.session.get_cost()

    assert state.status is TaskStatus.COMPLETED, state.error
    assert state.result == "and told"
    assert state.pid not in (None, os.getpid())
    assert (place.project / "a.txt").read_text() == "from the process"
    assert (record.parent, record.kind) == (parent_id, "agent")
    assert cost.usage.input_tokens == 30
    named = {one.name for one in heard if one.task_id == agent_id}
    assert {"permission_request", "tool_end", "context_update", "text_delta"} <= named
    asked = server.requests[-1]["messages"]
    assert asked[-1]["content"] == "say it again"
    assert "You work for another agent" in str(asked[0]["content"])
    assert read_hooks(log, agent_id) == ["SubagentStart", "SubagentStop"]
    assert {tool["function"]["name"] for tool in server.requests[0]["tools"]}.isdisjoint(
        {"Agent", "ExecuteCommand", "ExitPlanMode"}
    )


@pytest.mark.req("BGT-4", "AGT-3")
async def test_a_process_that_dies_leaves_a_partial_result_and_no_process(place: Place) -> None:
    log = write_hooks(place)
    mark = place.root / "sleeper"
    command = json.dumps({"command": f"echo $$ > {mark}; exec sleep 600"})
    first = ScriptedResponse(
        steps=[delta(content="I wait first. "), *tool_call_response("Bash", command).steps]
    )
    async with fake_openai(first) as server, open_session(place, server) as session:
        await session.set_mode(PermissionMode.BYPASS)
        agent_id = await start(session, "wait")
        while not (mark.exists() and mark.read_text().strip()):
            await anyio.lowlevel.checkpoint()
        os.kill(await find_pid(session), signal.SIGKILL)
        state = await wait_for(session, agent_id)

        assert state.status is TaskStatus.FAILED
        assert state.error_category is TaskErrorCategory.CRASH
        assert "killed by signal 9" in state.error
        assert "I wait first." in state.result
        await _wait_for_death(int(mark.read_text()))
    assert read_hooks(log, agent_id) == ["SubagentStart", "SubagentStop"]


@pytest.mark.req("BGT-4")
async def test_a_process_ends_when_its_agent_is_stopped(place: Place) -> None:
    stall = Stall()
    stalled = ScriptedResponse(steps=[delta(content="half a "), stall])
    async with fake_openai(stalled) as server, open_session(place, server) as session:
        agent_id = await start(session, "think")
        await stall.reached.wait()
        pid = await find_pid(session)
        result = await session.execute_command("agent", f"stop {agent_id}")

        assert result is not None
        assert "cancelled" in result.message
        await _wait_for_death(pid)


@pytest.mark.req("BGT-4")
async def test_a_failure_in_the_process_has_its_reason(place: Place) -> None:
    bad = ScriptedResponse(steps=[b'{"error": {"message": "no such model"}}'], status=404)
    async with fake_openai(bad) as server, open_session(place, server) as session:
        state = await wait_for(session, await start(session, "think"))

    assert state.status is TaskStatus.FAILED
    assert state.error_category is TaskErrorCategory.PROVIDER
    assert "no such model" in state.error


@pytest.mark.req("BGT-4", "AGT-3", "PRV-7")
async def test_an_agent_in_a_process_spends_the_budget_of_its_parent(place: Place) -> None:
    async with fake_openai() as server, open_session(place, server, budget=1e-6) as session:
        state = await wait_for(session, await start(session, "think"))

    assert state.error_category is TaskErrorCategory.CAPACITY, state.error
    assert "budget" in state.error
    assert server.requests == []


@pytest.mark.req("BGT-4")
async def test_a_process_needs_a_store_that_it_can_open(place: Place) -> None:
    def make_runner(setup: AgentSetup) -> TaskRunner:
        return ProcessAgentRunner(setup, SessionSpec(cwd=str(place.project)))

    async with place.session(
        agents=True, store=MemoryStore(), subagent_runner_factory=make_runner
    ) as session:
        result = await session.execute_command("agent", "run look")

    assert result is not None
    assert "a store that other processes can open" in result.message


async def _wait_for_death(pid: int) -> None:
    while Path(f"/proc/{pid}").exists():
        await anyio.lowlevel.checkpoint()


@pytest.mark.req("AGT-3", "BGT-4", "STO-1")
@pytest.mark.parametrize("in_processes", [False, True], ids=["inside", "process"])
async def test_the_session_of_an_agent_is_resumed_on_the_server_that_it_used(
    place: Place, *, in_processes: bool
) -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(place.home),
        "CLEW_HOME": str(place.clew_home),
    }
    folder = str(place.project)
    async with fake_openai(text_response("a door"), text_response("it is locked")) as server:
        spec = SessionSpec(
            cwd=folder, base_url=server.url, model="m", sandbox="off", agent_processes=in_processes
        )
        with anyio.fail_after(SECONDS):
            async with launch(spec, environ=environ) as launched:
                await launched.session.execute("/agent run look around")
                (agent,) = launched.session.parts.agents.list()
                assert agent.result == "a door", agent.error
                assert (agent.pid is not None) is in_processes
            again = SessionSpec(cwd=folder, resume=agent.task_id, sandbox="off")
            async with launch(again, environ=environ) as launched:
                result = await launched.session.run("open it")

    assert result.response == "it is locked"
    said = [message["content"] for message in server.requests[-1]["messages"][1:]]
    assert said == ["look around", "a door", "open it"]


@pytest.mark.req("BGT-4")
async def test_an_agent_that_works_on_a_message_after_its_task_takes_more_messages(
    place: Place,
) -> None:
    def wrap(event: Event) -> Envelope:
        return Envelope(seq=1, session_id=SessionId("s"), at=0.0, event=event)

    async with place.session(["hello"], agents=True) as session:
        completed = RunCompleted(await session.run("hi"))
        remote = _RemoteAgent(session.parts.agents.setup, Task(place.project))
        remote._take(wrap(completed))
        with pytest.raises(BackgroundTaskError, match="has just ended"):
            remote.send("too late")
        remote._take(wrap(UserMessage(text="a message that came before")))
        remote.send("in time")
        remote._take(wrap(completed))
        with pytest.raises(BackgroundTaskError, match="has just ended"):
            remote.send("too late")
        remote._process._send.close()
        remote._process._lines.close()


@pytest.mark.req("BGT-4")
async def test_a_process_ends_when_its_parent_has_seen_the_end_of_every_run(place: Place) -> None:
    second = Pause()
    async with place.session(["one", [second, *text_reply("two")], "three"]) as session:
        agent, completed = _Agent(session), [anyio.Event(), anyio.Event(), anyio.Event()]
        ended = iter(completed)
        session.on("complete", lambda event: next(ended).set())
        with anyio.fail_after(SECONDS):
            async with anyio.create_task_group() as group:
                group.start_soon(agent.work, "first")
                await completed[0].wait()
                # It was sent before the parent saw the end of the first run.
                await agent.take(SendText(text="second"))
                await second.reached.wait()
                await agent.take(FinishAgent())
                second.release()
                await completed[1].wait()
                # It was sent before the parent saw the end of the second run.
                await anyio.wait_all_tasks_blocked()
                await agent.take(SendText(text="third"))
                await agent.take(FinishAgent())
                await completed[2].wait()
                await agent.take(FinishAgent())

    asked = [message.text for message in place.provider.requests[-1].messages]
    assert asked == ["first", "one", "second", "two", "third"]
