"""From the events of a session to those of its clients."""

import logging
from collections.abc import Callable

from clew.core.events import (
    CompactionEnded,
    CompactionFailed,
    CompactionProgress,
    CompactionStarted,
    ContextUpdated,
    Event,
    ReasoningDelta,
    RunEnded,
    ServerToolEnded,
    ServerToolStarted,
    TextDelta,
    ToolEnded,
    ToolStarted,
    Warned,
)
from clew.core.ids import CallId
from clew.sdk.hub import Hub
from clew.sdk.tracking import ToolTracker

logger = logging.getLogger(__name__)


class Bridge:
    """Listens to a session, tells the clients, and remembers what the turn looks like so far."""

    def __init__(self, hub: Hub, raw: Callable[[Event], None] | None = None) -> None:
        self._hub = hub
        self._raw = raw
        self._texts: list[str] = []
        self.tools = ToolTracker()
        self.ended = RunEnded(text="")
        """How the last run ended."""

    def begin(self) -> None:
        """Forget the last turn."""
        self._texts.clear()
        self.tools.reset()
        self.ended = RunEnded(text="")

    @property
    def text(self) -> str:
        """What the model has said in this turn so far."""
        return "".join(self._texts)

    def __call__(self, event: Event) -> None:
        """Pass one event on."""
        if self._raw is not None:
            try:
                self._raw(event)
            except Exception:
                logger.exception("a listener failed on %s", type(event).__name__)
        self._translate(event)

    def _translate(self, event: Event) -> None:
        emit = self._hub.emit
        match event:
            case TextDelta(text=text):
                self._texts.append(text)
                emit("text_delta", text)
            case ReasoningDelta(text=text):
                emit("reasoning_delta", text)
            case ToolStarted() | ServerToolStarted():
                emit("tool_start", self.tools.started(_started(event)))
            case ToolEnded() | ServerToolEnded():
                emit("tool_end", self.tools.ended(_ended(event)))
            case ContextUpdated(state=state):
                emit("context_update", state)
            case CompactionStarted() | CompactionProgress() | CompactionEnded():
                emit("compaction", event)
            case CompactionFailed():
                emit("compaction", event)
            case Warned(text=text):
                emit("warning", text)
            case RunEnded():
                self.ended = event
            case _:
                pass


def _started(event: ToolStarted | ServerToolStarted) -> ToolStarted:
    if isinstance(event, ToolStarted):
        return event
    return ToolStarted(call_id=CallId(event.call_id), name=event.name, arguments=event.arguments)


def _ended(event: ToolEnded | ServerToolEnded) -> ToolEnded:
    if isinstance(event, ToolEnded):
        return event
    return ToolEnded(
        call_id=CallId(event.call_id), name=event.name, failed=event.failed, display=event.text
    )
