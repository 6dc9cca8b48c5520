"""What a tool call reports while it runs: its newest line for clients, its output for an abort."""

import time
from collections.abc import Callable

from clew.core.events import ToolProgress
from clew.core.messages import ToolCall
from clew.core.redaction import redact
from clew.core.text import one_line
from clew.session.state import SessionState
from clew.tools.protocol import Progress

_INTERVAL = 0.09
"""Seconds between two events of one call: at most ten or eleven per second."""
_MAX_LINE = 300


class ProgressThrottle:
    """Passes on the newest output of one call, but not too often."""

    def __init__(
        self, publish: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._publish = publish
        self._clock = clock
        self._line = ""
        self._due = float("-inf")

    def report(self, text: str) -> None:
        """Publish a text, unless another one was published just before or ends alike."""
        now, line = self._clock(), _last_line(text)
        if line and line != self._line and now >= self._due:
            self._line, self._due = line, now + _INTERVAL
            self._publish(text)


def _last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2].strip()


def start_progress(state: SessionState, call: ToolCall) -> Progress:
    """Return where a call reports; `take_partial_output` reads it when the call was cut off."""
    values = state.tool_context.redact_values

    def publish(text: str) -> None:
        clean = text if values is None else redact(text, extra_values=values)
        if line := _last_line(clean):
            shown = one_line(line, _MAX_LINE)
            state.emit(ToolProgress(call_id=call.call_id, name=call.name, line=shown))

    progress = Progress(report=ProgressThrottle(publish).report)
    state.progress[call.call_id] = progress
    return progress


def take_partial_output(state: SessionState, call: ToolCall) -> str:
    """Return the output of a call that was cut off; empty if there is none."""
    progress = state.progress.pop(call.call_id, None)
    if progress is None or progress.get_partial is None:
        return ""
    return progress.get_partial().strip("\n")
