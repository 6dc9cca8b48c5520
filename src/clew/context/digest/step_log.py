"""The log of tool steps: the tool calls of a conversation that grows, with their results.

A result arrives after its call. The output of a command that was left running is found in later
results and in notifications, which a program adds to the user's messages.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from operator import itemgetter
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from clew.context.digest.tool_steps import ToolStep, is_read_tool
from clew.context.items import Item, ItemKind
from clew.core.ids import NO_ENTRY, CallId, EntryId
from clew.core.messages import Message, Role, ToolCall, ToolResult

_USER_COMMAND = re.compile(r"<bash-input>(.{0,2000}?)</bash-input>", re.DOTALL)
_USER_OUTPUT = re.compile(r"<bash-std(?:out|err)>(.*?)</bash-std(?:out|err)>", re.DOTALL)
_NOTIFICATION = re.compile(
    r"<task-notification>.{0,200}?<task-id>(\w+)</task-id>(.*?)</task-notification>", re.DOTALL
)
_USER = ItemKind.USER
_POLL_KEYS = ("session_id", "task_id", "bash_id", "shell_id", "agentId")
_MOST_JOINED = 20_000
_Call: TypeAlias = tuple[int, int, EntryId, ToolCall]
"""The number of a call among all calls; the index and the entry of its message; the call."""
_number, _place = itemgetter(0), itemgetter(1)


def list_steps(items: Sequence[Item], *, newest: int | None = None) -> list[ToolStep]:
    """Return the tool calls of a conversation in order, each with its result.

    Commands that the user ran (`! git pull` in a prompt) are included as calls of `bash`. A
    command that was left running has the result of the last call that asked for its output.
    With `newest`, calls that only read a file are left out before that many messages.
    """
    log = StepLog()
    log.extend(items)
    return log.list_steps(newest=newest)


class StepLog:
    """The tool calls of a conversation that grows: each message is read once."""

    def __init__(self) -> None:
        self._length = 0
        self._count = 0
        """Number of calls."""
        self._reads: list[_Call] = []
        """Calls that only read a file."""
        self._calls: list[_Call] = []
        """All others."""
        self._answers: dict[CallId, Item] = {}
        """The messages with the results."""
        self._steps: dict[int, tuple[Item | None, ToolStep]] = {}
        """The steps that were asked for with their answers, by the number of the call."""
        self._ended: dict[str, Item] = {}
        """What notifications said about background jobs."""

    def extend(self, items: Sequence[Item]) -> None:
        """Continue the conversation."""
        answers, reads, others = self._answers, self._reads, self._calls
        for place, item in enumerate(items, start=self._length):
            if item.answers:
                for call_id in item.answers:
                    answers[call_id] = item
            if item.asks:
                entry_id = item.entry_id
                for part in item.message.parts:
                    if type(part) is ToolCall:
                        calls = reads if is_read_tool(part.name) else others
                        calls.append((self._count, place, entry_id, part))
                        self._count += 1
            elif item.kind is _USER and not item.answers and "<" in (text := item.message.text):
                self._add_user_text(place, item.entry_id, text)
        self._length += len(items)

    def list_steps(self, *, newest: int | None = None) -> list[ToolStep]:
        """Return the steps so far; see `list_steps`."""
        since = self._length - newest if newest is not None else 0
        reads = self._reads[bisect_left(self._reads, since, key=_place) :]
        calls = sorted([*self._calls, *reads], key=_number)
        made, answers = self._steps, self._answers
        held = [made.get(one[0]) for one in calls]
        steps = [
            step[1] if step and step[0] is answers.get(one[3].call_id) else self._make_step(one)
            for one, step in zip(calls, held, strict=True)
        ]
        return _join_polls(steps, self._ended)

    def _add_user_text(self, place: int, entry_id: EntryId, text: str) -> None:
        """Read the commands that the user ran, and notifications that a program added."""
        for command in _USER_COMMAND.findall(text):
            arguments = msgspec.json.encode({"command": command}).decode()
            call = ToolCall(call_id=CallId(f"user {place}"), name="bash", arguments=arguments)
            self._calls.append((self._count, place, entry_id, call))
            self._count += 1
        last = self._calls[-1][-1].call_id if self._calls else CallId("")
        if "<bash-std" in text and last.startswith("user ") and last not in self._answers:
            output = "".join(_USER_OUTPUT.findall(text))
            self._answers[last] = _make_answer(entry_id, last, output)
        for job, told in _NOTIFICATION.findall(text):
            failed = "<status>failed" in told
            self._ended[job] = _make_answer(entry_id, CallId(job), told.strip(), failed=failed)

    def _make_step(self, one: _Call) -> ToolStep:
        number, place, entry_id, call = one
        answer = self._answers.get(call.call_id)
        result = None if answer is None else _find_result(answer, call.call_id)
        step = ToolStep(
            place=place,
            entry_id=entry_id,
            name=call.name.lower(),
            encoded=call.arguments,
            result="" if result is None else result.text,
            result_id=NO_ENTRY if answer is None else answer.entry_id,
            failed=result is not None and result.failed,
            answered=result is not None,
        )
        self._steps[number] = answer, step
        return step


def _make_answer(entry_id: EntryId, call_id: CallId, text: str, *, failed: bool = False) -> Item:
    """Return a message with the result of something that the user or a program ran."""
    result = ToolResult(call_id=call_id, name="bash", text=text, failed=failed)
    return Item.of(entry_id, Message(role=Role.TOOL, parts=(result,)))


def _find_result(answer: Item, call_id: CallId) -> ToolResult:
    """Return the result of a call; the last one counts if there are several."""
    return [one for one in answer.message.results if one.call_id == call_id][-1]


def _add_result(step: ToolStep, answer: Item, call_id: CallId) -> ToolStep:
    """Return `step` with the result of a call."""
    result = _find_result(answer, call_id)
    return replace(
        step,
        result=result.text,
        result_id=answer.entry_id,
        failed=result.failed,
        answered=True,
    )


def _join_polls(steps: list[ToolStep], ended: dict[str, Item]) -> list[ToolStep]:
    """Give each command that was left running the results of the calls that asked for more."""
    started: dict[str, int] = {}
    for place, step in enumerate(steps):
        if step.is_poll:
            job = next((text for key in _POLL_KEYS if (text := step.get_text(key))), "")
            if job in started and step.answered:
                first = steps[started[job]]
                earlier = "" if first.is_left_running else first.output[:_MOST_JOINED]
                steps[started[job]] = replace(
                    first,
                    result=f"{step.result}\n{earlier}",
                    result_id=step.result_id,
                    failed=step.failed,
                )
        elif step.background_id:
            started[step.background_id] = place
    for job, place in started.items():
        if job in ended:
            steps[place] = _add_result(steps[place], ended[job], CallId(job))
    return steps
