"""What the session log contains, who can read it, and how it handles failures."""

import re
import resource
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from clew import Session, tool
from clew.context.render import render
from clew.core.entries import Cleared, Entry, SessionRecord
from clew.core.errors import ConfigError
from clew.core.events import Event, Warned
from clew.core.ids import SessionId
from clew.core.messages import Image, Message, Role, Text, assistant, user
from clew.core.models import ModelFacts
from clew.core.permissions import Risk
from clew.log.buffer import Redaction
from clew.log.events import ENVELOPE, EVENT_NAMES, LogLevel, parse_event
from clew.log.reader import FaultCode, LogReader
from clew.log.replay_state import ReplayState, replay_log
from clew.log.validation import validate_log
from clew.log.writer import SessionLog
from clew.providers.openai_chat import OpenAIChat
from clew.providers.protocol import Finished, ReasoningChunk, ServerToolChunk, StopReason, TextChunk
from clew.providers.scripted import Pause, ScriptedProvider, ScriptedReply, call_reply, text_reply
from clew.stores.memory import MemoryStore
from clew.testing.fake_openai import error_response, fake_openai, text_response, tool_call_response
from clew.tools.protocol import Tool, ToolContext, ToolOutput
from tests.event_buses import bus_for

pytestmark = pytest.mark.anyio

FACTS = ModelFacts(name="m", window=100_000)


@tool(risk=Risk.INSPECT)
def read(size: int) -> str:
    """Return that many lines."""
    return "line of a file\n" * size


def scripted(*replies: ScriptedReply) -> ScriptedProvider:
    return ScriptedProvider(replies, FACTS)


def events(path: Path) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


def names(path: Path) -> Counter[str]:
    return Counter(line["event"] for line in events(path))


def one(path: Path, name: str) -> dict[str, Any]:
    found = [line for line in events(path) if line["event"] == name]
    assert len(found) == 1
    return found[0]


def agrees(path: Path, session: Session) -> bool:
    now = replay_log(path)
    return now.history == session.get_history() and now.request == render(session.journal.view)


@pytest.mark.req("LOG-1")
async def test_every_event_of_the_vocabulary_is_written(tmp_path: Path) -> None:
    search = [
        ServerToolChunk(call_id="w", name="web_search", text="clew"),
        ServerToolChunk(call_id="w", name="web_search", text="a thread", ended=True),
    ]
    thought = ReasoningChunk(index=0, text="let me think")
    replies: list[ScriptedReply] = [
        [thought, *search, *call_reply(("read", {"size": 2}), ("nope", {}))],
        text_reply("word " * 100),
        text_reply("more"),
        text_reply("notes"),
        RuntimeError("the wire was cut"),
    ]
    log = SessionLog(tmp_path, level=LogLevel.RAW)
    async with Session(
        scripted(*replies), model="m", tools=[read], session_log=log, compress_tool_results=1
    ) as session:
        await session.run("go")
        await session.run("and then?")
        for _ in range(6):
            await session.inject_message(user("more " * 500))
            await session.inject_message(assistant("less " * 500))
        await session.compact()
        with pytest.raises(RuntimeError):
            await session.run("once more")

    assert log.path is not None
    written = set(names(log.path))
    wire = {"provider_native_raw_payload"}
    assert set(EVENT_NAMES) - written - wire == {"context_compact_failed", "warning"}
    assert validate_log(log.path).faults == ()


@pytest.mark.req("LOG-1")
async def test_every_line_has_a_number_a_date_and_the_session_id(tmp_path: Path) -> None:
    log = SessionLog(tmp_path, clock=lambda: 1_700_000_000.25)
    async with Session(scripted("hello"), model="m", session_log=log, session_id="s1") as session:
        await session.run("hi")

    lines = events(tmp_path / "s1.jsonl")
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert {line["session_id"] for line in lines} == {"s1"}
    assert {line["timestamp"] for line in lines} == {"2023-11-14T22:13:20.250+00:00"}
    assert list(lines[0])[:4] == ["seq", "timestamp", "session_id", "event"]


