"""Noticing that a model does the same thing again and again."""

from collections import deque
from enum import Enum

from clew.core.messages import ToolCall

WARN_AFTER, REFUSE_AFTER, STOP_AFTER = 3, 6, 9
_REMEMBERED = 40


class Advice(Enum):
    """What to do about a call."""

    RUN = "run"
    WARN = "warn"
    """Run it, and tell the model that it repeats itself."""
    REFUSE = "refuse"
    """Do not run it; the model is told why."""
    STOP = "stop"
    """Neither words nor refusals helped: end the run."""


class LoopGuard:
    """Counts calls that were answered with the same words before, since the user last spoke.

    Somebody who waits for a build asks the same again and again, but gets other answers.
    """

    def __init__(self, *, watching: bool = True) -> None:
        self._watching = watching
        self._seen: deque[tuple[str, str, str]] = deque(maxlen=_REMEMBERED)
        self._refused = 0

    def advice(self, call: ToolCall) -> Advice:
        """Say what to do with the next call."""
        times = self._times(call) if self._watching else 0
        if times < REFUSE_AFTER:
            return Advice.WARN if times >= WARN_AFTER - 1 else Advice.RUN
        self._refused += 1
        return Advice.STOP if times + self._refused > STOP_AFTER else Advice.REFUSE

    def answered(self, call: ToolCall, text: str) -> None:
        """Remember what a call brought."""
        self._seen.append((call.name, call.arguments, text))

    def begin(self) -> None:
        """Forget everything: the user has spoken."""
        self._seen.clear()
        self._refused = 0

    def _times(self, call: ToolCall) -> int:
        """Return how often this call was answered as it was answered last."""
        wanted = (call.name, call.arguments)
        answers = [text for name, arguments, text in self._seen if (name, arguments) == wanted]
        return answers.count(answers[-1]) if answers else 0
