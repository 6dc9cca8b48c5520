"""What the specification of sessions lists, row by row, and what each row does here.

Where a thing has another name or shape, the row says so: a session is asked by `async` methods
and properties, and what was a callback is an event.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from clew import Session
from clew.context.policy import ContextPolicy, Thresholds
from clew.core.access import Access, Approval, Decision, PermissionMode
from clew.core.context_state import Basis
from clew.core.entries import Noted
from clew.core.errors import (
    AbortError,
    ConfigError,
    ProviderBusy,
    TurnLimitReached,
)
from clew.core.events import (
    CompactionEnded,
    ContextUpdated,
    RunEnded,
    TextDelta,
    ToolEnded,
    ToolStarted,
)
from clew.core.messages import Role, assistant, user
from clew.core.usage import Usage
from clew.hooks.protocol import HookEvent
from clew.providers.protocol import TextChunk
from clew.providers.scripted import Pause, ScriptedReply, call_reply, text_reply
from clew.session.gate import Gate
from tests.session.scene import LONG, S, Scene

pytestmark = pytest.mark.anyio


@pytest.fixture
async def scene(tmp_path: Path) -> Any:
    made = Scene(tmp_path)
    yield made
    await made.store.aclose()


# --- Session methods -----------------------------------------------------------------------


async def run(scene: Scene) -> None:
    """Send a message; returns the answer, and the session is stored."""
    async with scene.session("hello") as session:
        assert await session.run("hi") == "hello"
    assert (await scene.store.record(S)).messages == 2


async def permission_mode(scene: Scene) -> None:
    """The mode is told, and changes what the next call may do."""
    launches: list[ScriptedReply] = [call_reply(("launch", {"what": "a"})), "no"]
    async with scene.session(*launches, *launches) as session:
        assert session.get_permission_mode() is PermissionMode.DEFAULT
        await session.run("try")
        await session.set_permission_mode(PermissionMode.BYPASS)
        assert session.get_permission_mode() is PermissionMode.BYPASS
        await session.run("again")
    assert [ended.denied for ended in scene.heard(ToolEnded)] == [True, False]


async def session_id(scene: Scene) -> None:
    """The id is stable; without one a fresh one is made."""
    async with scene.session("a", "b") as session:
        before = session.session_id
        await session.run("hi")
        assert session.session_id == before == "s"
    async with scene.session(session_id=None, log=None) as fresh:
        assert fresh.session_id not in {"", "s"}


async def message_count(scene: Scene) -> None:
    """The number of runs that came to their end."""
    async with scene.session("a", ProviderBusy("no", provider="p"), "b") as session:
        await session.run("one")
        with pytest.raises(ProviderBusy):
            await session.run("two")
        await session.run("three")
        count: Any = session
        assert count.get_message_count() == 2


async def clear_history(scene: Scene) -> None:
    """The conversation and its tokens are gone from the view."""
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


async def history(scene: Scene) -> None:
    """The conversation as messages, without notes."""
    async with scene.session(call_reply(("add", {"a": 1, "b": 2})), "three") as session:
        await session.run("add")
        await session.add_history_entry("tool-summary", "add was called")
        roles = [message.role for message in session.get_history()]
        assert roles == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]


async def full_history(scene: Scene) -> None:
    """Chat messages and event entries, in order: the journal's entries."""
    async with scene.session("hello") as session:
        await session.run("hi")
        await session.add_history_entry("tool-summary", "add was called", calls=1)
        await session.clear_history()
        assert [message.text for message in session.get_full_history()] == ["hi", "hello"]
        kinds = [type(entry.body).__name__ for entry in session.journal.entries]
        assert kinds == ["SetupChanged", "MessageAdded", "MessageAdded", "Noted", "Cleared"]


