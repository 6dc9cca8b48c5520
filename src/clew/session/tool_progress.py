"""What a tool call reports and asks while it runs: progress for clients, output for an abort."""

import time
from collections.abc import Callable, Mapping

from clew.core.events import ToolProgress
from clew.core.messages import ToolCall
from clew.core.permissions import Access, Decision, PermissionAnswer, Risk, Verdict
from clew.core.redaction import redact
from clew.core.text import one_line
from clew.core.tool_states import unwrap_call
from clew.session.model_call import ask_aside
from clew.session.state import SessionState
from clew.tools.protocol import AskModel, AskUser, Progress

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
    name, _ = unwrap_call(call.name, call.arguments)

    def publish(text: str) -> None:
        clean = text if values is None else redact(text, extra_values=values)
        if line := _last_line(clean):
            shown = one_line(line, _MAX_LINE)
            state.emit(ToolProgress(call_id=call.call_id, name=name, line=shown))

    progress = Progress(report=ProgressThrottle(publish).report)
    state.progress[call.call_id] = progress
    return progress


def take_partial_output(state: SessionState, call: ToolCall) -> str:
    """Return the output of a call that was cut off; empty if there is none."""
    progress = state.progress.pop(call.call_id, None)
    if progress is None or progress.get_partial is None:
        return ""
    return progress.get_partial().strip("\n")


def make_user_question(state: SessionState, tool: str, call_id: str) -> AskUser | None:
    """Return how a call asks the user in its middle; None if no client can answer."""
    ask = state.gate.ask
    if ask is None:
        return None

    async def ask_user(question: str, shown: Mapping[str, object]) -> PermissionAnswer | None:
        access = Access(
            tool=tool,
            risk=Risk.INSPECT,
            call_id=call_id,
            arguments=dict(shown),
            question=question,
        )
        answer = await ask(access, Decision(Verdict.ASK, question))
        if answer is None or isinstance(answer, PermissionAnswer):
            return answer
        return PermissionAnswer(approval=answer)

    return ask_user


def make_model_question(state: SessionState, tool: str) -> AskModel:
    """Return how a call asks the model outside the conversation, at the session's cost."""

    async def ask_model(prompt: str) -> str:
        return await ask_aside(state, prompt, why=tool)

    return ask_model
