"""What an agent has said and done, read from its journal."""

from collections.abc import Iterator, Sequence

from clew.context.items import Item
from clew.context.recall.entry_text import format_call
from clew.core.entries import Compacted, Entry, MessageAdded, Noted
from clew.core.errors import BackgroundTaskError, SessionNotFound
from clew.core.ids import SessionId
from clew.core.messages import Message, Role
from clew.core.tasks import LogPage, TaskErrorCategory
from clew.core.text import pluralize
from clew.runtime.log_pages import take_page
from clew.session.session import Session
from clew.stores.protocol import Store

_RESULT_LINES = 20
"""Lines of one tool result that a transcript shows."""
_MOST_FILES = 50


async def read_transcript(store: Store, agent_id: str, *, offset: int, limit: int) -> LogPage:
    """Return a page of an agent's transcript; pages do not change while it works.

    A negative offset counts from the end.

    Raises:
        BackgroundTaskError: The store has no session of that id.
    """
    try:
        _, entries = await store.load(SessionId(agent_id))
    except SessionNotFound:
        raise BackgroundTaskError(
            f"{agent_id} has not written anything yet", category=TaskErrorCategory.VALIDATION
        ) from None
    lines = [line for entry in entries for line in format_entry(entry)]
    return take_page(agent_id, lines, offset=offset, limit=limit)


def format_entry(entry: Entry) -> Iterator[str]:
    """Yield the lines of a transcript for an entry; none for one that people need not see."""
    match entry.body:
        case MessageAdded(message=Message(role=Role.TOOL) as message):
            for result in message.results:
                mark = "[failed] " if result.failed else "[result] "
                yield from _mark(mark, _shorten(result.text))
        case MessageAdded(message=Message(role=Role.ASSISTANT) as message):
            if message.text.strip():
                yield from _mark("[agent] ", message.text.splitlines())
            for call in message.calls:
                yield from _mark(f"[{call.name}] ", format_call(call).splitlines())
        case MessageAdded(message=message, display=display):
            if text := message.text if display is None else display:
                yield from _mark("[user] ", text.splitlines())
        case Compacted():
            yield "[compacted] earlier messages were replaced by a summary"
        case Noted(topic="error", text=text):
            yield from _mark("[error] ", text.splitlines())
        case _:
            return


def _mark(mark: str, lines: Sequence[str]) -> Iterator[str]:
    first, *rest = lines or [""]
    yield f"{mark}{first}"
    yield from (f"  {line}" for line in rest)


def _shorten(text: str) -> list[str]:
    lines = text.splitlines()
    if len(lines) <= _RESULT_LINES:
        return lines
    left = len(lines) - _RESULT_LINES
    return [*lines[:_RESULT_LINES], f"… {pluralize(left, 'more line')}"]


def find_last_text(entries: Sequence[Entry]) -> str:
    """Return what an agent said last; empty if it said nothing."""
    for entry in reversed(entries):
        match entry.body:
            case MessageAdded(message=Message(role=Role.ASSISTANT) as message):
                if message.text.strip():
                    return message.text.strip()
            case _:
                pass
    return ""


def describe_partial(session: Session) -> str:
    """Return what there is of the result of an agent that did not finish.

    Its last words, and the files that it changed, as its journal tells them.
    """
    return describe_entries(session.journal.entries)


def describe_entries(entries: Sequence[Entry]) -> str:
    """Return the last words and the changed files that the entries of a session tell about."""
    said, files = find_last_text(entries), find_changed_files(entries)
    parts = [said] if said else []
    if files:
        names = "\n".join(f"- {name}" for name in files[:_MOST_FILES])
        parts.append(f"Files that it changed:\n{names}")
    return "\n\n".join(parts)


def find_changed_files(entries: Sequence[Entry]) -> list[str]:
    """Return the files that successful calls changed, the last changed first."""
    # Loads the rule-based summaries, which most sessions never need.
    from clew.context.digest.state.state_ledger import gather_state  # noqa: PLC0415

    said = [
        Item.of(entry.id, entry.body.message)
        for entry in entries
        if isinstance(entry.body, MessageAdded)
    ]
    changed = [file for file in gather_state(said).files if file.changed_at >= 0]
    return [file.path for file in sorted(changed, key=lambda file: -file.changed_at)]
