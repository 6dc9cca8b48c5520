"""Hooks in the life of a session: what each event can do to it."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew import Session, tool
from clew.core.entries import Compacted
from clew.core.errors import (
    ClewError,
    ContextFull,
    LoopDetected,
    NothingToDrop,
    PromptBlocked,
    ProviderBusy,
    ProviderDenied,
    ProviderError,
    ProviderRejected,
    ProviderTimeout,
    RunStopped,
    StreamBroken,
    TurnLimitReached,
)
from clew.core.events import Event, ToolEnded, ToolStarted, Warned
from clew.core.models import ModelFacts
from clew.core.permissions import Access, Approval, Decision, PermissionMode, Risk, Verdict
from clew.hooks.context import HookContext
from clew.hooks.protocol import HookEvent, HookInput, HookVerdict
from clew.hooks.runner import HookRunner
from clew.hooks.settings import HookSource, read_hooks
from clew.log.writer import SessionLog
from clew.providers.protocol import TextChunk
from clew.providers.scripted import Pause, ScriptedProvider, ScriptedReply, call_reply, text_reply
from clew.session.gate import Gate
from clew.session.limits import REFUSE_AFTER, WARN_AFTER
from clew.stores.memory import MemoryStore
from tests.event_buses import bus_for
from tests.histories import problems

pytestmark = pytest.mark.anyio

FACTS = ModelFacts(name="m", window=10_000)
E = HookEvent
Answer = Callable[[HookInput], HookVerdict]


class Told:
    """Hooks that remember what they were told, and answer by a table."""

    def __init__(self, **answers: HookVerdict | Answer) -> None:
        self.answers = answers
        self.seen: list[tuple[HookEvent, HookInput]] = []

    async def fire(self, event: HookEvent, payload: HookInput) -> HookVerdict:
        self.seen.append((event, payload))
        await anyio.lowlevel.checkpoint()
        answer = self.answers.get(str(event), HookVerdict())
        return answer if isinstance(answer, HookVerdict) else answer(payload)

    @property
    def events(self) -> list[str]:
        return [str(event) for event, _ in self.seen]

    def payload(self, event: HookEvent) -> HookInput:
        return next(payload for name, payload in self.seen if name is event)


@tool(risk=Risk.INSPECT)
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@tool(risk=Risk.EXECUTE, target="what")
def launch(what: str) -> str:
    """Launch something."""
    return f"{what} launched"


def verdict(kind: Verdict, reason: str = "because") -> HookVerdict:
    return HookVerdict(decision=Decision(kind, reason))


def session(
    *replies: ScriptedReply, hooks: Told, **options: Any
) -> tuple[Session, ScriptedProvider]:
    provider = ScriptedProvider(replies, FACTS)
    return Session(provider, model="m", tools=[add, launch], hooks=hooks, **options), provider


@pytest.mark.req("HOK-1")
async def test_a_session_tells_its_hooks_what_happens() -> None:
    hooks = Told()
    chat, _ = session(call_reply(("add", {"a": 1, "b": 2})), "three", hooks=hooks)
    async with chat:
        await chat.run("add")
    await chat.shutdown()

    assert hooks.events == [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "Stop",
        "SessionEnd",
    ]
    assert hooks.payload(E.SESSION_START).source == "startup"
    assert hooks.payload(E.USER_PROMPT_SUBMIT).prompt == "add"
    assert hooks.payload(E.PRE_TOOL_USE).tool_input == {"a": 1, "b": 2}
    assert hooks.payload(E.POST_TOOL_USE).tool_response["text"] == "3"
    assert hooks.payload(E.STOP).last_assistant_message == "three"
    assert all(payload.session_id == chat.session_id for _, payload in hooks.seen)


@pytest.mark.req("HOK-1")
async def test_a_session_that_is_opened_again_says_so() -> None:
    store, hooks = MemoryStore(), Told()
    for _ in range(2):
        chat, _ = session("hi", hooks=hooks, store=store, session_id="s")
        async with chat:
            await chat.run("hi")

    assert [p.source for event, p in hooks.seen if event is E.SESSION_START] == [
        "startup",
        "resume",
    ]
    assert hooks.events.count("SessionEnd") == 2


@pytest.mark.req("HOK-3")
async def test_a_prompt_that_is_blocked_leaves_the_conversation_as_it_was() -> None:
    hooks = Told(UserPromptSubmit=HookVerdict(block="no secrets here"))
    chat, provider = session("never", hooks=hooks)
    async with chat:
        with pytest.raises(PromptBlocked, match="no secrets here"):
            await chat.run("my password is …")
        assert chat.get_history() == []

    assert provider.requests == []


@pytest.mark.req("HOK-3")
async def test_what_hooks_say_at_the_start_and_at_a_prompt_reaches_the_model() -> None:
    hooks = Told(
        SessionStart=HookVerdict(context=("It is Monday.",)),
        UserPromptSubmit=HookVerdict(context=("The branch is main.",)),
    )
    chat, provider = session("a", "b", hooks=hooks)
    async with chat:
        await chat.run("hello")
        await chat.run("again")

    first, second = (request.messages[-1].text for request in provider.requests)
    reminder = "<system-reminder>\nIt is Monday.\nThe branch is main.\n</system-reminder>\n"
    assert first == f"{reminder}hello"
    assert "Monday" not in second
    assert second.endswith("again")


@pytest.mark.req("HOK-3")
@pytest.mark.parametrize(
    ("wish", "mode", "asked", "runs"),
    [
        (Verdict.ALLOW, PermissionMode.DEFAULT, False, True),
        (Verdict.ASK, PermissionMode.BYPASS, True, True),
        (Verdict.DENY, PermissionMode.BYPASS, False, False),
        (Verdict.ALLOW, PermissionMode.PLAN, False, False),
    ],
)
async def test_a_hook_may_allow_ask_or_deny_but_not_lift_a_denial(
    wish: Verdict, mode: PermissionMode, *, asked: bool, runs: bool
) -> None:
    questions: list[Access] = []

    async def ask(access: Access, decision: Decision) -> Approval:
        questions.append(access)
        return Approval.ONCE

    gate = Gate(cwd=Path.cwd(), mode=mode, ask=ask)
    chat, _ = session(
        call_reply(("launch", {"what": "x"})),
        "done",
        hooks=Told(PreToolUse=verdict(wish)),
        gate=gate,
    )
    async with chat:
        await chat.run("go")

    assert bool(questions) is asked
    assert chat.get_history()[2].results[0].failed is not runs


@pytest.mark.req("HOK-3")
async def test_a_hook_may_change_what_a_call_is_made_with_and_permissions_judge_that() -> None:
    hooks = Told(PreToolUse=HookVerdict(updated_input={"a": 40, "b": 2}))
    chat, _ = session(call_reply(("add", {"a": 1, "b": 1})), "ok", hooks=hooks)
    async with chat:
        await chat.run("add")

    assert chat.get_history()[2].results[0].text == "42"


@pytest.mark.req("HOK-3")
async def test_a_mode_that_changes_while_a_hook_runs_counts_for_the_call(tmp_path: Path) -> None:
    gate = Gate(cwd=tmp_path, mode=PermissionMode.BYPASS)

    def switch_to_plan(_: HookInput) -> HookVerdict:
        gate.mode = PermissionMode.PLAN
        return HookVerdict()

    hooks = Told(PreToolUse=switch_to_plan)
    chat, _ = session(call_reply(("launch", {"what": "it"})), "ok", hooks=hooks, gate=gate)
    async with chat:
        await chat.run("go")

    assert chat.get_history()[2].results[0].failed


@pytest.mark.req("HOK-3")
async def test_after_a_call_a_hook_may_answer_or_replace() -> None:
    said = HookVerdict(block="run the linter", context=("line 3 is long",))
    replaced = HookVerdict(updated_output={"sum": 3})
    texts = []
    for answer in (said, replaced):
        chat, _ = session(
            call_reply(("add", {"a": 1, "b": 2})), "ok", hooks=Told(PostToolUse=answer)
        )
        async with chat:
            await chat.run("add")
        texts.append(chat.get_history()[2].results[0].text)

    assert texts[0].startswith("3\n\n<system-reminder>\nrun the linter\nline 3 is long\n")
    assert texts[1] == '{"sum":3}'


@pytest.mark.req("HOK-3")
@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse"])
async def test_a_hook_may_end_the_run_and_the_next_one_works(event: str) -> None:
    hooks = Told(**{event: HookVerdict(stop="enough for today")})
    chat, provider = session(call_reply(("add", {"a": 1, "b": 2})), "fine", hooks=hooks)
    async with chat:
        with pytest.raises(RunStopped, match="enough for today"):
            await chat.run("add")
        hooks.answers.clear()
        assert await chat.run("and now?") == "fine"

    assert problems(list(provider.requests[-1].messages)) == []


@pytest.mark.req("HOK-3")
async def test_a_stop_hook_keeps_the_run_going_and_is_told_so() -> None:
    active: list[object] = []

    def answer(payload: HookInput) -> HookVerdict:
        active.append(payload.stop_hook_active)
        return HookVerdict(block="run the tests first") if len(active) == 1 else HookVerdict()

    chat, provider = session("done", "tests pass", hooks=Told(Stop=answer))
    async with chat:
        assert await chat.run("fix it") == "tests pass"

    assert active == [False, True]
    assert "run the tests first" in provider.requests[1].messages[-1].text


@pytest.mark.req("HOK-3")
async def test_a_stop_hook_that_never_lets_go_is_overruled() -> None:
    events: list[Event] = []
    hooks = Told(Stop=HookVerdict(block="more"))
    chat, provider = session(*["x"] * 20, hooks=hooks, event_bus=bus_for(events.append))
    async with chat:
        await chat.run("go")

    assert len(provider.requests) == 9
    assert any(isinstance(event, Warned) and "8 times in a row" in event.text for event in events)


@pytest.mark.req("HOK-3", "CMP-5")
async def test_a_hook_may_refuse_a_compaction_and_is_told_of_one() -> None:
    hooks = Told(PreCompact=HookVerdict(block="not now"))
    chat, _ = session(*["word " * 200] * 8, hooks=hooks)
    async with chat:
        for number in range(8):
            await chat.run(f"question {number}")
        with pytest.raises(NothingToDrop, match="not now"):
            await chat.compact("keep the names")
        assert hooks.payload(E.PRE_COMPACT).custom_instructions == "keep the names"
        hooks.answers.clear()
        await chat.compact()

    assert hooks.payload(E.POST_COMPACT).compact_summary
    assert [e for e in chat.journal.entries if isinstance(e.body, Compacted)]


@pytest.mark.req("HOK-1")
async def test_a_run_that_fails_is_told() -> None:
    hooks = Told()
    chat, _ = session(ProviderRejected("bad request", provider="scripted"), hooks=hooks)
    async with chat:
        with pytest.raises(ProviderRejected):
            await chat.run("hi")

    assert hooks.payload(E.STOP_FAILURE).error == "invalid_request"
    assert "Stop" not in hooks.events


@pytest.mark.req("HOK-2")
async def test_a_hooks_file_of_claude_code_guards_a_session(tmp_path: Path) -> None:
    guard = tmp_path / "guard.sh"
    guard.write_text('read -r line; case "$line" in *moon*) echo "not the moon" >&2; exit 2;; esac')
    hook = {"type": "command", "command": f"sh {guard}"}
    settings = {"hooks": {"PreToolUse": [{"matcher": "launch|Bash", "hooks": [hook]}]}}
    table = read_hooks(json.dumps(settings).encode(), HookSource(name="settings.json"))
    gate = Gate(cwd=tmp_path, mode=PermissionMode.BYPASS)
    calls = call_reply(("launch", {"what": "kite"}), ("launch", {"what": "moon"}))
    provider = ScriptedProvider([calls, "ok"], FACTS)
    hooks = HookRunner(table, HookContext(project=tmp_path))
    async with Session(provider, model="m", tools=[launch], hooks=hooks, gate=gate) as chat:
        await chat.run("go")
        results = [m.results[0] for m in chat.get_history() if m.results]

    assert [result.text for result in results] == [
        "kite launched",
        "Permission denied: a hook blocked this call: not the moon.",
    ]


@pytest.mark.req("TOL-7")
async def test_the_same_call_again_and_again_is_warned_refused_and_stopped() -> None:
    same = call_reply(("add", {"a": 1, "b": 2}))
    events: list[Event] = []
    chat, provider = session(*[same] * 20, hooks=Told(), event_bus=bus_for(events.append))
    async with chat:
        with pytest.raises(LoopDetected, match="add"):
            await chat.run("add")
        results = [m.results[0] for m in chat.get_history() if m.results]

    assert [("same result" in r.text) for r in results[:WARN_AFTER]] == [False, False, True]
    assert [r.failed for r in results].index(True) == REFUSE_AFTER
    assert len(provider.requests) == len(results) < 12
    assert sum(isinstance(e, ToolEnded) for e in events) == len(results)


@pytest.mark.req("TOL-7")
async def test_somebody_who_waits_is_not_in_a_loop() -> None:
    count = 0

    @tool(risk=Risk.INSPECT)
    def poll() -> str:
        """Look whether it is done."""
        nonlocal count
        count += 1
        return f"{count} %"

    provider = ScriptedProvider([*[call_reply(("poll", {}))] * 15, "done"], FACTS)
    async with Session(provider, model="m", tools=[poll]) as chat:
        assert await chat.run("wait for it") == "done"


@pytest.mark.req("TOL-4")
async def test_a_call_that_takes_too_long_is_ended() -> None:
    @tool(risk=Risk.INSPECT)
    async def sleepy() -> str:
        """Never come back."""
        await anyio.sleep_forever()
        return "never"

    provider = ScriptedProvider([call_reply(("sleepy", {})), "done"], FACTS)
    async with Session(provider, model="m", tools=[sleepy], tool_timeout=0.01) as chat:
        await chat.run("go")
        result = chat.get_history()[2].results[0]

    assert result.failed
    assert "ended after 0.01 seconds" in result.text


FATES = ["fine", "crash", "denied", "blocked", "stopped", "unknown", "bad", "hang", "hook crash"]


@pytest.mark.req("TOL-4", "TOL-3")
@given(
    fates=st.lists(st.sampled_from(FATES), min_size=1, max_size=6),
    aborted=st.integers(0, 30),
)
def test_every_call_has_exactly_one_result_whatever_happens(fates: list[str], aborted: int) -> None:
    anyio.run(_one_result_each, fates, aborted)


@tool(risk=Risk.INSPECT)
async def act(fate: str) -> str:
    """Meet a fate."""
    if fate == "crash":
        raise ZeroDivisionError
    if fate == "hang":
        await anyio.sleep_forever()
    return fate


@tool(risk=Risk.EXECUTE)
def danger() -> str:
    """Never allowed."""
    return "ran"


def meddle(payload: HookInput) -> HookVerdict:
    match payload.tool_input:
        case {"fate": "blocked"}:
            return verdict(Verdict.DENY)
        case {"fate": "stopped"}:
            return HookVerdict(stop="enough")
        case {"fate": "hook crash"}:
            raise RuntimeError("the hook is broken")
    return HookVerdict()


async def _one_result_each(fates: list[str], aborted: int) -> None:
    events: list[Event] = []
    names = {"denied": "danger", "unknown": "nothing"}
    calls = [
        (names.get(fate, "act"), {"wrong": 1} if fate == "bad" else {"fate": fate})
        for fate in fates
    ]
    chat = Session(
        ScriptedProvider([call_reply(*calls), text_reply("done")], FACTS),
        model="m",
        tools=[act, danger],
        hooks=Told(PreToolUse=meddle),
        tool_timeout=None if aborted else 0.01,
        event_bus=bus_for(events.append),
    )

    async def stop() -> None:
        for _ in range(aborted):
            await anyio.lowlevel.checkpoint()
        chat.abort()

    async with chat, anyio.create_task_group() as tasks:
        if aborted:
            tasks.start_soon(stop)
        with suppress(ClewError):
            await chat.run("go")
        tasks.cancel_scope.cancel()
    started = {event.call_id for event in events if isinstance(event, ToolStarted)}
    ended = [event.call_id for event in events if isinstance(event, ToolEnded)]
    asked = [call.call_id for message in chat.get_history() for call in message.calls]
    assert [r.call_id for message in chat.get_history() for r in message.results] == asked
    assert len(ended) == len(set(ended))
    assert started <= set(ended)


# --- SessionStart, StopFailure and the transcript -------------------------------------------


def sources(hooks: Told) -> list[object]:
    return [payload.source for event, payload in hooks.seen if event is E.SESSION_START]


@pytest.mark.req("HOK-1")
async def test_clearing_starts_the_session_anew_and_its_context_is_in_the_next_prompt() -> None:
    hooks = Told(SessionStart=lambda payload: HookVerdict(context=(f"from {payload.source}",)))
    chat, provider = session("one", "two", hooks=hooks)
    async with chat:
        await chat.run("first")
        await chat.clear_history()
        await chat.run("second")

    assert sources(hooks) == ["startup", "clear"]
    assert "from startup" in provider.requests[0].messages[0].text
    (prompt,) = provider.requests[1].messages
    assert prompt.text.endswith("second")
    assert "from clear" in prompt.text


@pytest.mark.req("HOK-1")
async def test_a_manual_compaction_starts_the_session_anew() -> None:
    hooks = Told()
    chat, provider = session(*["word " * 200] * 8, "a summary", "last", hooks=hooks)
    async with chat:
        for number in range(8):
            await chat.run(f"question {number}")
        hooks.answers["SessionStart"] = HookVerdict(context=("mind the rules",))
        await chat.compact()
        await chat.run("and now?")

    assert sources(hooks) == ["startup", "compact"]
    assert hooks.events.index("PostCompact") + 1 == hooks.events.index("SessionStart", 1)
    assert "mind the rules" in provider.requests[-1].messages[-1].text
    assert provider.requests[-1].messages[-1].text.endswith("and now?")


@pytest.mark.req("HOK-1")
async def test_the_context_after_an_automatic_compaction_is_in_the_very_next_request() -> None:
    hooks = Told(SessionStart=lambda payload: HookVerdict(context=(f"from {payload.source}",)))
    facts = ModelFacts(name="m", window=2_000, max_output=200, summarises=False)
    provider = ScriptedProvider(["word " * 150] * 12, facts)
    async with Session(provider, model="m", hooks=hooks) as chat:
        while "compact" not in sources(hooks):
            await chat.run("go on " * 20)
        shown = [entry.data["content"] for entry in chat.get_full_history() if entry.message]

    compacted = provider.requests[-1].messages
    assert "from compact" in compacted[-1].text
    assert "go on" in compacted[-2].text
    assert problems(compacted) == []
    assert not any("from compact" in text for text in shown)


@pytest.mark.req("HOK-1")
async def test_a_fork_says_so_when_it_is_opened_first() -> None:
    store, hooks = MemoryStore(), Told()
    first, _ = session("hi", hooks=hooks, store=store, session_id="s")
    async with first:
        await first.run("hi")
    fork = await store.fork(first.session_id)
    for _ in range(2):
        chat, _ = session("hello", hooks=hooks, store=store, session_id=fork.id)
        async with chat:
            await chat.run("again")

    assert sources(hooks) == ["startup", "fork", "resume"]


FAILURES: list[tuple[Exception, str]] = [
    (ProviderBusy("busy", provider="p"), "rate_limit"),
    (ProviderDenied("no key", provider="p"), "authentication_failed"),
    (ProviderRejected("bad", provider="p"), "invalid_request"),
    (ProviderTimeout("slow", provider="p"), "server_error"),
    (StreamBroken("cut", provider="p"), "server_error"),
    (ProviderError("odd", provider="p"), "unknown"),
    (ZeroDivisionError("a bug"), "unknown"),
]


@pytest.mark.req("HOK-1")
@pytest.mark.parametrize(("failure", "kind"), FAILURES)
async def test_every_failed_run_is_reported_with_its_kind(failure: Exception, kind: str) -> None:
    hooks = Told()
    chat, _ = session(failure, hooks=hooks)
    async with chat:
        with pytest.raises(type(failure)):
            await chat.run("hi")

    payload = hooks.payload(E.STOP_FAILURE)
    assert (payload.error, payload.reason) == (kind, str(failure))
    assert hooks.events.count("StopFailure") == 1


@pytest.mark.req("HOK-1")
async def test_failures_of_the_session_itself_are_reported_too() -> None:
    hooks = Told()
    same = call_reply(("add", {"a": 1, "b": 2}))
    limited, _ = session(same, same, hooks=hooks, max_turns=1)
    async with limited:
        with pytest.raises(TurnLimitReached):
            await limited.run("add")
    full, _ = session("never", hooks=hooks)
    async with full:
        with pytest.raises(ContextFull):
            await full.run("word " * 20_000)

    kinds = [payload.error for event, payload in hooks.seen if event is E.STOP_FAILURE]
    assert kinds == ["unknown", "invalid_request"]


@pytest.mark.req("HOK-1")
async def test_an_aborted_run_is_no_failure() -> None:
    hooks, pause = Told(), Pause()
    chat, _ = session([pause, TextChunk("never")], hooks=hooks)
    async with chat, anyio.create_task_group() as tasks:
        tasks.start_soon(chat.execute, "hi")
        await pause.reached.wait()
        chat.abort()

    assert "StopFailure" not in hooks.events


@pytest.mark.req("HOK-2")
async def test_hooks_get_the_path_of_the_session_log(tmp_path: Path) -> None:
    lines: list[int] = []

    def count(payload: HookInput) -> HookVerdict:
        lines.append(len(Path(payload.transcript_path).read_bytes().splitlines()))
        return HookVerdict()

    hooks = Told(Stop=count)
    chat, _ = session(
        "hello", hooks=hooks, session_id="s", session_log=SessionLog(tmp_path / "logs")
    )
    async with chat:
        await chat.run("hi")

    paths = {payload.transcript_path for _, payload in hooks.seen}
    assert paths == {str(tmp_path / "logs" / "s.jsonl")}
    assert lines[0] > 0
    for line in Path(paths.pop()).read_bytes().splitlines():
        json.loads(line)


@pytest.mark.req("HOK-2")
async def test_without_a_log_there_is_no_transcript() -> None:
    hooks = Told()
    chat, _ = session("hello", hooks=hooks)
    async with chat:
        await chat.run("hi")

    assert {payload.transcript_path for _, payload in hooks.seen} == {""}


@pytest.mark.req("HOK-2")
async def test_a_hook_of_a_program_denies_a_call_by_blocking_it() -> None:
    ran: list[str] = []

    @tool(risk=Risk.INSPECT)
    def look(where: str) -> str:
        """Look."""
        ran.append(where)
        return where

    provider = ScriptedProvider([call_reply(("look", {"where": "north"})), "Done."])
    hooks = Told(PreToolUse=HookVerdict(block="the north is closed"))
    async with Session(provider, model="m", tools=[look], hooks=hooks) as chat:
        result = await chat.execute("Look around.")

    assert ran == []
    assert result.tool_summaries[0].error_code == "hook_blocked"
    assert "the north is closed" in result.tool_summaries[0].tool_result_data


async def test_a_hook_of_a_program_that_returns_nothing_changes_nothing() -> None:
    class Silent:
        async def fire(self, event: HookEvent, payload: HookInput) -> Any:
            return None

    async with Session(ScriptedProvider(["Hello."]), model="m", hooks=Silent()) as chat:
        assert await chat.run("Hi.") == "Hello."
