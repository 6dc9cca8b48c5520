"""Search in the journal: entries that left the view stay readable word for word."""

from collections.abc import Iterable, Iterator

from clew.core.entries import Compacted, Entry, MessageAdded, Noted
from clew.core.messages import Reasoning, Text, ToolCall, ToolResult

RECALL = "Recall"
"""The name of the tool; its own results are not searched."""


def entry_text(entry: Entry) -> str:
    """Return the text of an entry; a truncated tool output is returned in full."""
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
    """Return the entries that contain the most words of `query`, newest first.

    The search ignores case. If an entry contains all words, only such entries are returned.
    """
    words = list(dict.fromkeys(query.casefold().split()))
    ranked: list[tuple[int, Entry]] = []
    for entry in entries:
        if _is_recall(entry):
            continue
        text = entry_text(entry).casefold()
        hits = sum(word in text for word in words)
        if hits:
            ranked.append((hits, entry))
    most = max((hits for hits, _ in ranked), default=0)
    best = [entry for hits, entry in reversed(ranked) if hits == most]
    return best[:limit]


def excerpt_around(text: str, query: str, *, chars: int = 240) -> str:
    """Return an excerpt of `text` around the word of `query` that is rarest in it."""
    folded = text.casefold()
    found = [word for word in query.casefold().split() if word in folded]
    first = folded.find(min(found, key=folded.count)) if found else 0
    start = max(0, first - chars // 3)
    stretch = " ".join(text[start : start + chars].split())
    return ("…" if start else "") + stretch + ("…" if start + chars < len(text) else "")


def _is_recall(entry: Entry) -> bool:
    return isinstance(entry.body, MessageAdded) and any(
        part.name == RECALL
        for part in entry.body.message.parts
        if isinstance(part, ToolCall | ToolResult)
    )


def _part_texts(parts: Iterable[object]) -> Iterator[str]:
    for part in parts:
        match part:
            case Text(text=text) | ToolResult(text=text) | Reasoning(text=text):
                yield text
            case ToolCall(name=name, arguments=arguments):
                yield f"{name} {arguments}"
            case _:
                pass
