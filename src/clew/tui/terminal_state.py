"""The state of the terminal application, which keys and events change and the live area shows."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from clew.core.ids import EntryId
from clew.core.sanitize import split_rows
from clew.tui.conversation import Conversation
from clew.tui.custom_status import CustomStatus
from clew.tui.feed import EventFeed
from clew.tui.input import InputArea
from clew.tui.printer import Printer
from clew.tui.questions import QuestionList
from clew.tui.rendering import render_live, render_preview
from clew.tui.status import SessionStatus, StatusPart, StatusTracker, status_line
from clew.tui.transcript import Transcript


@dataclass(slots=True, kw_only=True)
class TerminalState:
    """Everything that belongs to one session on one terminal."""

    input: InputArea
    printer: Printer
    feed: EventFeed
    conversation: Conversation
    custom_status: CustomStatus
    """The line of the user's own status command."""
    questions: QuestionList = field(default_factory=QuestionList)
    transcript: Transcript = field(default_factory=Transcript)
    status: StatusTracker = field(default_factory=StatusTracker)
    hint: str = ""
    """A line about the last key, until the next one."""
    editing: EntryId | None = None
    """The entry of the prompt that is being edited."""
    _preview: tuple[str, int, list[str]] = ("", 0, [])

    @property
    def is_queue_held(self) -> bool:
        """True when the prompts wait for the user, not for the end of a run."""
        return self.conversation.is_held

    def encodable(self, text: str) -> str:
        """Return text with substitutes for characters that the terminal cannot show."""
        return self.printer.theme.encodable(text)

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

    def draw_preview(self, width: int) -> list[str]:
        """Return what the call of the open question would do, as lines with colours."""
        request = self.questions.current
        if request is None:
            return []
        if self._preview[:2] != (request.request_id, width):
            # Once for each question: an edit reads its file.
            lines = render_preview(request, width=width, theme=self.printer.theme)
            self._preview = (request.request_id, width, lines)
        return self._preview[2]

    @property
    def full_status(self) -> SessionStatus:
        """The status of the session, with what only the terminal knows."""
        status = self.status.status
        queued = len(self.list_queue()) or status.queued
        return replace(status, queued=queued, is_running=self.conversation.is_active)

    def draw_status(self, width: int) -> tuple[StatusPart, ...]:
        """Return the status line: the user's own, or the usual one."""
        if line := self.custom_status.line:
            return (StatusPart(next(split_rows(line, width)), ""),)
        return status_line(self.full_status, width)