@pytest.mark.req("LOG-1")
async def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "logs"
    log = SessionLog(folder, inline_limit=100)
    async with Session(
        scripted("hello " * 90), model="m", session_log=log, session_id="s"
    ) as session:
        await session.run("hi")

    assert stat.S_IMODE((folder / "s.jsonl").stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "s.payloads").stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    payloads = list((folder / "s.payloads").iterdir())
    assert payloads
    assert {stat.S_IMODE(file.stat().st_mode) for file in payloads} == {0o600}


@pytest.mark.parametrize("session_id", ["../../outside", "a/b", "", "x" * 300, "späße"])
async def test_no_session_id_escapes_the_folder(tmp_path: Path, session_id: str) -> None:
    log = SessionLog(tmp_path / "logs")
    async with Session(
        scripted("ok"), model="m", session_log=log, session_id=session_id
    ) as session:
        await session.run("hi")

    assert log.path is not None
    assert log.path.parent == tmp_path / "logs"
    assert log.path.is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


async def test_a_session_without_messages_creates_no_log(tmp_path: Path) -> None:
    log = SessionLog(tmp_path / "logs")
    async with Session(scripted(), model="m", session_log=log):
        pass

    assert not (tmp_path / "logs").exists()


@pytest.mark.req("LOG-1")
async def test_the_log_is_on_disk_while_the_response_still_streams(tmp_path: Path) -> None:
    pause = Pause()
    text = "a line of the answer\n" * 400
    crumbs = [TextChunk(text[n : n + 7]) for n in range(0, len(text), 7)]
    provider = scripted([*crumbs, pause, Finished(reason=StopReason.DONE)])
    log = SessionLog(tmp_path)
    async with Session(provider, model="m", session_log=log, session_id="s") as session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.run, "tell me")
            with anyio.fail_after(60):
                await pause.reached.wait()

            seen = names(tmp_path / "s.jsonl")
            pieces = [e["text"] for e in events(tmp_path / "s.jsonl") if e["event"] == "text_delta"]
            pause.release()

        assert seen["provider_request"] == 1
        assert 1 <= len(pieces) <= 3
        assert text.startswith("".join(pieces))
        assert len(text) - len("".join(pieces)) < 4_200
    deltas = [e["text"] for e in events(tmp_path / "s.jsonl") if e["event"] == "text_delta"]
    assert "".join(deltas) == text


async def test_the_level_decides_which_call_events_are_written(tmp_path: Path) -> None:
    written = {}
    for level in LogLevel:
        log = SessionLog(tmp_path, level=level)
        async with Session(scripted("ok"), model="m", session_log=log, session_id=level) as session:
            await session.run("hi")
        written[level] = {name for name in names(tmp_path / f"{level}.jsonl") if "provider" in name}

    assert written == {
        LogLevel.EVENTS: set(),
        LogLevel.REQUESTS: {"provider_request", "provider_response_normalized"},
        LogLevel.RAW: {
            "provider_request",
            "provider_stream_raw_delta",
            "provider_response_raw",
            "provider_response_normalized",
        },
    }


@pytest.mark.req("LOG-3")
async def test_large_fields_go_to_payload_files_once_and_are_restored(tmp_path: Path) -> None:
    picture = Image(data=bytes(range(256)) * 40)
    provider = scripted(call_reply(("read", {"size": 1_000})), "x" * 9_000, "ok")
    log = SessionLog(tmp_path)
    async with Session(
        provider, model="m", tools=[read], session_log=log, session_id="s"
    ) as session:
        await session.run(Message(role=Role.USER, parts=(Text("look"), picture)))
        await session.run("again")

        assert agrees(tmp_path / "s.jsonl", session)
    payloads = sorted((tmp_path / "s.payloads").iterdir())
    assert max(len(line) for line in (tmp_path / "s.jsonl").read_bytes().splitlines()) < 9_000
    assert {file.suffix for file in payloads} == {".txt"}
    # The picture, the output of the tool, the answer: each was written in several events.
    assert sorted(file.stat().st_size for file in payloads) == [9_000, 13_656, 15_000]
    report = validate_log(tmp_path / "s.jsonl")
    assert (report.payloads, report.payload_bytes) == (3, 37_656)
    assert [file for file in payloads if file.name.endswith(".tmp")] == []


