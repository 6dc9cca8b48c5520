"""A folder that means harm, and clients that come at the worst moment."""

import contextlib
import json
import os
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st

from clew.core.entries import Entry, Noted
from clew.core.errors import (
    AbortError,
    ClewError,
    ConfigError,
    PromptCancelled,
    ProviderRejected,
    QueueFull,
    SessionBusy,
    SessionClosed,
    SessionError,
    StoreUnavailable,
)
from clew.core.events import Envelope, PermissionRequest
from clew.core.ids import SessionId
from clew.core.messages import ToolCall, ToolResult
from clew.core.models import ModelFacts
from clew.core.permissions import Access, Approval, Decision, PermissionMode
from clew.core.results import ExecutionResult
from clew.core.task_events import TaskStage
from clew.core.usage import Usage
from clew.extensions.commands.protocol import Command, CommandModule, CommandResult
from clew.providers.embedded.process import LaunchOptions, start_server
from clew.providers.protocol import Chunk, Request
from clew.providers.scripted import Pause, call_reply, text_reply
from clew.sdk.query import create_query
from clew.sdk.session import InteractiveSession
from clew.stores.memory import MemoryStore
from clew.tools.sandbox import Sandbox, SandboxMode, SandboxPolicy
from tests.cli.terminal import clew as terminal
from tests.sdk.hostile import (
    DANGERS,
    ESCAPE,
    SECRET,
    SPOOF,
    Danger,
    clew,
    everything,
    hooks,
    link,
    names_of_ours,
    odd_names,
    pipe,
    raw,
    redirect,
    settings,
    state_of,
    text,
    trap,
    two_servers,
    unsafe,
    watched,
)
from tests.sdk.places import Heard, Place

pytestmark = pytest.mark.anyio

P = ("-p", "hi")
NO_SANDBOX = Sandbox(SandboxPolicy(mode=SandboxMode.OFF))


@pytest.mark.req("CFG-1", "PCX-1", "SKL-1")
@pytest.mark.parametrize("danger", DANGERS, ids=str)
async def test_a_folder_that_means_harm_is_told_of_and_runs_nothing(
    place: Place, danger: Danger
) -> None:
    place.clew_home.mkdir(parents=True)
    (place.clew_home / "settings.json").write_text("{}")
    danger.build(place)
    before, heard = state_of(place.project), Heard()
    # Looking whether there is a sandbox would start one.
    session = place.session(["ok"], agents=True, environ={"USER_KEY": SECRET}, sandbox=NO_SANDBOX)
    session.on_any(heard)

    with watched() as watch, anyio.fail_after(60):
        if danger.opens:
            async with session:
                await session.run("hi")
            messages = [event.text for event in heard.of("warning")]
        else:
            with pytest.raises(ConfigError) as refused:
                await session.open()
            messages = [str(refused.value)]

    assert re.search(danger.says or "", "\n".join(messages)), messages
    assert bool(messages) or not danger.says
    assert len(messages) <= 50
    assert not trap(place).exists()
    assert (watch.started, watch.reached) == ([], [])
    assert state_of(place.project) == before
    assert SECRET not in str(place.provider.requests)


@pytest.mark.req("CFG-1", "PRM-1")
async def test_before_it_is_accepted_a_folder_changes_no_call_and_afterwards_it_does(
    place: Place,
) -> None:
    command = {"command": "echo evil=$EVIL"}
    trusting = {"permissions": {"allow": ["Bash(echo *)"]}, "env": {"EVIL": "yes"}}
    settings(**trusting)(place)

    async with place.session([call_reply(("Bash", command)), "done"]) as session:
        unasked = await session.run("run it")
    async with place.session(
        [call_reply(("Bash", command)), "done"], permission_mode=PermissionMode.BYPASS
    ) as session:
        by_the_user = await session.run("run it")
    async with place.session([call_reply(("Bash", command)), "done"], accepted=True) as session:
        accepted = await session.run("run it")

    assert [state.result for state in unasked.tool_summaries] == ["denied"]
    assert [state.tool_result_data for state in by_the_user.tool_summaries] == ["evil="]
    assert [state.tool_result_data for state in accepted.tool_summaries] == ["evil=yes"]


