"""The witness of the durable benchmark: an entry that a journal has lost shows."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.durable_witness import find_losses, read_requests, write_request
from clew.core.ids import CallId
from clew.core.messages import Message, Role, Text, ToolCall, ToolResult

pytestmark = pytest.mark.req("DST-2")

CALL = ToolCall(call_id=CallId("c1"), name="Read", arguments='{"file_path": "a"}')
STORED = (
    Message(role=Role.USER, parts=(Text("agent 7"),)),
    Message(role=Role.ASSISTANT, parts=(CALL,)),
    Message(role=Role.TOOL, parts=(ToolResult(call_id=CallId("c1"), name="Read", text="x"),)),
    Message(role=Role.ASSISTANT, parts=(Text("done"),)),
)
FUNCTION = {"name": "Read", "arguments": '{"file_path": "a"}'}
SENT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "agent 7"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": FUNCTION}]},
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "x"}]},
]


def record(folder: Path) -> list[list[tuple[object, ...]]]:
    file = folder / "requests.jsonl"
    write_request(file, 7, SENT[:2])
    write_request(file, 8, SENT[:2])
    write_request(file, 7, SENT)
    return read_requests(file)[7]


def test_requests_that_are_the_beginning_of_a_journal_have_lost_nothing(tmp_path: Path) -> None:
    assert find_losses(record(tmp_path), STORED) == []


@pytest.mark.parametrize("place", range(len(STORED)))
def test_a_message_that_was_sent_or_came_last_and_is_not_stored_is_a_loss(
    tmp_path: Path, place: int
) -> None:
    assert find_losses(record(tmp_path), [*STORED[:place], *STORED[place + 1 :]])


@pytest.mark.parametrize("place", range(len(STORED) - 1))
def test_a_message_that_is_stored_in_another_form_is_a_loss(tmp_path: Path, place: int) -> None:
    other = {**SENT[place + 1], "content": "something else"}
    file = tmp_path / "requests.jsonl"
    write_request(file, 7, [*SENT[: place + 1], other, *SENT[place + 2 :]])

    assert find_losses(read_requests(file)[7], STORED)


def test_a_model_that_was_never_asked_has_seen_nothing() -> None:
    assert find_losses([], STORED)
