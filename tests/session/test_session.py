"""A session from the outside: prompts, tools, aborts, errors, events."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from clew import Session, tool
from clew.core.context_state import Basis
from clew.core.entries import Entry, MessageAdded, Noted, SetupChanged
from clew.core.errors import (
    AbortError,
    AlreadyRunning,
    ConfigError,
    ProviderRejected,
    ProviderTimeout,
    SessionError,
    TurnLimitReached,
)
from clew.core.events import (
    ContextUpdated,
    EntryAdded,
    Event,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    TextDelta,
    ToolEnded,
    ToolStarted,
    Warned,
)
from clew.core.ids import SessionId
from clew.core.messages import Message, Role, user
from clew.core.models import ModelFacts
from clew.core.permissions import (
    Access,
    Approval,
    Decision,
    PermissionMode,
    Risk,
    TargetKind,
    Verdict,
)
from clew.core.usage import Usage
from clew.permissions.rules import parse_rule
from clew.providers.protocol import CallChunk, TextChunk
from clew.providers.scripted import (
    Pause,
    ScriptedProvider,
    ScriptedReply,
    ScriptedStep,
    call_reply,
    text_reply,
)
from clew.session.gate import Gate
from clew.session.history import get_messages_for_api
from clew.stores.leases import SessionHeld
from clew.stores.memory import MemoryStore
from clew.stores.sqlite import SqliteStore
from clew.tools.protocol import Tool, ToolOutput
from tests.event_buses import bus_for
from tests.histories import problems

pytestmark = pytest.mark.anyio

FACTS = ModelFacts(name="m", window=10_000)


@tool(risk=Risk.INSPECT)
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@tool(risk=Risk.INSPECT)
def crash() -> str:
    """Fail in an unforeseen way."""
    raise ZeroDivisionError("boom")


@tool(risk=Risk.EXECUTE, target="what")
def launch(what: str) -> str:
    """Launch something."""
    return f"{what} launched"


def scripted(*replies: ScriptedReply) -> ScriptedProvider:
    return ScriptedProvider(replies, facts=FACTS)


def texts(session: Session) -> list[str]:
    return [f"{message.role}: {_words(message)}" for message in session.get_history()]


def _words(message: Message) -> str:
    return message.text or " ".join(
        [*(call.name for call in message.calls), *(result.text for result in message.results)]
    )


@pytest.mark.req("SES-1", "PRV-2")
async def test_an_answer_streams_and_joins_the_history() -> None:
    events: list[Event] = []
    async with Session(
        scripted("Hello there, friend."), model="m", event_bus=bus_for(events.append)
    ) as s:
        answer = await s.run("hi")

        assert answer == "Hello there, friend."
        assert texts(s) == ["user: hi", "assistant: Hello there, friend."]
    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    assert len(deltas) > 1
    assert "".join(deltas) == answer
    assert [type(event) for event in events].count(RunCompleted) == 1


@pytest.mark.req("TOL-3", "TOL-4", "CMP-4")
async def test_every_call_gets_one_result_in_call_order_whatever_happens_to_it() -> None:
    provider = scripted(
        call_reply(
            ("add", {"a": 1, "b": 2}),
            ("nonsense", {}),
            ("crash", {}),
            ("add", {"a": "one"}),
            ("launch", {"what": "rocket"}),
        ),
        "done",
    )
    events: list[Event] = []
    tools: list[Tool] = [add, crash, launch]
    async with Session(
        provider, model="m", tools=tools, event_bus=bus_for(events.append)
    ) as session:
        await session.run("go")

        results = [m.results[0] for m in session.get_history() if m.role is Role.TOOL]
        assert [result.name for result in results] == ["add", "nonsense", "crash", "add", "launch"]
        assert [result.failed for result in results] == [False, True, True, True, True]
        assert results[0].text == "3"
        assert "there is no tool nonsense" in results[1].text
        assert "boom" in results[2].text
        assert "Permission denied" in results[4].text
        assert problems(session.get_history()) == []
    started = [event.call_id for event in events if isinstance(event, ToolStarted)]
    ended = [event for event in events if isinstance(event, ToolEnded)]
    assert sorted(started) == sorted(event.call_id for event in ended)
    assert [event.error_code for event in ended] == ["", "unknown_tool", "crashed", "", "denied"]
    assert [event.denied for event in ended] == [False, False, False, False, True]


@pytest.mark.req("PRM-3")
async def test_an_approval_for_the_session_covers_calls_of_the_same_shape() -> None:
    asked: list[str] = []

    async def ask(access: Access, decision: Decision) -> Approval:
        asked.append(access.target)
        return Approval.SESSION

    provider = scripted(
        call_reply(("launch", {"what": "a"})),
        call_reply(("launch", {"what": "a"})),
        call_reply(("launch", {"what": "b"})),
        "done",
    )
    gate = Gate(cwd=Path.cwd(), ask=ask)
    async with Session(provider, model="m", tools=[launch], gate=gate) as session:
        await session.run("go")

        assert asked == ["a", "b"]
        assert not any(m.results[0].failed for m in session.get_history() if m.role is Role.TOOL)


@pytest.mark.req("PRM-5")
async def test_a_deny_rule_holds_and_says_why_and_the_mode_is_remembered(tmp_path: Path) -> None:
    gate = Gate(cwd=tmp_path, mode=PermissionMode.BYPASS, deny=(parse_rule("launch"),))
    provider = scripted(call_reply(("launch", {"what": "a"})), "done")
    async with Session(provider, model="m", tools=[launch], gate=gate) as session:
        await session.run("go")

        assert "launch" in session.get_history()[2].results[0].text
        await session.set_permission_mode(PermissionMode.PLAN)
        assert session.journal.view.mode == "plan"


@pytest.mark.req("PRV-3", "SES-1")
async def test_abort_keeps_the_words_and_the_finished_calls_that_had_arrived() -> None:
    pause = Pause()
    begun = call_reply(("add", {"a": 1, "b": 2}))[:-1]
    half = CallChunk(index=7, name="add", arguments='{"a"')
    provider = scripted([TextChunk("Half an "), *begun, half, pause], "again")
    events: list[Event] = []
    async with Session(
        provider, model="m", tools=[add], event_bus=bus_for(events.append)
    ) as session:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:

                async def run() -> None:
                    with pytest.raises(AbortError):
                        await session.run("go")

                tasks.start_soon(run)
                await pause.reached.wait()
                assert session.is_running
                session.abort()

        history = session.get_history()
        assert history[1].text == "Half an "
        assert history[1].interrupted
        assert [call.name for call in history[1].calls] == ["add"]
        assert history[2].results[0].failed
        assert problems(history) == []
        assert [type(event) for event in events].count(RunInterrupted) == 1
        assert not session.is_running

        assert await session.run("go on") == "again"


@pytest.mark.req("TOL-4", "PRV-3")
async def test_abort_during_a_tool_gives_every_call_its_result() -> None:
    running = anyio.Event()

    @tool(risk=Risk.INSPECT)
    async def wait_forever() -> str:
        """Wait."""
        running.set()
        await anyio.sleep_forever()
        return "never"

    provider = scripted(
        call_reply(("add", {"a": 1, "b": 1}), ("wait_forever", {}), ("add", {"a": 2, "b": 2}))
    )
    ended: list[ToolEnded] = []
    bus = bus_for(lambda event: ended.append(event) if isinstance(event, ToolEnded) else None)
    async with Session(provider, model="m", tools=[add, wait_forever], event_bus=bus) as session:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:

                async def run() -> None:
                    with pytest.raises(AbortError):
                        await session.run("go")

                tasks.start_soon(run)
                await running.wait()
                session.abort()

        assert len([m for m in session.get_history() if m.role is Role.TOOL]) == 3
        assert problems(session.get_history()) == []
        assert "interrupted" in [event.error_code for event in ended]


@pytest.mark.req("SES-4")
async def test_a_second_run_at_the_same_time_is_refused() -> None:
    pause = Pause()
    async with Session(scripted([pause, *text_reply("one")]), model="m") as session:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(session.run, "first")
                await pause.reached.wait()
                with pytest.raises(AlreadyRunning):
                    await session.run("second")
                with pytest.raises(AlreadyRunning):
                    await session.compact()
                pause.release()

        assert texts(session) == ["user: first", "assistant: one"]


@pytest.mark.req("SES-3")
async def test_after_an_error_the_history_is_kept_and_the_session_works() -> None:
    events: list[Event] = []
    provider = scripted(ProviderRejected("no such thing", provider="scripted"), "better")
    async with Session(provider, model="m", event_bus=bus_for(events.append)) as session:
        with pytest.raises(ProviderRejected):
            await session.run("one")

        assert await session.run("two") == "better"
        assert texts(session) == ["user: one", "user: two", "assistant: better"]
        notes = [e.body for e in session.journal.entries if isinstance(e.body, Noted)]
        assert notes[0].text == "no such thing"
    assert [event.message for event in events if isinstance(event, RunFailed)] == ["no such thing"]


@pytest.mark.req("SES-3")
async def test_a_stream_that_breaks_keeps_what_had_arrived() -> None:
    broken: list[ScriptedStep] = [TextChunk("so far"), ProviderRejected("cut", provider="scripted")]
    async with Session(scripted(broken), model="m") as session:
        with pytest.raises(ProviderRejected):
            await session.run("one")

        assert session.get_history()[1].text == "so far"
        assert session.get_history()[1].interrupted


@pytest.mark.req("SES-2")
async def test_max_turns_stops_a_model_that_never_ends() -> None:
    provider = scripted(*(call_reply(("add", {"a": 1, "b": 1})) for _ in range(9)))
    async with Session(provider, model="m", tools=[add], max_turns=3) as session:
        with pytest.raises(TurnLimitReached):
            await session.run("go")

        assert len(provider.requests) == 3
        assert problems(session.get_history()) == []


@pytest.mark.req("CTX-7")
async def test_the_context_is_read_before_and_after_each_call() -> None:
    events: list[Event] = []
    usage = Usage(input_tokens=500, output_tokens=20)
    provider = scripted(text_reply("yes", usage=usage))
    async with Session(provider, model="m", event_bus=bus_for(events.append)) as session:
        await session.run("hi")

        assert session.get_context_state().used_tokens == 520
    states = [event.state for event in events if isinstance(event, ContextUpdated)]
    assert [state.basis for state in states] == [Basis.ESTIMATED, Basis.EXACT]


@pytest.mark.req("PRV-6")
async def test_consecutive_requests_share_their_prefix() -> None:
    provider = scripted(call_reply(("add", {"a": 1, "b": 1})), "two", "three")
    async with Session(provider, model="m", tools=[add], system_message="S") as session:
        await session.run("one")
        await session.run("again")

    first, second, third = (request.messages for request in provider.requests)
    assert second[: len(first)] == first
    assert third[: len(second)] == second
    assert len({request.system for request in provider.requests}) == 1


@pytest.mark.req("CTX-5")
async def test_an_unknown_model_gets_a_careful_window_and_one_warning() -> None:
    events: list[Event] = []
    provider = ScriptedProvider(["a", "b"], facts=ModelFacts(name="mystery", known=False))
    async with Session(provider, model="mystery", event_bus=bus_for(events.append)) as session:
        await session.run("one")
        await session.run("two")

        assert session.get_context_state().max_tokens == 32_768
    assert len([event for event in events if isinstance(event, Warned)]) == 1


@pytest.mark.req("CTX-5")
async def test_a_users_own_window_wins() -> None:
    async with Session(scripted("a"), model="m", max_context_tokens=512) as session:
        assert session.get_context_state().max_tokens == 512
    with pytest.raises(ConfigError, match="too small"):
        Session(scripted("a"), model="m", max_context_tokens=10)


@pytest.mark.req("PRV-8", "SES-2")
async def test_two_sessions_on_one_provider_do_not_hear_each_other() -> None:
    provider = scripted("for the first", "for the second")
    heard: dict[str, list[Event]] = {"a": [], "b": []}
    async with (
        Session(provider, model="m", event_bus=bus_for(heard["a"].append)) as a,
        Session(provider, model="m", event_bus=bus_for(heard["b"].append)) as b,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(a.run, "1")
        tasks.start_soon(b.run, "2")

    said = {k: "".join(e.text for e in v if isinstance(e, TextDelta)) for k, v in heard.items()}
    assert sorted(said.values()) == ["for the first", "for the second"]


async def test_a_listener_that_fails_does_not_break_the_run() -> None:
    def fail(event: Event) -> None:
        raise ValueError("listener")

    async with Session(scripted("fine"), model="m", event_bus=bus_for(fail)) as session:
        assert await session.run("hi") == "fine"


@pytest.mark.req("SES-1")
async def test_getters_work_before_a_session_is_open() -> None:
    session = Session(
        scripted("fine"),
        model="m",
        system_message="Be brief.",
        session_id="known",
        max_context_tokens=5_000,
        permission_mode=PermissionMode.PLAN,
        auto_compact_threshold=0.6,
    )

    assert session.session_id == "known"
    assert (session.get_history(), session.get_full_history()) == ([], [])
    assert session.get_context_state().max_tokens == 5_000
    assert session.get_context_state().breakdown.system > 0
    assert session.get_permission_mode() is PermissionMode.PLAN
    assert session.get_auto_compact_threshold() == 0.6
    assert (session.get_message_count(), session.get_cost().calls) == (0, 0)
    assert session.list_grants() == []
    assert not session.is_running


@pytest.mark.req("SES-1")
async def test_a_new_session_knows_its_id_before_it_is_open() -> None:
    session = Session(scripted("fine"), model="m")
    known = session.session_id

    await session.run("opens by itself")

    assert known
    assert session.session_id == session.bus.session_id == known


async def test_a_session_that_is_not_open_cannot_be_written() -> None:
    session = Session(scripted("fine"), model="m")

    with pytest.raises(SessionError, match="not open"):
        await session.inject_message(user("hello"))

    assert session.get_history() == []
    assert await session.run("opens by itself") == "fine"


@pytest.mark.req("SES-1")
async def test_messages_and_notes_can_be_added_without_asking_the_model() -> None:
    provider = scripted("ok")
    async with Session(provider, model="m") as session:
        await session.inject_message(user("remember this"))
        await session.add_history_entry("tool-summary", "two tools ran", tools=2)
        await session.run("hi")

        assert [message.text for message in provider.requests[0].messages] == [
            "remember this",
            "hi",
        ]
        kinds = [type(entry.body) for entry in session.journal.entries]
        assert kinds == [SetupChanged, MessageAdded, Noted, MessageAdded, MessageAdded]


async def test_a_tool_run_by_hand_reads_like_any_tool_result() -> None:
    provider = scripted("I see")
    async with Session(provider, model="m", tools=[launch]) as session:
        output = await session.run_tool("launch", '{"what":"kite"}', said="!launch kite")
        await session.run("did it fly?")

        assert output.text == "kite launched"
        assert texts(session)[:3] == [
            "user: !launch kite",
            "assistant: launch",
            "tool: kite launched",
        ]
        assert problems(provider.requests[0].messages) == []


@pytest.mark.req("STR-7")
async def test_a_long_output_is_cut_at_execution_and_kept_whole_in_the_journal() -> None:
    @tool(risk=Risk.INSPECT, max_output_chars=400)
    def chatter() -> str:
        """Talk a lot."""
        return "begin " + "blah " * 10_000 + "end"

    provider = scripted(call_reply(("chatter", {})), "done")
    async with Session(provider, model="m", tools=[chatter]) as session:
        await session.run("go")

        sent = provider.requests[1].messages[-1].results[0].text
        assert len(sent) <= 400
        assert sent.startswith("begin")
        assert "entry #4 has it" in sent
        entry = session.journal.entries[3]
        assert isinstance(entry.body, MessageAdded)
        assert entry.body.full_text is not None
        assert entry.body.full_text.endswith("blah end")
        assert session.search("blah end") == [entry]


@pytest.mark.req("PRM-4")
@pytest.mark.parametrize(
    ("target", "verdict"),
    [
        ("~/.claude/skills/tidy/SKILL.md", Verdict.ALLOW),
        (".clew/notes.md", Verdict.ALLOW),
        ("~/.ssh/id_ed25519", Verdict.DENY),
        ("~/.clew/settings.json", Verdict.DENY),
    ],
)
async def test_configuration_folders_may_be_read_without_asking(
    tmp_path: Path, target: str, verdict: Verdict
) -> None:
    wanted = Access(tool="Read", risk=Risk.INSPECT, target=target, kind=TargetKind.PATH)

    assert (await Gate(cwd=tmp_path).judge(wanted)).verdict is verdict


@pytest.mark.req("TOL-4", "LOG-2")
async def test_a_secret_that_a_tool_shows_reaches_neither_disk_nor_model(tmp_path: Path) -> None:
    secret = "sk-ant-api03-" + "Ab3dEf6hIj" * 9 + "AA"

    @tool(risk=Risk.INSPECT)
    def show() -> ToolOutput:
        """Show the settings."""
        return ToolOutput(
            text=f"ANTHROPIC_API_KEY={secret}\n" + "x " * 40_000,
            display=f"key {secret}",
            data={"api_key": secret, "lines": 2},
        )

    store = SqliteStore(tmp_path / "sessions.db")
    provider, events = scripted(call_reply(("show", {})), "done"), list[Event]()
    async with Session(
        provider, model="m", tools=[show], store=store, event_bus=bus_for(events.append)
    ) as session:
        await session.run("go")
    await store.aclose()

    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert secret.encode() not in stored
    assert secret not in str(provider.requests)
    assert secret not in str(events)
    ended = next(event for event in events if isinstance(event, ToolEnded))
    assert ended.data["lines"] == 2
    assert "[redacted:" in ended.display


@pytest.mark.req("PRM-3", "SES-1")
async def test_what_was_allowed_for_the_session_is_listed_and_taken_back() -> None:
    async def ask(access: Access, decision: Decision) -> Approval:
        return Approval.SESSION

    provider = scripted(call_reply(("launch", {"what": "kite"})), "done")
    gate = Gate(cwd=Path.cwd(), ask=ask)
    async with Session(provider, model="m", tools=[launch], gate=gate) as session:
        await session.run("go")
        granted = session.list_grants()
        session.clear_grants()

        assert [grant.tool for grant in granted] == ["launch"]
        assert session.list_grants() == []


@pytest.mark.req("SES-1")
async def test_the_full_history_holds_what_has_left_the_view() -> None:
    async with Session(scripted("hi", "again"), model="m") as session:
        await session.run("one")
        await session.clear_history()
        await session.run("two")

        assert [m.text for m in session.get_history()] == ["two", "again"]
        full = get_messages_for_api(session.get_full_history())
        assert [m.text for m in full] == ["one", "hi", "two", "again"]


@pytest.mark.req("STO-4")
async def test_a_session_that_is_over_can_be_taken_up_by_another_at_once(tmp_path: Path) -> None:
    first, second = SqliteStore(tmp_path / "s.db"), SqliteStore(tmp_path / "s.db")
    provider = ScriptedProvider(["one", "two"])
    async with Session(provider, model="m", store=first) as session:
        await session.run("hello")
        with pytest.raises(SessionHeld):
            await Session(provider, model="m", store=second, session_id=session.session_id).open()
    async with Session(provider, model="m", store=second, session_id=session.session_id) as other:
        assert await other.run("still there?") == "two"
    await first.aclose()
    await second.aclose()


class Counting(MemoryStore):
    """Knows how many entries it has."""

    last = 0

    async def append(self, session_id: SessionId, entries: Sequence[Entry]) -> None:
        """Add entries, and count them."""
        await super().append(session_id, entries)
        self.last = entries[-1].id


async def test_an_entry_is_told_of_when_it_is_on_disk() -> None:
    store, seen = Counting(), list[tuple[int, int]]()

    def listener(event: Event) -> None:
        if isinstance(event, EntryAdded):
            seen.append((event.entry.id, store.last))

    provider = ScriptedProvider(["yes"])
    async with Session(provider, model="m", store=store, event_bus=bus_for(listener)) as session:
        assert seen == []
        await session.run("hello")

    assert [entry for entry, _ in seen] == list(range(1, len(seen) + 1))
    assert all(entry <= stored for entry, stored in seen)


@pytest.mark.req("SES-2", "PRV-4")
async def test_a_provider_that_falls_silent_is_given_up_and_each_word_begins_the_time_anew() -> (
    None
):
    silent = Pause()
    provider = ScriptedProvider([[TextChunk("Half"), silent], "whole"])
    async with Session(provider, model="m", provider_timeout=0.05) as session:
        with pytest.raises(ProviderTimeout, match=r"sent nothing for 0\.05 seconds"):
            await session.run("hi")
        assert session.get_history()[-1].text == "Half"
        assert await session.run("again") == "whole"
