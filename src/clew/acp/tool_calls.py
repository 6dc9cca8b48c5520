"""Tool calls as editors show them: kind, title, locations and diffs. All functions are pure."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from clew.acp.content import Location, TextBlock, ToolCallContent, ToolContent, ToolDiff, ToolKind
from clew.core.file_change import FileChange, Hunk
from clew.core.json_text import decode_json
from clew.core.sanitize import sanitize_line
from clew.core.tool_states import DiffLine, first_argument

_KINDS: Mapping[str, ToolKind] = {
    "Read": "read",
    "Write": "edit",
    "Edit": "edit",
    "Bash": "execute",
    "BackgroundProcess": "execute",
    "Grep": "search",
    "Glob": "search",
    "Recall": "search",
    "WebFetch": "fetch",
    "WebSearch": "fetch",
    "TodoWrite": "think",
    "Agent": "think",
    "ExitPlanMode": "switch_mode",
}
_MARKDOWN = frozenset({"Agent", "ExitPlanMode", "TodoWrite"})
"""Tools whose results are prose."""
_MAX_TITLE = 200
_FENCE = re.compile(r"^ {0,3}(`{3,})", re.MULTILINE)


def find_kind(name: str) -> ToolKind:
    """Return what sort of tool it is, which decides about its icon."""
    return _KINDS.get(name, "other")


def make_title(name: str, arguments: str) -> str:
    """Return the tool and its first argument in one line."""
    shown = "" if name in _MARKDOWN - {"Agent"} else first_argument(arguments)
    return sanitize_line(f"{name} {shown}".rstrip(), _MAX_TITLE)


def read_arguments(arguments: str) -> dict[str, Any]:
    """Return the arguments of a call; empty if the model did not write an object."""
    try:
        found = decode_json(arguments or "{}")
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def find_locations(name: str, arguments: Mapping[str, Any], cwd: str) -> tuple[Location, ...]:
    """Return the files that a call reads or changes."""
    match find_kind(name), arguments:
        case "read", {"file_path": str(path), "offset": int(line)} if line > 0:
            return (Location(make_absolute(path, cwd), line),)
        case (("read" | "edit"), {"file_path": str(path)}):
            return (Location(make_absolute(path, cwd)),)
        case "search", {"path": str(path)}:
            return (Location(make_absolute(path, cwd)),)
        case _:
            return ()


def preview_diff(
    name: str, arguments: Mapping[str, Any], cwd: str
) -> tuple[ToolCallContent, ...] | None:
    """Return what a call is going to change, as far as its arguments say it."""
    match name, arguments:
        case "Edit", {"file_path": str(path), "old_string": str(old), "new_string": str(new)}:
            return (ToolDiff(path=make_absolute(path, cwd), old_text=old, new_text=new),)
        case "Write", {"file_path": str(path), "content": str(content)}:
            return (ToolDiff(path=make_absolute(path, cwd), new_text=content),)
        case "ExitPlanMode", {"plan": str(plan)}:
            return (ToolContent(TextBlock(plan)),)
        case _:
            return None


def show_change(change: FileChange, cwd: str) -> tuple[ToolCallContent, ...]:
    """Return the diffs of a change, one for each hunk."""
    path = make_absolute(change.path, cwd)
    return tuple(_show_hunk(path, hunk, is_new=change.created) for hunk in change.hunks)


def locate_change(change: FileChange, cwd: str) -> tuple[Location, ...]:
    """Return the changed places of a file."""
    path = make_absolute(change.path, cwd)
    return tuple(Location(path, hunk.new_start) for hunk in change.hunks)


def show_diff_lines(path: str, lines: Sequence[DiffLine], cwd: str) -> tuple[ToolCallContent, ...]:
    """Return the diffs of a stored tool call, one for each hunk."""
    hunks = _split_hunks(lines)
    absolute = make_absolute(path, cwd)
    return tuple(
        ToolDiff(
            path=absolute,
            old_text=_join(one.text for one in hunk if one.type != "add"),
            new_text=_join(one.text for one in hunk if one.type != "remove"),
        )
        for hunk in hunks
    )


def show_text(name: str, text: str) -> tuple[ToolCallContent, ...]:
    """Return the result of a call: prose as it is, anything else as a block of code."""
    if not text.strip():
        return ()
    return (ToolContent(TextBlock(text if name in _MARKDOWN else fence(text))),)


def fence(text: str) -> str:
    """Return `text` as a Markdown block of code that nothing in it can end."""
    longest = max((len(found[1]) for found in _FENCE.finditer(text)), default=2)
    marks = "`" * max(3, longest + 1)
    return f"{marks}\n{text.rstrip(chr(10))}\n{marks}"


def make_absolute(path: str, cwd: str) -> str:
    """Return the absolute path that the protocol asks for."""
    return os.path.normpath(os.path.join(cwd, os.path.expanduser(path)))  # noqa: PTH111, PTH118


def _show_hunk(path: str, hunk: Hunk, *, is_new: bool) -> ToolDiff:
    lines = list(hunk.number_lines())
    old = _join(line.text for line in lines if line.mark != "+")
    new = _join(line.text for line in lines if line.mark != "-")
    return ToolDiff(path=path, old_text=None if is_new else old, new_text=new)


def _split_hunks(lines: Iterable[DiffLine]) -> list[list[DiffLine]]:
    hunks: list[list[DiffLine]] = []
    for line in lines:
        if line.type == "hunk":
            hunks.append([])
        elif hunks:
            hunks[-1].append(line)
    return [hunk for hunk in hunks if hunk]


def _join(lines: Iterable[str]) -> str:
    return "".join(_each_line(lines))


def _each_line(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield f"{line}\n"
