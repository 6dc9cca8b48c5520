"""What a search finds and a reader gets: a message, or a tool call together with its result."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from clew.context.recall import RECALL
from clew.context.recall.documents import LOOK_BACK
from clew.context.recall.entry_text import (
    describe_status,
    entry_text,
    find_files,
    format_call,
    strip_boilerplate,
)
from clew.context.user_answers import find_answer
from clew.core.entries import Compacted, Entry, MessageAdded, Noted, TaskChanged
from clew.core.ids import EntryId
from clew.core.messages import Message, Reasoning, Role, Text, ToolCall, ToolResult

ReadEntry = Callable[[int], Entry | None]
"""Returns the entry with a number; None if there is no such entry."""


class Unit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message, or one tool call with its result."""

    entry_id: EntryId
    """The entry to read: the result, where there is one."""
    at: float
    role: str
    """`user`, `assistant`, `tool`, `summary` or `note`."""
    text: str
    tool: str = ""
    files: tuple[str, ...] = ()
    called_in: EntryId | None = None
    """The entry of the call, if it is another one."""
    status: str = ""
    """`exit 1` for a command, `failed` for another tool; empty if there is nothing to say."""
    call: ToolCall | None = None
    output: str | None = None
    """The result of the call; None for other units and for calls without a result."""


def read_units(number: int, read: ReadEntry) -> list[Unit]:
    """Return the units that an entry is part of; none for an entry without text."""
    entry = read(number)
    return list(_units(entry, read)) if entry is not None else []


def read_user_words(number: int, read: ReadEntry) -> list[Unit]:
    """Return what the user said in an entry, also when answering a question or refusing a call."""
    entry = read(number)
    if entry is None or not isinstance(entry.body, MessageAdded):
        return []
    said = [unit for unit in _units(entry, read) if unit.role == Role.USER]
    answers = "\n".join(filter(None, map(find_answer, entry.body.message.results)))
    if answers:
        said.append(Unit(entry_id=entry.id, at=entry.at, role=str(Role.USER), text=answers))
    return said


def _units(entry: Entry, read: ReadEntry) -> Iterator[Unit]:
    match entry.body:
        case MessageAdded(message=message, full_text=full_text):
            text = strip_boilerplate("\n".join(_said(message)))
            if text.strip():
                yield Unit(entry_id=entry.id, at=entry.at, role=str(message.role), text=text)
            for call in message.calls:
                if call.name != RECALL:
                    yield _answered(entry, call, read)
            for result in message.results:
                if result.name != RECALL:
                    called_in, call_made = _find_call(entry.id, result, read)
                    output = strip_boilerplate(full_text or result.text)
                    yield _call_unit(entry, call_made, called_in, (result, output))
        case Compacted(summary=summary) if summary:
            yield Unit(entry_id=entry.id, at=entry.at, role="summary", text=summary)
        case Noted(text=text):
            yield Unit(entry_id=entry.id, at=entry.at, role="note", text=text)
        case TaskChanged() if text := entry_text(entry):
            yield Unit(entry_id=entry.id, at=entry.at, role="note", text=text)
        case _:
            pass


def _said(message: Message) -> Iterator[str]:
    for part in message.parts:
        if isinstance(part, Text | Reasoning) and part.text:
            yield part.text


def _answered(entry: Entry, call: ToolCall, read: ReadEntry) -> Unit:
    """Return a call with the result that follows it, if there is one."""
    for number in range(entry.id + 1, entry.id + 1 + LOOK_BACK):
        later = read(number)
        if later is None:
            break
        if isinstance(later.body, MessageAdded):
            for result in later.body.message.results:
                if result.call_id == call.call_id:
                    output = strip_boilerplate(later.body.full_text or result.text)
                    return _call_unit(later, call, entry.id, (result, output))
            if later.body.message.role is not Role.TOOL:
                break
    return Unit(
        entry_id=entry.id,
        at=entry.at,
        role="tool",
        text=format_call(call),
        tool=call.name,
        files=tuple(find_files(call)),
        status="no result",
        call=call,
    )


def _find_call(
    number: int, result: ToolResult, read: ReadEntry
) -> tuple[EntryId | None, ToolCall | None]:
    for earlier in range(number - 1, max(0, number - 1 - LOOK_BACK), -1):
        entry = read(earlier)
        if entry is not None and isinstance(entry.body, MessageAdded):
            for call in entry.body.message.calls:
                if call.call_id == result.call_id:
                    return entry.id, call
    return None, None


def _call_unit(
    entry: Entry,
    call: ToolCall | None,
    called_in: EntryId | None,
    answer: tuple[ToolResult, str],
) -> Unit:
    result, output = answer
    head = format_call(call) if call else result.name
    return Unit(
        entry_id=entry.id,
        at=entry.at,
        role="tool",
        text=f"{head}\n{output}" if output else head,
        tool=result.name,
        files=tuple(find_files(call)) if call else (),
        called_in=called_in,
        status=describe_status(call, result, output),
        call=call,
        output=output,
    )
