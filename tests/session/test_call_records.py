"""`record_calls`: after a crash, calls that had not started run again, and no write runs twice."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from clew import Session, tool
from clew.core.entries import CallStarted, Entry, MessageAdded
from clew.core.errors import StoreUnavailable
from clew.core.events import ToolEnded, ToolStarted
from clew.core.ids import CallId, SessionId
from clew.core.messages import ToolCall, ToolResult, assistant, user
from clew.core.models import ModelFacts
from clew.core.permissions import Approval, PermissionMode, Risk
from clew.hooks.protocol import HookEvent, HookVerdict
from clew.providers.scripted import ScriptedProvider, ScriptedReply, call_reply
from clew.session.gate import Gate
from clew.session.journal import Journal
from clew.stores.memory import MemoryStore
from clew.stores.sqlite import SqliteStore
from clew.tools.builtin import builtin_tools
from clew.tools.sandbox import Sandbox, SandboxMode, SandboxPolicy
from tests.histories import problems
from tests.session.recorded_child import make_tools
from tests.session.scene import Told

pytestmark = [pytest.mark.anyio, pytest.mark.req("DST-2")]

ROOT = Path(__file__).parent.parent.parent
FACTS = ModelFacts(name="m", window=10_000)
S = SessionId("s")
UNKNOWN = "outcome unknown. Check what it has done before you repeat it"


@tool(risk=Risk.INSPECT)
def look() -> str:
    """Look at something."""
    return "seen"


@tool(risk=Risk.EXECUTE, target="what")
def change(what: str) -> str:
    """Change something."""
    return f"{what} changed"


def session(*replies: ScriptedReply, **options: Any) -> tuple[Session, ScriptedProvider]:
    provider = ScriptedProvider(replies, FACTS)
    gate = Gate(cwd=Path.cwd(), mode=PermissionMode.BYPASS)
    given: dict[str, Any] = {
        "tools": [look, change],
        "gate": gate,
        "record_calls": True,
        "session_id": S,
    }
    return Session(provider, model="m", **(given | options)), provider


def recorded(entries: Sequence[Entry]) -> list[tuple[CallId, ...]]:
    return [entry.body.call_ids for entry in entries if isinstance(entry.body, CallStarted)]


def results_of(provider: ScriptedProvider) -> list[ToolResult]:
    return [r for message in provider.requests[-1].messages for r in message.results]


async def leave_open_calls(
    store: MemoryStore, *calls: ToolCall, begun: Sequence[CallId] = ()
) -> None:
    """Write the journal of a session that died while these calls ran."""
    journal = await Journal.open(store, cwd=Path("/work"), session_id=S)
    await journal.append(MessageAdded(message=user("work")))
    await journal.append(MessageAdded(message=assistant(*calls)))
    if begun:
        await journal.append(CallStarted(call_ids=tuple(begun)))
    await journal.aclose()


def call(name: str, number: int, arguments: str = "{}") -> ToolCall:
    return ToolCall(call_id=CallId(f"c{number}"), name=name, arguments=arguments)


CHANGE = '{"what": "it"}'


async def test_calls_that_begin_together_are_recorded_in_one_entry_before_they_run() -> None:
    chat, _ = session(
        call_reply(("change", {"what": "a"}), ("look", {}), ("change", {"what": "b"})), "done"
    )
    async with chat:
        await chat.run("work")

    entries = chat.journal.entries
    (started,) = [n for n, entry in enumerate(entries) if isinstance(entry.body, CallStarted)]
    (ids,) = recorded(entries)
    asked = entries[started - 1].body
    assert isinstance(asked, MessageAdded)
    assert [one.call_id for one in asked.message.calls if one.name == "change"] == list(ids)


async def test_a_session_without_the_option_records_nothing() -> None:
    chat, _ = session(call_reply(("change", {"what": "a"})), "done", record_calls=False)
    async with chat:
        await chat.run("work")

    assert recorded(chat.journal.entries) == []


async def test_a_command_that_only_reads_is_not_recorded(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    sandbox = Sandbox(SandboxPolicy(mode=SandboxMode.OFF))
    chat, provider = session(
        call_reply(("Bash", {"command": "cat a.txt"}), ("Bash", {"command": "touch b.txt"})),
        "done",
        tools=builtin_tools(sandbox=sandbox),
        cwd=tmp_path,
        gate=Gate(cwd=tmp_path, mode=PermissionMode.BYPASS),
    )
    async with chat:
        await chat.run("work")

    asked = next(m for m in provider.requests[-1].messages if m.calls)
    assert recorded(chat.journal.entries) == [(asked.calls[1].call_id,)]


async def test_a_call_that_the_user_starts_is_recorded() -> None:
    chat, _ = session()
    async with chat:
        await chat.run_tool("change", CHANGE, said="!change it")

    assert len(recorded(chat.journal.entries)) == 1


async def test_denied_and_blocked_calls_are_not_recorded() -> None:
    hooks = Told()
    hooks.answers[HookEvent.PRE_TOOL_USE] = HookVerdict(stop="not now")
    denied, _ = session(
        call_reply(("change", {"what": "a"})), "done", gate=Gate(cwd=Path.cwd()), session_id="a"
    )
    blocked, _ = session(call_reply(("change", {"what": "a"})), "done", hooks=hooks, session_id="b")
    async with denied, blocked:
        await denied.run("work")
        with pytest.raises(Exception, match="not now"):
            await blocked.run("work")

    assert recorded(denied.journal.entries) == []
    assert recorded(blocked.journal.entries) == []


async def test_a_call_that_waits_for_permission_has_not_begun() -> None:
    asked = anyio.Event()
    seen: list[list[tuple[CallId, ...]]] = []

    async def ask(*_: Any) -> Approval:
        seen.append(recorded(chat.journal.entries))
        asked.set()
        await anyio.lowlevel.checkpoint()
        return Approval.ONCE

    chat, _ = session(
        call_reply(("change", {"what": "a"})), "done", gate=Gate(cwd=Path.cwd(), ask=ask)
    )
    async with chat:
        await chat.run("work")

    assert seen == [[]]
    assert len(recorded(chat.journal.entries)) == 1


async def test_open_calls_run_again_unless_they_had_begun() -> None:
    store = MemoryStore()
    calls = [call("look", 0), call("change", 1, CHANGE), call("change", 2, CHANGE)]
    await leave_open_calls(store, *calls, begun=[CallId("c1")])
    chat, provider = session("done", store=store)
    events: list[ToolStarted | ToolEnded] = []
    chat.bus.on("tool_start", events.append)
    chat.bus.on("tool_end", events.append)
    async with chat:
        result = await chat.continue_run()

    found = {r.call_id: r for r in results_of(provider)}
    assert result.response == "done"
    assert found[CallId("c0")].text == "seen"
    assert found[CallId("c1")].failed
    assert UNKNOWN in found[CallId("c1")].text
    assert found[CallId("c2")].text == "it changed"
    assert recorded(chat.journal.entries) == [(CallId("c1"),), (CallId("c2"),)]
    assert problems(provider.requests[-1].messages) == []
    assert len(events) == 6
    codes = {event.call_id: event.error_code for event in events if isinstance(event, ToolEnded)}
    assert codes[CallId("c1")] == "outcome_unknown"


async def test_a_continuation_that_dies_too_repeats_nothing_that_it_had_begun() -> None:
    store = MemoryStore()
    await leave_open_calls(store, call("change", 1, CHANGE), begun=[CallId("c1")])
    first, _ = session(StoreUnavailable("down"), store=store)
    async with first:
        with pytest.raises(StoreUnavailable):
            await first.continue_run()
    second, provider = session("done", store=store)
    async with second:
        await second.continue_run()

    assert [UNKNOWN in r.text for r in results_of(provider)] == [True]


async def test_a_new_prompt_after_a_crash_leaves_the_open_calls_failed() -> None:
    store = MemoryStore()
    await leave_open_calls(store, call("look", 0), call("change", 1, CHANGE), begun=[CallId("c1")])
    chat, provider = session("done", store=store)
    async with chat:
        await chat.run("something else")

    assert [r.failed for r in results_of(provider)] == [True, True]
    assert problems(provider.requests[-1].messages) == []


async def test_without_the_option_open_calls_fail_as_soon_as_the_session_is_open() -> None:
    store = MemoryStore()
    await leave_open_calls(store, call("look", 0))
    chat, provider = session("done", store=store, record_calls=False)
    async with chat:
        assert [m.results[0].failed for m in chat.get_history() if m.results] == [True]
        await chat.continue_run()

    assert [r.failed for r in results_of(provider)] == [True]


class FailingStore(MemoryStore):
    """Does not store that a call begins, for as many times as given."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    async def append(self, session_id: SessionId, entries: Sequence[Entry]) -> None:
        if any(isinstance(entry.body, CallStarted) for entry in entries) and self.failures:
            self.failures -= 1
            raise StoreUnavailable("the disk is full")
        await super().append(session_id, entries)