@pytest.mark.req("CMD-1", "SKL-1")
async def test_names_of_ours_stay_ours_and_what_a_skill_would_run_stays_text(place: Place) -> None:
    everything(place)
    async with place.session(["ok"], agents=True) as session:
        commands = {command.name: command.description for command in session.list_commands()}
        helped = await session.execute_command("help")
        await session.execute_command("run")

    assert helped is not None
    assert "THEIRS" not in commands["help"]
    assert commands["skill:help"] == "THEIRS"
    assert "/compact" in helped.message
    assert f"!`touch {trap(place)}`" in place.provider.requests[0].messages[-1].text
    assert not trap(place).exists()


@pytest.mark.req("CFG-1", "CLI-1")
@pytest.mark.parametrize("style", ["text", "json", "stream-json"])
async def test_print_mode_in_a_folder_of_all_dangers_asks_only_the_users_provider(
    place: Place, style: str
) -> None:
    async with two_servers(place) as (mine, theirs):
        everything(place, url=theirs.url)
        before = state_of(place.project)
        ran = await clew(place, *P, "--output-format", style)

        assert ran.code == 0, ran.err
        assert theirs.bodies == []
        (body,) = mine.bodies
        assert mine.headers[0]["Authorization"] == f"Bearer {SECRET}"
    assert SECRET.encode() not in body
    assert not trap(place).exists()
    assert state_of(place.project) == before
    told = ran.out if style == "stream-json" else ran.err
    for words in (
        "settings of this folder have no effect until you accept them",
        "which is a circle",
        "is outside of the project and your own folders",
        "SKILL.md was skipped",
        "leads out of",
    ):
        assert words in told
    assert unsafe(ran.out + ran.err) == []
    assert SECRET not in ran.out + ran.err


@pytest.mark.req("CFG-1", "CLI-1")
async def test_other_commands_show_a_hostile_folder_without_obeying_it(place: Place) -> None:
    async with two_servers(place) as (mine, theirs):
        stop = {"Stop": [{"hooks": [{"type": "command", "command": f"x {ESCAPE}"}]}]}
        settings(**redirect(theirs.url), hooks=stop, language=f"{ESCAPE}\nx")(place)
        shown = await clew(place, "config", "show")
        checked = await clew(place, "doctor")

        assert (mine.bodies, theirs.bodies) == ([], [])
    assert (shown.code, checked.code) == (0, 0)
    assert "withheld until you accept this folder" in shown.out
    assert "sends requests to 127.0.0.1" in shown.out
    assert unsafe(shown.out + shown.err + checked.out + checked.err) == []
    assert SECRET not in shown.out + checked.out


@pytest.mark.req("CFG-1", "CLI-1")
async def test_a_folder_that_cannot_be_opened_is_a_sentence_and_no_traceback(place: Place) -> None:
    place.write(".clew/settings.json", json.dumps({ESCAPE: 1}))

    ran = await clew(place, *P, "--base-url", "http://127.0.0.1:9/v1")

    assert ran.code == 1
    assert len(ran.notes) == 1
    assert "settings.json" in ran.notes[0]
    assert "is not a setting" in ran.notes[0]
    assert unsafe(ran.err) == []


async def test_names_for_terminals_are_shown_harmlessly(place: Place) -> None:
    odd_names(place)
    async with two_servers(place):
        ran = await clew(place, *P)

    assert ran.code == 0
    assert ESCAPE not in ran.err
    assert "SKILL.md was skipped" in ran.err


class Restless:
    """A provider that takes its time, and sometimes fails."""

    name = "restless"

    def __init__(self) -> None:
        self.calls = 0

    def facts(self, model: str) -> ModelFacts:
        return ModelFacts(name=model)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        self.calls += 1
        asked = request.messages[-1].text
        for step in (
            call_reply(("Glob", {"pattern": "*"})) if asked == "tool" else text_reply("a b c")
        ):
            await anyio.lowlevel.checkpoint()
            if asked == "fail":
                raise ProviderRejected("no", provider=self.name)
            assert not isinstance(step, Pause | Exception)
            yield step

    async def aclose(self) -> None:
        pass


