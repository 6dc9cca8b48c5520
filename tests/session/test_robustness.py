"""What must hold when stores fail, tasks are cancelled, and models misbehave."""

import asyncio
import gc
import sqlite3
import weakref
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from clew import Session, tool
from clew.core.entries import Entry, Noted, Undone
from clew.core.errors import (
    AlreadyRunning,
    ClewError,
    ConfigError,
    ContextOverflow,
    SessionError,
    StoreUnavailable,
    StreamBroken,
)
from clew.core.events import Event, RunCompleted, RunFailed, UserMessage
from clew.core.ids import CallId, SessionId
from clew.core.messages import Image, Message, Role, Text, ToolCall, assistant, tool_result, user
from clew.core.models import ModelFacts
from clew.core.permissions import Access, Approval, Decision, PermissionMode, Risk
from clew.core.usage import Usage
from clew.providers.protocol import CallChunk, Finished, StopReason, TextChunk
from clew.providers.scripted import (
    ScriptedProvider,
    ScriptedReply,
    ScriptedStep,
    call_reply,
    text_reply,
)
from clew.session.gate import Gate
from clew.stores.memory import MemoryStore
from clew.stores.sqlite import SqliteStore
from tests.event_buses import bus_for
from tests.histories import problems

pytestmark = pytest.mark.anyio

FACTS = ModelFacts(name="m", window=10_000, summarises=False)


@tool(risk=Risk.INSPECT)
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def scripted(*replies: ScriptedReply) -> ScriptedProvider:
    return ScriptedProvider(replies, facts=FACTS)


