"""Tool calls as clients show them: one state per call, computed from events or from entries."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from clew.core.file_change import NO_NEWLINE, FileChange, Hunk, Mark, read_file_change
from clew.core.json_text import decode_json
from clew.core.permissions import PermissionRecord

_MAX_ARGUMENT = 200
_MAX_RESULT = 4_000
_MAX_DIFF = 200
_MAX_NAMES = 5
_CALL_ON_DEMAND = "CallMcpTool"
_LINE_TYPES: Mapping[Mark, Literal["context", "remove", "add"]] = {
    " ": "context",
    "-": "remove",
    "+": "add",
}

ToolOutcome: TypeAlias = Literal["success", "error", "denied"]


class DiffLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of what an edit changed."""

    type: Literal["hunk", "context", "remove", "add"]
    text: str
    line: int | None = None
    """Its number in the file: the new number, or the old one of a removed line."""


class ToolState(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One tool call as a client shows it."""

    tool_name: str
    first_arg: str = ""
    is_running: bool = False
    call_id: str = ""
    result: ToolOutcome | None = None
    error_code: str = ""
    """Why it failed: `denied`, `hook_blocked`, `unknown_tool`, `crashed`, `timed_out` …"""
    diff_file: str = ""
    diff_lines: tuple[DiffLine, ...] = ()
    tool_result_data: str = ""
    """The result for display, truncated to a bounded length."""


class ToolReport(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What the journal keeps about a tool call beside its result, for clients."""

    denied: bool = False
    error_code: str = ""
    display: str = ""
    """The result for display, where it differs from the text that the model reads."""
    diff_file: str = ""
    diff_lines: tuple[DiffLine, ...] = ()
    permission: PermissionRecord | None = None
    """Why the call was allowed or denied; None for calls that were not judged."""


def unwrap_call(name: str, arguments: str) -> tuple[str, str]:
    """Return the tool and the arguments of a call for people: a call on demand as that of its tool.

    A model calls an MCP tool that its requests do not declare through `CallMcpTool`.
    """
    if name != _CALL_ON_DEMAND:
        return name, arguments
    try:
        values = decode_json(arguments or "{}")
    except msgspec.DecodeError:
        return name, arguments
    match values:
        case {"tool": str(tool), "arguments": str(inner)} if tool:
            return tool, inner
        case {"tool": str(tool), **rest} if tool:
            return tool, msgspec.json.encode(rest.get("arguments", {})).decode()
        case _:
            return name, arguments


def start_state(call_id: str, name: str, arguments: str) -> ToolState:
    """Return the state of a call that is running."""
    name, arguments = unwrap_call(name, arguments)
    return ToolState(
        tool_name=name, first_arg=first_argument(arguments), is_running=True, call_id=call_id
    )


def end_state(started: ToolState, report: ToolReport, *, text: str, failed: bool) -> ToolState:
    """Return the state of a call that has its result."""
    outcome: ToolOutcome = "denied" if report.denied else "error" if failed else "success"
    return msgspec.structs.replace(
        started,
        is_running=False,
        result=outcome,
        error_code=report.error_code,
        diff_file=report.diff_file,
        diff_lines=report.diff_lines,
        tool_result_data=_truncate(report.display or text),
    )


def report_call(
    data: Mapping[str, Any],
    *,
    denied: bool,
    error_code: str,
    failed: bool,
    display: str = "",
    permission: PermissionRecord | None = None,
) -> ToolReport:
    """Return the data that the journal keeps about a call that ended."""
    change = None if failed else read_file_change(data)
    return ToolReport(
        denied=denied,
        error_code=error_code,
        display=_truncate(display),
        diff_file=change.path if change else "",
        diff_lines=diff_lines(change),
        permission=permission,
    )


def summarize_states(states: Sequence[ToolState]) -> str:
    """Return one line that names the tools used and counts the failures."""
    names = list(dict.fromkeys(state.tool_name for state in states))
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    failed = sum(state.result in ("error", "denied") for state in states)
    calls = f"{len(states)} tool call{'s' if len(states) > 1 else ''}"
    failures = f", {failed} failed or denied" if failed else ""
    return f"{calls}{failures}: {', '.join(names[:_MAX_NAMES])}{more}"


def first_argument(arguments: str) -> str:
    """Return the command of a call, its first text, or its first argument, in one line.

    It is empty when the arguments cannot be read.
    """
    try:
        values = decode_json(arguments or "{}")
    except msgspec.DecodeError:
        return ""
    if not values or not isinstance(values, dict):
        return ""
    # A description in front of a command must not stand for it.
    first = values.get("command")
    if not isinstance(first, str):
        given = list(values.values())
        first = next((one for one in given if isinstance(one, str)), given[0])
    text = first if isinstance(first, str) else msgspec.json.encode(first).decode()
    # Control characters stay: each client shows them in its own way.
    line = " ".join(text.split())
    return line if len(line) <= _MAX_ARGUMENT else f"{line[: _MAX_ARGUMENT - 1]}…"


def diff_lines(change: FileChange | None) -> tuple[DiffLine, ...]:
    """Return the lines of a change for display; empty when nothing changed."""
    if change is None:
        return ()
    lines = [line for hunk in change.hunks for line in _hunk_lines(hunk)]
    if len(lines) > _MAX_DIFF:
        more = f"… {len(lines) - _MAX_DIFF:,} more lines"
        lines = [*lines[:_MAX_DIFF], DiffLine(type="hunk", text=more)]
    return tuple(lines)


def _hunk_lines(hunk: Hunk) -> Iterator[DiffLine]:
    yield DiffLine(type="hunk", text=hunk.header)
    for line in hunk.number_lines():
        text = line.text + NO_NEWLINE if line.no_newline else line.text
        yield DiffLine(type=_LINE_TYPES[line.mark], text=text, line=line.number)


def _truncate(text: str) -> str:
    if len(text) <= _MAX_RESULT:
        return text
    half = _MAX_RESULT // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters left out …\n{text[-half:]}"
