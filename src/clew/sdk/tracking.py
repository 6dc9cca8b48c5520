"""What a screen shows of tool calls: one state for each, from the events of a session."""

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from clew.core.events import ToolEnded, ToolStarted
from clew.core.file_change import NO_NEWLINE, FileChange, Hunk, Mark, read_file_change
from clew.core.text import one_line
from clew.sdk.values import DiffLine, Outcome, ToolState

_SHOWN_ARG = 200
_SHOWN_RESULT = 4_000
_SHOWN_DIFF = 200
_LINE_TYPES: Mapping[Mark, Literal["context", "remove", "add"]] = {
    " ": "context",
    "-": "remove",
    "+": "add",
}


class ToolTracker:
    """Keeps the state of each call of a turn, in the order in which they were taken up."""

    def __init__(self) -> None:
        self._states: dict[str, ToolState] = {}

    def reset(self) -> None:
        """Forget the calls of the last turn."""
        self._states.clear()

    @property
    def states(self) -> tuple[ToolState, ...]:
        """All calls of the turn."""
        return tuple(self._states.values())

    def active(self) -> list[ToolState]:
        """Return the calls that have no result yet."""
        return [state for state in self._states.values() if state.is_running]

    def started(self, event: ToolStarted) -> ToolState:
        """Take note that a call began."""
        state = ToolState(
            tool_name=event.name,
            first_arg=first_argument(event.arguments),
            is_running=True,
            call_id=event.call_id,
        )
        self._states[event.call_id] = state
        return state

    def ended(self, event: ToolEnded) -> ToolState:
        """Take note that a call has its result."""
        begun = self._states.get(event.call_id) or ToolState(tool_name=event.name)
        change = None if event.failed else read_file_change(event.data)
        state = msgspec.structs.replace(
            begun,
            is_running=False,
            result=_outcome(event),
            error_code=event.error_code,
            diff_file=change.path if change else "",
            diff_lines=diff_lines(change),
            tool_result_data=_bounded(event.display),
        )
        self._states[event.call_id] = state
        return state


def first_argument(arguments: str) -> str:
    """Return the first argument of a call in one line, or what stands in its place."""
    try:
        values = msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:
        return ""
    first = next(iter(values.values()), "") if isinstance(values, dict) else ""
    text = first if isinstance(first, str) else msgspec.json.encode(first).decode()
    return one_line(text, _SHOWN_ARG)


def diff_lines(change: FileChange | None) -> tuple[DiffLine, ...]:
    """Return the lines of a change for a screen; none for a call that changed nothing."""
    lines = [line for hunk in (change.hunks if change else ()) for line in _hunk_lines(hunk)]
    if len(lines) > _SHOWN_DIFF:
        more = f"… {len(lines) - _SHOWN_DIFF:,} more lines"
        lines = [*lines[:_SHOWN_DIFF], DiffLine(type="hunk", text=more)]
    return tuple(lines)


def _hunk_lines(hunk: Hunk) -> Iterator[DiffLine]:
    yield DiffLine(type="hunk", text=hunk.header)
    for line in hunk.numbered():
        text = line.text + NO_NEWLINE if line.no_newline else line.text
        yield DiffLine(type=_LINE_TYPES[line.mark], text=text, line=line.number)


def _outcome(event: ToolEnded) -> Outcome:
    if event.denied:
        return "denied"
    return "error" if event.failed else "success"


def _bounded(text: str) -> str:
    if len(text) <= _SHOWN_RESULT:
        return text
    half = _SHOWN_RESULT // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters left out …\n{text[-half:]}"