async def test_tool_data_that_looks_like_a_payload_reference_is_preserved(tmp_path: Path) -> None:
    lie = {"$payload": "0" * 64 + ".txt", "bytes": 1, "$$payload": "twice"}

    class Liar:
        spec = read.spec
        max_output_chars = None
        access = read.access

        async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
            return ToolOutput(text="done", data={"found": lie})

    log = SessionLog(tmp_path)
    tools: Sequence[Tool] = [Liar()]
    provider = scripted(call_reply(("read", {"size": 1})), "ok")
    async with Session(
        provider, model="m", tools=tools, session_log=log, session_id="s"
    ) as session:
        await session.run("go")

    reader = LogReader(tmp_path / "s.jsonl")
    found = [line.fields for line in reader if line.name == "tool_execution_result"]
    assert found[0]["data"] == {"found": lie}
    assert reader.faults == []


SECRETS = [
    "sk-ant-api03-" + "Ab1Cd2Ef3Gh4" * 8 + "-x9Y8z7AA",
    "ghp_" + "a1B2c3D4e5F6" * 3,
    "AKIA" + "Z7Y6X5W4V3U2T1S0",
    "correct-horse-7-battery",
]


def _with_secrets(prefix: str) -> str:
    key, token, aws, password = SECRETS
    return f"{prefix} {key} and {token}\nAWS_ACCESS_KEY_ID={aws}\npassword: '{password}'\n"


@pytest.mark.req("LOG-2")
@pytest.mark.parametrize("level", LogLevel)
async def test_no_secret_reaches_the_disk_by_key_or_by_value(
    tmp_path: Path, level: LogLevel
) -> None:
    text = _with_secrets("see")

    @tool(risk=Risk.INSPECT)
    def leak(api_key: str, note: str) -> str:
        """Say too much."""
        return _with_secrets("output")

    arguments = {"api_key": SECRETS[3], "note": text}
    answer = [TextChunk(text[n : n + 5]) for n in range(0, len(text), 5)]
    thought = [
        ReasoningChunk(index=0, text=text[n : n + 3], signature="c2ln")
        for n in range(0, len(text), 3)
    ]
    provider = scripted(
        call_reply(("leak", arguments)),
        [*thought, *answer, Finished(reason=StopReason.DONE, detail=text)],
        RuntimeError(text),
    )
    log = SessionLog(tmp_path, level=level, inline_limit=400)
    async with Session(
        provider,
        model="m",
        tools=[leak],
        session_log=log,
        redact=False,
        system_message=_with_secrets("system"),
        request_options={"headers": {"authorization": f"Bearer {SECRETS[0]}"}, "note": text},
    ) as session:
        await session.run(_with_secrets("prompt"))
        await session.add_history_entry("note", text, token=SECRETS[1])
        with pytest.raises(RuntimeError):
            await session.run("again")
        history = session.get_history()

    assert any(SECRETS[0] in message.text for message in history)
    for file in filter(Path.is_file, tmp_path.rglob("*")):
        data = file.read_bytes().decode()
        assert [secret for secret in SECRETS if secret in data] == [], file
    assert log.path is not None
    assert validate_log(log.path).faults == ()
    clean = Redaction().value
    assert msgspec.to_builtins(replay_log(log.path).history) == clean(msgspec.to_builtins(history))


@pytest.mark.req("LOG-2")
async def test_extra_keys_and_values_are_redacted(tmp_path: Path) -> None:
    redaction = Redaction(extra_keys=["badge"], extra_values=["Minotaur"])
    log = SessionLog(tmp_path, redaction=redaction)
    provider = scripted(call_reply(("read", {"badge": "4711-x"})), "the Mino", "taur")
    async with Session(provider, model="m", session_log=log, session_id="s") as session:
        await session.run("who is the Minotaur?")

    data = (tmp_path / "s.jsonl").read_text()
    assert "Minotaur" not in data
    assert "4711-x" not in data


