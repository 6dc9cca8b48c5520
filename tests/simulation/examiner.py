"""A scripted model for blind tests, whose scores are known in advance, and a session for it.

The session says a fact in each turn, such as `fact fact_3 is value_3`. As writer the model asks for
facts, as reader it answers only if the fact is in its view, as grader it compares texts.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from clew.context.summary_prompt import SUMMARY_SYSTEM
from clew.core.ids import CallId
from clew.core.messages import Message, ToolCall, assistant, tool_result, user
from clew.importers.clew_jsonl import export_jsonl
from clew.importers.journal import build_journal
from clew.importers.recorded_session import RecordedSession, RecordedStep
from clew.testing.fake_openai import DONE, ScriptedResponse, delta, tool_call_response, usage

TURNS = 25
SECRET = "sk-ant-api03-" + "a1B2c3D4" * 5
NOTES = "fact fact_1 is value_1 and fact fact_7 is value_7"
"""What it writes when it is asked for a summary."""
_FACT = re.compile(r"fact (fact_\d+) is (value_\d+)")

Say = Callable[[dict[str, Any]], ScriptedResponse | None]
"""Replaces the response to a request; None for the usual one."""


def make_session(
    *, compacted: bool = True, turns: int = TURNS, summary: str = "", padding: int = 120
) -> RecordedSession:
    """Return a session with a fact in each turn; a compaction comes before the last turn."""
    steps: list[RecordedStep] = []
    for number in range(turns):
        if compacted and number == turns - 1:
            steps.append(RecordedStep(message=user(summary), is_summary=True, compacts=True))
        steps += [
            RecordedStep(message=message, at=1_000.0 + number, model=_model_of(message))
            for message in _turn(number, padding)
        ]
    return RecordedSession(source="clew", model="gpt-4o", steps=tuple(steps))


def write_session(path: Path, session: RecordedSession) -> Path:
    """Write a session as a journal."""
    path.write_bytes(export_jsonl(build_journal(session)))
    return path


def _turn(number: int, padding: int) -> list[Message]:
    call = ToolCall(call_id=CallId(f"c{number}"), name="Read", arguments=f'{{"p":"f{number}"}}')
    noise = " ".join(f"noise{number}x{n}" for n in range(padding))
    secret = f"\nANTHROPIC_API_KEY={SECRET}" if number == 0 else ""
    return [
        user(f"Please look at part {number}."),
        assistant(call),
        tool_result(call, f"{noise}\nfact fact_{number} is value_{number}\n{noise}{secret}"),
        assistant(f"Part {number} is read."),
    ]


def _model_of(message: Message) -> str:
    return "gpt-4o" if message.role.value == "assistant" else ""


class Examiner:
    """Answers requests of the Chat Completions API as writer, reader and grader.

    Args:
        say: What to say instead, for tests of mistakes.
    """

    def __init__(self, say: Say | None = None) -> None:
        self._say = say
        self.requests: list[dict[str, Any]] = []

    def __call__(self, body: bytes) -> ScriptedResponse:
        """Return the response to a request."""
        request = msgspec.json.decode(body)
        self.requests.append(request)
        said = self._say(request) if self._say is not None else None
        return said or _answer(request)

    @property
    def roles(self) -> list[str]:
        """What each request asked the model to be."""
        return [role_of(request) for request in self.requests]


def role_of(request: dict[str, Any]) -> str:
    """Return `writer`, `reader`, `grader` or `summary`."""
    system = str(request["messages"][0]["content"])
    if system == SUMMARY_SYSTEM:
        return "summary"
    if system.startswith("You write questions"):
        return "writer"
    return "grader" if system.startswith("You grade") else "reader"


def text_response(text: str, request: dict[str, Any]) -> ScriptedResponse:
    """Return a response with plausible token counts."""
    sent = "".join(str(one.get("content")) for one in request["messages"])
    counts = usage(len(sent) // 3, max(1, len(text) // 3))
    return ScriptedResponse(steps=[delta(content=text), delta("stop"), counts, DONE])


def _answer(request: dict[str, Any]) -> ScriptedResponse:
    match role_of(request):
        case "writer":
            return text_response(_write(request["messages"][-1]["content"]), request)
        case "summary":
            return text_response(NOTES, request)
        case "grader":
            return text_response(_grade(request["messages"][-1]["content"]), request)
        case _:
            return _read(request)


def _write(prompt: str) -> str:
    wanted = re.findall(r"- (\d+) of kind `(.*?)`", prompt)
    kinds = [kind for count, kind in wanted for _ in range(int(count))]
    facts = list(dict.fromkeys(_FACT.findall(prompt)))
    chosen = [facts[(2 * n + 1) * len(facts) // (2 * len(kinds))] for n in range(len(kinds))]
    questions = [
        {"kind": kind, "question": f"What is {name}?", "reference": value}
        for kind, (name, value) in zip(kinds, chosen, strict=True)
    ]
    # Models like to put a fence around JSON.
    return f"```json\n{msgspec.json.encode(questions).decode()}\n```"


def _read(request: dict[str, Any]) -> ScriptedResponse:
    messages = request["messages"]
    (name,) = re.findall(r"What is (fact_\d+)\?", str(messages[3]["content"]))
    seen = "\n".join(str(one["content"]) for one in messages if one["role"] in ("user", "tool"))
    found = dict(_FACT.findall(seen)).get(name)
    looked_up = any(one["role"] == "tool" for one in messages)
    if found is None and request.get("tools") and not looked_up:
        return tool_call_response("Recall", msgspec.json.encode({"query": name}).decode())
    answer = {"answer": found or "not in the text"}
    return text_response(msgspec.json.encode(answer).decode(), request)


def _grade(prompt: str) -> str:
    asked = msgspec.json.decode(prompt)
    grades = {one: float(text == asked["reference"]) for one, text in asked["answers"].items()}
    return msgspec.json.encode(grades).decode()