async def add_history_entry(scene: Scene) -> None:
    """An event entry is kept, also in the store, and never sent."""
    async with scene.session("hello") as session:
        await session.add_history_entry("tool-summary", "for people", calls=1)
        await session.run("hi")
    stored = [entry.body for entry in (await scene.store.load(S))[1]]
    assert Noted(topic="tool-summary", text="for people", data={"calls": 1}) in stored
    assert "for people" not in str(scene.provider.requests)


async def context_state(scene: Scene) -> None:
    """Tokens and share of the window, exact after an answer that was counted."""
    usage = Usage(input_tokens=500, output_tokens=10)
    async with scene.session(text_reply("hello", usage=usage)) as session:
        await session.run("hi")
        state = session.get_context_state()
    assert (state.used_tokens, state.max_tokens, state.basis) == (510, 2_000, Basis.EXACT)
    assert state.used_percentage == pytest.approx(25.5)


async def threshold(scene: Scene) -> None:
    """A share, or False; other values are refused and the next run goes by the new one."""
    async with scene.session(*[LONG] * 12) as session:
        assert session.policy.thresholds.compact == 0.835
        with pytest.raises(ConfigError):
            session.set_auto_compact_threshold(1.5)
        session.set_auto_compact_threshold(False)
        assert session.policy.thresholds.compact is False
        for number in range(9):
            await session.run(f"question {number}")
        assert scene.heard(CompactionEnded) == []
        session.set_auto_compact_threshold(0.3)
        await session.run("one more")
    assert [event.trigger for event in scene.heard(CompactionEnded)] == ["auto"]


async def get_threshold(scene: Scene) -> None:
    """The share is told by a method of its own."""
    async with scene.session() as session:
        asked: Any = session
        assert asked.get_auto_compact_threshold() == 0.835


async def compact(scene: Scene) -> None:
    """A summary takes the place of what was said; the system message stays; hooks are told."""
    async with scene.session(*[LONG] * 8, "after") as session:
        for number in range(8):
            await session.run(f"question {number}")
        await session.compact("keep the names")
        assert session.get_history()[0].text.startswith("[Context Summary]")
        assert session.get_history()[0].role is Role.ASSISTANT
        await session.run("and now?")
    assert scene.provider.requests[-1].system == "Be exact."
    (before,) = scene.hooks.of(HookEvent.PRE_COMPACT)
    assert (before.trigger, before.custom_instructions) == ("manual", "keep the names")
    (after,) = scene.hooks.of(HookEvent.POST_COMPACT)
    (ended,) = scene.heard(CompactionEnded)
    assert after.compact_summary == ended.summary
    assert ended.before.used_tokens > ended.after.used_tokens
    (logged,) = scene.logged("context_compact")
    assert (logged["trigger"], logged["author"]) == ("manual", "rules")


async def abort(scene: Scene) -> None:
    """The run ends with `AbortError` and the words that had come; without a run, nothing."""
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
    assert [ended.interrupted for ended in scene.heard(RunEnded)] == [True, False]


async def shutdown(scene: Scene) -> None:
    """What is under way is aborted, all is stored, `SessionEnd` is told exactly once."""
    pause = Pause()
    session = await scene.session([TextChunk("half"), pause]).open()
    async with anyio.create_task_group() as tasks:

        async def go() -> None:
            with pytest.raises(AbortError):
                await session.run("hi")

        tasks.start_soon(go)
        await pause.reached.wait()
        session.abort()
    await session.shutdown("logout")
    await session.shutdown("other")
    assert [payload.reason for payload in scene.hooks.of(HookEvent.SESSION_END)] == ["logout"]
    assert [line["reason"] for line in scene.logged("session_shutdown")] == ["logout"]
    assert scene.hooks.stored == 2


async def grants(scene: Scene) -> None:
    """What was allowed for the session is listed, and can be taken back."""

    async def ask(access: Access, decision: Decision) -> Approval:
        return Approval.SESSION

    gate = Gate(cwd=scene.folder, ask=ask)
    async with scene.session(call_reply(("launch", {"what": "a"})), "ok", gate=gate) as session:
        assert session.list_grants() == []
        await session.run("go")
        assert [grant.tool for grant in session.list_grants()] == ["launch"]
        session.clear_grants()
        assert session.list_grants() == []


