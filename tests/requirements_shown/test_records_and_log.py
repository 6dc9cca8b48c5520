"""What is on disk after a session: its record in the store and the events of its log."""

from pathlib import Path
from typing import Any

import pytest

from clew import Session
from clew.core.entries import SetupChanged
from clew.core.ids import CallId
from clew.core.messages import ToolCall
from clew.log.events import LogLevel
from clew.log.reader import LogReader
from clew.log.validation import validate_log
from clew.log.writer import SessionLog
from clew.providers.protocol import ServerToolChunk
from clew.providers.scripted import call_reply, text_reply
from clew.testing.fake_apis.protocol import ModelReply
from tests.providers.harnesses import HARNESSES
from tests.session.scene import S, Scene, add

pytestmark = pytest.mark.anyio


@pytest.fixture
async def scene(tmp_path: Path) -> Any:
    made = Scene(tmp_path)
    yield made
    await made.store.aclose()


async def test_a_stored_session_knows_its_folder_name_times_messages_and_setup(
    scene: Scene,
) -> None:
    async with scene.session(call_reply(("add", {"a": 1, "b": 2})), "three") as session:
        await session.run("add")
    await scene.store.rename(S, "The labyrinth")
    record, entries = await scene.store.load(S)

    assert (record.id, record.name, record.cwd) == ("s", "The labyrinth", str(Path.cwd()))
    assert 0 < record.created_at <= record.updated_at
    async with scene.session() as again:
        assert record.messages == len(again.get_history()) == 4
        assert again.journal.entries == entries
    (setup,) = [entry.body for entry in entries if isinstance(entry.body, SetupChanged)]
    assert setup.system == "Be exact."
    assert [spec.name for spec in setup.tools] == ["add", "launch", "crash", "Recall"]


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
async def test_every_log_event_has_its_documented_fields(tmp_path: Path) -> None:
    harness = HARNESSES["openai-chat"]
    call = ToolCall(call_id=CallId("call_1"), name="add", arguments='{"a":1,"b":2}')
    three = ModelReply(words=("three",))
    async with harness.serve(ModelReply(calls=(call,)), three, three) as (provider, _):
        log = SessionLog(tmp_path, level=LogLevel.RAW)
        options: dict[str, Any] = {
            "system_message": "Be exact.",
            "session_id": "s",
            "session_log": log,
        }
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
async def test_the_log_has_the_providers_own_tools_and_no_secret(scene: Scene) -> None:
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
