"""The state of the terminal application, which keys and events change and the live area shows."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from clew.core.ids import EntryId
from clew.tui.conversation import Conversation
from clew.tui.feed import EventFeed
from clew.tui.input import InputArea
from clew.tui.printer import Printer
from clew.tui.questions import QuestionList
from clew.tui.rendering import render_live
from clew.tui.status import StatusPart, StatusTracker, status_line
from clew.tui.transcript import Transcript


@dataclass(slots=True, kw_only=True)
class Parts:
    """Everything that belongs to one session on one terminal."""

    input: InputArea
    printer: Printer
    feed: EventFeed
    conversation: Conversation
    questions: QuestionList = field(default_factory=QuestionList)
    transcript: Transcript = field(default_factory=Transcript)
    status: StatusTracker = field(default_factory=StatusTracker)
    hint: str = ""
    """A line about the last key, until the next one."""
    editing: EntryId | None = None
    """The entry of the prompt that is being edited."""
    custom_status: str = ""
    """What the user's own status-line command printed."""

    def list_queue(self) -> Sequence[str]:
        """Return the prompts that wait."""
        return self.conversation.queue

    def draw_live(self, *, width: int, rows: int) -> list[str]:
        """Return the unfinished block, as lines with colours."""
        live = self.transcript.live
        if live is None:
            return []
        theme = self.printer.theme
        return render_live(live, width=width, rows=rows, theme=theme, now=time.time())

    def draw_status(self, width: int) -> tuple[StatusPart, ...]:
        """Return the status line."""
        status = self.status.status
        return status_line(replace(status, queued=len(self.list_queue()) or status.queued), width)