async def test_a_call_that_cannot_be_recorded_does_not_run() -> None:
    ran: list[str] = []

    @tool(risk=Risk.EXECUTE, target="what")
    def change(what: str) -> str:
        """Change something."""
        ran.append(what)
        return "changed"

    chat, provider = session(
        call_reply(*[("change", {"what": what}) for what in ("a", "b")]),
        "done",
        tools=[change],
        store=FailingStore(failures=1),
    )
    async with chat:
        await chat.run("work")

    first, second = results_of(provider)
    assert "was not run" in first.text
    assert second.text == "changed"
    assert ran == ["b"]
    asked = next(m for m in provider.requests[-1].messages if m.calls)
    assert recorded(chat.journal.entries) == [(asked.calls[1].call_id,)]


def kill_while_calls_run(folder: Path) -> None:
    command = [sys.executable, "-m", "tests.session.recorded_child", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        said = sorted(child.stdout.readline() for _ in range(4))
        assert said == ["committed\n", "running\n", "running\n", "running\n"]
        child.kill()


@pytest.mark.slow("kills processes")
async def test_a_killed_process_repeats_no_call_that_changes_something(tmp_path: Path) -> None:
    await anyio.to_thread.run_sync(kill_while_calls_run, tmp_path)
    store = SqliteStore(tmp_path / "s.db")
    chat, provider = session(
        "done",
        tools=make_tools(tmp_path, hang=False),
        store=store,
        cwd=tmp_path,
        gate=Gate(cwd=tmp_path, mode=PermissionMode.BYPASS),
    )
    async with chat:
        result = await chat.continue_run()
    await store.aclose()

    ran = (tmp_path / "ran.txt").read_text().split("\n")
    texts = [r.text for r in results_of(provider)]
    assert result.response == "done"
    assert [ran.count(f"change {what}") for what in ("quick", "slow", "later")] == [1, 1, 1]
    assert ran.count("look") == 4
    assert sorted(text for text in texts if UNKNOWN not in text) == [
        "later changed",
        "quick changed",
        "seen",
        "seen",
    ]
    assert sum(UNKNOWN in text for text in texts) == 1
    assert problems(provider.requests[-1].messages) == []
