"""Recorded sessions run again: offline, call by call, and the first difference is named."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from clew import Session, tool
from clew.context.policy import ContextPolicy, Thresholds
from clew.context.view import fold
from clew.core.entries import Entry, MessageAdded
from clew.core.errors import ConfigError, ContextOverflow, ProviderBusy, ProviderError
from clew.core.ids import CallId
from clew.core.messages import (
    Message,
    Native,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    user,
)
from clew.core.models import ModelFacts, ToolSpec
from clew.core.permissions import Risk
from clew.core.usage import Usage
from clew.importers.clew_jsonl import export_jsonl
from clew.importers.journal import build_journal
from clew.importers.reader import read_session
from clew.log.buffer import Redaction
from clew.log.events import LogLevel
from clew.log.writer import SessionLog
from clew.providers.message_builder import MessageBuilder
from clew.providers.protocol import Chunk, Finished, ReasoningChunk, Request, StopReason
from clew.providers.recorded_calls import RecordedCall, RecordedRequest, Recording, to_chunks
from clew.providers.replay import ReplayDiverged, ReplayProvider
from clew.providers.request_diff import Difference
from clew.providers.scripted import ScriptedProvider, ScriptedReply, call_reply, text_reply
from clew.sdk.replay import replay_session
from clew.sdk.replay_script import read_replay_script, script_from_journal, script_from_log
from clew.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio

FACTS = ModelFacts(name="m", window=3_000, max_output=300)
POLICY = ContextPolicy(thresholds=Thresholds(compact=0.5))
SESSIONS = Path(__file__).parents[3] / "shared" / "data" / "sessions"


@tool(risk=Risk.INSPECT)
def read(name: str) -> str:
    """Read a file."""
    return f"the content of {name}\n" * 3


@tool(risk=Risk.INSPECT)
def other(name: str) -> str:
    """Read another file."""
    return "something else"


def facts(name: str = "m") -> ModelFacts:
    return replace(FACTS, name=name)


async def recorded(folder: Path, *replies: ScriptedReply, prompts: int = 2, **options: Any) -> Path:
    """Run a session with a log and return the log."""
    provider = ScriptedProvider(replies, FACTS, name="anthropic")
    log = SessionLog(folder, level=options.pop("level", LogLevel.REQUESTS))
    session = Session(
        provider, model="m", tools=[read], session_log=log, session_id="s", policy=POLICY, **options
    )
    async with session:
        for number in range(prompts):
            try:
                await session.run(f"question {number} " + "word " * 40)
            except ProviderError:
                continue
    return folder / "s.jsonl"


REPLIES: tuple[ScriptedReply, ...] = (
    [
        ReasoningChunk(index=0, text="hm", signature="sig", extra='{"id":"r1"}'),
        *call_reply(("read", {"name": "a"}), ("read", {"name": "b"}), text="I look."),
    ],
    text_reply("both are there", usage=Usage(input_tokens=700, output_tokens=9)),
    text_reply("good bye"),
)


async def again(path: Path, *, prompts: int = 2, **options: Any) -> ReplayProvider:
    """Run the same session against its recording, through the whole turn loop."""
    provider = ReplayProvider(script_from_log(path).recording, **options.pop("provider", {}))
    session = Session(
        provider, model="m", session_id="s", policy=POLICY, **{"tools": [read], **options}
    )
    async with session:
        for number in range(prompts):
            await session.run(f"question {number} " + "word " * 40)
    return provider


@pytest.mark.req("LOG-5")
@pytest.mark.parametrize("level", [LogLevel.REQUESTS, LogLevel.RAW])
async def test_a_session_can_be_replayed_from_its_log(tmp_path: Path, level: LogLevel) -> None:
    path = await recorded(tmp_path, *REPLIES, level=level)

    provider = await again(path)

    assert provider.differences == []
    assert (provider.calls_made, provider.calls_left) == (3, 0)
    assert provider.facts("m") == FACTS


@pytest.mark.req("LOG-5", "CMP-1")
async def test_summaries_are_part_of_a_recording(tmp_path: Path) -> None:
    replies = [text_reply("word " * 200) for _ in range(14)]
    path = await recorded(tmp_path, *replies, prompts=9)
    recording = script_from_log(path).recording

    provider = await again(path, prompts=9)

    assert len(recording.turns.calls) == 9
    assert len(recording.calls) > 9
    assert (provider.differences, provider.calls_left) == ([], 0)


@pytest.mark.req("LOG-5")
async def test_failures_are_raised_again_as_they_were(tmp_path: Path) -> None:
    busy = ProviderBusy("later", provider="anthropic", status=529, retry_after=2.5)
    full = ContextOverflow("too long", provider="anthropic", status=400, limit=2_000)
    path = await recorded(tmp_path, busy, full, prompts=2)
    provider = ReplayProvider(script_from_log(path).recording, strict=False)

    with pytest.raises(ProviderBusy, match="later") as one:
        await _all(provider, Request(model="m", messages=()))
    with pytest.raises(ContextOverflow, match="too long") as two:
        await _all(provider, Request(model="m", messages=()))

    assert (one.value.retry_after, one.value.status) == (2.5, 529)
    assert two.value.limit == 2_000


async def test_a_recording_that_is_used_up_says_so() -> None:
    provider = ReplayProvider(Recording(calls=()))

    with pytest.raises(ProviderError, match="has 0 calls; there is no call 1"):
        await _all(provider, Request(model="m", messages=(user("hi"),)))
    assert provider.name == "replay"


@pytest.mark.req("LOG-5")
async def test_a_changed_tool_is_found_where_its_result_first_differs(tmp_path: Path) -> None:
    path = await recorded(tmp_path, *REPLIES)

    @tool(risk=Risk.INSPECT)
    def read(name: str) -> str:
        """Read a file."""
        return f"the content of {name}\n" * (3 if name == "a" else 2)

    with pytest.raises(ReplayDiverged, match="message 4") as strict:
        await again(path, tools=[read])
    lenient = await again(path, tools=[read], provider={"strict": False})

    assert strict.value.difference == lenient.difference
    assert lenient.difference == Difference(
        call=2,
        where="message 4 (tool), part 1 (tool_result), text, character 35",
        expected="'the content of b\\nthe content of b\\nthe content of b\\n'",
        found="'the content of b\\nthe content of b\\n'",
        message=4,
        part=1,
    )
    assert (lenient.calls_made, len(lenient.differences)) == (3, 2)


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"model": "n"}, "model"),
        ({"system_message": "Be brief."}, "system prompt"),
        ({"tools": [other]}, "tool 1"),
        ({"tools": [read, other]}, "tool 2"),
        ({"request_options": {"seed": 7}}, "options"),
        ({"preserve_reasoning_as_text": True}, "reasoning"),
        ({"max_context_tokens": 900}, "max_output_tokens"),
    ],
    ids=["model", "system", "tools", "more tools", "options", "reasoning", "window"],
)
async def test_what_surrounds_the_messages_is_compared_too(
    tmp_path: Path, options: dict[str, Any], where: str
) -> None:
    path = await recorded(tmp_path, "ok", prompts=1)
    provider = ReplayProvider(script_from_log(path).recording)
    made = {"model": "m", "tools": [read], "session_id": "s", "policy": POLICY, **options}

    async with Session(provider, **made) as session:
        with pytest.raises(ReplayDiverged):
            await session.run("question 0 " + "word " * 40)

    assert provider.difference is not None
    assert provider.difference.where.startswith(where)


CALL = ToolCall(call_id=CallId("c"), name="read", arguments='{"name":"a"}')
RESULT = ToolResult(call_id=CallId("c"), name="read", text="content")
BASE = (
    user("go"),
    assistant(Reasoning(text="hm", signature="sig"), "I look.", CALL),
    Message(role=Role.TOOL, parts=(RESULT,)),
)


def changed(place: int, **fields: Any) -> tuple[Message, ...]:
    return tuple(replace(m, **fields) if n == place else m for n, m in enumerate(BASE))


CHANGES: list[tuple[tuple[Message, ...], str, str, str]] = [
    (BASE[:2], "message 3", "tool with tool_result", "no message"),
    ((*BASE, user("more")), "message 4", "no message", "user with text"),
    (changed(0, parts=(Text("stop"),)), "message 1 (user), part 1 (text), text", "'go'", "'stop'"),
    (changed(0, role=Role.ASSISTANT), "message 1 (user), role", "'user'", "'assistant'"),
    (changed(1, interrupted=True), "message 2 (assistant), interrupted", "'false'", "'true'"),
    (changed(1, parts=BASE[1].parts[1:]), "message 2 (assistant), part 1", "reasoning", "text"),
    (changed(1, parts=BASE[1].parts[:2]), "message 2 (assistant), part 3", "tool_call", "nothing"),
    (
        changed(1, parts=(*BASE[1].parts[:2], replace(CALL, arguments='{"name":"b"}'))),
        "message 2 (assistant), part 3 (tool_call), arguments, character 10",
        """'{"name":"a"}'""",
        """'{"name":"b"}'""",
    ),
    (
        changed(2, parts=(replace(RESULT, failed=True),)),
        "message 3 (tool), part 1 (tool_result), failed",
        "'false'",
        "'true'",
    ),
]


@pytest.mark.req("LOG-5")
@pytest.mark.parametrize(("messages", "where", "expected", "found"), CHANGES)
async def test_a_difference_is_named_to_the_character(
    messages: tuple[Message, ...], where: str, expected: str, found: str
) -> None:
    call = RecordedCall(request=RecordedRequest(new=BASE), chunks=to_chunks(assistant("ok"), None))
    provider = ReplayProvider(Recording(calls=(call,)), strict=False)

    await _all(provider, Request(model="m", messages=messages))

    assert provider.difference is not None
    assert provider.difference.where == where
    assert (provider.difference.expected, provider.difference.found) == (expected, found)
    assert str(provider.difference).startswith(f"call 1, {where}: expected {expected}")


async def test_what_a_recording_does_not_hold_is_not_compared() -> None:
    calls = (
        RecordedCall(request=RecordedRequest(new=BASE)),
        RecordedCall(request=None),
        RecordedCall(request=RecordedRequest(keep=3, new=(user("on"),))),
    )
    provider = ReplayProvider(Recording(calls=calls))

    spec = ToolSpec(name="t", description="", schema={})
    await _all(provider, Request(model="any", messages=BASE, system="any", tools=(spec,)))
    await _all(provider, Request(model="any", messages=(user("anything"),)))
    await _all(provider, Request(model="any", messages=(*BASE, user("on"))))

    assert provider.differences == []


async def test_any_answer_comes_out_of_its_chunks_again() -> None:
    message = Message(
        role=Role.ASSISTANT,
        provenance="x",
        parts=(
            Reasoning(text="hm", provenance="x", signature="s", redacted="r", extra='{"a":1}'),
            Text("one", '{"b":2}'),
            Text("two"),
            Native(provenance="x", data="{}", note="n"),
            replace(CALL, extra='{"c":3}'),
            ToolCall(call_id=CallId("d"), name="t"),
        ),
    )
    assembly = MessageBuilder(provenance="x")

    for chunk in to_chunks(message, Finished(reason=StopReason.TOOL_CALLS)):
        assembly.add(chunk)

    assert assembly.message() == message


@pytest.mark.req("LOG-2", "LOG-5")
async def test_a_redacted_log_is_compared_with_redacted_requests(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    said: dict[str, Any] = {"system_message": f"the token is {secret}"}
    path = await recorded(tmp_path, "one", "two", **said)

    assert secret not in path.read_text()
    redact = Redaction().value
    provider = await again(path, provider={"redact": redact}, **said)
    assert provider.differences == []
    with pytest.raises(ReplayDiverged, match="system prompt"):
        await again(path, **said)


@pytest.mark.req("LOG-5")
async def test_a_journal_and_its_export_can_be_replayed(tmp_path: Path) -> None:
    store = MemoryStore()
    path = await recorded(tmp_path, *REPLIES, store=store)
    entries = (await store.load((await store.sessions())[0].id))[1]
    (tmp_path / "export.jsonl").write_bytes(export_jsonl(entries))
    history = tuple(e.body.message for e in entries if isinstance(e.body, MessageAdded))

    for script in (
        read_replay_script(path),
        script_from_journal(entries),
        read_replay_script(tmp_path / "export.jsonl"),
    ):
        provider = ReplayProvider(script.recording)
        done = await replay_session(script, provider)

        assert (done.calls, done.tool_calls) == (3, 2)
        assert (provider.differences, done.difference) == ([], None)
        assert done.history == history


@pytest.mark.req("LOG-5")
async def test_a_replay_reports_the_entry_that_differs(tmp_path: Path) -> None:
    script = script_from_log(await recorded(tmp_path, *REPLIES))
    calls = list(script.recording.calls)
    finished = Finished(reason=StopReason.DONE)
    calls[1] = replace(calls[1], chunks=to_chunks(assistant("one is missing"), finished))

    provider = ReplayProvider(replace(script.recording, calls=tuple(calls)), strict=False)
    done = await replay_session(script, provider)

    assert done.difference is not None
    assert done.difference.where.startswith("entry #6 (assistant), part 1 (text), text")
    assert provider.difference is not None
    assert (provider.difference.call, provider.difference.message) == (3, 5)


async def test_a_file_with_an_unknown_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("no session")

    with pytest.raises(ConfigError, match="has an unknown format"):
        read_replay_script(tmp_path / "x")
    with pytest.raises(ConfigError, match="cannot read"):
        read_replay_script(tmp_path / "nowhere")


@pytest.mark.req("LOG-5", "STO-5")
@pytest.mark.parametrize("tool_name", ["claude_code", "codex", "pi"])
@pytest.mark.slow("reads large recordings")
async def test_recordings_of_other_tools_can_be_replayed(
    tool_name: str, record_property: Callable[[str, object], None]
) -> None:
    files = sorted((SESSIONS / tool_name).glob("*")) if SESSIONS.is_dir() else []
    if not files:
        pytest.skip(f"there are no recordings of {tool_name} on this machine")
    calls = tool_calls = 0
    for file in files:
        entries = build_journal(read_session(file))
        script = script_from_journal(entries)
        provider = ReplayProvider(script.recording)

        done = await replay_session(script, provider)

        assert (provider.differences, done.difference) == ([], None), file.name
        assert provider.calls_left == 0
        assert done.history == _history(entries)
        calls, tool_calls = calls + done.calls, tool_calls + done.tool_calls
    record_property("counts", f"{len(files)} sessions, {calls} calls, {tool_calls} tool calls")
    assert calls > len(files)


def _history(entries: list[Entry]) -> tuple[Message, ...]:
    return tuple(item.message for item in fold(entries).items)


async def _all(provider: ReplayProvider, request: Request) -> list[Chunk]:
    return [chunk async for chunk in provider.stream(request)]
