"""Subagents: sessions of their own that a model or a user starts, follows and talks to."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import anyio
import anyio.lowlevel
import msgspec
import pytest

from clew.core.entries import Charged, TaskChanged
from clew.core.errors import BackgroundTaskError, ProviderRejected
from clew.core.events import Envelope, TaskStage
from clew.core.ids import SessionId
from clew.core.permissions import Access, Approval, Decision, PermissionMode
from clew.core.tasks import TaskErrorCategory, TaskKind, TaskState, TaskStatus
from clew.core.usage import Spending, Usage
from clew.extensions.commands.protocol import CommandResult
from clew.providers.prices import Price
from clew.providers.scripted import Pause, ScriptedReply, call_reply, text_reply
from clew.runtime.protocol import TaskRequest
from clew.sdk.agent_runner import AgentRunner
from clew.sdk.agent_setup import AgentSetup
from clew.sdk.options import InteractiveOptions
from clew.sdk.session import InteractiveSession
from clew.stores.memory import MemoryStore
from tests.runtime.repositories import commit_all, git
from tests.sdk.agent_scripts import ScriptedAgents
from tests.sdk.places import Heard, Place

pytestmark = pytest.mark.anyio


def open_session(
    place: Place,
    scripts: Mapping[str, Sequence[ScriptedReply]],
    **options: Unpack[InteractiveOptions],
) -> tuple[InteractiveSession, ScriptedAgents]:
    provider = ScriptedAgents(scripts)
    given: InteractiveOptions = {
        "cwd": place.project,
        "model": "m",
        "agents": True,
        "user_home": place.home,
        "clew_home": place.clew_home,
        "environ": {},
        **options,
    }
    return InteractiveSession(provider=provider, **given), provider


def agents_of(session: InteractiveSession) -> tuple[TaskState, ...]:
    return session.parts.agents.list()


async def wait_for(session: InteractiveSession, agent_id: str) -> TaskState:
    with anyio.fail_after(60):
        return await session.parts.agents.manager.wait(agent_id)


async def command(session: InteractiveSession, arguments: str) -> CommandResult:
    result = await session.execute_command("agent", arguments)
    assert result is not None
    assert result.success, result.message
    return result


def last_result(provider: ScriptedAgents, key: str = "go") -> str:
    return provider.requests(key)[-1].messages[-1].results[0].text


@pytest.mark.req("AGT-3", "BGT-4")
async def test_an_agent_is_a_session_that_can_be_resumed_searched_and_forked(place: Place) -> None:
    store = MemoryStore()
    session, _ = open_session(
        place,
        {
            "go": [call_reply(("Agent", {"prompt": "find the exit"})), "done"],
            "find the exit": ["The exit is north.", "Behind the fountain."],
        },
        store=store,
    )
    async with session:
        await session.run("go")
        (agent,) = agents_of(session)
        parent_id = session.get_session_id()

    record = await store.record(SessionId(agent.task_id))
    assert record.parent == parent_id
    assert record.kind == "agent"
    found = await store.search("exit north", kind="agent")
    assert [hit.session.id for hit in found] == [agent.task_id]
    fork = await store.fork(SessionId(agent.task_id))
    assert fork.parent == agent.task_id

    resumed, provider = open_session(
        place,
        {"find the exit": ["Behind the fountain."]},
        store=store,
        resume_session_id=agent.task_id,
    )
    async with resumed:
        assert (await resumed.run("where exactly?")).response == "Behind the fountain."
        shown = await resumed.execute_command("context")
        exported = await resumed.execute_command("export", str(place.root / "agent.md"))
    assert shown is not None
    assert shown.success
    assert exported is not None
    assert "The exit is north." in (place.root / "agent.md").read_text()
    texts = [message.text for message in provider.requests("find the exit")[0].messages]
    assert texts == ["find the exit", "The exit is north.", "where exactly?"]


@pytest.mark.req("AGT-2", "BGT-3")
async def test_jobs_run_at_the_same_time_and_each_has_a_result_of_its_own(place: Place) -> None:
    first, second = Pause(), Pause()
    jobs = [
        {"prompt": "job one", "subagent_type": "Explore", "colour": "red"},
        {"prompt": "job two"},
        {"prompt": "job three", "subagent_type": "nobody"},
    ]
    session, provider = open_session(
        place,
        {
            "go": [call_reply(("Agent", {"jobs": jobs, "shape": "round"})), "done"],
            "job one": [[first, *text_reply("one is done")]],
            "job two": [[second, *text_reply("two is done")]],
        },
    )
    async with session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.run, "go")
            with anyio.fail_after(60):
                await first.reached.wait()
                await second.reached.wait()
            first.release()
            second.release()
        states = agents_of(session)
        (group,) = session.parts.tasks.list_groups()

    result = last_result(provider)
    assert f"Group {group.group_id}" in result
    assert [state.group_id for state in states] == [group.group_id] * 2
    assert f"[1] {states[0].task_id} (Explore): completed\none is done" in result
    assert f"[2] {states[1].task_id} (general-purpose): completed\ntwo is done" in result
    assert "[3] not started: there is no agent 'nobody'" in result


@pytest.mark.req("AGT-2", "BGT-4")
async def test_the_model_is_told_at_the_next_step_that_a_background_agent_ended(
    place: Place,
) -> None:
    started, ended = Pause(), Pause()
    session, provider = open_session(
        place,
        {
            "go": [
                call_reply(("Agent", {"prompt": "survey", "background": True})),
                [started, *call_reply(("Glob", {"pattern": "*"}))],
                "all is known",
            ],
            "survey": [[ended, *text_reply("seven rooms")]],
        },
    )
    async with session, anyio.create_task_group() as tasks:
        tasks.start_soon(session.run, "go")
        with anyio.fail_after(60):
            await started.reached.wait()
            await ended.reached.wait()
        (agent,) = agents_of(session)
        ended.release()
        await wait_for(session, agent.task_id)
        started.release()

    first, second, third = provider.requests("go")
    assert f"Started {agent.task_id}" in second.messages[-1].results[0].text
    assert agent.mode == "background"
    told = third.messages[-1].text
    assert "<system-reminder>" in told
    assert f"agent {agent.task_id} (general-purpose) has completed" in told
    assert "seven rooms" in told
    assert len(first.messages) == 1


@pytest.mark.req("AGT-2")
async def test_an_agent_that_ends_while_its_parent_is_idle_is_told_with_the_next_prompt(
    place: Place,
) -> None:
    pause, heard = Pause(), Heard()
    session, provider = open_session(
        place,
        {
            "go": [
                call_reply(("Agent", {"prompt": "survey", "background": True})),
                "I started it.",
                "It found seven rooms.",
            ],
            "survey": [[pause, *text_reply("seven rooms")]],
        },
    )
    session.on_any(heard)
    async with session:
        await session.run("go")
        (agent,) = agents_of(session)
        assert agent.status is TaskStatus.RUNNING
        pause.release()
        await wait_for(session, agent.task_id)
        stages = [event.stage for event in heard.of("background_task_event")]
        assert stages[-1] is TaskStage.COMPLETED
        assert len(provider.requests("go")) == 2
        await session.run("and?")

    assert "seven rooms" in provider.requests("go")[-1].messages[-1].text


@pytest.mark.req("AGT-3", "PRV-7")
async def test_agents_that_run_in_parallel_share_one_budget(place: Place) -> None:
    pause = Pause()
    spend = call_reply(("Glob", {"pattern": "*"}), usage=Usage(input_tokens=300_000))
    script: list[ScriptedReply] = [spend, [pause, *text_reply("x", usage=Usage(input_tokens=9))]]
    jobs = [{"prompt": "spend one"}, {"prompt": "spend two"}]
    session, provider = open_session(
        place,
        {
            "go": [call_reply(("Agent", {"jobs": jobs}), usage=Usage()), "ok"],
            "spend one": script,
            "spend two": script,
        },
        budget_usd=1.0,
        max_context_tokens=8_000_000,
        prices={"m": Price(input=1.0, output=1.0)},
    )
    async with session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.run, "go")
            with anyio.fail_after(60):
                await pause.reached.wait()
                # A second call of each would cost 0.3 as well, and 0.4 is left.
                while not any(state.status.is_terminal for state in agents_of(session)):
                    await anyio.lowlevel.checkpoint()
            pause.release()
        states = agents_of(session)
        spent = session.session.get_cost().usd
        charged = [e.body for e in session.session.journal.entries if isinstance(e.body, Charged)]

    assert sum(len(provider.requests(job["prompt"])) for job in jobs) == 3
    assert {state.status for state in states} == {TaskStatus.COMPLETED, TaskStatus.FAILED}
    assert {state.error_category for state in states} == {None, TaskErrorCategory.CAPACITY}
    assert sum(one.cost or 0.0 for one in charged) == pytest.approx(0.600009)
    assert spent < 1.0


@pytest.mark.req("AGT-3")
async def test_an_agent_that_cannot_finish_returns_what_it_has_and_the_reason(place: Place) -> None:
    place.write(
        ".claude/agents/short.md",
        "---\nname: short\ndescription: stops early\nmaxTurns: 2\n---\nYou write.\n",
    )
    write = ("Write", {"file_path": "plan.md", "content": "north"})
    session, provider = open_session(
        place,
        {
            "go": [call_reply(("Agent", {"prompt": "map", "subagent_type": "short"})), "ok"],
            "map": [call_reply(write, text="I write the plan."), call_reply(write, text="Again.")],
        },
        permission_mode=PermissionMode.ACCEPT_EDITS,
    )
    async with session:
        result = await session.run("go")
        (agent,) = agents_of(session)

    assert [state.result for state in result.tool_summaries] == ["error"]
    text = last_result(provider)
    assert "did not finish: the model was called 2 times and is not done" in text
    assert "Again." in text
    assert "plan.md" in text
    assert f"send {agent.task_id} TEXT" in text
    assert agent.error_category is TaskErrorCategory.CAPACITY


@pytest.mark.req("AGT-3", "CMD-2")
async def test_a_running_agent_reads_a_message_at_its_next_step(place: Place) -> None:
    pause = Pause()
    session, provider = open_session(
        place,
        {"look": [[pause, *call_reply(("Glob", {"pattern": "*"}))], "seen"]},
    )
    async with session:
        started = await command(session, "run --detach look around")
        (agent,) = agents_of(session)
        assert agent.task_id in started.message
        with anyio.fail_after(60):
            await pause.reached.wait()
        await command(session, f"send {agent.task_id} and look up")
        pause.release()
        assert (await wait_for(session, agent.task_id)).result == "seen"

    assert provider.requests("look")[1].messages[-1].text == "and look up"


@pytest.mark.req("AGT-3", "CMD-2")
async def test_an_agent_that_has_ended_continues_with_a_message(place: Place) -> None:
    session, provider = open_session(
        place,
        {"look": ["A door.", "It is locked."]},
        prices={"m": Price(input=1.0, output=1.0)},
    )
    async with session:
        assert (await command(session, "run Explore look around")).message == "A door."
        (agent,) = agents_of(session)
        said = await command(session, f"send {agent.task_id} open it")
        assert "continues" in said.message
        again = await wait_for(session, agent.task_id)
        assert (again.result, again.agent, again.mode) == ("It is locked.", "Explore", "background")
        page = await command(session, f"read {agent.task_id}")
        listed = await command(session, "")

    assert [m.text for m in provider.requests("look")[1].messages] == [
        *("look around", "A door.", "open it")
    ]
    assert page.message.splitlines() == [
        *("[user] look around", "[agent] A door.", "[user] open it", "[agent] It is locked.")
    ]
    assert f"{agent.task_id}  completed" in listed.message


@pytest.mark.req("CMD-2", "BGT-2")
async def test_a_long_transcript_is_read_in_pages(place: Place) -> None:
    long = "\n".join(f"line {n}" for n in range(500))
    session, _ = open_session(place, {"look": [long]})
    async with session:
        await command(session, "run look around")
        (agent,) = agents_of(session)
        first = await command(session, f"read {agent.task_id}")
        second = await command(session, f"read {agent.task_id} 200")
        last = await command(session, f"read {agent.task_id} 400")

    assert first.message.splitlines()[-1] == f"… more: /agent read {agent.task_id} 200"
    assert second.message.splitlines()[0] == "  line 199"
    assert last.message.splitlines()[-1] == "  line 499"


@pytest.mark.req("CMD-2")
async def test_agents_run_in_parallel_for_a_user(place: Place) -> None:
    session, _ = open_session(place, {"north": ["a wall"], "south": ["a gate"]})
    async with session:
        both = await command(session, 'parallel "look north" "look south"')
        states = agents_of(session)
        detached = await command(session, 'parallel --detach --type Explore "north 2" "south 2"')
        late = agents_of(session)[2:]
        for state in late:
            await wait_for(session, state.task_id)

    assert "a wall" in both.message
    assert "a gate" in both.message
    assert {state.mode for state in states} == {"foreground"}
    assert all(state.task_id in detached.message for state in late)
    assert {state.agent for state in late} == {"Explore"}


@pytest.mark.req("CMD-2")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("run", "the task is missing"),
        ("run --type nobody look", "there is no agent 'nobody'"),
        ("run --colour look", "has no flag --colour"),
        ('parallel "one"', "at least two tasks"),
        ('parallel "one', "quotation mark"),
        ("read", "the id of the agent is missing"),
        ("read agent-0 x", "must be a number"),
        ("read agent-0", "there is no task agent-0"),
        ("send agent-0", "the message is missing"),
        ("send agent-0 hi", "there is no task agent-0"),
        ("stop agent-0", "there is no task agent-0"),
        ("dance", "there is no /agent dance"),
    ],
)
async def test_a_wrong_command_says_what_to_write(place: Place, arguments: str, words: str) -> None:
    session, _ = open_session(place, {})
    async with session:
        result = await session.execute_command("agent", arguments)

    assert result is not None
    assert not result.success
    assert words in result.message


@pytest.mark.req("AGT-2", "CMD-2", "HOK-1")
async def test_every_agent_that_started_stops_also_for_hooks(place: Place) -> None:
    place.clew_home.mkdir(parents=True)
    log = place.root / "hooks.log"
    write = f"line=$(cat); printf '%s\\n' \"$line\" >> {log}"
    hook = [{"hooks": [{"type": "command", "command": write}]}]
    (place.clew_home / "settings.json").write_text(
        msgspec.json.encode(
            {"hooks": dict.fromkeys(("SubagentStart", "SubagentStop"), hook)}
        ).decode()
    )
    pause = Pause()
    session, _ = open_session(
        place,
        {
            "well": ["fine"],
            "badly": [ProviderRejected("broken", provider="scripted")],
            "slowly": [[pause, *text_reply("never")]],
        },
    )
    async with session:
        for prompt in ("well", "badly", "slowly"):
            await command(session, f"run --detach {prompt}")
        well, badly, slowly = (state.task_id for state in agents_of(session))
        with anyio.fail_after(60):
            await pause.reached.wait()
        assert (await wait_for(session, well)).status is TaskStatus.COMPLETED
        assert (await wait_for(session, badly)).status is TaskStatus.FAILED
        stopped = await command(session, f"stop {slowly}")
        assert "cancelled" in stopped.message

    told = [msgspec.json.decode(line) for line in log.read_text().splitlines() if line]
    for agent_id in (well, badly, slowly):
        events = [one["hook_event_name"] for one in told if one["agent_id"] == agent_id]
        assert events == ["SubagentStart", "SubagentStop"]


@pytest.mark.req("AGT-2", "PRM-3", "CTX-9")
async def test_a_background_agent_asks_in_its_own_name_and_waits(place: Place) -> None:
    heard: list[Envelope] = []
    session, _ = open_session(
        place,
        {"write": [call_reply(("Write", {"file_path": "a.txt", "content": "x"})), "written"]},
    )
    asked = anyio.Event()

    def listen(envelope: Envelope) -> None:
        heard.append(envelope)
        if envelope.name == "permission_request":
            asked.set()

    session.on_any(listen)
    session.on("permission_request", lambda _: None)
    async with session:
        await command(session, "run --detach write it")
        with anyio.fail_after(60):
            await asked.wait()
        (agent,) = agents_of(session)
        assert agent.status is TaskStatus.WAITING_PERMISSION
        (request,) = (await session.snapshot()).permission_requests
        await session.answer(request.request_id, Approval.ONCE)
        state = await wait_for(session, agent.task_id)

    assert state.result == "written"
    assert (place.project / "a.txt").read_text() == "x"
    named = {one.name for one in heard if one.task_id == agent.task_id}
    assert {"permission_request", "permission_resolved", "context_update", "tool_end"} <= named
    assert state.context is not None
    assert state.context.used_tokens > 0


@pytest.mark.req("AGT-2", "PRM-1")
async def test_an_agent_follows_the_permission_mode_of_its_parent(place: Place) -> None:
    pause = Pause()
    write = call_reply(("Write", {"file_path": "a.txt", "content": "x"}))
    session, _ = open_session(place, {"write": [[pause, *write], "written"]})
    async with session:
        await command(session, "run --detach write it")
        (agent,) = agents_of(session)
        with anyio.fail_after(60):
            await pause.reached.wait()
        await session.set_mode(PermissionMode.ACCEPT_EDITS)
        pause.release()
        await wait_for(session, agent.task_id)

    assert (place.project / "a.txt").read_text() == "x"


@pytest.mark.req("AGT-2", "INT-2")
async def test_an_abort_ends_the_agents_that_somebody_waits_for(place: Place) -> None:
    behind, front = Pause(), Pause()
    session, _ = open_session(
        place,
        {
            "go": [
                call_reply(("Agent", {"prompt": "behind", "background": True})),
                call_reply(("Agent", {"prompt": "front"})),
                "never",
            ],
            "behind": [[behind, *text_reply("ready")]],
            "front": [[front, *text_reply("never")]],
        },
    )
    async with session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.run, "go")
            with anyio.fail_after(60):
                await behind.reached.wait()
                await front.reached.wait()
            session.abort()
        background, foreground = agents_of(session)
        assert foreground.status is TaskStatus.CANCELLED
        assert background.status is TaskStatus.RUNNING
        behind.release()
        assert (await wait_for(session, background.task_id)).result == "ready"


@pytest.mark.req("AGT-2")
async def test_a_model_follows_its_agents_with_the_agent_command(place: Place) -> None:
    store, pause = MemoryStore(), Pause()
    calls: list[ScriptedReply] = [
        call_reply(("Agent", {"prompt": "survey", "background": "true"})),
        [pause, *call_reply(("ExecuteCommand", {"command": "agent", "args": "list"}))],
        call_reply(("ExecuteCommand", {"command": "agent", "args": "run Explore more"})),
        "done",
    ]
    session, provider = open_session(
        place,
        {"go": calls, "survey": ["seven rooms"]},
        store=store,
        permission_mode=PermissionMode.ACCEPT_EDITS,
    )
    async with session, anyio.create_task_group() as tasks:
        tasks.start_soon(session.run, "go")
        with anyio.fail_after(60):
            await pause.reached.wait()
        (agent,) = agents_of(session)
        await wait_for(session, agent.task_id)
        pause.release()

    results = [
        result.text
        for message in provider.requests("go")[-1].messages
        for result in message.results
    ]
    assert agent.task_id in results[1]
    assert "only for the user" in results[2]
    tools: set[Any] = {tool.name for tool in provider.requests("survey")[0].tools}
    assert not tools & {"Agent", "ExecuteCommand", "BackgroundProcess"}


@pytest.mark.req("AGT-2", "BGT-4", "HOK-1")
@pytest.mark.slow("starts git")
async def test_an_agent_in_a_worktree_leaves_its_work_on_a_branch(place: Place) -> None:
    git(place.project, "init", "-q", "-b", "main")
    place.write("a.txt", "before\n")
    commit_all(place.project, "first")
    write = ("Write", {"file_path": "a.txt", "content": "after\n"})
    jobs = [
        {"prompt": "change it", "isolation": "worktree"},
        {"prompt": "look at it", "isolation": "worktree"},
    ]
    session, provider = open_session(
        place,
        {
            "go": [call_reply(("Agent", {"jobs": jobs})), "done"],
            "change it": [call_reply(("Read", {"file_path": "a.txt"})), call_reply(write), "ok"],
            "look at it": ["nothing to do"],
        },
        permission_mode=PermissionMode.ACCEPT_EDITS,
    )
    async with session:
        await session.run("go")
        changed, looked = agents_of(session)

    assert (place.project / "a.txt").read_text() == "before\n"
    assert Path(changed.worktree_path, "a.txt").read_text() == "after\n"
    assert changed.branch_name.startswith(f"clew/{changed.task_id}")
    assert not looked.worktree_path
    text = last_result(provider)
    assert changed.worktree_path in text
    assert "had no changes and was removed" in text


@pytest.mark.req("AGT-1", "BGT-4")
@pytest.mark.slow("starts git")
async def test_the_definition_of_an_agent_chooses_a_worktree_and_the_background(
    place: Place,
) -> None:
    git(place.project, "init", "-q", "-b", "main")
    place.write("a.txt", "before\n")
    commit_all(place.project, "first")
    folder = place.clew_home / "agents"
    folder.mkdir(parents=True)
    head = "description: d\nisolation: worktree\nbackground: true"
    (folder / "mover.md").write_text(f"---\n{head}\n---\nYou move.\n")
    call = {"prompt": "move it", "subagent_type": "mover"}
    session, _ = open_session(
        place,
        {
            "go": [
                call_reply(("Agent", call)),
                call_reply(("Agent", {**call, "background": False})),
                "done",
                "done",  # asked again if the result from the background comes before the end
            ],
            "move it": ["moved", "moved"],
        },
    )
    async with session:
        await session.run("go")
        states = agents_of(session)

    assert [(one.isolation, one.mode) for one in states] == [
        ("worktree", "background"),
        ("worktree", "foreground"),
    ]


@pytest.mark.req("BGT-1", "BGT-3")
async def test_a_batch_keeps_the_results_of_agents_that_the_user_closes(place: Place) -> None:
    slow, late = Pause(), Pause()
    session, _ = open_session(
        place,
        {
            "slow": [[slow, *text_reply("second")]],
            "fast": ["first"],
            "late": [[late, *text_reply("never")]],
        },
    )
    ended: list[TaskState] = []

    async def wait(states: Sequence[TaskState]) -> None:
        ended.extend(await session.parts.agents.wait_all(states))

    async with session:
        agents = session.parts.agents
        with anyio.fail_after(60):
            requests = [TaskRequest(kind=TaskKind.AGENT, prompt=one) for one in ("slow", "fast")]
            _, states = await agents.start_all(requests, mode="foreground")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait, states)
                await slow.reached.wait()
                await wait_for(session, states[1].task_id)
                agents.manager.close(states[1].task_id)
                slow.release()
            assert [one.result for one in ended] == ["second", "first"]

            requests = [TaskRequest(kind=TaskKind.AGENT, prompt=one) for one in ("fast", "late")]
            _, states = await agents.start_all(requests, mode="foreground")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait, states)
                await late.reached.wait()
                await wait_for(session, states[0].task_id)
                agents.manager.close(states[0].task_id)
                tasks.cancel_scope.cancel()
            assert agents.manager.get(states[1].task_id).status is TaskStatus.CANCELLED


@pytest.mark.req("BGT-4")
async def test_a_message_to_an_agent_that_is_just_ending_is_refused(place: Place) -> None:
    session, _ = open_session(place, {"look": ["A door.", "It is open."]})
    refused: list[BackgroundTaskError] = []

    async def charge(name: str, spending: Spending) -> None:
        # The agent has read its messages for the last time.
        (agent,) = agents_of(session)
        with pytest.raises(BackgroundTaskError, match="has just ended") as raised:
            await session.parts.agents.send(agent.task_id, "open it")
        refused.append(raised.value)

    async with session:
        agents = session.parts.agents
        agents.setup.charge = charge
        state = await agents.run(TaskRequest(kind=TaskKind.AGENT, prompt="look"))
        agents.setup.charge = None
        assert [one.recoverable for one in refused] == [True]
        assert state.status is TaskStatus.COMPLETED, state.error
        await agents.send(state.task_id, "open it")
        assert (await wait_for(session, state.task_id)).result == "It is open."


@pytest.mark.req("AGT-3", "BGT-5")
async def test_an_agent_continues_after_its_parent_was_resumed(place: Place) -> None:
    store = MemoryStore()
    first, _ = open_session(place, {"hi": ["hello"], "look": ["A door."]}, store=store)
    async with first:
        await first.run("hi")
        await command(first, "run Explore look around")
        (agent,) = agents_of(first)
        parent_id = first.get_session_id()

    again, provider = open_session(
        place, {"look": ["It is locked."]}, store=store, resume_session_id=parent_id
    )
    async with again:
        await command(again, f"send {agent.task_id} open it")
        assert (await wait_for(again, agent.task_id)).result == "It is locked."

    said = [message.text for message in provider.requests("look")[0].messages]
    assert said == ["look around", "A door.", "open it"]


@pytest.mark.req("AGT-2", "PRV-7")
async def test_the_end_of_a_session_ends_its_agents_and_charges_what_they_cost(
    place: Place,
) -> None:
    store, pause = MemoryStore(), Pause()
    glob = call_reply(("Glob", {"pattern": "*"}), usage=Usage(input_tokens=1_000_000))
    session, _ = open_session(
        place,
        {"hi": ["hello"], "survey": [glob, [pause, *text_reply("never")]]},
        store=store,
        max_context_tokens=8_000_000,
        prices={"m": Price(input=1.0, output=1.0)},
    )
    async with session:
        await session.run("hi")
        await command(session, "run --detach survey")
        with anyio.fail_after(60):
            await pause.reached.wait()
        parent_id = session.get_session_id()

    _, entries = await store.load(parent_id)
    charged = [entry.body for entry in entries if isinstance(entry.body, Charged)]
    assert [(one.why, one.cost) for one in charged] == [("agent general-purpose", 1.0)]
    last = [entry.body.state for entry in entries if isinstance(entry.body, TaskChanged)][-1]
    assert last.status is TaskStatus.CANCELLED


@pytest.mark.req("AGT-2", "PRM-3")
async def test_an_agent_asks_the_handler_of_the_program_and_shows_that_it_waits(
    place: Place,
) -> None:
    seen: list[TaskStatus] = []

    async def answer(access: Access, _: Decision) -> Approval:
        assert access.tool == "Write"
        seen.extend(state.status for state in agents_of(session))
        return Approval.NO

    session, provider = open_session(
        place,
        {"write": [call_reply(("Write", {"file_path": "a.txt", "content": "x"})), "refused"]},
        permission_handler=answer,
    )
    async with session:
        assert (await command(session, "run write it")).message == "refused"

    assert seen == [TaskStatus.WAITING_PERMISSION]
    assert "the user said no" in last_result(provider, "write")


@pytest.mark.req("AGT-2", "AGT-3")
async def test_the_model_gets_what_an_agent_has_when_the_user_stops_it(place: Place) -> None:
    pause = Pause()
    session, provider = open_session(
        place,
        {
            "go": [call_reply(("Agent", {"prompt": "survey"})), "I see"],
            "survey": [
                call_reply(("Glob", {"pattern": "*"}), text="Seven rooms so far."),
                [pause, *text_reply("never")],
            ],
        },
    )
    async with session, anyio.create_task_group() as tasks:
        tasks.start_soon(session.run, "go")
        with anyio.fail_after(60):
            await pause.reached.wait()
        (agent,) = agents_of(session)
        await command(session, f"stop {agent.task_id}")

    text = last_result(provider)
    assert "was cancelled: stopped" in text
    assert "Seven rooms so far." in text


@pytest.mark.req("BGT-4")
async def test_a_factory_makes_what_runs_agents(place: Place) -> None:
    made: list[AgentRunner] = []

    def make_runner(setup: AgentSetup) -> AgentRunner:
        made.append(AgentRunner(setup))
        return made[-1]

    session, _ = open_session(place, {"look": ["A door."]}, subagent_runner_factory=make_runner)
    async with session:
        assert made == []
        assert (await command(session, "run look around")).message == "A door."

    assert len(made) == 1
