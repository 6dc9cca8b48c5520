"""What a screen shows of tool calls: one state for each, from the events of a session."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from clew.core.events import ToolEnded, ToolStarted
from clew.sdk.values import DiffLine, Outcome, ToolState

_SHOWN_ARG = 200
_SHOWN_RESULT = 4_000
_SHOWN_DIFF = 200
_MARKS = {" ": "context", "-": "remove", "+": "add"}


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
        diff = diff_lines(event.data) if not event.failed else ()
        state = msgspec.structs.replace(
            begun,
            is_running=False,
            result=_outcome(event),
            error_code=event.error_code,
            diff_file=str(event.data.get("path", "")) if diff else "",
            diff_lines=diff,
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
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_ARG else f"{line[: _SHOWN_ARG - 1]}…"


def diff_lines(data: Mapping[str, Any]) -> tuple[DiffLine, ...]:
    """Return the lines of the change that a tool reports; none for one that changed nothing."""
    hunks = data.get("hunks")
    if not isinstance(hunks, Sequence):
        return ()
    lines = [line for hunk in hunks for line in _hunk_lines(hunk)]
    if len(lines) > _SHOWN_DIFF:
        more = f"… {len(lines) - _SHOWN_DIFF:,} more lines"
        lines = [*lines[:_SHOWN_DIFF], DiffLine(type="hunk", text=more)]
    return tuple(lines)


def _hunk_lines(hunk: Mapping[str, Any]) -> Iterator[DiffLine]:
    old, new = hunk["old_start"], hunk["new_start"]
    yield DiffLine(type="hunk", text=f"@@ -{old},{hunk['old_lines']} +{new},{hunk['new_lines']} @@")
    for line in hunk["lines"]:
        kind = _MARKS.get(line[:1])
        match kind:
            case "context":
                yield DiffLine(type="context", text=line[1:], line=new)
                old, new = old + 1, new + 1
            case "remove":
                yield DiffLine(type="remove", text=line[1:], line=old)
                old += 1
            case "add":
                yield DiffLine(type="add", text=line[1:], line=new)
                new += 1


def _outcome(event: ToolEnded) -> Outcome:
    if event.denied:
        return "denied"
    return "error" if event.failed else "success"


def _bounded(text: str) -> str:
    if len(text) <= _SHOWN_RESULT:
        return text
    half = _SHOWN_RESULT // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters left out …\n{text[-half:]}"
