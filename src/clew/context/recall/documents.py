"""What an index keeps of each entry: its words, and marks for the filters of a query.

A tool result is indexed with the call that it answers, so the words of both find it together.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct

from clew.context.recall import RECALL
from clew.context.recall.entry_text import (
    entry_text,
    find_files,
    format_call,
    strip_boilerplate,
)
from clew.context.recall.query import RecallQuery
from clew.context.recall.words import count_words, split_terms
from clew.context.user_answers import find_answer
from clew.core.entries import Compacted, Entry, MessageAdded, Noted, TaskChanged
from clew.core.ids import CallId, EntryId
from clew.core.messages import Reasoning, Role, Text, ToolCall, ToolResult

LOOK_BACK = 64
"""How many entries before a result its call may be."""
_MOST_REPEATS = 4
"""How often a word counts in one entry: more makes no difference to the ranking."""
_MARKS: Mapping[str, str] = MappingProxyType({"role": "\ue000", "tool": "\ue001", "file": "\ue002"})
"""Begin the words that stand for a filter; no text contains them."""
_JOINER = "\ue00f"
# Much faster to compile than the negated set with all of the basic plane.
_NOT_WORD = re.compile(r"[\x00-/:-`{-\x7f\U00010000-\U0010ffff]")


class Document(Struct, frozen=True, kw_only=True):
    """One entry as an index keeps it."""

    entry_id: EntryId
    at: float
    words: Mapping[str, int]
    """Each word with how often it counts, marks included; never empty."""

    def repeat_words(self) -> str:
        """Return the words as one text, each as often as it counts."""
        return " ".join(word for word, count in self.words.items() for _ in range(count))


def make_documents(entries: Iterable[Entry], *, after: int = 0) -> Iterator[Document]:
    """Yield the documents of entries with numbers above `after`, in order.

    The entries before are there for the calls that the first results answer. Entries without
    words have no document.
    """
    calls: dict[CallId, ToolCall] = {}
    for entry in entries:
        if isinstance(entry.body, MessageAdded):
            calls.update((call.call_id, call) for call in entry.body.message.calls)
        if entry.id > after:
            text, marks = _describe(entry, calls)
            words = {word: min(n, _MOST_REPEATS) for word, n in count_words(text).items()}
            if words:
                marked = dict.fromkeys(marks, 1)
                yield Document(entry_id=entry.id, at=entry.at, words={**words, **marked})


def make_mark(kind: str, value: str) -> str:
    """Return the word that stands for a filter; files count by their last name."""
    name = value.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    return _MARKS[kind] + _NOT_WORD.sub(_JOINER, name.lower())


def required_words(query: RecallQuery, *, any_file: bool = False) -> tuple[str, ...]:
    """Return the patterns that every entry must match: filters and the words of phrases.

    Args:
        query: What is looked for.
        any_file: Let entries with any file pass, because their paths are compared afterwards.
    """
    filters = [(kind, getattr(query, kind)) for kind in _MARKS]
    marks = [
        f"{_MARKS[kind]}*" if any_file and kind == "file" else make_mark(kind, value)
        for kind, value in filters
        if value
    ]
    words = [
        term if term.isascii() else f"{term}*"
        for phrase in query.phrases
        for term in split_terms(phrase)
    ]
    return tuple(dict.fromkeys([*marks, *words]))


def _describe(entry: Entry, calls: Mapping[CallId, ToolCall]) -> tuple[str, list[str]]:
    match entry.body:
        case MessageAdded(message=message, full_text=full_text):
            texts: list[str] = []
            marks = [make_mark("role", message.role)]
            for part in message.parts:
                part_texts, part_marks = _describe_part(part, calls, full_text)
                texts += part_texts
                marks += part_marks
            return strip_boilerplate("\n".join(texts)), marks
        case Compacted(summary=summary):
            return summary, [make_mark("role", "summary")]
        case Noted(text=text):
            return text, [make_mark("role", "note")]
        case TaskChanged():
            return entry_text(entry), [make_mark("role", "note")]
        case _:
            return "", []


def _describe_part(
    part: object, calls: Mapping[CallId, ToolCall], full_text: str | None
) -> tuple[list[str], list[str]]:
    match part:
        case Text(text=text) | Reasoning(text=text):
            return [text], []
        case ToolCall(name=name) if name != RECALL:
            return [format_call(part)], [make_mark("role", Role.TOOL), *_mark_call(part)]
        case ToolResult(name=name, call_id=call_id, text=text) if name != RECALL:
            call = calls.get(call_id) or ToolCall(call_id=call_id, name=name)
            said = [make_mark("role", Role.USER)] if find_answer(part) else []
            return [format_call(call), full_text or text], [*_mark_call(call), *said]
        case _:
            return [], []


def _mark_call(call: ToolCall) -> list[str]:
    return [make_mark("tool", call.name), *(make_mark("file", one) for one in find_files(call))]