class Actors:
    """Does to a session what a schedule says, and keeps how each prompt ended."""

    def __init__(self, session: InteractiveSession) -> None:
        self.session = session
        self.ends: dict[int, list[str]] = {}
        self.scopes: list[anyio.CancelScope] = []

    async def submit(self, text: str) -> None:
        ends = self.ends.setdefault(len(self.ends), [])
        with anyio.CancelScope() as scope:
            self.scopes.append(scope)
            try:
                result = await self.session.run(text)
                ends.append("interrupted" if result.interrupted else "complete")
            except ClewError as error:
                ends.append(type(error).__name__)
        if scope.cancelled_caught:
            ends.append("cancelled")

    async def command(self, name: str) -> None:
        try:
            await self.session.execute_command(name)
        except (AbortError, PromptCancelled, QueueFull, SessionClosed):
            return

    async def play(self, schedule: Sequence[str]) -> None:
        async with anyio.create_task_group() as tasks:
            for step in schedule:
                match step:
                    case "abort":
                        self.session.abort()
                    case "take back":
                        await self.session.cancel_queue()
                    case "cancel" if self.scopes:
                        self.scopes[-1].cancel()
                    case "wait" | "cancel":
                        await anyio.lowlevel.checkpoint()
                    case "shutdown":
                        tasks.start_soon(self.session.shutdown)
                    case "clear" | "context" | "help":
                        tasks.start_soon(self.command, step)
                    case words:
                        tasks.start_soon(self.submit, words)


STEPS = st.sampled_from(
    [
        *("hello", "tool", "fail", "wait", "wait", "wait", "wait", "abort", "take back"),
        *("cancel", "clear", "context", "help", "shutdown"),
    ]
)
ENDS = {"complete", "interrupted", "cancelled", "ProviderRejected", "QueueFull", "PromptCancelled"}
STORE = {"SessionClosed"}


def follow(names: Sequence[str]) -> list[str]:
    """Return what is wrong with an order of events."""
    open_prompt, thinking, wrong = False, False, []
    for name in names:
        match name:
            case "user_message":
                wrong += ["two at once"] * open_prompt
                open_prompt = True
            case "complete" | "interrupted" | "error":
                wrong += ["an end without a beginning"] * (not open_prompt)
                open_prompt = False
            case "thinking":
                thinking = not thinking
            case _:
                pass
    return wrong + ["no end"] * open_prompt + ["still thinking"] * thinking


@pytest.mark.req("INT-1", "INT-2")
@settings_of_hypothesis(max_examples=50)
@given(schedule=st.lists(STEPS, min_size=2, max_size=24), opened=st.booleans())
def test_whatever_comes_when_each_prompt_ends_once_and_events_stay_in_order(
    tmp_path_factory: pytest.TempPathFactory, schedule: list[str], *, opened: bool
) -> None:
    place = Place(tmp_path_factory.mktemp("race"))
    heard = Heard()

    async def run() -> Actors:
        session = InteractiveSession(
            cwd=place.project,
            provider=Restless(),
            model="m",
            user_home=place.home,
            clew_home=place.clew_home,
            environ={},
            store=MemoryStore(),
            sandbox=NO_SANDBOX,
            keep_checkpoints=False,
        )
        session.on_any(heard)
        actors = Actors(session)
        with anyio.fail_after(60):
            if opened:
                await session.open()
            await actors.play(schedule)
            await session.shutdown()
        assert not session.is_executing()
        return actors

    actors = anyio.run(run)

    assert all(len(ends) == 1 for ends in actors.ends.values()), actors.ends
    assert {end for ends in actors.ends.values() for end in ends} <= ENDS | STORE
    assert follow(heard.names) == []


class Gated(MemoryStore):
    """A store that stands still before it takes an entry of a certain kind."""

    def __init__(self, kind: type[Noted]) -> None:
        super().__init__()
        self._kind = kind
        self.gate: Pause | None = Pause()

    async def append(self, session_id: SessionId, entries: Sequence[Entry]) -> None:
        if self.gate is not None and any(isinstance(one.body, self._kind) for one in entries):
            await self.gate.wait()
        await super().append(session_id, entries)


