"""Finding again what left the view: every entry stays readable, word for word."""

from collections.abc import Iterable, Iterator

from clew.core.entries import Compacted, Entry, MessageAdded, Noted
from clew.core.messages import Reasoning, Text, ToolCall, ToolResult


def entry_text(entry: Entry) -> str:
    """Return all the words of an entry; a tool output that was cut is returned whole."""
    match entry.body:
        case MessageAdded(full_text=str(full_text)):
            return full_text
        case MessageAdded(message=message):
            return "\n".join(_part_texts(message.parts))
        case Compacted(summary=summary):
            return summary
        case Noted(text=text):
            return text
        case _:
            return ""


def search(entries: Iterable[Entry], query: str, *, limit: int = 20) -> list[Entry]:
    """Return the newest entries that contain every word of `query`, in any case."""
    words = query.casefold().split()
    found: list[Entry] = []
    for entry in reversed(list(entries)):
        text = entry_text(entry).casefold()
        if words and all(word in text for word in words):
            found.append(entry)
            if len(found) == limit:
                break
    return found


def _part_texts(parts: Iterable[object]) -> Iterator[str]:
    for part in parts:
        match part:
            case Text(text=text) | ToolResult(text=text) | Reasoning(text=text):
                yield text
            case ToolCall(name=name, arguments=arguments):
                yield f"{name} {arguments}"
            case _:
                pass
