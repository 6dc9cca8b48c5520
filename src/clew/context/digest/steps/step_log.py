"""The log of tool steps: the tool calls of a conversation that grows, with their results.

A result arrives after its call. The output of a command that was left running is found in later
results and in notifications, which a program adds to the user's messages.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from clew.context.digest.steps.tool_steps import ToolStep, is_read_tool
from clew.context.items import Item, ItemKind
from clew.core.ids import NO_ENTRY, CallId, EntryId
from clew.core.messages import Message, Role, ToolCall, ToolResult, assistant

_USER_COMMAND = re.compile(r"<bash-input>(.{0,2000}?)</bash-input>", re.DOTALL)
_USER_OUTPUT = re.compile(r"<bash-std(?:out|err)>(.*?)</bash-std(?:out|err)>", re.DOTALL)
_NOTIFICATION = re.compile(
    r"<task-notification>.{0,200}?<task-id>(\w+)</task-id>(.*?)</task-notification>", re.DOTALL
)
_USER = ItemKind.USER
_POLL_KEYS = ("session_id", "task_id", "bash_id", "shell_id", "agentId")
_MOST_JOINED = 20_000


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
        self._asking: list[Item] = []
        """The messages with calls; one is made for commands that the user ran."""
        self._places: list[int] = []
        """The indices of these messages in the conversation."""
        self._acting: list[int] = []
        """The indices, in `_asking`, of those with a call that does not only read a file."""
        self._last_act = CallId("")
        """The last of such calls."""
        self._answers: dict[CallId, Item] = {}
        """The messages with the results."""
        self._steps: dict[int, list[ToolStep]] = {}
        """Steps that were asked for, of messages with all results, by the index in `_asking`."""
        self._ended: dict[str, Item] = {}
        """What notifications said about background jobs."""

    def extend(self, items: Sequence[Item]) -> None:
        """Continue the conversation."""
        answers, asking, places, made = self._answers, self._asking, self._places, self._steps
        for place, item in enumerate(items, start=self._length):
            if item.answers:
                for call_id in item.answers:
                    if made and call_id in answers:
                        self._forget_steps(call_id)
                    answers[call_id] = item
            if item.asks:
                asking.append(item)
                places.append(place)
                for part in item.message.parts:
                    if type(part) is ToolCall and not is_read_tool(part.name):
                        self._add_act(part.call_id)
            elif item.kind is _USER and not item.answers and "<" in (text := item.message.text):
                self._add_user_text(place, item.entry_id, text)
        self._length += len(items)

    def list_steps(self, *, newest: int | None = None) -> list[ToolStep]:
        """Return the steps so far; see `list_steps`."""
        since = self._length - newest if newest is not None else 0
        start = bisect_left(self._places, since)
        acting = self._acting[: bisect_left(self._acting, start)]
        steps = [step for step in self._read_steps(acting) if not step.only_reads]
        steps += self._read_steps(range(start, len(self._asking)))
        return _join_polls(steps, self._ended)

    def _read_steps(self, indices: Iterable[int]) -> list[ToolStep]:
        """Return the steps of some messages in order."""
        steps: list[ToolStep] = []
        made = self._steps
        for index in indices:
            steps += made.get(index) or self._make_steps(index)
        return steps

    def _make_steps(self, index: int) -> list[ToolStep]:
        place, item, find_answer = self._places[index], self._asking[index], self._answers.get
        steps = [
            _make_step(place, item.entry_id, part, find_answer(part.call_id))
            for part in item.message.parts
            if type(part) is ToolCall
        ]
        waiting = [step for step in steps if not step.answered]
        if not waiting:
            self._steps[index] = steps
        return steps

    def _forget_steps(self, call_id: CallId) -> None:
        """Make the steps of calls with this id again when they are asked for."""
        for index in [index for index in self._steps if call_id in self._asking[index].asks]:
            del self._steps[index]

    def _add_act(self, call_id: CallId) -> None:
        """Note that the last message in `_asking` does more than read files."""
        index = len(self._asking) - 1
        if not self._acting or self._acting[-1] != index:
            self._acting.append(index)
        self._last_act = call_id

    def _add_user_text(self, place: int, entry_id: EntryId, text: str) -> None:
        """Read the commands that the user ran, and notifications that a program added."""
        call_id = CallId(f"user {place}")
        commands = [
            msgspec.json.encode({"command": command}).decode()
            for command in _USER_COMMAND.findall(text)
        ]
        if commands:
            calls = [ToolCall(call_id=call_id, name="bash", arguments=one) for one in commands]
            self._asking.append(Item.of(entry_id, assistant(*calls)))
            self._places.append(place)
            self._add_act(call_id)
        last = self._last_act
        if "<bash-std" in text and last.startswith("user ") and last not in self._answers:
            output = "".join(_USER_OUTPUT.findall(text))
            self._answers[last] = _make_answer(entry_id, last, output)
        for job, told in _NOTIFICATION.findall(text):
            failed = "<status>failed" in told
            self._ended[job] = _make_answer(entry_id, CallId(job), told.strip(), failed=failed)


def _make_step(place: int, entry_id: EntryId, call: ToolCall, answer: Item | None) -> ToolStep:
    result = None if answer is None else _find_result(answer, call.call_id)
    return ToolStep(
        place=place,
        entry_id=entry_id,
        name=call.name.lower(),
        encoded=call.arguments,
        result="" if result is None else result.text,
        result_id=NO_ENTRY if answer is None else answer.entry_id,
        failed=result is not None and result.failed,
        answered=result is not None,
    )


def _make_answer(entry_id: EntryId, call_id: CallId, text: str, *, failed: bool = False) -> Item:
    """Return a message with the result of something that the user or a program ran."""
    result = ToolResult(call_id=call_id, name="bash", text=text, failed=failed)
    return Item.of(entry_id, Message(role=Role.TOOL, parts=(result,)))


def _find_result(answer: Item, call_id: CallId) -> ToolResult:
    """Return the result of a call; the last one counts if there are several."""
    parts = answer.message.parts
    return [one for one in parts if type(one) is ToolResult and one.call_id == call_id][-1]


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