class FullStore(MemoryStore):
    """A store that has no room for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.full_after: int | None = None

    async def append(self, session_id: SessionId, entries: Sequence[Entry]) -> None:
        if self.full_after is not None and entries[-1].id > self.full_after:
            raise StoreUnavailable("disk is full")
        await super().append(session_id, entries)


@pytest.mark.req("STO-2", "TOL-4")
async def test_calls_that_a_full_disk_left_open_are_answered_before_anything_else() -> None:
    store = FullStore()
    provider = scripted(call_reply(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})), "fine")
    events: list[Event] = []
    async with Session(
        provider, model="m", tools=[add], store=store, event_bus=bus_for(events.append)
    ) as session:
        store.full_after = 3
        with pytest.raises(StoreUnavailable, match="disk is full"):
            await session.run("go")
        store.full_after = None

        assert await session.run("again") == "fine"

        assert problems(provider.requests[1].messages) == []
        assert problems(session.get_history()) == []
        reopened = Session(scripted(), model="m", store=store, session_id=session.session_id)
        async with reopened as again:
            assert again.get_history() == session.get_history()
    kinds = [type(event) for event in events]
    assert (kinds.count(RunFailed), kinds.count(RunCompleted)) == (1, 1)


@pytest.mark.req("TOL-4")
async def test_half_characters_from_tools_models_and_people_break_nothing(tmp_path: Path) -> None:
    @tool(risk=Risk.INSPECT)
    def odd_name() -> str:
        """Return a name that is not UTF-8."""
        return "b\udcffd.txt"

    store = SqliteStore(tmp_path / "s.db")
    provider = scripted(call_reply(("odd_name", {})), "an\ud800swer")
    async with Session(provider, model="m", tools=[odd_name], store=store) as session:
        answer = await session.run("what\udcff?")

        assert answer == "an\ufffdswer"
        assert session.get_history()[0].text == "what\ufffd?"
        assert session.get_history()[2].results[0].text == "b\ufffdd.txt"
        assert session.get_history()[3].text == "an\ufffdswer"
    await store.aclose()


@pytest.mark.req("STO-4")
async def test_a_cancelled_write_does_not_make_the_session_unusable(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    async with Session(scripted("0", "1", "2"), model="m", store=store) as session:
        await session.run("first")
        other = sqlite3.connect(tmp_path / "s.db", isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        task = asyncio.ensure_future(session.run("go"))
        with anyio.move_on_after(0.2):
            await asyncio.wait([task])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        other.execute("ROLLBACK")
        other.close()

        with anyio.fail_after(60):
            assert await session.run("again") in ("1", "2")

        assert problems(session.get_history()) == []
        ids = [entry.id for entry in session.journal.entries]
        assert ids == list(range(1, len(ids) + 1))
    _, stored = await store.load(session.session_id)
    assert stored == session.journal.entries
    await store.aclose()


async def test_what_would_make_the_history_invalid_is_refused() -> None:
    call = ToolCall(call_id=CallId("a"), name="add")
    async with Session(scripted("fine"), model="m") as session:
        with pytest.raises(SessionError, match="belong together"):
            await session.inject_message(assistant(call))
        with pytest.raises(SessionError, match="belong together"):
            await session.inject_message(tool_result(call, "1"))
        with pytest.raises(SessionError, match="empty"):
            await session.inject_message(Message(role=Role.USER, parts=()))
        with pytest.raises(SessionError, match="user message that is not empty"):
            await session.run(Message(role=Role.USER, parts=()))
        with pytest.raises(SessionError, match="user message that is not empty"):
            await session.run(tool_result(call, "1"))
        with pytest.raises(SessionError, match="cannot be stored"):
            await session.add_history_entry("note", "text", what=object())

        with pytest.raises(SessionError, match="must begin with a user message"):
            await session.inject_message(assistant("hello"))
        with pytest.raises(SessionError, match="not empty"):
            await session.run("  ")

        picture = Message(role=Role.USER, parts=(Text("see"), Image(data=b"x")))
        assert await session.run(picture) == "fine"


async def test_nothing_can_be_injected_between_a_call_and_its_result() -> None:
    running, go_on = anyio.Event(), anyio.Event()

    @tool(risk=Risk.INSPECT)
    async def slow() -> str:
        """Wait."""
        running.set()
        await go_on.wait()
        return "done"

    provider = scripted(call_reply(("slow", {})), "end")
    async with Session(provider, model="m", tools=[slow]) as session:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(session.run, "go")
                await running.wait()
                with pytest.raises(AlreadyRunning):
                    await session.inject_message(user("psst"))
                go_on.set()
    assert problems(provider.requests[1].messages) == []


@pytest.mark.req("CMP-9", "CTX-8")
async def test_a_prompt_that_overflows_the_real_window_is_taken_back() -> None:
    overflow = ContextOverflow("too long", provider="scripted")
    provider = scripted("hello", overflow, "still here")
    async with Session(provider, model="m") as session:
        await session.run("hi")
        with pytest.raises(ContextOverflow):
            await session.run("word " * 500)

        assert await session.run("short") == "still here"

        assert "word word" not in str(provider.requests[2].messages)


@pytest.mark.req("CTX-8")
async def test_a_prompt_that_is_refused_leaves_the_view_as_it_was() -> None:
    async with Session(scripted(*["word " * 200] * 9), model="m") as session:
        while session.get_context_state().used_percentage < 10:
            await session.run("hi")
        before = session.get_history()
        with pytest.raises(ClewError, match="are sent"):
            await session.run("word " * 14_000)

        assert session.get_history() == before
        assert isinstance(session.journal.entries[-2].body, Undone)


@pytest.mark.req("PRV-2")
@pytest.mark.parametrize("reply", [[TextChunk("half an ans")], []])
async def test_a_stream_without_an_end_is_an_error_and_keeps_the_words(
    reply: ScriptedReply,
) -> None:
    async with Session(scripted(reply), model="m") as session:
        with pytest.raises(StreamBroken):
            await session.run("hi")

        assert [m.interrupted for m in session.get_history()[1:]] == [True] * bool(reply)


async def test_a_call_of_a_broken_stream_is_not_run() -> None:
    ran: list[int] = []

    @tool(risk=Risk.INSPECT)
    def note(number: int) -> str:
        """Note a number."""
        ran.append(number)
        return "ok"

    reply: list[ScriptedStep] = [
        CallChunk(index=0, call_id=CallId("a"), name="note", arguments='{"number":1}'),
        CallChunk(index=1, call_id=CallId("b"), name="note", arguments='{"nu'),
    ]
    async with Session(scripted(reply), model="m", tools=[note]) as session:
        with pytest.raises(StreamBroken):
            await session.run("hi")

        assert ran == []
        assert problems(session.get_history()) == []


async def test_what_comes_after_the_end_of_an_answer_is_not_part_of_it() -> None:
    reply: list[ScriptedStep] = [TextChunk("a"), Finished(reason=StopReason.DONE), TextChunk("b")]
    async with Session(scripted(reply), model="m") as session:
        assert await session.run("hi") == "a"


@pytest.mark.req("CMP-4")
async def test_call_ids_are_unique_in_a_session_whatever_the_model_says() -> None:
    def twice() -> list[CallChunk | Finished]:
        calls: list[CallChunk | Finished] = [
            CallChunk(index=n, call_id=CallId("same"), name="add", arguments='{"a":1,"b":1}')
            for n in range(2)
        ]
        return [*calls, Finished(reason=StopReason.TOOL_CALLS)]

    provider = scripted(twice(), twice(), "done")
    async with Session(provider, model="m", tools=[add]) as session:
        await session.run("go")

        ids = [call.call_id for message in session.get_history() for call in message.calls]
        assert len(set(ids)) == 4
        assert problems(session.get_history()) == []


@pytest.mark.req("SES-3")
async def test_every_run_ends_with_exactly_one_event_and_a_plain_error() -> None:
    async def ask(access: Access, decision: Decision) -> Approval:
        raise RuntimeError("the screen is gone")

    @tool(risk=Risk.EXECUTE)
    def launch() -> str:
        """Launch."""
        return "launched"

    events: list[Event] = []
    provider = scripted(call_reply(("launch", {})), "fine", [ValueError("odd provider")])
    gate = Gate(cwd=Path.cwd(), ask=ask)
    async with Session(
        provider, model="m", tools=[launch], gate=gate, event_bus=bus_for(events.append)
    ) as session:
        assert await session.run("one") == "fine"
        assert "the screen is gone" in session.get_history()[2].results[0].text
        with pytest.raises(ValueError, match="odd provider"):
            await session.run("two")

        ended = [event for event in events if isinstance(event, RunCompleted | RunFailed)]
        assert isinstance(ended[0], RunCompleted)
        assert ended[0].result.stop_reason == "done"
        assert isinstance(ended[1], RunFailed)
        assert ended[1].message == "odd provider"


async def test_a_refused_second_run_ends_nothing() -> None:
    events: list[Event] = []
    running, go_on = anyio.Event(), anyio.Event()

    @tool(risk=Risk.INSPECT)
    async def slow() -> str:
        """Wait."""
        running.set()
        await go_on.wait()
        return "done"

    provider = scripted(call_reply(("slow", {})), "end")
    async with Session(
        provider, model="m", tools=[slow], event_bus=bus_for(events.append)
    ) as session:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(session.run, "go")
                await running.wait()
                with pytest.raises(AlreadyRunning):
                    await session.run("second")
                assert [type(event) for event in events].count(UserMessage) == 1
                go_on.set()
        assert not [e for e in session.journal.entries if isinstance(e.body, Noted)]


@pytest.mark.req("CTX-2")
async def test_an_absurd_count_is_not_believed() -> None:
    provider = scripted(text_reply("yes", usage=Usage(input_tokens=10**15)), "fine")
    async with Session(provider, model="m") as session:
        await session.run("hi")

        assert session.get_context_state().used_tokens < 1_000
        assert await session.run("again") == "fine"


async def test_what_asks_nothing_must_be_asked_for_anew_each_time() -> None:
    store = MemoryStore()
    gate = Gate(cwd=Path.cwd())
    async with Session(scripted("1"), model="m", store=store, gate=gate) as session:
        await session.run("hi")
        await session.set_permission_mode(PermissionMode.BYPASS)
        session_id = session.session_id
    again = Gate(cwd=Path.cwd())
    async with Session(scripted(), model="m", store=store, session_id=session_id, gate=again):
        assert again.mode is PermissionMode.DEFAULT


async def test_a_session_in_which_nothing_was_said_leaves_no_trace() -> None:
    store = MemoryStore()
    async with Session(scripted("1"), model="m", store=store) as session:
        await session.set_permission_mode(PermissionMode.PLAN)
        assert await store.sessions() == []

        await session.run("hi")

        assert len(await store.sessions()) == 1
        assert (await store.load(session.session_id))[1] == session.journal.entries


async def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="two tools are called add"):
        Session(scripted(), model="m", tools=[add, add])


async def test_opening_twice_at_once_opens_one_session() -> None:
    store = MemoryStore()
    session = Session(scripted("1"), model="m", store=store)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session.open)
        tasks.start_soon(session.open)
    await session.run("hi")

    assert len(await store.sessions()) == 1


async def test_a_message_that_left_the_view_cannot_be_pinned() -> None:
    async with Session(scripted("1"), model="m") as session:
        await session.run("hi")
        await session.clear_history()

        with pytest.raises(SessionError, match="not in the view"):
            await session.pin(2)


async def test_a_session_is_freed_with_its_last_reference_not_by_the_garbage_collector() -> None:
    session = await Session(
        scripted(call_reply(("add", {"a": 1, "b": 2})), text_reply("3")), model="m", tools=[add]
    ).open()
    await session.run("add")
    journal = weakref.ref(session.state.journal)

    gc.disable()
    try:
        del session
        assert journal() is None
    finally:
        gc.enable()
