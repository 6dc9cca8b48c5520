"""The terminal application: prints finished blocks, and draws the live area below them.

The live area holds the unfinished block, questions, the queue, the input and the status line. It
is the only part that is drawn again. Everything above it is printed once and never touched.
"""

import logging
import time
from asyncio import get_running_loop
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from prompt_toolkit.application import Application
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.output import ColorDepth, Output

from clew.core.errors import ClewError
from clew.core.events import Envelope
from clew.sdk.client import (
    CommandInfo,
    CopyText,
    PathMatch,
    SessionClient,
    SessionSnapshot,
    SetTheme,
)
from clew.sdk.prompt_history import PromptHistory
from clew.tui.actions import Actions
from clew.tui.blocks import Block, Notice
from clew.tui.completion import CommandItem, make_menu
from clew.tui.conversation import Conversation
from clew.tui.custom_status import CustomStatus
from clew.tui.event_display import EventDisplay
from clew.tui.feed import EventFeed
from clew.tui.history import take_last_turn
from clew.tui.input import InputArea
from clew.tui.keys import describe_keys, make_keys
from clew.tui.layout import STYLE, LiveArea
from clew.tui.leave import Leave, Quit, leave_for
from clew.tui.notifications import Notifier
from clew.tui.options import TerminalOptions
from clew.tui.printer import Printer
from clew.tui.question_actions import QuestionActions
from clew.tui.running_tasks import changes_list
from clew.tui.terminal import QUERY_SYNCHRONIZED, LiveRenderer, can_query
from clew.tui.terminal_state import TerminalState
from clew.tui.theme import Theme, make_theme

logger = logging.getLogger(__name__)

_SPIN: Final = 0.125
"""Seconds between two updates of a spinner."""
_MAX_PATHS: Final = 50
_PATH_TIMEOUT: Final = 1.0
"""Seconds to wait for the completion of a path."""
_ESCAPE_WAITS: Final = 0.05
"""Seconds after which Esc is a key of its own and not the start of a sequence."""
_SEQUENCE_WAITS: Final = 0.2

