"""The history of a session as blocks, for a terminal that opens a session or joins it late."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from clew.core.file_change import FileChange, Hunk
from clew.core.messages import Message, Reasoning, Role, Text
from clew.core.text import pluralize
from clew.core.tool_states import ToolState, unwrap_call
from clew.sdk.client import HistoryEntry, SessionSnapshot
from clew.tui.blocks import Answer, Block, Notice, ThinkingBlock, ToolCallBlock, UserPrompt
from clew.tui.run_notes import INTERRUPTED

_MAX_SHOWN = 12
"""How many blocks after the last prompt a resumed session shows."""
_ENDED = ("completed", "failed", "cancelled")
_HUNK = re.compile(r"@@ -(\d+),\d+ \+(\d+),\d+ @@")
_MARKS = {"context": " ", "remove": "-", "add": "+"}


def make_blocks(history: Iterable[HistoryEntry]) -> list[Block]:
    """Return the blocks of a history, in order. They have no numbers yet."""
    known = _Known()
    return [block for item in history for block in _make(item, known)]


def take_last_turn(blocks: Sequence[Block]) -> list[Block]:
    """Return the last prompt and what followed it; of a long turn, its end."""
    prompts = [place for place, block in enumerate(blocks) if isinstance(block, UserPrompt)]
    first = max(prompts, default=-1)
    shown, rest = list(blocks[first : first + 1]), blocks[first + 1 :]
    if hidden := max(0, len(rest) - _MAX_SHOWN):
        shown.append(Notice(f"{pluralize(hidden, 'part')} not shown; /history lists the entries"))
    return [*shown, *rest[hidden:]]


@dataclass(frozen=True, slots=True)
class _Known:
    """The arguments and the results of tool calls, by call id."""

    arguments: dict[str, str] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)

    def add(self, message: Message) -> None:
        self.arguments.update(
            (call.call_id, unwrap_call(call.name, call.arguments)[1]) for call in message.calls
        )
        self.results.update((result.call_id, result.text) for result in message.results)


def find_open_text(now: SessionSnapshot) -> str:
    """Return what the model has written since the last message of the history."""
    messages = [item.message for item in now.history if item.message is not None]
    prompt = max((at for at, one in enumerate(messages) if one.role is Role.USER), default=-1)
    rest = now.streaming_text
    for message in messages[prompt + 1 :]:
        for part in message.parts:
            if isinstance(part, Text) and message.role is Role.ASSISTANT:
                # A long history begins in the middle of the run.
                rest = (rest.partition(part.text)[2] or rest).lstrip("\n") if part.text else rest
    return rest


def _make(item: HistoryEntry, known: _Known) -> Iterator[Block]:
    if item.message is not None:
        known.add(item.message)
        yield from _make_message(item.message, str(item.data.get("content", "")))
        return
    match item.type:
        case "tool-end":
            yield _make_call(item.data, known)
        case _:
            yield from _make_note(item.type, item.data)


def _make_message(message: Message, shown: str) -> Iterator[Block]:
    if message.role is Role.USER and shown.strip():
        yield UserPrompt(shown)
    elif message.role is Role.ASSISTANT:
        for part in message.parts:
            if isinstance(part, Reasoning) and part.text.strip():
                yield ThinkingBlock(text=part.text, seconds=None)
            elif isinstance(part, Text) and part.text.strip():
                yield Answer(text=part.text)
        if message.interrupted:
            yield Notice(INTERRUPTED)


def _make_call(data: Mapping[str, Any], known: _Known) -> Block:
    state = msgspec.convert(data, ToolState)
    text = known.results.get(state.call_id, "")
    return ToolCallBlock(
        name=state.tool_name,
        arguments=known.arguments.get(state.call_id, ""),
        outcome=state.result or "success",
        error_code=state.error_code,
        display=state.tool_result_data,
        text="" if text == state.tool_result_data else text,
        data=_make_change(state),
    )


def _make_change(state: ToolState) -> dict[str, Any]:
    """Return the diff of a call as the `data` of its result."""
    hunks: list[tuple[int, int, list[str]]] = []
    for line in state.diff_lines:
        if line.type != "hunk":
            hunks[-1][2].append(_MARKS[line.type] + line.text)
        elif found := _HUNK.match(line.text):
            hunks.append((int(found[1]), int(found[2]), []))
    made = [Hunk.of(*hunk) for hunk in hunks]
    return FileChange.of(state.diff_file, made).data() if made else {}


def _make_note(kind: str, data: Mapping[str, Any]) -> Iterator[Block]:
    match kind, data:
        case "compaction", {"trigger": trigger}:
            yield Notice(f"compacted ({trigger})")
        case "results_cleared", {"cleared": [*cleared]}:
            yield Notice(f"{pluralize(len(cleared), 'tool result')} cleared")
        case "clear", _:
            yield Notice("the conversation was cleared")
        case "undo", {"target": target}:
            yield Notice(f"#{target} was undone")
        case "rewind", {"before": before}:
            yield Notice(f"rewound to before #{before}")
        case "background-task", {"status": str(status), "label": str(label), "closed": False}:
            if status in _ENDED:
                yield Notice(f"background task {label} ({data['task_id']}): {status}")
        case _:
            pass