@pytest.mark.req("LOG-1", "LOG-2")
async def test_http_bodies_are_written_as_differences_and_without_the_api_key(
    tmp_path: Path,
) -> None:
    log = SessionLog(tmp_path, level=LogLevel.RAW)
    script = [
        tool_call_response("read", '{"size": 3}'),
        text_response("some", " words"),
        error_response(503, {"error": {"message": "later"}}, retry_after="0"),
        text_response("more"),
    ]
    async with fake_openai(*script) as server:
        provider = OpenAIChat(server.url, api_key="sk-" + "a1b2c3d4" * 5)
        session = Session(provider, model="gpt-4o", tools=[read], session_log=log, session_id="s")
        async with session:
            await session.run("go")
            await session.run("once more")
        await provider.aclose()
        bodies = list(server.requests)

    state, sent = ReplayState(tmp_path / "s.jsonl"), []
    for line in state.lines():
        if line.fields.get("payload_kind") == "request":
            lists = {name: state.wire_list(name) for name in line.fields.get("lists", {})}
            named = line.fields.get("named", {})
            rest = {name: state.contents.get(sha256) for name, sha256 in named.items()}
            sent.append({**line.fields["payload"], **lists, **rest})
    assert sent == bodies
    raw = [e for e in events(tmp_path / "s.jsonl") if e.get("payload_kind") == "stream_event"]
    assert '"content":" words"' in "".join(e["payload"] for e in raw)
    assert "a1b2c3d4" not in (tmp_path / "s.jsonl").read_text()
    assert validate_log(tmp_path / "s.jsonl").faults == ()


@pytest.mark.req("LOG-1")
@pytest.mark.parametrize("level", [LogLevel.EVENTS, LogLevel.REQUESTS])
async def test_the_bytes_per_turn_do_not_grow_with_the_history(
    tmp_path: Path, level: LogLevel
) -> None:
    turns = 160
    provider = scripted(*[text_reply("word " * 60) for _ in range(turns)])
    log = SessionLog(tmp_path, level=level)
    sizes = [0]
    async with Session(provider, model="m", session_log=log, session_id="s") as session:
        for _ in range(turns):
            await session.run("question " * 20)
            sizes.append((tmp_path / "s.jsonl").stat().st_size)

    early, late = sizes[60] - sizes[20], sizes[-1] - sizes[-41]
    assert late < early * 1.05
    assert not (tmp_path / "s.payloads").exists()


@pytest.mark.req("LOG-1")
async def test_the_bytes_of_http_bodies_do_not_grow_with_the_history(tmp_path: Path) -> None:
    turns = 60
    log = SessionLog(tmp_path, level=LogLevel.RAW)
    sizes = [0]
    async with fake_openai(*[text_response(*["word "] * 30) for _ in range(turns)]) as server:
        provider = OpenAIChat(server.url, api_key="sk-loopback")
        session = Session(
            provider,
            model="gpt-4o",
            tools=[read],
            session_log=log,
            session_id="s",
            system_message="Be brief. " * 300,
        )
        async with session:
            for _ in range(turns):
                await session.run("question " * 20)
                sizes.append(sum(f.stat().st_size for f in tmp_path.rglob("*") if f.is_file()))
        await provider.aclose()

    early, late = sizes[20] - sizes[5], sizes[-1] - sizes[-16]
    assert late < early * 1.05


