"""The history of a session as clients show it: messages, and the events between them.

It is a projection of the journal. Tool states, the summary of each turn's tools and its usage
are computed from the entries; nothing is stored for display alone. (Journals of earlier releases
hold `tool-summary` notes; they are read here too.)
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import msgspec
from msgspec import Struct

from clew.core.entries import (
    Body,
    Cleared,
    Compacted,
    Entry,
    JobGroupChanged,
    MessageAdded,
    ModeChanged,
    Noted,
    ResultsCleared,
    Rewound,
    SetupChanged,
    TaskChanged,
    Undone,
    spending_of,
)
from clew.core.ids import EntryId
from clew.core.messages import Message, Role
from clew.core.tool_states import (
    ToolReport,
    ToolState,
    end_state,
    start_state,
    summarize_states,
)
from clew.core.usage import Spending

TOOL_SUMMARY = "tool-summary"
USAGE_SUMMARY = "usage-summary"
SKILL_INVOCATION = "skill-invocation"
MEMORY = "memory"
BACKGROUND_TASK = "background-task"
BACKGROUND_GROUP = "background-job-group"


class HistoryEntry(Struct, frozen=True, kw_only=True):
    """One item of the history: a message, or an event that the model never sees."""

    id: str
    timestamp: float
    category: Literal["chat", "event"]
    type: str
    """The role of a message, or the kind of event, such as `tool-end`."""
    data: dict[str, Any] = {}
    message: Message | None = None
    """The message, for `chat` entries."""


def is_chat_entry(entry: HistoryEntry) -> bool:
    """Return True for a message."""
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


_START = EntryId(0)


def project_history(entries: Iterable[Entry], *, after: EntryId = _START) -> list[HistoryEntry]:
    """Return the history of a journal, or the part of it that comes after an entry."""
    known = list(entries)
    turn = _Turn(_read_noted_states(known))
    found: list[HistoryEntry] = []
    for entry in known:
        if _is_prompt(entry.body):
            found += turn.end()
        found += turn.add(entry)
    found += turn.end()
    return [one for one in found if _entry_id(one) > after]


def project_tail(entries: Sequence[Entry], *, limit: int) -> list[HistoryEntry]:
    """Return about the last `limit` items of the history, from the start of a turn."""
    start = max(0, len(entries) - limit)
    while start > 0 and not _is_prompt(entries[start].body):
        start -= 1
    return project_history(entries[start:])[-limit:]


class _Turn:
    """The tools and the usage of one turn, while its entries are read."""

    def __init__(self, noted: Mapping[str, ToolState]) -> None:
        self._noted = noted
        """States that an earlier release stored, by call id."""
        self._window = 0
        self._clear()

    def _clear(self) -> None:
        self._spent = Spending()
        self._answer: Entry | None = None
        self._last: Entry | None = None
        self._context = 0
        self._tools: dict[str, ToolState] = {}
        self._has_note = False

    def add(self, entry: Entry) -> Iterator[HistoryEntry]:
        """Read one entry; yields what the history shows for it."""
        self._spent += spending_of(entry.body)
        match entry.body:
            case SetupChanged(model=model):
                self._window = model.window
            case MessageAdded(message=message, display=display, usage=usage):
                self._last = entry
                if usage is not None:
                    self._answer, self._context = entry, usage.context_tokens
                yield message_to_history_entry(
                    message, entry_id=f"{entry.id}", timestamp=entry.at, display=display
                )
                yield from self._tool_items(entry, message, entry.body.report)
            case Noted(topic=topic):
                self._has_note |= topic == TOOL_SUMMARY
                yield from _event_items(entry)
            case _:
                yield from _event_items(entry)

    def end(self) -> Iterator[HistoryEntry]:
        """Yield the summaries of the turn that is over, and start another."""
        states = [state for state in self._tools.values() if not state.is_running]
        if states and self._last is not None and not self._has_note:
            tools = [msgspec.to_builtins(state) for state in states]
            data = {"summary": summarize_states(states), "tools": tools}
            yield _event(self._last, TOOL_SUMMARY, data)
        if self._answer is not None:
            yield _event(self._answer, USAGE_SUMMARY, self._usage())
        self._clear()

    def _tool_items(
        self, entry: Entry, message: Message, report: ToolReport | None
    ) -> Iterator[HistoryEntry]:
        for number, call in enumerate(message.calls):
            state = start_state(call.call_id, call.name, call.arguments)
            self._tools[call.call_id] = state
            yield _event(entry, "tool-start", msgspec.to_builtins(state), number)
        for number, result in enumerate(message.results):
            started = self._tools.get(result.call_id) or ToolState(
                tool_name=result.name, call_id=result.call_id
            )
            state = self._noted.get(result.call_id) or end_state(
                started, report or ToolReport(), text=result.text, failed=result.failed
            )
            self._tools[result.call_id] = state
            yield _event(entry, "tool-end", msgspec.to_builtins(state), number)

    def _usage(self) -> dict[str, Any]:
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


def _read_noted_states(entries: Iterable[Entry]) -> dict[str, ToolState]:
    """Return the tool states in the notes of earlier releases, by call id."""
    found: dict[str, ToolState] = {}
    for entry in entries:
        match entry.body:
            case Noted(topic=topic, data={"tools": list(tools)}) if topic == TOOL_SUMMARY:
                for tool in tools:
                    with suppress(msgspec.ValidationError):
                        state = msgspec.convert(tool, ToolState)
                        found[state.call_id] = state
            case _:
                pass
    return found


def _event_items(entry: Entry) -> Iterator[HistoryEntry]:
    match entry.body:
        case Noted(topic=topic, text=text, data=data):
            yield _event(entry, topic, {**({"summary": text} if text else {}), **data})
        case Compacted(trigger=trigger, summary=summary):
            yield _event(entry, "compaction", {"trigger": trigger, "summary": summary})
        case ResultsCleared(replaced=replaced, why=why, trigger=trigger):
            cleared = [change.entry_id for change in replaced]
            tokens = {"before": entry.body.tokens_before, "after": entry.body.tokens_after}
            facts = {"trigger": trigger, "why": why, "cleared": cleared, "tokens": tokens}
            yield _event(entry, "results_cleared", facts)
        case Cleared():
            yield _event(entry, "clear", {})
        case Undone(target=target):
            yield _event(entry, "undo", {"target": target})
        case Rewound(before=before, files=files):
            yield _event(entry, "rewind", {"before": before, "files": list(files)})
        case ModeChanged(mode=mode):
            yield _event(entry, "mode", {"mode": mode})
        case TaskChanged(state=task, closed=closed, reported=False):
            yield _event(entry, BACKGROUND_TASK, msgspec.to_builtins(task) | {"closed": closed})
        case JobGroupChanged(state=group):
            yield _event(entry, BACKGROUND_GROUP, msgspec.to_builtins(group))
        case _:
            pass


def _entry_id(item: HistoryEntry) -> int:
    return int(item.id.partition(".")[0])


def _event(entry: Entry, kind: str, data: dict[str, Any], number: int = 0) -> HistoryEntry:
    return HistoryEntry(
        id=f"{entry.id}.{kind}.{number}",
        timestamp=entry.at,
        category="event",
        type=kind,
        data=data,
    )
