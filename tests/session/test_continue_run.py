"""`continue_run`: a run continues without a new prompt, wherever the last one ended."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from clew import Session, tool
from clew.core.entries import MessageAdded
from clew.core.errors import ProviderBusy, SessionError, TurnLimitReached
from clew.core.events import (
    RunCompleted,
    TextDelta,
    Thinking,
    ToolEnded,
    ToolStarted,
    UserMessage,
    event_name,
)
from clew.core.ids import CallId, RunId, SessionId
from clew.core.messages import Role, ToolCall, assistant, user
from clew.core.models import ModelFacts
from clew.core.permissions import Risk
from clew.providers.protocol import TextChunk
from clew.providers.scripted import Pause, ScriptedProvider, ScriptedReply, call_reply
from clew.session.journal import Journal, new_record
from clew.stores.memory import MemoryStore
from clew.stores.sqlite import SqliteStore
from tests.histories import problems
from tests.session.hanging_child import note

pytestmark = [pytest.mark.anyio, pytest.mark.req("INT-8")]

ROOT = Path(__file__).parent.parent.parent
FACTS = ModelFacts(name="m", window=10_000)


def session(*replies: ScriptedReply, **options: Any) -> tuple[Session, ScriptedProvider]:
    provider = ScriptedProvider(replies, FACTS)
    return Session(provider, model="m", tools=[note], **options), provider


def a_call() -> ScriptedReply:
    return call_reply(("note", {"text": "it"}))


async def test_after_a_finished_run_it_returns_the_answer_without_a_model_call() -> None:
    chat, provider = session("hello")
    async with chat:
        first = await chat.execute("hi")
        entries = len(chat.journal.entries)
        again = await chat.continue_run()

    assert (again.response, again.usage) == (first.response, None)
    assert len(provider.requests) == 1
    assert len(chat.journal.entries) == entries


async def test_an_empty_conversation_cannot_be_continued() -> None:
    chat, provider = session("hello")
    async with chat:
        with pytest.raises(SessionError, match="nothing to continue"):
            await chat.continue_run()
        assert await chat.run("hi") == "hello"
    assert len(provider.requests) == 1


async def test_after_an_abort_the_model_continues_its_answer() -> None:
    pause = Pause()
    chat, provider = session([TextChunk("Once upon "), pause], "a time.")
    async with chat:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(chat.execute, "tell me a story")
            await pause.reached.wait()
            chat.abort()
        result = await chat.continue_run()
        history = chat.get_history()

    assert result.response == "a time."
    assert not result.interrupted
    assert [message.role for message in history] == [
        Role.USER,
        Role.ASSISTANT,
        Role.USER,
        Role.ASSISTANT,
    ]
    assert history[1].text == "Once upon "
    assert "Continue where it stopped" in provider.requests[1].messages[-1].text
    assert problems(provider.requests[1].messages) == []


async def test_clients_do_not_see_the_words_that_make_the_model_continue() -> None:
    pause = Pause()
    chat, _ = session([TextChunk("Once "), pause], "upon")
    async with chat:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(chat.execute, "a story")
            await pause.reached.wait()
            chat.abort()
        await chat.continue_run()
        shown = [entry.data["content"] for entry in chat.get_full_history() if entry.message]

    assert shown == ["a story", "Once ", "", "upon"]


async def test_after_a_failed_call_the_prompt_is_sent_again() -> None:
    chat, provider = session(ProviderBusy("later", provider="scripted"), "hello")
    async with chat:
        with pytest.raises(ProviderBusy):
            await chat.run("hi")
        result = await chat.continue_run()

    assert result.response == "hello"
    assert [[m.text for m in request.messages] for request in provider.requests] == [["hi"]] * 2


async def test_calls_without_a_result_get_a_failed_one_that_the_model_reads() -> None:
    store = MemoryStore()
    journal = await Journal.open(store, cwd=Path("/work"), session_id=SessionId("s"))
    calls = [ToolCall(call_id=CallId(f"c{n}"), name="note", arguments="{}") for n in range(2)]
    await journal.append(MessageAdded(message=user("work")))
    await journal.append(MessageAdded(message=assistant(*calls)))
    await journal.aclose()
    chat, provider = session("I try again.", store=store, session_id="s")
    async with chat:
        result = await chat.continue_run()

    sent = provider.requests[0].messages
    assert result.response == "I try again."
    assert [[r.failed for r in message.results] for message in sent[2:]] == [[True], [True]]
    assert problems(sent) == []


def kill_in_the_middle_of_a_batch(path: Path) -> None:
    command = [sys.executable, "-m", "tests.session.hanging_child", str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert {child.stdout.readline(), child.stdout.readline()} == {"hanging\n", "committed\n"}
        child.kill()


@pytest.mark.slow("kills processes")
async def test_a_killed_process_loses_only_the_calls_that_were_running(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await anyio.to_thread.run_sync(kill_in_the_middle_of_a_batch, path)
    store = SqliteStore(path)
    chat, provider = session(a_call(), "done", store=store, session_id="s")
    async with chat:
        result = await chat.continue_run()
    await store.aclose()

    results = [r for message in provider.requests[0].messages for r in message.results]
    assert [(r.name, r.failed) for r in results] == [("note", False), ("hang", True)]
    assert results[0].text == "noted it"
    assert (result.response, len(result.tool_summaries)) == ("done", 1)
    assert problems(provider.requests[-1].messages) == []


async def test_the_limit_of_model_calls_applies_to_each_continuation() -> None:
    chat, provider = session(a_call(), a_call(), "done", max_turns=1)
    async with chat:
        with pytest.raises(TurnLimitReached, match=r"1 time and is not done.*Send another prompt"):
            await chat.run("work")
        with pytest.raises(TurnLimitReached):
            await chat.continue_run()
        result = await chat.continue_run()

    assert result.response == "done"
    assert len(provider.requests) == 3


async def test_its_events_are_those_of_a_run() -> None:
    chat, _ = session(a_call(), a_call(), "all done", max_turns=1)
    async with chat:
        with pytest.raises(TurnLimitReached):
            await chat.run("work")
        chat.state.options["max_turns"] = None
        names: list[str] = []
        events: list[object] = []
        chat.bus.on_any(lambda envelope: names.append(event_name(envelope.event)))
        chat.bus.on_any(lambda envelope: events.append(envelope.event))
        result = await chat.continue_run(run_id=RunId("r1"))

    kinds = UserMessage | Thinking | ToolStarted | ToolEnded | TextDelta | RunCompleted
    assert [type(event) for event in events if isinstance(event, kinds)] == [
        UserMessage,
        Thinking,
        ToolStarted,
        ToolEnded,
        TextDelta,
        TextDelta,
        RunCompleted,
        Thinking,
    ]
    assert events[0] == UserMessage(text="", run_id=RunId("r1"))
    assert result.run_id == "r1"
    assert names[-2:] == ["complete", "thinking"]


async def test_it_cannot_start_beside_another_run() -> None:
    pause = Pause()
    chat, _ = session([pause, TextChunk("never")])
    async with chat, anyio.create_task_group() as tasks:
        tasks.start_soon(chat.execute, "hi")
        await pause.reached.wait()
        with pytest.raises(SessionError, match="busy"):
            await chat.continue_run()
        chat.abort()


@pytest.mark.req("CKP-1")
async def test_files_that_a_continuation_changes_can_be_restored(tmp_path: Path) -> None:
    target = tmp_path / "project" / "a.txt"
    target.parent.mkdir()
    target.write_text("before")

    @tool(risk=Risk.INSPECT)
    def noop() -> str:
        """Do nothing."""
        return "ok"

    class Write:
        """Overwrites the file, as file tools do."""

        spec = noop.spec
        max_output_chars = None
        access = noop.access

        async def run(self, arguments: Any, context: Any) -> Any:
            context.before_change(target)
            target.write_text("after")
            return await noop.run({}, context)

    provider = ScriptedProvider(
        [ProviderBusy("later", provider="scripted"), call_reply(("noop", {})), "done"], FACTS
    )
    chat = Session(
        provider,
        model="m",
        tools=[Write()],
        cwd=target.parent,
        checkpoints=tmp_path / "checkpoints",
    )
    async with chat:
        with pytest.raises(ProviderBusy):
            await chat.run("write")
        await chat.continue_run()
        changed = target.read_text()
        *_, last = await chat.list_checkpoints()
        await chat.rewind(last.entry, conversation=False)

    assert (changed, target.read_text()) == ("after", "before")


async def test_a_session_that_died_before_its_first_entry_can_be_used(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.db")
    await store.create(new_record(SessionId("early"), tmp_path))
    chat, _ = session("hello", store=store, session_id="early", kind="agent", parent="boss")

    async with chat:
        assert await chat.run("hi") == "hello"

    assert (await store.record(SessionId("early"))).entries > 0
    await store.aclose()


async def test_a_sealed_journal_stays_as_it_is_for_the_process_that_continues() -> None:
    store = MemoryStore()
    chat, _ = session(a_call(), "done", store=store, session_id="s", record_calls=True)

    def hand_over(_: object) -> None:
        chat.journal.seal()
        chat.abort()

    async with chat:
        chat.on("tool_start", hand_over)
        with pytest.raises(SessionError):
            await chat.run("go")
        kept = len(chat.journal.entries)
    again, _ = session("done", store=store, session_id="s", record_calls=True)

    async with again:
        assert len(again.journal.entries) == kept
        result = await again.continue_run()

    assert result.response == "done"
    assert not problems(again.get_history())
