"""The history of a session for people: what was said, and what happened beside it.

It is a fold over the journal. Nothing is stored twice: that a tool began and ended, and what a
turn consumed, is in the messages; how a tool looked on a screen is in the summary that each
turn leaves behind.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from clew.core.entries import (
    Body,
    Cleared,
    Compacted,
    Entry,
    MessageAdded,
    ModeChanged,
    Noted,
    Rewound,
    SetupChanged,
    Undone,
    spending_of,
)
from clew.core.messages import Message, Role, ToolResult
from clew.core.usage import Spending, Usage

TOOL_SUMMARY = "tool-summary"
USAGE_SUMMARY = "usage-summary"
SKILL_INVOCATION = "skill-invocation"
MEMORY = "memory"


class HistoryEntry(Struct, frozen=True, kw_only=True):
    """One line of the history: a message, or an event that the model never sees."""

    id: str
    timestamp: float
    category: Literal["chat", "event"]
    type: str
    """The role of a message, or the kind of event, such as `tool-end`."""
    data: dict[str, Any] = {}
    message: Message | None = None
    """What was said, for `chat` entries."""


def is_chat_entry(entry: HistoryEntry) -> bool:
    """Say whether this is a message."""
    return entry.category == "chat"


def chat_entry_to_message(entry: HistoryEntry) -> Message:
    """Return the message of a chat entry.

    Raises:
        ValueError: It is an event.
    """
    if entry.message is None:
        raise ValueError(f"{entry.type} is an event, not a message")
    return entry.message


def get_messages_for_api(entries: Iterable[HistoryEntry]) -> list[Message]:
    """Return the messages among the entries."""
    return [entry.message for entry in entries if entry.message is not None]


def message_to_history_entry(
    message: Message, *, entry_id: str, timestamp: float, display: str | None = None
) -> HistoryEntry:
    """Return a message as a chat entry; `display` is what people see of it."""
    return HistoryEntry(
        id=entry_id,
        timestamp=timestamp,
        category="chat",
        type=str(message.role),
        data={"content": message.text if display is None else display},
        message=message,
    )


def history(entries: Iterable[Entry]) -> list[HistoryEntry]:
    """Return the history that a journal tells."""
    known = list(entries)
    states = _tool_states(known)
    turn = _Turn()
    told: list[HistoryEntry] = []
    for entry in known:
        if _is_prompt(entry.body):
            told += turn.ended()
        told += _lines(entry, states)
        turn.add(entry)
    return [*told, *turn.ended()]


class _Turn:
    """What the model consumed since the last prompt."""

    def __init__(self) -> None:
        self._window = 0
        self._spent = Spending()
        self._last: Entry | None = None
        self._context = 0

    def add(self, entry: Entry) -> None:
        self._spent += spending_of(entry.body)
        match entry.body:
            case SetupChanged(model=model):
                self._window = model.window
            case MessageAdded(usage=Usage() as usage):
                self._last, self._context = entry, usage.context_tokens
            case _:
                pass

    def ended(self) -> Iterator[HistoryEntry]:
        """Tell of the turn that is over, if the provider counted any of it; and begin another."""
        if self._last is not None:
            yield _event(self._last, USAGE_SUMMARY, self._facts())
        self._spent, self._last = Spending(), None

    def _facts(self) -> dict[str, Any]:
        usage = self._spent.usage
        return {
            "kind": "estimated" if self._spent.uncounted else "exact",
            "scope": "turn",
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.context_tokens,
            "context_used_tokens": self._context,
            "context_max_tokens": self._window,
            "context_used_percentage": round(self._context / (self._window or 1) * 100, 2),
            "cost_status": "unknown" if self._spent.unpriced else "estimated",
            "cost_usd": self._spent.usd,
        }


def _is_prompt(body: Body) -> bool:
    return isinstance(body, MessageAdded) and body.message.role is Role.USER


def _tool_states(entries: list[Entry]) -> Mapping[str, dict[str, Any]]:
    """Return how each call looked at its end, by its id."""
    return {
        tool["call_id"]: tool
        for entry in entries
        if isinstance(entry.body, Noted) and entry.body.topic == TOOL_SUMMARY
        for tool in _tools(entry.body)
        if "call_id" in tool
    }


def _tools(note: Noted) -> list[dict[str, Any]]:
    tools = note.data.get("tools")
    return [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []


def _lines(entry: Entry, states: Mapping[str, dict[str, Any]]) -> Iterator[HistoryEntry]:
    match entry.body:
        case MessageAdded(message=message, display=display):
            yield message_to_history_entry(
                message, entry_id=f"{entry.id}", timestamp=entry.at, display=display
            )
            yield from _tool_lines(entry, message, states)
        case Noted(topic=topic, text=text, data=data):
            yield _event(entry, topic, {**({"summary": text} if text else {}), **data})
        case Compacted(trigger=trigger, summary=summary):
            yield _event(entry, "compaction", {"trigger": trigger, "summary": summary})
        case Cleared():
            yield _event(entry, "clear", {})
        case Undone(target=target):
            yield _event(entry, "undo", {"target": target})
        case Rewound(before=before, files=files):
            yield _event(entry, "rewind", {"before": before, "files": list(files)})
        case ModeChanged(mode=mode):
            yield _event(entry, "mode", {"mode": mode})
        case _:
            pass


def _tool_lines(
    entry: Entry, message: Message, states: Mapping[str, dict[str, Any]]
) -> Iterator[HistoryEntry]:
    for number, call in enumerate(message.calls):
        state = states.get(call.call_id, {})
        data = {
            "call_id": call.call_id,
            "tool_name": call.name,
            "first_arg": state.get("first_arg", ""),
            "is_running": True,
        }
        yield _event(entry, "tool-start", data, number)
    for number, part in enumerate(message.parts):
        if isinstance(part, ToolResult):
            state = states.get(part.call_id, {})
            result = "error" if part.failed else "success"
            yield _event(
                entry, "tool-end", {"call_id": part.call_id, "result": result, **state}, number
            )


def _event(entry: Entry, kind: str, data: dict[str, Any], number: int = 0) -> HistoryEntry:
    return HistoryEntry(
        id=f"{entry.id}.{kind}.{number}",
        timestamp=entry.at,
        category="event",
        type=kind,
        data=data,
    )
