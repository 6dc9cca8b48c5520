"""How keys answer the questions of a session, with one key or with a text for the model."""

import time
from collections.abc import Callable
from functools import partial
from typing import Final

from prompt_toolkit.document import Document
from prompt_toolkit.layout import Layout

from clew.core.events import PermissionRequest
from clew.core.permissions import Approval
from clew.core.text import pluralize
from clew.sdk.permission_requests import Choice
from clew.tui.blocks import Notice
from clew.tui.questions import add_bars, format_target
from clew.tui.terminal_state import TerminalState

_ARM_AFTER: Final = 0.2
"""Seconds that a question is visible before keys answer it."""
_PAUSE: Final = 0.7
"""Seconds without a key before a question takes the keys from a line that is being typed."""


class QuestionActions:
    """Answers the open question; `clew.tui.keys` binds the keys.

    Args:
        parts: The application's state.
        layout: Returns the layout, where the focus is.
    """

    def __init__(self, parts: TerminalState, layout: Callable[[], Layout]) -> None:
        self._parts = parts
        self._layout = layout
        self._last_key = 0.0

    def note_key(self) -> None:
        """Remember when a key was pressed."""
        self._last_key = time.monotonic()

    def arm_soon(self) -> None:
        """Let keys answer the open question once the user can have seen it."""
        request = self._parts.questions.current
        if request is not None and not self._parts.questions.is_armed:
            self._parts.feed.later(_ARM_AFTER, partial(self._arm, request))

    def disarm(self) -> None:
        """Let no key answer the open question for a moment."""
        self._parts.questions.is_armed = False
        self.arm_soon()

    def _arm(self, request: PermissionRequest) -> None:
        parts = self._parts
        if parts.questions.current != request or parts.questions.is_armed:
            return
        rest = self._last_key + _PAUSE - time.monotonic()
        if parts.input.buffer.text and rest > 0:
            parts.feed.later(rest, partial(self._arm, request))
        else:
            parts.questions.is_armed = True
            parts.feed.wake()

    def press(self, key: str) -> None:
        """Answer the open question with the choice of that key, or with the selected one."""
        choice = self._parts.questions.find_choice(key)
        request = self._parts.questions.current
        if choice is None or request is None:
            return
        if choice.takes_text:
            self._parts.questions.writing = choice
            self._parts.input.reply.reset(Document(choice.text))
            self._layout().focus(self._parts.input.reply)
        else:
            self._answer(request, choice)

    def send_reply(self) -> None:
        """Answer with the text that the user wrote."""
        request, text = self._parts.questions.current, self._parts.input.reply.text.strip()
        choice = self._parts.questions.writing
        self._parts.input.reply.reset()
        self._parts.questions.writing = None
        self.close_reply()
        if request is not None and choice is not None:
            self._parts.conversation.answer(request.request_id, choice.approval, text)
            self._parts.questions.remove(request.request_id)
            self.arm_soon()

    def cancel_reply(self) -> None:
        """Go back from the text to the choices."""
        self._parts.questions.writing = None
        self.close_reply()
        # Alt and a key arrive as Esc and that key: it is no answer.
        self.disarm()

    def close_reply(self) -> None:
        """Give the keys back to the input when nothing is written to the model any more."""
        parts = self._parts
        if not parts.questions.is_writing and self._layout().has_focus(parts.input.reply):
            self._layout().focus(parts.input.buffer)

    def view(self) -> None:
        """Print everything that the open question is about."""
        request = self._parts.questions.current
        if request is not None:
            width = self._parts.printer.width
            title, lines = format_target(request, width=width)
            rows = [title, *add_bars(lines, width=width)]
            rows += self._parts.draw_preview(width)
            self._parts.printer.add_text("".join(f"{row}\n" for row in rows))

    def _answer(self, request: PermissionRequest, choice: Choice) -> None:
        parts = self._parts
        parts.conversation.answer(request.request_id, choice.approval)
        parts.questions.remove(request.request_id)
        if choice.approval is Approval.PROJECT:
            rules = ", ".join(request.project_rules)
            count = pluralize(len(request.project_rules), "rule")
            parts.printer.add(Notice(f"allowed in this folder ({count}): {rules}"))
        self.arm_soon()