async def outcome(work: Awaitable[object], ends: list[object]) -> None:
    """Note how something ended: its result, or the name of its error."""
    try:
        ends.append(await work)
    except ClewError as error:
        ends.append(type(error).__name__)


async def test_the_embedded_model_runs_nothing_of_the_folder(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write("json.py", f"open({str(trap(place))!r}, 'w')")
    model = place.write("model.gguf", "no model")
    monkeypatch.chdir(place.project)

    with pytest.raises(ClewError):
        await start_server(LaunchOptions(model=model), provider="embedded")

    assert not trap(place).exists()


async def test_fetching_the_model_runs_nothing_of_the_folder(place: Place) -> None:
    place.write("pip.py", f"open({str(trap(place))!r}, 'w')")

    # Where pip is the real one, it finds no index.
    ran = await clew(
        place,
        "models",
        "get",
        PIP_INDEX_URL="http://127.0.0.1:9/",
        PIP_RETRIES="0",
        PIP_TIMEOUT="1",
    )

    assert ran.code == 1
    assert not trap(place).exists()


async def test_a_shutdown_from_within_a_run_does_not_wait_for_itself(place: Place) -> None:
    ends: list[object] = []

    async def leave(access: Access, decision: Decision) -> Approval:
        await session.shutdown()
        return Approval.NO

    session = place.session(
        [call_reply(("Bash", {"command": "x"})), "done"], permission_handler=leave
    )
    await session.open()
    with anyio.fail_after(60):
        await outcome(session.run("hi"), ends)

    assert ends


async def test_a_command_may_shut_the_session_down(place: Place) -> None:
    class Bye:
        command = Command(name="bye", description="leave", safety="changes-session")

        async def execute(self, host: object, arguments: str) -> CommandResult:
            await session.shutdown()
            return CommandResult("bye")

    session = place.session(
        [], command_modules=[CommandModule(name="mine", system_commands=(Bye(),))]
    )
    await session.open()
    ends: list[object] = []
    with anyio.fail_after(60):
        await outcome(session.execute_command("bye"), ends)

    assert ends


async def test_a_prompt_that_comes_with_a_shutdown_is_not_sent_after_it(place: Place) -> None:
    session, ends = place.session(["one"]), list[object]()
    await session.open()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(outcome, session.run("hi"), ends)
        await anyio.lowlevel.checkpoint()
        await session.shutdown()

    assert ends == ["SessionClosed"]
    assert place.provider.requests == []


async def test_a_shutdown_between_two_prompts_stops_the_second(place: Place) -> None:
    first, second, ends = Pause(), Pause(), list[object]()
    session = place.session([[first, *text_reply("one")], [second, *text_reply("two")]])
    await session.open()
    async with anyio.create_task_group() as tasks:
        session.on(
            "queue", lambda event: event.prompt is None and tasks.start_soon(session.shutdown)
        )
        tasks.start_soon(outcome, session.run("a"), ends)
        await first.reached.wait()
        tasks.start_soon(outcome, session.run("b"), ends)
        await anyio.wait_all_tasks_blocked()
        first.release()
        await anyio.wait_all_tasks_blocked()
        asked = len(place.provider.requests)
        second.release()

    assert asked == 1


async def test_a_shutdown_while_it_is_opened_leaves_nothing_open(place: Place) -> None:
    async with place.session(["one"]) as session:
        await session.run("hi")
        session_id = session.get_session_id()
    raced = place.session([], resume_session_id=session_id)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(outcome, raced.open(), [])
        await anyio.lowlevel.checkpoint()
        await raced.shutdown()

    try:
        async with place.session(["two"], resume_session_id=session_id) as again:
            await again.run("go on")
    except SessionBusy:
        raced._runner.closed = False
        await raced.shutdown()
        raise


async def test_whoever_shuts_down_second_waits_as_well(place: Place) -> None:
    place.clew_home.mkdir()
    end = [{"hooks": [{"type": "command", "command": f"sleep 0.1; touch {trap(place)}"}]}]
    (place.clew_home / "settings.json").write_text(json.dumps({"hooks": {"SessionEnd": end}}))
    session = await place.session(["one"]).open()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session.shutdown)
        await anyio.lowlevel.checkpoint()
        await session.shutdown()
        ended = trap(place).exists()

    assert ended


