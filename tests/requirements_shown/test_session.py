"""Every method and option of a session does what the documentation says."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from clew import (
    AbortError,
    Approval,
    Decision,
    Gate,
    PermissionMode,
    Risk,
    Role,
    Session,
    Usage,
    Verdict,
    tool,
)
from clew.core.context_state import Basis
from clew.core.entries import Noted
from clew.core.errors import ProviderBusy, ProviderTimeout, SessionError, TurnLimitReached
from clew.core.events import (
    ContextUpdated,
    Event,
    RunCompleted,
    RunInterrupted,
    TextDelta,
    ToolEnded,
    ToolStarted,
)
from clew.core.messages import assistant, user
from clew.core.permissions import Access
from clew.hooks.protocol import HookEvent, HookVerdict
from clew.providers.protocol import Chunk, Finished, Request, StopReason, TextChunk
from clew.providers.scripted import Pause, ScriptedProvider, ScriptedReply, call_reply, text_reply
from tests.event_buses import bus_for
from tests.session.scene import LONG, S, Scene

pytestmark = pytest.mark.anyio


@pytest.fixture
async def scene(tmp_path: Path) -> Any:
    made = Scene(tmp_path)
    yield made
    await made.store.aclose()


@pytest.mark.req("SES-1")
async def test_run_returns_the_answer_and_stores_both_messages(scene: Scene) -> None:
    async with scene.session("hello") as session:
        assert await session.run("hi") == "hello"
    assert (await scene.store.record(S)).messages == 2


@pytest.mark.req("SES-1")
async def test_a_changed_permission_mode_applies_to_the_next_call(scene: Scene) -> None:
    launches: list[ScriptedReply] = [call_reply(("launch", {"what": "a"})), "no"]
    async with scene.session(*launches, *launches) as session:
        assert session.get_permission_mode() is PermissionMode.DEFAULT
        await session.run("try")
        await session.set_permission_mode(PermissionMode.BYPASS)
        assert session.get_permission_mode() is PermissionMode.BYPASS
        await session.run("again")
    assert [ended.denied for ended in scene.heard(ToolEnded)] == [True, False]


@pytest.mark.req("SES-1", "SES-2")
async def test_a_known_session_id_continues_the_stored_conversation(scene: Scene) -> None:
    async with scene.session("first answer") as session:
        before = session.session_id
        await session.run("first")
        assert session.session_id == before == "s"
    async with scene.session("second answer") as again:
        await again.run("second")
    texts = [message.text for message in scene.provider.requests[-1].messages]
    assert texts == ["first", "first answer", "second"]


@pytest.mark.req("SES-1", "SES-2")
async def test_a_session_without_an_id_gets_a_fresh_one(scene: Scene) -> None:
    ids = set[str]()
    for _ in range(2):
        async with scene.session("hello", session_id=None, session_log=None) as session:
            await session.run("hi")
            assert [message.text for message in session.get_history()] == ["hi", "hello"]
            ids.add(session.session_id)
    assert len(ids) == 2
    assert {record.id for record in await scene.store.sessions()} == ids


@pytest.mark.req("SES-1")
async def test_the_message_count_is_the_number_of_completed_runs(scene: Scene) -> None:
    async with scene.session("a", ProviderBusy("no", provider="p"), "b") as session:
        await session.run("one")
        with pytest.raises(ProviderBusy):
            await session.run("two")
        await session.run("three")
        assert session.get_message_count() == 2


@pytest.mark.req("SES-1")
async def test_clear_history_empties_the_view_and_its_token_count(scene: Scene) -> None:
    usage = Usage(input_tokens=400, output_tokens=150)
    async with scene.session(text_reply(LONG, usage=usage)) as session:
        await session.run("hi")
        before = session.get_context_state()
        await session.clear_history()
        after = session.get_context_state()
        assert session.get_history() == []
    assert (before.used_tokens, before.basis) == (550, Basis.EXACT)
    assert after.basis is Basis.ESTIMATED
    assert after.used_tokens < before.used_tokens
    assert (after.breakdown.user, after.breakdown.assistant) == (0, 0)


@pytest.mark.req("SES-1")
async def test_the_history_has_messages_and_no_notes(scene: Scene) -> None:
    async with scene.session(call_reply(("add", {"a": 1, "b": 2})), "three") as session:
        await session.run("add")
        await session.add_history_entry("tool-summary", "add was called")
        roles = [message.role for message in session.get_history()]
        assert roles == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]


@pytest.mark.req("SES-1")
async def test_the_full_history_keeps_what_was_cleared(scene: Scene) -> None:
    async with scene.session("hello") as session:
        await session.run("hi")
        await session.add_history_entry("tool-summary", "add was called", calls=1)
        await session.clear_history()
        assert [(one.category, one.type) for one in session.get_full_history()] == [
            ("chat", "user"),
            ("chat", "assistant"),
            ("event", "tool-summary"),
            ("event", "clear"),
        ]
        kinds = [type(entry.body).__name__ for entry in session.journal.entries]
        assert kinds == ["SetupChanged", "MessageAdded", "MessageAdded", "Noted", "Cleared"]


@pytest.mark.req("SES-1")
async def test_a_history_entry_is_stored_and_never_sent(scene: Scene) -> None:
    async with scene.session("hello") as session:
        await session.add_history_entry("tool-summary", "for people", calls=1)
        await session.run("hi")
    stored = [entry.body for entry in (await scene.store.load(S))[1]]
    assert Noted(topic="tool-summary", text="for people", data={"calls": 1}) in stored
    assert "for people" not in str(scene.provider.requests)


@pytest.mark.req("SES-1")
async def test_the_context_state_is_exact_after_an_answer_with_usage(scene: Scene) -> None:
    usage = Usage(input_tokens=500, output_tokens=10)
    async with scene.session(text_reply("hello", usage=usage)) as session:
        await session.run("hi")
        state = session.get_context_state()
    assert (state.used_tokens, state.max_tokens, state.basis) == (510, 2_000, Basis.EXACT)
    assert state.used_percentage == pytest.approx(25.5)


@pytest.mark.req("SES-1")
async def test_abort_ends_a_run_keeps_its_words_and_does_nothing_without_one(scene: Scene) -> None:
    pause = Pause()
    async with scene.session([TextChunk("half an "), pause], "whole") as session:
        session.abort()
        async with anyio.create_task_group() as tasks:

            async def stop() -> None:
                await pause.reached.wait()
                assert session.is_running
                session.abort()

            tasks.start_soon(stop)
            with pytest.raises(AbortError):
                await session.run("go")
        last = session.get_history()[-1]
        assert (last.text, last.interrupted) == ("half an ", True)
        assert not session.is_running
        assert await session.run("again") == "whole"
    assert len(scene.heard(RunInterrupted)) == len(scene.heard(RunCompleted)) == 1


@pytest.mark.req("SES-1")
async def test_shutdown_aborts_a_run_and_gives_its_reason_once(scene: Scene) -> None:
    pause = Pause()
    session = await scene.session([TextChunk("half"), pause]).open()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:

            async def go() -> None:
                with pytest.raises(AbortError):
                    await session.run("hi")

            tasks.start_soon(go)
            await pause.reached.wait()
            await session.shutdown("logout")
            await session.shutdown("other")
    assert [payload.reason for payload in scene.hooks.of(HookEvent.SESSION_END)] == ["logout"]
    assert [line["reason"] for line in scene.logged("session_shutdown")] == ["logout"]


@pytest.mark.req("SES-1")
async def test_the_conversation_is_stored_before_the_end_of_the_session_is_reported(
    scene: Scene,
) -> None:
    async with scene.session("hello") as session:
        await session.run("hi")
    assert scene.hooks.stored == 2


@pytest.mark.req("SES-1")
async def test_session_grants_are_listed_and_cleared_grants_are_asked_for_again(
    scene: Scene,
) -> None:
    asked = list[str]()

    async def ask(access: Access, decision: Decision) -> Approval:
        asked.append(access.target)
        return Approval.SESSION

    gate = Gate(cwd=scene.folder, ask=ask)
    launches: list[ScriptedReply] = [call_reply(("launch", {"what": "a"})), "ok"]
    async with scene.session(*launches * 3, gate=gate) as session:
        assert session.list_grants() == []
        await session.run("go")
        await session.run("again")
        assert [grant.tool for grant in session.list_grants()] == ["launch"]
        assert asked == ["a"]

        session.clear_grants()

        assert session.list_grants() == []
        await session.run("once more")
        assert asked == ["a", "a"]


@pytest.mark.req("SES-1")
async def test_injected_messages_join_the_history_without_a_model_call(scene: Scene) -> None:
    async with scene.session("yes") as session:
        await session.inject_message(user("we spoke of threads"))
        await session.inject_message(assistant("so we did"))
        assert scene.provider.requests == []
        await session.run("remember?")
    texts = [message.text for message in scene.provider.requests[0].messages]
    assert texts == ["we spoke of threads", "so we did", "remember?"]


@pytest.mark.req("SES-1")
async def test_the_system_message_can_be_changed(scene: Scene) -> None:
    async with scene.session("yes") as session:
        await session.set_system_message("Be brief.")
        await session.run("hi")
    assert scene.provider.requests[0].system == "Be brief."


@pytest.mark.req("SES-2", "CTX-7")
async def test_the_context_is_reported_before_and_after_each_call(scene: Scene) -> None:
    usage = Usage(input_tokens=300, output_tokens=5)
    calls: list[ScriptedReply] = [call_reply(("add", {"a": 1, "b": 2}), usage=usage), "three"]
    async with scene.session(*calls) as session:
        await session.run("add")
    readings = [event.state.basis for event in scene.heard(ContextUpdated)]
    assert readings == [Basis.ESTIMATED, Basis.EXACT, Basis.ESTIMATED, Basis.ESTIMATED]


@pytest.mark.req("SES-2")
async def test_max_turns_limits_the_model_calls_of_one_run(scene: Scene) -> None:
    calls: list[ScriptedReply] = [call_reply(("add", {"a": 1, "b": n})) for n in range(3)]
    async with scene.session("hello", *calls, "done", max_turns=2) as session:
        await session.run("hi")
        with pytest.raises(TurnLimitReached):
            await session.run("add for ever")
        assert len(scene.provider.requests) == 3
        await session.run("finish")
    async with scene.session(*calls * 4, "done", session_id=None, session_log=None) as unlimited:
        assert await unlimited.run("add") == "done"


@pytest.mark.req("SES-2")
async def test_a_silent_provider_is_given_up_after_the_idle_timeout(scene: Scene) -> None:
    silent: ScriptedReply = [TextChunk("half "), Pause()]
    async with scene.session(silent, "whole", provider_timeout=0.05) as session:
        with anyio.fail_after(60), pytest.raises(ProviderTimeout):
            await session.run("hi")
        assert session.get_history()[-1].text == "half "
        assert await session.run("again") == "whole"


@pytest.mark.req("SES-2")
async def test_each_word_restarts_the_idle_timeout() -> None:
    async with Session(Slow(words=8, seconds=0.1), model="m", provider_timeout=0.6) as session:
        assert await session.run("hi") == "word " * 8


class Slow(ScriptedProvider):
    """Takes longer for its whole answer than it may be silent."""

    def __init__(self, *, words: int, seconds: float) -> None:
        super().__init__([])
        self._words, self._seconds = words, seconds

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        for _ in range(self._words):
            await anyio.sleep(self._seconds)
            yield TextChunk("word ")
        yield Finished(reason=StopReason.DONE)


@pytest.mark.req("SES-2")
async def test_sessions_that_share_a_provider_hear_only_their_own_run() -> None:
    provider = Echo()
    heard: dict[str, list[str]] = {"one": [], "two": []}

    async def run(word: str) -> None:
        def listen(event: Event) -> None:
            if isinstance(event, TextDelta):
                heard[word].append(event.text)

        async with Session(provider, model="m", event_bus=bus_for(listen)) as session:
            assert await session.run(word) == f"{word} {word} {word} "

    async with anyio.create_task_group() as tasks:
        for word in heard:
            tasks.start_soon(run, word)

    assert {word: "".join(texts) for word, texts in heard.items()} == {
        word: f"{word} " * 3 for word in heard
    }


class Echo(ScriptedProvider):
    """Says the prompt three times, and lets other tasks run between the words."""

    def __init__(self) -> None:
        super().__init__([])

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
            yield TextChunk(f"{request.messages[-1].text} ")
        yield Finished(reason=StopReason.DONE)


class Workers:
    """A tool whose calls wait for each other, and the number that ran at the same time."""

    def __init__(self, together: int) -> None:
        self.running = self.most = 0
        self.finished = list[int]()
        self._together = together
        self._full = anyio.Event()

    async def work(self, number: int) -> str:
        self.running += 1
        self.most = max(self.most, self.running)
        if self.running == self._together:
            self._full.set()
        await self._full.wait()
        for _ in range(10 - number):  # the later calls finish first
            await anyio.lowlevel.checkpoint()
        self.running -= 1
        self.finished.append(number)
        return f"result {number}"


@pytest.mark.req("TOL-3")
async def test_calls_run_in_parallel_up_to_a_limit_with_results_in_call_order() -> None:
    workers = Workers(together=5)

    @tool(risk=Risk.INSPECT)
    async def work(number: int) -> str:
        """Work."""
        return await workers.work(number)

    calls = call_reply(*(("work", {"number": number}) for number in range(8)))
    async with Session(ScriptedProvider([calls, "done"]), model="m", tools=[work]) as session:
        with anyio.fail_after(60):
            await session.run("go")
        results = [r.text for message in session.get_history() for r in message.results]

    assert workers.most == 5
    assert workers.finished != sorted(workers.finished)
    assert results == [f"result {number}" for number in range(8)]


@pytest.mark.req("TOL-3")
async def test_an_unknown_tool_fails_on_the_same_events_as_any_tool(scene: Scene) -> None:
    calls = call_reply(("add", {"a": 1, "b": 2}), ("subtract", {"a": 1}))
    async with scene.session(calls, "done") as session:
        await session.run("go")
        (_, result) = [r for message in session.get_history() for r in message.results]

    assert result.failed
    assert "subtract" in result.text
    started = {event.call_id: event.name for event in scene.heard(ToolStarted)}
    ended = {event.call_id: event for event in scene.heard(ToolEnded)}
    assert started.keys() == ended.keys()
    assert started[result.call_id] == "subtract"
    assert ended[result.call_id].failed
    assert ended[result.call_id].error_code == "unknown_tool"


@pytest.mark.req("SES-3")
async def test_a_failed_run_is_logged_and_raised_and_the_session_stays_usable(
    scene: Scene,
) -> None:
    busy = ProviderBusy("the host is busy", provider="scripted")
    async with scene.session("one", [TextChunk("part"), busy], "three") as session:
        await session.run("first")
        with pytest.raises(ProviderBusy, match="the host is busy"):
            await session.run("second")
        texts = [message.text for message in session.get_history()]
        assert texts == ["first", "one", "second", "part"]
        assert await session.run("third") == "three"
    assert [line["text"] for line in scene.logged("error")] == ["the host is busy"]


@pytest.mark.req("TOL-4")
async def test_every_failure_of_a_tool_is_a_result_with_its_error_code(scene: Scene) -> None:
    scene.hooks.answers[HookEvent.PRE_TOOL_USE] = HookVerdict()
    wish: list[ScriptedReply] = [
        call_reply(
            ("launch", {"what": "a"}), ("crash", {}), ("nothing", {}), ("add", {"a": 1, "b": 2})
        ),
        "done",
    ]
    async with scene.session(*wish) as session:
        await session.run("try")
        scene.hooks.answers[HookEvent.PRE_TOOL_USE] = HookVerdict(
            decision=Decision(Verdict.DENY, "not on Fridays")
        )
        results = [m.results[0] for m in session.get_history() if m.role is Role.TOOL]
    assert [result.failed for result in results] == [True, True, True, False]
    assert results[0].text.startswith("Permission denied")
    assert "boom" in results[1].text
    assert [e.error_code for e in scene.heard(ToolEnded)] == [
        "denied",
        "crashed",
        "unknown_tool",
        "",
    ]
    async with scene.session(call_reply(("add", {"a": 1, "b": 2})), "done") as session:
        await session.run("try again")
        last = [m.results[0] for m in session.get_history() if m.role is Role.TOOL][-1]
    assert (last.failed, "not on Fridays" in last.text) == (True, True)
    assert scene.heard(ToolEnded)[-1].error_code == "hook_blocked"


async def test_hooks_see_the_whole_life_of_a_session(scene: Scene) -> None:
    busy = ProviderBusy("the host is busy", provider="scripted")
    scene.hooks.answers[HookEvent.USER_PROMPT_SUBMIT] = HookVerdict(context=("It is Friday.",))
    async with scene.session("one", busy) as session:
        await session.run("first")
        with pytest.raises(ProviderBusy):
            await session.run("second")
    assert [str(event) for event, _ in scene.hooks.seen] == [
        *("SessionStart", "UserPromptSubmit", "Stop"),
        *("UserPromptSubmit", "StopFailure", "SessionEnd"),
    ]
    (stop,) = scene.hooks.of(HookEvent.STOP)
    assert (stop.response, stop.last_assistant_message, stop.stop_hook_active) == (
        "one",
        "one",
        False,
    )
    (failure,) = scene.hooks.of(HookEvent.STOP_FAILURE)
    assert (failure.error, failure.error_details) == ("rate_limit", "the host is busy")
    assert "It is Friday." in scene.provider.requests[0].messages[0].text
    assert scene.hooks.stored == 3


async def test_the_stop_failure_hook_gets_the_reason(scene: Scene) -> None:
    async with scene.session(ProviderBusy("the host is busy", provider="scripted")) as session:
        with pytest.raises(ProviderBusy):
            await session.run("first")
    assert scene.hooks.of(HookEvent.STOP_FAILURE)[0].reason == "the host is busy"


@pytest.mark.req("SES-4")
async def test_a_second_run_is_refused_while_the_first_is_running(scene: Scene) -> None:
    pause = Pause()
    async with (
        scene.session([pause, *text_reply("done")]) as session,
        anyio.create_task_group() as t,
    ):
        t.start_soon(session.run, "one")
        await pause.reached.wait()
        with pytest.raises(SessionError, match="busy with another run"):
            await session.run("two")
        pause.release()
