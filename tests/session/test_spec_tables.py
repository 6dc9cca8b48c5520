"""The record, the store, errors, hooks and the log, row by row; methods: `test_method_table`."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from clew import Session
from clew.core.access import Decision, Verdict
from clew.core.entries import SessionRecord, SetupChanged
from clew.core.errors import ProviderBusy, SessionError, SessionNotFound
from clew.core.events import ToolEnded
from clew.core.ids import CallId, SessionId
from clew.core.messages import Role, ToolCall
from clew.hooks.protocol import HookEvent, HookVerdict
from clew.log.events import LogLevel
from clew.log.reader import LogReader
from clew.log.validation import validate_log
from clew.log.writer import SessionLog
from clew.providers.protocol import ServerToolChunk, TextChunk
from clew.providers.scripted import Pause, ScriptedReply, call_reply, text_reply
from clew.stores.record import StoredSession
from clew.testing.fake_apis.protocol import ModelReply
from tests.providers.harnesses import HARNESSES
from tests.session.scene import S, Scene, add

pytestmark = pytest.mark.anyio


@pytest.fixture
async def scene(tmp_path: Path) -> Any:
    made = Scene(tmp_path)
    yield made
    await made.store.aclose()


# --- the record and the store --------------------------------------------------------------

EXTRA: dict[str, object] = {
    "backgroundTasks": [{"id": "t1", "state": "running"}],
    "backgroundTaskEvents": [{"delta": "…"}],
    "backgroundJobGroups": [{"id": "g1"}],
    "backgroundJobGroupEvents": [],
    "memoryEvents": [{"kind": "saved"}],
    "usedMemoryReferences": ["topic"],
    "contextReferences": [{"path": "a.py"}],
    "sandboxSnapshotId": "snap-1",
}


@pytest.mark.req("STO-1")
async def test_the_fields_of_a_record(scene: Scene) -> None:
    async with scene.session(call_reply(("add", {"a": 1, "b": 2})), "three") as session:
        await session.run("add")
    await scene.store.rename(S, "The labyrinth")
    await scene.store.annotate(S, EXTRA)
    record, entries = await scene.store.load(S)

    assert (record.id, record.name, record.cwd) == ("s", "The labyrinth", str(Path.cwd()))
    assert 0 < record.created_at <= record.updated_at
    assert record.extra == EXTRA
    async with scene.session() as again:
        assert record.messages == len(again.get_history()) == 4
        assert again.journal.entries == entries
    (setup,) = [entry.body for entry in entries if isinstance(entry.body, SetupChanged)]
    assert setup.system == "Be exact."
    assert [spec.name for spec in setup.tools] == ["add", "launch", "crash", "Recall"]


def a_record(name: str, at: float) -> StoredSession:
    return StoredSession(id=SessionId(name), cwd="/", created_at=at, updated_at=at)


@pytest.mark.req("STO-1")
async def test_the_methods_of_the_store(scene: Scene) -> None:
    for name, at in (("old", 1.0), ("new", 3.0), ("middle", 2.0)):
        await scene.store.create(a_record(name, at))

    assert [record.id for record in await scene.store.sessions()] == ["new", "middle", "old"]
    assert (await scene.store.load(SessionId("old")))[0] == a_record("old", 1.0)
    with pytest.raises(SessionNotFound):
        await scene.store.load(SessionId("nobody"))
    await scene.store.delete(SessionId("new"))
    await scene.store.delete(SessionId("nobody"))
    assert [record.id for record in await scene.store.sessions()] == ["middle", "old"]
    assert isinstance(a_record("a", 1.0), SessionRecord)


# --- errors --------------------------------------------------------------------------------


@pytest.mark.req("SES-3")
async def test_a_run_that_fails_is_logged_kept_and_raised_and_the_session_goes_on(
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
async def test_what_a_tool_cannot_do_is_a_result_and_never_raised(scene: Scene) -> None:
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


# --- hooks ---------------------------------------------------------------------------------


@pytest.mark.req("HOK-1")
async def test_hooks_are_told_of_the_whole_life(scene: Scene) -> None:
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


@pytest.mark.req("HOK-1")
async def test_a_failure_is_told_with_its_reason(scene: Scene) -> None:
    async with scene.session(ProviderBusy("the host is busy", provider="scripted")) as session:
        with pytest.raises(ProviderBusy):
            await session.run("first")
    assert scene.hooks.of(HookEvent.STOP_FAILURE)[0].reason == "the host is busy"


async def test_a_second_run_is_refused_in_words(scene: Scene) -> None:
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


# --- the log -------------------------------------------------------------------------------

EVENTS: dict[str, tuple[str, ...]] = {
    "session_init": ("system_prompt", "provider", "model", "cwd", "tool_schemas"),
    "pre_run": ("provider", "input", "messages"),
    "provider_request": ("provider", "model", "messages", "tools", "round", "execution_id"),
    "provider_native_raw_payload": (
        "surface",
        "payload_kind",
        "sequence",
        "payload",
        "execution_id",
    ),
    "provider_stream_raw_delta": ("sequence", "chunks", "execution_id"),
    "provider_response_raw": ("response_kind", "finished", "execution_id"),
    "provider_response_normalized": ("message", "stop_reason", "usage", "execution_id"),
    "tool_batch_started": ("max_concurrency", "count", "tools", "round", "execution_id"),
    "tool_execution_request": ("tool", "call_id", "parameters", "round"),
    "tool_execution_result": ("tool", "call_id", "success", "round", "entry_id"),
    "tool_message_committed": ("tool", "call_id", "entry_id"),
    "history_mutation": ("mutation", "entry_id", "entry", "sha256"),
    "text_delta": ("text",),
    "assistant": ("text", "messages", "entry_id"),
    "session_shutdown": ("reason",),
}


@pytest.mark.req("LOG-1")
async def test_every_event_of_the_vocabulary_has_its_fields(tmp_path: Path) -> None:
    harness = HARNESSES["openai-chat"]
    call = ToolCall(call_id=CallId("call_1"), name="add", arguments='{"a":1,"b":2}')
    three = ModelReply(words=("three",))
    async with harness.serve(ModelReply(calls=(call,)), three, three) as (provider, _):
        log = SessionLog(tmp_path, level=LogLevel.RAW)
        options: dict[str, Any] = {"system_message": "Be exact.", "session_id": "s", "log": log}
        async with Session(provider, model=harness.model, tools=[add], **options) as session:
            await session.run("add")
            await session.run("again")
    written: dict[str, set[str]] = {}
    for line in LogReader(tmp_path / "s.jsonl"):
        written.setdefault(line.name, set()).update(line.fields)

    lacking = {
        name: missing
        for name, fields in EVENTS.items()
        if (missing := set(fields) - written.get(name, set()))
    }
    assert lacking == {}
    assert validate_log(tmp_path / "s.jsonl").faults == ()


SECRET_KEYS = (
    *("apiKey", "authorization", "accessToken", "refreshToken", "secret", "password", "xApiKey"),
)


@pytest.mark.req("LOG-1", "LOG-2", "PRV-5")
async def test_tools_of_the_provider_and_secrets_in_the_log(scene: Scene) -> None:
    search = ServerToolChunk(call_id="w1", name="web_search", text="minotaur")
    found = ServerToolChunk(call_id="w1", name="web_search", text="a maze", ended=True)
    async with scene.session([search, found, *text_reply("found it")]) as session:
        await session.run("search")
        keys = dict.fromkeys(SECRET_KEYS, "hunter2hunter2")
        await session.add_history_entry("note", "keys", **keys)
    assert [line.get("query", "") for line in scene.logged("server_tool")] == ["minotaur", ""]
    text = (scene.folder / "logs" / "s.jsonl").read_text(encoding="utf-8")
    assert "hunter2" not in text
    assert text.count("[redacted:") >= len(SECRET_KEYS)
    (noted,) = [line["entry"]["body"] for line in scene.logged("history_mutation")][-1:]
    assert set(noted["data"]) == set(SECRET_KEYS)