async def inject_message(scene: Scene) -> None:
    """The user's and the assistant's words join the history; the model is not asked."""
    async with scene.session("yes") as session:
        await session.inject_message(user("we spoke of threads"))
        await session.inject_message(assistant("so we did"))
        assert scene.provider.requests == []
        await session.run("remember?")
    texts = [message.text for message in scene.provider.requests[0].messages]
    assert texts == ["we spoke of threads", "so we did", "remember?"]


async def system_message(scene: Scene) -> None:
    """The system's words are not a message but part of the setup, and can be changed."""
    async with scene.session("yes") as session:
        changed: Any = session
        await changed.set_system_message("Be brief.")
        await session.run("hi")
    assert scene.provider.requests[0].system == "Be brief."


Check = Callable[[Scene], Awaitable[None]]
METHODS: tuple[tuple[str, str, Check], ...] = (
    ("run", "run", run),
    ("getPermissionMode", "get_permission_mode", permission_mode),
    ("setPermissionMode", "set_permission_mode", permission_mode),
    ("getSessionId", "session_id", session_id),
    ("getMessageCount", "get_message_count", message_count),
    ("clearHistory", "clear_history", clear_history),
    ("getHistory", "get_history", history),
    ("getFullHistory", "get_full_history", full_history),
    ("addHistoryEntry", "add_history_entry", add_history_entry),
    ("getContextState", "get_context_state", context_state),
    ("getAutoCompactThreshold", "get_auto_compact_threshold", get_threshold),
    ("setAutoCompactThreshold", "set_auto_compact_threshold", threshold),
    ("compact", "compact", compact),
    ("abort", "abort", abort),
    ("shutdown", "shutdown", shutdown),
    ("isRunning", "is_running", abort),
    ("getSessionAllowedTools", "list_grants", grants),
    ("clearSessionAllowedTools", "clear_grants", grants),
    ("injectMessage", "inject_message", inject_message),
    ("injectMessage (system)", "set_system_message", system_message),
)


@pytest.mark.req("SES-1")
@pytest.mark.parametrize(
    ("name", "check"),
    [pytest.param(name, check, id=seed) for seed, name, check in METHODS],
)
async def test_a_method_of_the_table_does_what_its_row_says(
    scene: Scene, name: str, check: Check
) -> None:
    assert hasattr(Session, name)
    await check(scene)


# --- options -------------------------------------------------------------------------------


@pytest.mark.req("SES-2", "CTX-7")
async def test_the_options_of_the_table(scene: Scene) -> None:
    usage = Usage(input_tokens=300, output_tokens=5)
    calls: list[ScriptedReply] = [
        call_reply(("add", {"a": 1, "b": n}), usage=usage) for n in range(3)
    ]
    async with scene.session("hello there", *calls, max_turns=2) as session:
        await session.run("hi")
        readings = [event.state.basis for event in scene.heard(ContextUpdated)]
        deltas = "".join(event.text for event in scene.heard(TextDelta))
        with pytest.raises(TurnLimitReached):
            await session.run("add for ever")
    assert readings[:1] == [Basis.ESTIMATED]
    assert len(readings) == 2
    assert deltas == "hello there"
    assert [
        type(event) for event in scene.events if isinstance(event, ToolStarted | ToolEnded)
    ] == [
        ToolStarted,
        ToolEnded,
    ] * 2
    later = [event.state.basis for event in scene.heard(ContextUpdated)][2:]
    assert later[:2] == [Basis.ESTIMATED, Basis.EXACT]
    never = ContextPolicy(thresholds=Thresholds(compact=False))
    async with scene.session(policy=never, session_id=None, log=None) as other:
        assert other.policy.thresholds.compact is False
