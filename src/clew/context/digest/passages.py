"""Passages: the quotable text of messages, with its source."""

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from clew.context.items import Item, ItemKind
from clew.core.ids import EntryId
from clew.core.json_text import JsonDecoder
from clew.core.messages import Text, ToolCall, ToolResult
from clew.core.text import truncate

_SEARCH_TOOLS = frozenset({"grep", "glob", "ls", "websearch", "search", "find", "toolsearch"})
_EDIT_TOOLS = frozenset(
    {"edit", "multiedit", "write", "notebookedit", "apply_patch", "edit_file", "write_file"}
)
_SHELL_TOOLS = frozenset({"bash", "shell", "exec_command", "local_shell", "execute", "terminal"})
_LINE_NUMBER = re.compile(r"^\s*\d+[→\t|:]")
_MOST_SUBJECT = 120
_PATH_PARTS = 2
_NOT_IN_PATH = re.compile(r"[\s\"'`(<>={},;]")
_any_json = JsonDecoder()

SPOKEN, CALLED, SHOWN, PRINTED, FOUND = range(5)
"""Sources of text: a message; a call's arguments; a file or page that a tool read; the output
of a command; the result of a search, or the receipt of an edit."""


class Passage(Struct, frozen=True, kw_only=True):
    """Text of one part of a message."""

    entry_id: EntryId
    label: str
    source: int
    text: str
    replaced: frozenset[str] = frozenset()
    """Lines that an edit replaced, as `strip_line_number` returns them."""


def split_passages(items: Sequence[Item]) -> Iterator[Passage]:
    """Yield the quotable text of `items` in order. Reasoning is private and not quoted."""
    shown_by: dict[str, str] = {}
    for item in items:
        for part in item.message.parts:
            match part:
                case Text(text=text) if item.kind is not ItemKind.SUMMARY:
                    yield Passage(
                        entry_id=item.entry_id,
                        label=str(item.message.role),
                        source=SPOKEN,
                        text=text,
                    )
                case ToolCall(name=name, arguments=arguments, call_id=call_id):
                    values = _decode(arguments)
                    strings = list(_iter_strings(values))
                    shown_by[call_id] = f"{name} {_name_subject(strings)}".rstrip()
                    yield Passage(
                        entry_id=item.entry_id,
                        label=shown_by[call_id],
                        source=CALLED,
                        text="\n".join(strings),
                        replaced=_find_replaced(values),
                    )
                case ToolResult(name=name, text=text, call_id=call_id):
                    yield Passage(
                        entry_id=item.entry_id,
                        label=shown_by.get(call_id, name),
                        source=_classify_tool(name),
                        text=text,
                    )
                case _:
                    pass


def _name_subject(strings: Sequence[str]) -> str:
    """Return what a call is about: the end of a path, or the first line of its first string."""
    line = strings[0].strip().partition("\n")[0] if strings else ""
    if is_path(line):
        return "/".join(line.split("/")[-_PATH_PARTS:])
    return truncate(line, _MOST_SUBJECT)


def is_path(line: str) -> bool:
    """Return whether a line is nothing but a path."""
    return "/" in line and not _NOT_IN_PATH.search(line) and not line.startswith("//")


def strip_line_number(line: str) -> str:
    """Return a line without indentation and without the line number of a file reader."""
    line = line.strip()
    if line[:1].isdigit():
        line = _LINE_NUMBER.sub("", line).strip()
    return line


def _classify_tool(tool: str) -> int:
    name = tool.lower()
    if name in _SEARCH_TOOLS or name in _EDIT_TOOLS:
        return FOUND
    return PRINTED if name in _SHELL_TOOLS else SHOWN


def _decode(arguments: str) -> object:
    try:
        return _any_json.decode(arguments)
    except msgspec.DecodeError:
        return arguments


def _iter_strings(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for inner in value.values():
                yield from _iter_strings(inner)
        case list():
            for inner in value:
                yield from _iter_strings(inner)
        case _:
            pass


def _find_replaced(arguments: object) -> frozenset[str]:
    """Return the lines that a call replaces by others."""
    edits = arguments.get("edits", [arguments]) if isinstance(arguments, dict) else []
    old: set[str] = set()
    new: set[str] = set()
    for edit in edits if isinstance(edits, list) else []:
        match edit:
            case {"old_string": str(before), "new_string": str(after)} | {
                "old_str": str(before),
                "new_str": str(after),
            }:
                old.update(map(strip_line_number, before.split("\n")))
                new.update(map(strip_line_number, after.split("\n")))
    return frozenset(old - new)


def render_text(items: Iterable[Item]) -> str:
    """Return the quotable text of `items` as one text, for searching and measuring."""
    return "\n".join(passage.text for passage in split_passages(list(items)))