async def test_a_rule_of_the_folder_cannot_keep_a_call_for_long(place: Place) -> None:
    settings(permissions={"deny": [f"Read({'*a' * 6}b)"]})(place)
    async with place.session([call_reply(("Read", {"file_path": "a" * 70})), "done"]) as session:
        before = time.process_time()
        await session.run("read it")

    assert time.process_time() - before < 0.4


UNTOLD = {
    "a link to too long a name": link(".git", "a" * 300),
    "the same as a marker": link("package.json", "a" * 300),
    "a folder in a circle": link(".clew", ".clew"),
    "another folder in a circle": link(".claude", ".claude"),
    "a number of 5,000 digits": text("clew.toml", "a = " + "1" * 5_000),
    "a matcher of 5,000 brackets": settings(
        hooks={
            "PreToolUse": [{"matcher": "(" * 5_000, "hooks": [{"type": "command", "command": "x"}]}]
        }
    ),
}


@pytest.mark.parametrize("build", UNTOLD.values(), ids=UNTOLD)
async def test_what_cannot_be_used_is_told_and_never_a_crash(
    place: Place, build: Callable[[Place], object]
) -> None:
    build(place)

    with contextlib.suppress(ConfigError):
        async with place.session(["ok"]) as session:
            await session.run("hi")


async def test_a_folder_whose_name_is_no_text_can_be_worked_in(place: Place) -> None:
    folder = os.fsencode(place.project) + b"/\xff"
    os.makedirs(folder)  # noqa: PTH103 - bytes
    async with two_servers(place):
        ran = await clew(place, *P, cwd=folder)

    assert (ran.code, ran.out) == (0, "ok\n")


async def test_a_name_that_is_no_text_does_not_end_a_stream_of_events(place: Place) -> None:
    raw(place, b".claude/skills/\xff/SKILL.md")
    async with two_servers(place):
        ran = await clew(place, *P, "--output-format", "stream-json")

    assert ran.code == 0


async def test_a_folder_cannot_put_words_of_its_own_on_a_line(place: Place) -> None:
    odd_names(place)
    settings(env={f"A\n{SPOOF}": "1"})(place)
    async with two_servers(place):
        ran = await clew(place, *P)

    assert unsafe(ran.err) == []


async def test_who_is_asked_to_accept_a_folder_sees_its_hooks(place: Place) -> None:
    settings(env={f"A{n}": "1" for n in range(12)}, hooks=hooks(place))(place)
    env = {"CLEW_HOME": str(place.clew_home)}
    async with terminal("--base-url", "http://127.0.0.1:9", cwd=place.project, env=env) as (it, _):
        shown = await it.shows("Do you trust this folder?")

    assert "touch" in shown


async def test_it_is_told_when_a_folder_takes_the_place_of_what_the_user_knows(
    place: Place,
) -> None:
    mine = place.home / ".claude" / "skills" / "deploy"
    mine.mkdir(parents=True)
    (mine / "SKILL.md").write_text("---\ndescription: mine\n---\nx")
    place.skill("deploy", "", "theirs")
    names_of_ours(place)
    heard = Heard()
    session = place.session([], agents=True)
    session.on_any(heard)
    async with session:
        told = "\n".join(event.text for event in heard.of("warning"))

    assert "deploy" in told
    assert "Explore" in told


async def test_what_is_allowed_for_the_project_is_not_written_elsewhere(place: Place) -> None:
    elsewhere = place.home / "elsewhere"
    elsewhere.mkdir()
    link(".clew", "~/elsewhere")(place)

    async def allow(access: Access, decision: Decision) -> Approval:
        return Approval.PROJECT

    replies = [call_reply(("Bash", {"command": "git status"})), text_reply("done")]
    async with place.session(replies, permission_handler=allow) as session:
        await session.run("look")

    assert list(elsewhere.iterdir()) == []


