"""Conversations to measure on: made-up ones, and recorded facts told in words."""

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from clew.core.ids import CallId
from clew.core.messages import Message, ToolCall, assistant, tool_result, user

Told: TypeAlias = list[tuple[Sequence[Message], Sequence[str]]]
"""Conversations, each with the answers that should be found in its view."""
_BODY = (
    "def handler(request, response):\n    value = compute(request.args['id'])\n"
    "    return render(value, template='page.html')\n"
) * 3
_MOST_SETS = 40


def conversation(length: int) -> list[Message]:
    """Return an agent's conversation of about `length` messages, ending with the user's."""
    said = [user("Please work through the list of files.")]
    number = 0
    while len(said) < length - 1:
        call = ToolCall(
            call_id=CallId(f"c{number}"),
            name="Read",
            arguments=f'{{"file_path":"src/module_{number}.py"}}',
        )
        said += [assistant(f"Reading file {number}.", call)]
        said += [tool_result(call, f"# file {number}\n{_BODY}")]
        if number % 5 == 4:
            said += [assistant(f"Done with {number}."), user(f"Go on with part {number}.")]
        number += 1
    return [*said, user("What did you find?")]


def facts_said(data: Path) -> Told:
    """Return the recorded memory conversations, each with all the answers asked of it."""
    questions, answers = (
        data / "recall/BFCL_v4_memory.json",
        data / "recall/BFCL_v4_memory_answers.json",
    )
    if not questions.is_file():
        return []
    truth = {row["id"]: row["ground_truth"] for row in _rows(answers)}
    told: Told = []
    for scenario in ("customer", "finance"):
        said = [
            user(turn["content"])
            for talk in _rows(data / f"recall/memory_{scenario}.json")
            for turns in talk["question"]
            for turn in turns
        ]
        wanted = [
            str(truth[row["id"]][0]) for row in _rows(questions) if row["scenario"] == scenario
        ]
        told.append(([*said, user("Now a question.")], wanted))
    return told


def pairs_said(data: Path) -> Told:
    """Return lists of key-value pairs as tool output, each with the value that is asked for."""
    path = data / "recall/kv-retrieval-75_keys.jsonl.gz"
    if not path.is_file():
        return []
    told: Told = []
    call = ToolCall(call_id=CallId("kv"), name="Read", arguments='{"file_path":"pairs.txt"}')
    for line in gzip.decompress(path.read_bytes()).splitlines()[:_MOST_SETS]:
        row = msgspec.json.decode(line)
        lines = "\n".join(f"{key}: {value}" for key, value in row["ordered_kv_records"])
        said = [
            user("Read the pairs."),
            assistant(call),
            tool_result(call, lines),
            assistant("I have read them."),
            user("Now something else."),
        ]
        told.append((said, [str(row["value"])]))
    return told


def _rows(path: Path) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines() if line.strip()]