_T = TypeVar("_T")
Start: TypeAlias = "Callable[[Callable[[], Awaitable[Any]]], Future[Any]]"
"""Runs a function in the session's thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppOptions:
    """How the application looks and behaves."""

    theme: Theme
    terminal: TerminalOptions = field(default_factory=TerminalOptions)
    reflows: bool = False
    """The terminal wraps lines again when its width changes."""
    term: str = ""
    """The type of the terminal."""


class App:
    """One session on one terminal.

    Args:
        client: The session.
        start: Runs a function in the session's thread.
        history: The prompts that were sent before.
        folder: The folder of the project.
        terminal: The keyboard and the screen.
        options: How it looks.
    """

    def __init__(
        self,
        client: SessionClient,
        start: Start,
        *,
        history: PromptHistory,
        folder: Path,
        terminal: tuple[Input, Output],
        options: AppOptions,
    ) -> None:
        self._client, self._start = client, start
        self._menu: list[CommandItem] = []
        self._is_spinning = False
        self.application = _make_application(terminal, options)
        self.parts = TerminalState(
            input=InputArea(history, commands=lambda: self._menu, paths=self._complete_path),
            printer=Printer(self.application, options.theme),
            feed=EventFeed(self._apply),
            conversation=Conversation(client, self, keys=describe_keys(options.terminal.keys)),
            custom_status=CustomStatus(
                options.terminal.status_command,
                padding=options.terminal.status_padding,
                cwd=folder,
            ),
        )
        self._notifier = Notifier(terminal[1], options.terminal, term=options.term)
        self._can_query = can_query(options.term)
        self.actions = Actions(self.parts, self, leave=self.leave)
        self._answers = QuestionActions(self.parts, lambda: self.application.layout)
        self._events = EventDisplay(
            self.parts,
            follow_up=self.actions.follow_up,
            answers=self._answers,
            notifier=self._notifier,
            terminal=self,
            folder=folder,
        )
        self.application.layout = LiveArea(self.parts).layout
        keys, problems = make_keys(self.actions, self._answers, self.parts, options.terminal.keys)
        for problem in problems:
            self.show(Notice(problem, "warning"))
        self.application.key_bindings = keys
        self.application.key_processor.before_key_press += lambda _: self._note_key()
        self.application.key_processor.after_key_press += lambda _: self._wake()

    def start(self, now: SessionSnapshot) -> None:
        """Take the state of a session that was just opened, and show its last turn."""
        self.parts.status.start(now)
        for block in take_last_turn(self.parts.transcript.join(now, time.time())):
            self.parts.printer.add(block)
        for request in now.permission_requests:
            self.parts.questions.add(request)

    def receive(self, envelope: Envelope) -> None:
        """Take an event of the session; called from any thread."""
        self.parts.feed.post(envelope)

    def type_ahead(self, keys: Sequence[KeyPress]) -> None:
        """Take keys that were pressed before the application runs."""
        store_typeahead(self.application.input, list(keys))

    def hang_up(self) -> None:
        """Leave; called by the handler of a signal."""
        self.parts.feed.run(self.leave)

    async def run(self, first: str = "") -> Leave:
        """Run until the user leaves, or opens another session.

        Args:
            first: A line to send at the start.
        """
        if first:
            self.parts.conversation.submit(first)
        self.parts.feed.attach(get_running_loop())
        self.refresh_commands()
        try:
            return await self.application.run_async(
                pre_run=self._begin, set_exception_handler=False
            )
        except EOFError:
            return Quit()
        finally:
            self.parts.feed.detach()
            self._notifier.clear_title()

    def leave(self, result: Leave | None = None) -> None:
        """End the application."""
        if self.application.is_running and not self.application.is_done:
            self.parts.feed.flush()
            self.application.exit(result=result or Quit())

    def _complete_path(self, fragment: str) -> list[PathMatch]:
        """Complete a path; called in a thread of its own, or by Tab."""
        future: Future[list[PathMatch]] = self._start(
            partial(self._client.complete_path, fragment, limit=_MAX_PATHS)
        )
        try:
            return future.result(timeout=_PATH_TIMEOUT)
        except (ClewError, OSError, RuntimeError, CancelledError) as error:
            logger.debug("paths cannot be completed: %s", error)
            return []

    def refresh_commands(self) -> None:
        """Ask the session for its commands, for the menu."""

        def finish(future: "Future[list[CommandInfo]]") -> None:
            if not future.cancelled() and future.exception() is None:
                found = future.result()
                self._menu = make_menu(found)
                names = [one.name for one in found if one.source == "builtin"]
                self.parts.conversation.builtins = frozenset(names)

        self.call(self._client.commands, finish)

    def call(self, work: Callable[[], Awaitable[_T]], done: "Callable[[Future[_T]], None]") -> None:
        """Run `work` in the session's thread, and `done` afterwards in this one."""
        future: Future[_T] = self._start(work)
        future.add_done_callback(lambda ended: self.parts.feed.run(lambda: done(ended)))

    def later(self, seconds: float, work: Callable[[], None]) -> None:
        """Call a function after some time, if the application still runs."""
        self.parts.feed.later(seconds, work)

    def show(self, block: Block) -> None:
        """Print a block above the live area."""
        self.parts.printer.add(self.parts.transcript.add(block))
        self.parts.feed.wake()

    def give_back(self, text: str) -> None:
        """Put a line that could not be sent back into the input."""
        typed = self.parts.input.text
        self.parts.input.replace(f"{text}\n{typed}" if typed.strip() else text)
        self.parts.hint = "this was not sent; it is back in the input"
        self.parts.feed.wake()

    def apply_effect(self, effect: object) -> None:
        """Apply the effect of a command that concerns the terminal."""
        match effect:
            case CopyText(text=text):
                self.show(self._notifier.copy(text))
            case SetTheme(theme=name):
                theme = self.parts.printer.theme
                self.parts.printer.theme = make_theme(
                    name, colours=theme.has_colours, encoding=theme.encoding
                )
            case _ if (leave := leave_for(effect)) is not None:
                self.leave(leave)
            case _:
                logger.debug("the terminal has no effect %s", effect)

    def _begin(self) -> None:
        self._is_spinning = False
        if self._can_query:
            self._can_query = False
            self.application.output.write_raw(QUERY_SYNCHRONIZED)
        self._answers.arm_soon()
        self.parts.feed.wake()

    def _note_key(self) -> None:
        self.actions.note_key()
        self._answers.note_key()
        self._notifier.note_key()

    def _wake(self) -> None:
        if self.parts.printer.is_pending:
            self.parts.feed.wake()

    def _spin(self) -> None:
        """Draw the live block again while its clock runs."""
        self._is_spinning = self.parts.transcript.live is not None
        if self._is_spinning:
            self.application.invalidate()
            self.parts.feed.later(_SPIN, self._spin)

    def _apply(self, envelopes: Sequence[Envelope]) -> None:
        self._events.apply(envelopes)
        if any(changes_list(envelope.event) for envelope in envelopes):
            self.refresh_commands()
        if not self._is_spinning:
            self._spin()


def _make_application(terminal: tuple[Input, Output], options: AppOptions) -> Application[Leave]:
    application: Application[Leave] = Application(
        editing_mode=EditingMode.VI if options.terminal.vi else EditingMode.EMACS,
        style=STYLE,
        include_default_pygments_style=False,
        color_depth=None if options.theme.has_colours else ColorDepth.DEPTH_1_BIT,
        erase_when_done=True,
        input=terminal[0],
        output=terminal[1],
    )
    application.ttimeoutlen = _ESCAPE_WAITS
    application.timeoutlen = _SEQUENCE_WAITS
    application.renderer = LiveRenderer(application, reflows=options.reflows)
    return application