@contextmanager
def no_room_after(path: Path, room: int) -> Iterator[None]:
    """Let no file grow beyond the size of this one, plus some bytes: a disk that fills up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.req("LOG-1", "LOG-4")
@pytest.mark.parametrize("room", [0, 1, 350, 1_000, 2_000])
async def test_a_full_disk_breaks_no_run_is_reported_once_and_missed_entries_follow(
    tmp_path: Path, room: int
) -> None:
    heard: list[Event] = []
    log = SessionLog(tmp_path)
    replies: list[ScriptedReply] = [
        "one",
        call_reply(("read", {"size": 3})),
        "two",
        "three",
        "four",
    ]
    session = Session(
        scripted(*replies),
        model="m",
        tools=[read],
        session_log=log,
        session_id="s",
        event_bus=bus_for(heard.append),
    )
    async with session:
        await session.run("a")
        with no_room_after(tmp_path / "s.jsonl", room):
            assert await session.run("b") == "two"
            assert await session.run("c") == "three"
        assert await session.run("d") == "four"

        assert agrees(tmp_path / "s.jsonl", session)
    warnings = [event.text for event in heard if isinstance(event, Warned)]
    assert len(warnings) == 1
    assert "s.jsonl cannot be written: File too large" in warnings[0]
    codes = {fault.code for fault in validate_log(tmp_path / "s.jsonl").faults}
    assert FaultCode.SEQUENCE_GAP in codes
    assert not codes & {FaultCode.REQUEST_HISTORY_MISMATCH, FaultCode.CONTENT_MISSING}
    assert not any(code.startswith(("HISTORY", "REQUEST", "CONTENT")) for code in codes)


async def test_a_folder_that_cannot_be_created_breaks_no_run(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("in the way")
    heard: list[Event] = []
    log = SessionLog(tmp_path / "logs")
    session = Session(
        scripted("one", "two"), model="m", session_log=log, event_bus=bus_for(heard.append)
    )
    async with session:
        assert await session.run("a") == "one"
        assert await session.run("b") == "two"

    assert len([event for event in heard if isinstance(event, Warned)]) == 1


@pytest.mark.req("LOG-4")
async def test_a_log_that_was_cut_at_any_byte_can_be_continued(tmp_path: Path) -> None:
    store = MemoryStore()
    log = SessionLog(tmp_path / "whole")
    replies: list[ScriptedReply] = [call_reply(("read", {"size": 2})), "one"]
    options: dict[str, Any] = {"model": "m", "tools": [read], "store": store, "session_id": "s"}
    async with Session(scripted(*replies), session_log=log, **options) as session:
        await session.run("a")
    whole = (tmp_path / "whole" / "s.jsonl").read_bytes()
    _, entries = await store.load(SessionId("s"))

    for cut in range(0, len(whole), 97):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / "s.jsonl").write_bytes(whole[:cut])
        await store.delete(SessionId("s"))
        await _put_back(store, entries)
        async with Session(scripted("two"), session_log=SessionLog(folder), **options) as session:
            await session.run("b")

            assert agrees(folder / "s.jsonl", session)
        report = validate_log(folder / "s.jsonl")
        broken = {f.code for f in report.faults if not f.code.is_tolerated}
        assert broken <= {
            FaultCode.PROVIDER_RESPONSE_NORMALIZED_MISSING,
            FaultCode.TOOL_RESULT_MISSING,
            FaultCode.TOOL_MESSAGE_MISSING,
        }


async def _put_back(store: MemoryStore, entries: Sequence[Entry]) -> None:
    record = SessionRecord(id=SessionId("s"), cwd="/", created_at=0, updated_at=0)
    await store.create(record)
    await store.append(SessionId("s"), entries)


@pytest.mark.req("LOG-4")
async def test_another_session_with_the_same_id_starts_a_new_history(tmp_path: Path) -> None:
    for words in ("one", "two"):
        log = SessionLog(tmp_path)
        async with Session(scripted(words), model="m", session_log=log, session_id="s") as session:
            await session.run(f"say {words}")

            assert agrees(tmp_path / "s.jsonl", session)
    assert validate_log(tmp_path / "s.jsonl").faults == ()


@pytest.mark.req("LOG-4")
async def test_a_log_that_starts_late_contains_the_whole_history(tmp_path: Path) -> None:
    store = MemoryStore()
    async with Session(scripted("one"), model="m", store=store, session_id="s") as session:
        await session.run("a")
        await session.clear_history()
    log = SessionLog(tmp_path)
    again = Session(scripted("two"), model="m", store=store, session_id="s", session_log=log)
    async with again:
        await again.run("b")
        await again.undo()

        assert agrees(tmp_path / "s.jsonl", again)
        assert [e.body for e in again.journal.entries].count(Cleared()) == 1
    assert validate_log(tmp_path / "s.jsonl").faults == ()


async def test_requests_refer_to_the_history_also_after_a_resume(tmp_path: Path) -> None:
    store = MemoryStore()
    turns = 100
    options: dict[str, Any] = {"model": "m", "store": store, "session_id": "s"}
    log = SessionLog(tmp_path)
    async with Session(scripted(*["word"] * turns), session_log=log, **options) as session:
        for _ in range(turns):
            await session.run("say it")
    before = (tmp_path / "s.jsonl").stat().st_size
    async with Session(
        scripted("ok", "ok"), session_log=SessionLog(tmp_path), **options
    ) as session:
        await session.run("and again")
        await session.run("and again")

        assert agrees(tmp_path / "s.jsonl", session)
    requests = [e["messages"] for e in events(tmp_path / "s.jsonl") if "messages" in e]
    sent = [request for request in requests if isinstance(request, dict)]
    assert sent == [{"of": "history", "same": 2 * turn + 1} for turn in range(turns + 2)]
    assert (tmp_path / "s.jsonl").stat().st_size - before < 12_000
    assert validate_log(tmp_path / "s.jsonl").faults == ()


async def test_lone_surrogates_and_unusual_tool_data_can_be_written(tmp_path: Path) -> None:
    class Odd:
        spec = read.spec
        max_output_chars = None
        access = read.access

        async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
            return ToolOutput(
                text="ok", display="\ud83d broken", data={"path": Path("/x"), "1": {2}}
            )

    log = SessionLog(tmp_path)
    tools: Sequence[Tool] = [Odd()]
    provider = scripted(call_reply(("read", {})), "ok")
    heard: list[Event] = []
    async with Session(
        provider,
        model="m",
        tools=tools,
        session_log=log,
        session_id="s",
        event_bus=bus_for(heard.append),
    ) as session:
        await session.run("go")

    line = one(tmp_path / "s.jsonl", "tool_execution_result")
    assert line["display"] == "� broken"
    assert line["data"] == {"path": "/x", "1": [2]}
    assert [event for event in heard if isinstance(event, Warned)] == []


async def test_a_log_serves_one_session_at_a_time(tmp_path: Path) -> None:
    log = SessionLog(tmp_path)
    async with Session(scripted("one"), model="m", session_log=log, session_id="a") as session:
        await session.run("hi")
        with pytest.raises(ConfigError, match="for one session"):
            await Session(scripted(), model="m", session_log=log, session_id="b").open()
    async with Session(scripted("two"), model="m", session_log=log, session_id="b") as session:
        await session.run("ho")

        assert agrees(tmp_path / "b.jsonl", session)
    assert (
        validate_log(tmp_path / "a.jsonl").faults == validate_log(tmp_path / "b.jsonl").faults == ()
    )


async def test_an_entry_that_cannot_be_redacted_does_not_block_the_others(tmp_path: Path) -> None:
    class Fragile(Redaction):
        def value(self, value: Any) -> Any:
            if "boom" in repr(value):
                raise ValueError("this cannot be read")
            return value

    heard: list[Event] = []
    log = SessionLog(tmp_path, redaction=Fragile())
    provider = scripted("one", "two", "three")
    session = Session(
        provider, model="m", session_log=log, session_id="s", event_bus=bus_for(heard.append)
    )
    async with session:
        for word in ("a", "boom", "c"):
            await session.run(word)
        count = len(session.journal.entries)

    warnings = [event.text for event in heard if isinstance(event, Warned)]
    assert len(warnings) == 1
    assert "this cannot be read" in warnings[0]
    assert len(replay_log(tmp_path / "s.jsonl").entries) == count - 1
    codes = {fault.code for fault in validate_log(tmp_path / "s.jsonl").faults}
    assert FaultCode.HISTORY_ENTRY_GAP in codes


@pytest.mark.req("LOG-1")
def test_the_guide_has_an_example_of_every_event_and_lists_every_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "session-log.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line.startswith('{"seq"')]

    shown = [msgspec.json.decode(line) for line in lines]
    fields = [{k: v for k, v in line.items() if k not in ENVELOPE} for line in shown]

    assert {line["event"] for line in shown} == set(EVENT_NAMES)
    assert all(
        msgspec.to_builtins(parse_event(event))["event"] == event["event"] for event in fields
    )
    assert set(re.findall(r"`([A-Z][A-Z0-9_]+_[A-Z0-9_]+)`", page)) == set(FaultCode)
