"""The validator reports each kind of damage, and nothing for an undamaged log."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from clew import Session, tool
from clew.core.permissions import Risk
from clew.log.content_store import content_hash
from clew.log.events import LogLevel
from clew.log.reader import FaultCode
from clew.log.replay_state import replay_log
from clew.log.validation import validate_log
from clew.log.writer import SessionLog
from clew.providers.openai_chat import OpenAIChat
from clew.testing.fake_openai import fake_openai, text_response, tool_call_response

Line = dict[str, Any]
LIMIT = 600
"""Low, so that this small log has payloads."""


@tool(risk=Risk.INSPECT)
def read(size: int) -> str:
    """Return that many lines."""
    return "line of a file\n" * size


class Log:
    """A log that can be broken."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[Line] = [
            msgspec.json.decode(line) for line in path.read_bytes().splitlines()
        ]
        self.after = b""

    @property
    def payloads(self) -> Path:
        return self.path.with_suffix(".payloads")

    def at(self, event: str, nth: int = 0, **fields: Any) -> Line:
        """Return the nth line of an event with these fields."""
        found = [
            line
            for line in self.lines
            if line["event"] == event and all(line.get(k) == v for k, v in fields.items())
        ]
        return found[nth]

    def drop(self, event: str, nth: int = 0, **fields: Any) -> None:
        """Take a line out and number the rest anew."""
        self.lines.remove(self.at(event, nth, **fields))
        self.number()

    def number(self) -> None:
        for seq, line in enumerate(self.lines, 1):
            line["seq"] = seq

    def save(self) -> None:
        data = b"".join(msgspec.json.encode(line) + b"\n" for line in self.lines)
        self.path.write_bytes(data + self.after)

    def reference(self) -> Line:
        """Return the first reference to a text file."""
        waiting: list[Any] = list(reversed(self.lines))
        while waiting:
            value = waiting.pop()
            if isinstance(value, dict):
                if str(value.get("$payload", "")).endswith(".txt"):
                    return value
                waiting += value.values()
            elif isinstance(value, list):
                waiting += value
        raise AssertionError


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with all there is: tools, a compaction, an undo, bytes of the wire."""
    folder = tmp_path_factory.mktemp("logs")
    anyio.run(_record, folder)
    return folder


async def _record(folder: Path) -> None:
    log = SessionLog(folder, level=LogLevel.RAW, inline_limit=LIMIT)
    words = [f"answer {n} " + "word " * 40 for n in range(4)]
    script = [
        tool_call_response("read", '{"size": 90}'),
        *[text_response(*text.split(" ")) for text in words],
        text_response("a short summary"),
        text_response("the end"),
    ]
    async with fake_openai(*script) as server:
        provider = OpenAIChat(server.url, api_key="sk-loopback")
        session = Session(
            provider,
            model="gpt-4o",
            tools=[read],
            session_log=log,
            session_id="s",
            system_message="Hi.",
        )
        async with session:
            for number in range(4):
                await session.run(f"question {number}")
            await session.pin(2)
            await session.compact()
            await session.undo()
            await session.run("the last question")
        await provider.aclose()


@pytest.fixture
def log(recorded: Path, tmp_path: Path) -> Log:
    folder = tmp_path / "logs"
    shutil.copytree(recorded, folder)
    return Log(folder / "s.jsonl")


def test_an_undamaged_log_has_no_faults(log: Log) -> None:
    report = validate_log(log.path)

    assert [str(fault) for fault in report.faults] == []
    assert report.is_sound
    assert (report.calls, report.entries) == (7, len(replay_log(log.path).entries))
    assert report.payloads == len(list(log.payloads.iterdir()))
    assert report.payload_bytes == sum(file.stat().st_size for file in log.payloads.iterdir())


def torn(log: Log) -> None:
    log.after = b'{"seq":999,"timestamp":"2026-0'


def torn_before_a_resume(log: Log) -> None:
    again = {**log.lines[0], "resumed": True, "seq": len(log.lines) + 1}
    log.after = b'{"seq":9' + b"\n" + msgspec.json.encode(again) + b"\n"


def rubbish(log: Log) -> None:
    log.lines.insert(3, {"no": "line"})


def from_the_future(log: Log) -> None:
    log.at("context")["event"] = "hologram"


def wrong_fields(log: Log) -> None:
    log.at("assistant")["text"] = 7


def newer_format(log: Log) -> None:
    log.lines[0]["format"] = 99


def no_beginning(log: Log) -> None:
    log.drop("session_init")


def another_session(log: Log) -> None:
    log.at("context")["session_id"] = "other"


def gap(log: Log) -> None:
    log.lines.remove(log.at("context"))


def number_twice(log: Log) -> None:
    second = log.at("context", 1)
    log.lines.insert(log.lines.index(second), dict(log.at("context")))
    for seq, line in enumerate(log.lines[log.lines.index(second) :], second["seq"]):
        line["seq"] = seq


def bad_reference(log: Log) -> None:
    log.at("assistant")["text"] = {"$payload": "../../etc/passwd", "bytes": 9}


def lost_payload(log: Log) -> None:
    name = log.reference()["$payload"]
    (log.payloads / name).unlink()


def short_payload(log: Log) -> None:
    name = log.reference()["$payload"]
    (log.payloads / name).write_text("short")


def changed_payload(log: Log) -> None:
    name = log.reference()["$payload"]
    file = log.payloads / name
    file.write_bytes(b"X" * file.stat().st_size)


def linked_payload(log: Log) -> None:
    name = log.reference()["$payload"]
    file = log.payloads / name
    file.rename(log.path.parent / "elsewhere")
    file.symlink_to(log.path.parent / "elsewhere")


def no_wire(log: Log) -> None:
    execution_id = log.at("provider_request")["execution_id"]
    log.drop("provider_native_raw_payload", execution_id=execution_id, payload_kind="stream_event")


def no_raw(log: Log) -> None:
    log.drop("provider_response_raw")


def no_answer(log: Log) -> None:
    log.drop("provider_response_normalized")


def answer_to_nothing(log: Log) -> None:
    first = log.at("provider_response_raw")
    log.lines.insert(log.lines.index(first), {**first, "execution_id": "x999"})
    log.number()


def lost_request(log: Log) -> None:
    log.drop("provider_request", 2)


def one_id_for_two(log: Log) -> None:
    summary = log.at("provider_request", purpose="summary")
    log.lines.insert(log.lines.index(summary), {**summary})
    log.number()


def unknown_content(log: Log) -> None:
    log.at("provider_request", 3)["system"] = "0" * 64


def changed_content(log: Log) -> None:
    entry = log.at("history_mutation", mutation="append")["entry"]
    entry["body"]["message"]["parts"][0]["text"] = "something else"


def no_base(log: Log) -> None:
    log.at("provider_request", 3)["messages"]["of"] = "x999"


def other_messages(log: Log) -> None:
    log.at("provider_request", 3)["messages"]["same"] -= 1


def tool_without_end(log: Log) -> None:
    log.drop("tool_execution_result")


def tool_without_beginning(log: Log) -> None:
    log.drop("tool_execution_request")


def result_nowhere(log: Log) -> None:
    log.drop("tool_message_committed")


def tool_twice(log: Log) -> None:
    first = log.at("tool_execution_request")
    log.lines.insert(log.lines.index(first), dict(first))
    log.number()


def bad_entry(log: Log) -> None:
    log.at("history_mutation", mutation="undo")["entry"]["body"]["target"] = "two"


def entry_lost(log: Log) -> None:
    log.drop("history_mutation", mutation="pin")


def entry_twice(log: Log) -> None:
    pin = log.at("history_mutation", mutation="pin")
    log.lines.insert(log.lines.index(pin), dict(pin))
    log.number()


def lost_target(log: Log) -> None:
    undo = log.at("history_mutation", mutation="undo")
    undo["entry"]["body"]["target"] = 777
    undo["sha256"] = content_hash(undo["entry"]["body"])


TABLE: list[tuple[Callable[[Log], None], set[FaultCode]]] = [
    (torn, {FaultCode.LINE_TORN}),
    (torn_before_a_resume, {FaultCode.LINE_TORN}),
    (rubbish, {FaultCode.LINE_INVALID}),
    (from_the_future, {FaultCode.EVENT_UNKNOWN}),
    (wrong_fields, {FaultCode.EVENT_INVALID}),
    (newer_format, {FaultCode.FORMAT_UNKNOWN}),
    (no_beginning, {FaultCode.SESSION_INIT_MISSING}),
    (another_session, {FaultCode.SESSION_MISMATCH}),
    (gap, {FaultCode.SEQUENCE_GAP}),
    (number_twice, {FaultCode.SEQUENCE_DUPLICATE}),
    (bad_reference, {FaultCode.PAYLOAD_REFERENCE_INVALID}),
    (lost_payload, {FaultCode.PAYLOAD_MISSING}),
    (linked_payload, {FaultCode.PAYLOAD_MISSING}),
    (short_payload, {FaultCode.PAYLOAD_SIZE_MISMATCH}),
    (changed_payload, {FaultCode.PAYLOAD_SHA256_MISMATCH}),
    (no_wire, {FaultCode.PROVIDER_NATIVE_RAW_PAYLOAD_MISSING}),
    (no_raw, {FaultCode.PROVIDER_RESPONSE_RAW_MISSING}),
    (no_answer, {FaultCode.PROVIDER_RESPONSE_NORMALIZED_MISSING}),
    (answer_to_nothing, {FaultCode.PROVIDER_REQUEST_MISSING}),
    (lost_request, {FaultCode.PROVIDER_REQUEST_MISSING}),
    (one_id_for_two, {FaultCode.EXECUTION_ID_DUPLICATE}),
    (unknown_content, {FaultCode.CONTENT_MISSING}),
    (changed_content, {FaultCode.CONTENT_SHA256_MISMATCH}),
    (no_base, {FaultCode.REQUEST_BASE_INVALID}),
    (other_messages, {FaultCode.REQUEST_HISTORY_MISMATCH}),
    (tool_without_end, {FaultCode.TOOL_RESULT_MISSING}),
    (tool_without_beginning, {FaultCode.TOOL_REQUEST_MISSING}),
    (result_nowhere, {FaultCode.TOOL_MESSAGE_MISSING}),
    (tool_twice, {FaultCode.TOOL_CALL_DUPLICATE}),
    (bad_entry, {FaultCode.HISTORY_ENTRY_INVALID}),
    (entry_lost, {FaultCode.HISTORY_ENTRY_GAP}),
    (entry_twice, {FaultCode.HISTORY_ENTRY_DUPLICATE}),
    (lost_target, {FaultCode.HISTORY_TARGET_UNKNOWN}),
]


def test_the_table_has_a_row_for_every_code() -> None:
    assert {code for _, codes in TABLE for code in codes} == set(FaultCode)


@pytest.mark.req("LOG-3", "LOG-4")
@pytest.mark.parametrize(
    ("damage", "codes"), TABLE, ids=lambda value: getattr(value, "__name__", "")
)
def test_each_kind_of_damage_has_its_own_code(
    log: Log, damage: Callable[[Log], None], codes: set[FaultCode]
) -> None:
    damage(log)
    log.save()

    report = validate_log(log.path)

    assert {fault.code for fault in report.faults} == codes, [str(f) for f in report.faults]
    assert report.is_sound == all(code.is_tolerated for code in codes)
