"""Shows what happens in a session: blocks, questions, the window title and notifications."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from clew.core.events import Envelope, PermissionRequest, PermissionResolved
from clew.core.sanitize import sanitize
from clew.tui.conversation import ConversationTerminal
from clew.tui.notifications import Notifier
from clew.tui.question_actions import QuestionActions
from clew.tui.questions import format_title
from clew.tui.terminal_state import TerminalState

logger = logging.getLogger(__name__)


class EventDisplay:
    """Applies the events of a session to the application.

    Args:
        parts: The application's state.
        follow_up: Does what waited for the end of a run.
        answers: Makes questions ready for keys.
        notifier: The window title, and notifications.
        terminal: Runs the user's status command.
        folder: The folder of the project.
    """

    def __init__(
        self,
        parts: TerminalState,
        *,
        follow_up: Callable[[], None],
        answers: QuestionActions,
        notifier: Notifier,
        terminal: ConversationTerminal,
        folder: Path,
    ) -> None:
        self._parts = parts
        self._follow_up = follow_up
        self._answers = answers
        self._notifier = notifier
        self._terminal = terminal
        self._folder = folder
        self._was_busy = False

    def apply(self, envelopes: Sequence[Envelope]) -> None:
        """Show events, and print the blocks that they finish."""
        for envelope in envelopes:
            try:
                self._apply(envelope)
            except Exception as error:
                # A bug must not end the prompt.
                logger.exception("an event cannot be shown")
                text = sanitize(f"clew: unexpected error: {type(error).__name__}: {error}")
                self._parts.printer.add_text(f"{text}\n")
        self._follow_up()
        self._report_state()
        self._parts.printer.flush()

    def _report_state(self) -> None:
        """Show in the window title and in the user's status line what the session does."""
        parts, is_busy = self._parts, self._parts.conversation.is_active
        name = parts.status.status.name or self._folder.name
        doing = " · asks" if parts.questions else " · works" if is_busy else ""
        self._notifier.set_title(f"clew · {name}{doing}")
        if self._was_busy and not is_busy and not parts.list_queue():
            self._notifier.notify(f"clew · {name}: the run has ended")
        self._was_busy = is_busy
        parts.custom_status.update(parts.full_status, self._terminal)

    def _apply(self, envelope: Envelope) -> None:
        parts = self._parts
        parts.status.update(envelope)
        for block in parts.transcript.apply(envelope):
            parts.printer.add(block)
        match envelope.event:
            case PermissionRequest() as request:
                request = parts.transcript.tasks.sign(request, envelope.task_id)
                parts.questions.add(request)
                self._answers.arm_soon()
                self._notifier.notify(f"clew asks: {format_title(request)}")
            case PermissionResolved(request_id=request_id):
                parts.questions.remove(request_id)
                self._answers.close_reply()
                self._answers.arm_soon()
            case event if not envelope.task_id:
                parts.conversation.apply(event)
            case _:
                pass