async def test_a_folder_does_not_carry_off_what_is_the_users(place: Place) -> None:
    memory = place.home / ".claude" / "projects" / "other" / "memory" / "MEMORY.md"
    memory.parent.mkdir(parents=True)
    memory.write_text("a fact of another project")
    (place.home / "token").write_text("0123456789abcdef" * 2 + "01234567")
    place.write("AGENTS.md", "@~/.claude/projects/other/memory/MEMORY.md\n")
    link(".git/HEAD", "~/token")(place)
    async with place.session(["ok"]) as session:
        await session.run("hi")

    (request,) = place.provider.requests
    assert "another project" not in request.system
    assert "0123456789ab" not in request.system


@pytest.mark.parametrize("folder", [".agents/tasks", ".clew/memory/topics"])
async def test_a_thousand_bad_files_are_a_few_lines(place: Place, folder: str) -> None:
    for number in range(1_000):
        raw(place, f"{folder}/t{number}.md".encode())
        pipe(f"{folder}/p{number}.md")(place)
    heard = Heard()
    session = place.session([])
    session.on_any(heard)
    async with session:
        told = [event.text for event in heard.of("warning")]

    assert 0 < len(told) <= 50


async def test_long_heads_do_not_keep_a_session_from_opening(place: Place) -> None:
    head = "\n".join(f"f{number}: v" for number in range(6_000))
    for number in range(40):
        place.write(f".claude/skills/s{number}/SKILL.md", f"---\n{head}\n---\nx")

    before = time.process_time()
    async with place.session([]):
        assert time.process_time() - before < 0.5


async def test_a_client_that_acts_on_an_event_does_not_change_the_order_for_others(
    place: Place,
) -> None:
    pause, one, other = Pause(), Heard(), Heard()
    session = place.session([[pause, *text_reply("one")], "two"])

    def acting(envelope: Envelope) -> None:
        one(envelope)
        if envelope.name == "text_delta":
            session._runner.queue.cancel()

    session.on_any(acting)
    session.on_any(other)
    async with session, anyio.create_task_group() as tasks:
        tasks.start_soon(outcome, session.run("a"), [])
        await pause.reached.wait()
        tasks.start_soon(outcome, session.run("b"), [])
        await anyio.wait_all_tasks_blocked()
        pause.release()

    assert one.names == other.names


@pytest.mark.parametrize("event", ["user_message", "thinking", "queue"])
async def test_an_abort_counts_from_the_first_event_on(place: Place, event: str) -> None:
    pause, ends = Pause(), list[ExecutionResult]()
    session = place.session([[pause, *text_reply("one")], "two"])

    async def submit(words: str) -> None:
        with contextlib.suppress(PromptCancelled):
            ends.append(await session.run(words))

    def abort(payload: object) -> None:
        if payload is not False:
            session.abort()

    async with session, anyio.create_task_group() as tasks:
        tasks.start_soon(submit, "a")
        await pause.reached.wait()
        tasks.start_soon(submit, "b")
        await anyio.wait_all_tasks_blocked()
        session.on(event, abort)
        pause.release()

    assert [result.interrupted for result in ends] in ([False, True], [False])


async def test_a_skill_that_a_person_asks_for_during_a_run_waits_for_its_turn(place: Place) -> None:
    place.skill("audit", "", "The words of the skill.")
    pause, ends = Pause(), list[object]()
    session = place.session([[pause, *text_reply("one")], "audited"])
    async with session, anyio.create_task_group() as tasks:
        tasks.start_soon(session.run, "a")
        await pause.reached.wait()
        tasks.start_soon(outcome, session.execute_command("audit"), ends)
        await anyio.wait_all_tasks_blocked()
        pause.release()

    (result,) = ends
    assert isinstance(result, CommandResult)
    assert result.message == "audited"


async def test_a_command_between_two_steps_does_not_cost_a_prompt(place: Place) -> None:
    place.skill("audit", "", "Audit.")
    store, ends = Gated(Noted), list[object]()
    session = place.session(["audited", "more"], store=store)
    async with session, anyio.create_task_group() as tasks:
        assert store.gate is not None
        tasks.start_soon(outcome, session.execute_command("audit"), ends)
        await store.gate.reached.wait()
        tasks.start_soon(outcome, session.execute_command("clear"), [])
        await anyio.wait_all_tasks_blocked()
        store.gate.release()

    (result,) = ends
    assert isinstance(result, CommandResult)
    assert result.message == "audited"


async def test_an_agent_that_is_aborted_is_told_of_and_paid_for(place: Place) -> None:
    pause, heard = Pause(), Heard()
    usage = Usage(input_tokens=100, output_tokens=10)
    session = place.session(
        [
            call_reply(("Agent", {"prompt": "go"})),
            call_reply(("Glob", {"pattern": "*"}), usage=usage),
            [pause],
        ],
        agents=True,
    )
    session.on_any(heard)
    async with session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.run, "hi")
            await pause.reached.wait()
            session.abort()
        spent = session.session.get_cost().usage

    assert heard.of("background_task_event")[-1].stage is TaskStage.CANCELLED
    assert spent.input_tokens == 100


async def test_a_skill_that_is_aborted_has_not_succeeded(place: Place) -> None:
    place.skill("apart", "context: fork\n", "Do it.")
    pause, ends = Pause(), list[object]()
    async with (
        place.session([[pause]], agents=True) as session,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(outcome, session.execute_command("apart"), ends)
        await pause.reached.wait()
        session.abort()

    (result,) = ends
    assert result == "AbortError" or (isinstance(result, CommandResult) and not result.success)


async def test_fifty_queries_at_once_leave_nothing_behind(place: Place) -> None:
    class Writer(Restless):
        async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
            number = request.messages[0].text
            write = call_reply(("Write", {"file_path": f"f{number}", "content": number}))
            for step in write if len(request.messages) == 1 else text_reply(f"done {number}"):
                await anyio.lowlevel.checkpoint()
                assert not isinstance(step, Pause | Exception)
                yield step

    query = create_query(
        Writer(),
        cwd=place.project,
        model="m",
        user_home=place.home,
        clew_home=place.clew_home,
        environ={},
        sandbox=NO_SANDBOX,
    )
    answers: dict[int, str] = {}

    async def ask(number: int) -> None:
        answers[number] = await query(str(number), permission_mode=PermissionMode.ACCEPT_EDITS)

    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(ask, number)

    assert answers == {number: f"done {number}" for number in range(50)}
    assert {path.read_text() for path in place.project.glob("f*")} == {str(n) for n in range(50)}
    assert list(place.clew_home.rglob("checkpoints/*")) == []


async def test_what_fails_after_the_answer_does_not_cost_it(place: Place) -> None:
    class Nameless(MemoryStore):
        async def rename(self, session_id: SessionId, name: str) -> None:
            raise StoreUnavailable("the disk is full")

    async with place.session(["one"], store=Nameless(), name="n") as session:
        assert (await session.run("hi")).response == "one"


async def test_a_question_that_nobody_can_answer_any_more_is_a_no(place: Place) -> None:
    ends: list[object] = []
    session = place.session([call_reply(("Bash", {"command": "x"})), "done"])
    stop = session.on("permission_request", lambda request: None)
    async with session, anyio.create_task_group() as tasks:
        tasks.start_soon(outcome, session.run("hi"), ends)
        await anyio.wait_all_tasks_blocked()
        stop()
        await anyio.wait_all_tasks_blocked()
        answered = session._life.requests.pending == ()
        session.abort()

    assert answered


async def test_a_listener_that_would_have_to_be_awaited_is_refused(place: Place) -> None:
    async def listen(words: str) -> None:
        await anyio.lowlevel.checkpoint()

    with pytest.raises((TypeError, SessionError)):
        place.session([]).on("text_delta", listen)


async def test_to_stop_twice_is_harmless_to_others(place: Place) -> None:
    words: list[str] = []
    session = place.session(["one"])
    stop = session.on("text_delta", lambda event: words.append(event.text))
    session.on("text_delta", lambda event: words.append(event.text))
    stop()
    stop()
    async with session:
        await session.run("hi")

    assert words == ["one"]


async def test_a_folder_that_is_not_there_is_told(place: Place) -> None:
    session = InteractiveSession(
        cwd=place.project / "nowhere",
        provider=Restless(),
        model="m",
        user_home=place.home,
        clew_home=place.clew_home,
        environ={},
    )

    with pytest.raises(ConfigError, match="nowhere"):
        await session.open()
    await session.shutdown()


@pytest.mark.req("INT-2", "PRM-3")
async def test_questions_that_nobody_answers_do_not_hold_a_shutdown(place: Place) -> None:
    ends: list[object] = []
    asked: list[PermissionRequest] = []
    session = place.session([call_reply(("Bash", {"command": "x"}), ("Bash", {"command": "y"}))])
    both_asked = anyio.Event()

    def count(request: PermissionRequest) -> None:
        asked.append(request)
        if len(asked) == 2:
            both_asked.set()

    session.on("permission_request", count)
    await session.open()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(outcome, session.run("hi"), ends)
        with anyio.fail_after(60):
            await both_asked.wait()
            await session.shutdown()

    (result,) = ends
    assert isinstance(result, ExecutionResult)
    assert result.interrupted
    assert session._life.requests.pending == ()


@pytest.mark.req("INT-1", "SES-3")
@pytest.mark.parametrize("nth", range(1, 8))
async def test_a_store_that_fails_once_costs_one_prompt_at_most(place: Place, nth: int) -> None:
    class Failing(MemoryStore):
        taken = 0

        async def append(self, session_id: SessionId, entries: Sequence[Entry]) -> None:
            self.taken += 1
            if self.taken == nth:
                raise StoreUnavailable("the disk is full")
            await super().append(session_id, entries)

    heard, ends = Heard(), list[object]()
    replies = [call_reply(("Glob", {"pattern": "*"})), *map(text_reply, "abc")]
    session = place.session(replies, store=Failing())
    session.on_any(heard)
    async with session:
        for prompt in "xyz":
            await outcome(session.run(prompt), ends)

    assert ends.count("StoreUnavailable") == 1
    assert follow(heard.names) == []


@pytest.mark.req("INT-5")
async def test_a_session_in_use_is_refused_and_its_copy_is_not_even_during_a_call(
    place: Place,
) -> None:
    pause = Pause()

    async def wait(access: Access, decision: Decision) -> Approval:
        await pause.wait()
        return Approval.NO

    first = place.session([call_reply(("Bash", {"command": "x"})), "end"], permission_handler=wait)
    async with first, anyio.create_task_group() as tasks:
        tasks.start_soon(first.run, "hi")
        await pause.reached.wait()
        session_id = first.get_session_id()
        with pytest.raises(SessionBusy):
            async with place.session([], resume_session_id=session_id) as second:
                await second.run("me too")
        copied = place.session(["copy"], resume_session_id=session_id, fork_session=True)
        async with copied as copy:
            assert (await copy.run("go on")).response == "copy"
        pause.release()

    parts = [part for message in copy.get_messages() for part in message.parts]
    asked = [part.call_id for part in parts if isinstance(part, ToolCall)]
    assert asked == [part.call_id for part in parts if isinstance(part, ToolResult)] != []


@pytest.mark.req("AGT-1", "HOK-1")
async def test_a_hook_that_keeps_an_agent_from_ending_does_so_a_few_times_only(
    place: Place,
) -> None:
    place.clew_home.mkdir()
    never = [{"hooks": [{"type": "command", "command": "exit 2"}]}]
    (place.clew_home / "settings.json").write_text(json.dumps({"hooks": {"SubagentStop": never}}))
    replies = [call_reply(("Agent", {"prompt": "go"})), call_reply(("Agent", {"prompt": "deeper"}))]
    heard = Heard()
    answers = [text_reply(f"{letter * 8} again") for letter in "abcdefghijklmnopqrst"]
    session = place.session([*replies, *answers], agents=True)
    session.on_any(heard)
    async with session:
        await session.run("hi")

    stages = [event.stage for event in heard.of("background_task_event")]
    assert stages.count(TaskStage.STARTED) == stages.count(TaskStage.COMPLETED) == 1
    assert len(place.provider.requests) < 15
