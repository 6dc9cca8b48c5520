"""The interactive prompt.

The main thread reads lines and asks questions; the session runs in an event loop on another
thread. So Ctrl-C always reaches a thread that can act on it: during a run it aborts the run, and
pressed twice at the prompt it exits.
"""

import logging
import os
import signal
from argparse import Namespace
from collections.abc import Iterator
from concurrent.futures import Future

from anyio.from_thread import BlockingPortal, start_blocking_portal

from clew.cli.arguments import session_spec
from clew.cli.dialogs import ask_to_trust, pick_session
from clew.cli.editor import LineEditor
from clew.cli.editor_protocol import CommandItem, Completion, LineDropped, complete_command
from clew.cli.environment import own_environment
from clew.cli.input_loop import InputLoop
from clew.cli.paint import make_painter
from clew.cli.replies import ABORTED, LineReply, is_quit, make_reply
from clew.cli.screen import Screen
from clew.cli.signals import exit_code, handle_signals
from clew.cli.status import SessionStatus, StatusTracker
from clew.core.context_state import ContextState
from clew.core.errors import AbortError, ClewError
from clew.core.events import Envelope
from clew.core.results import ExecutionResult
from clew.core.sanitize import sanitize_line
from clew.core.text import pluralize
from clew.sdk.client import (
    CommandInfo,
    CommandOutcome,
    HistoryEntry,
    SessionClient,
    SessionSnapshot,
    run_line,
)
from clew.sdk.entries import format_message_ids
from clew.sdk.folders import user_folder, working_folder
from clew.sdk.launch import LaunchedSession, launch

logger = logging.getLogger(__name__)

_MAX_ERROR = 300
_MAX_RECAP = 200


def run_prompt(arguments: Namespace) -> int:
    """Read and execute lines until the user exits."""
    screen = Screen(make_painter())
    cwd = working_folder()
    ask_to_trust(cwd, screen, own_environment(arguments))
    next_session: str | None = None
    with start_blocking_portal() as portal:
        while True:
            current = _PromptSession(arguments, portal, screen)
            next_session = current.run(next_session)
            if next_session is None:
                return exit_code(current.left_by) if current.left_by else 0
            arguments.resume = arguments.fork = None
            arguments.latest = False


class _PromptSession:
    """One session at the prompt."""

    def __init__(self, arguments: Namespace, portal: BlockingPortal, screen: Screen) -> None:
        self._arguments = arguments
        self._portal = portal
        self._screen = screen
        self._session: SessionClient | None = None
        self._status = StatusTracker()
        self._has_status = False
        """True once an editor has drawn the status line; it replaces the gauge."""
        self._has_entries = False
        """True when there is a stored session to resume."""
        self._editor = LineEditor(
            user_folder() / "history",
            complete=self._complete,
            status=self._current_status,
            folder=working_folder(),
        )
        self._loop = InputLoop(screen, self._editor)

    def run(self, session_id: str | None) -> str | None:
        """Read and execute lines; returns the session to open next, or None to exit."""
        screen, portal = self._screen, self._portal
        spec = session_spec(self._arguments, resume=session_id or "")
        opening = launch(
            spec, on_envelope=self._on_envelope, environ=own_environment(self._arguments)
        )
        with portal.wrap_async_context_manager(opening) as launched:
            session = self._session = launched.session
            self._has_entries = launched.resumed
            session.on("permission_request", self._loop.ask)
            now = portal.call(session.snapshot)
            self._status.start(now)
            screen.on_lost = session.abort
            watcher = portal.start_task_soon(screen.watch)
            try:
                greet(launched, now, screen, again=session_id is not None)
                signal.signal(signal.SIGINT, self._loop.interrupt)
                with handle_signals(self._loop.hang_up):
                    for line in self._lines():
                        other = self._execute(launched, line)
                        screen.check()
                        if other is not None and not self.left_by:
                            return other
                self._say_goodbye(now.session_id)
            finally:
                watcher.cancel()
        return None

    def _on_envelope(self, envelope: Envelope) -> None:
        self._status.update(envelope)
        self._screen(envelope)

    @property
    def left_by(self) -> int:
        """The signal that ended the program; 0 when the user exited."""
        return self._loop.left_by

    def _lines(self) -> Iterator[str]:
        """Yield the lines that the user types until end of file, /quit, or Ctrl-C twice."""
        warned = False
        screen = self._screen
        if self._arguments.start is not None:
            first, self._arguments.start = self._arguments.start.strip(), None
            if first:
                screen.say(f"> {first}")
                yield first
        while not self.left_by:
            screen.check()
            try:
                line = self._loop.read("> ").strip()
            except EOFError:
                self._end_line()
                return
            except LineDropped:
                self._end_line()
                warned = False
                continue
            except KeyboardInterrupt:
                self._end_line()
                if warned:
                    return
                warned = True
                screen.line("press Ctrl-C again to exit", "dim")
                continue
            warned = False
            if is_quit(line):
                return
            if line:
                yield line

    def _execute(self, launched: LaunchedSession, line: str) -> str | None:
        session, screen, portal = launched.session, self._screen, self._portal
        before = self._status.context
        screen.take_entries()
        screen.by_hand = line.startswith("!")
        if not line.startswith(("!", "/")):
            screen.hint()
        ticker = portal.start_task_soon(screen.tick)
        task = portal.start_task_soon(run_line, session, line)
        self._loop.wait(task, portal=portal, session=session)
        ticker.cancel()
        reply = show_result(task, line, screen)
        entries = screen.take_entries()
        self._has_entries = self._has_entries or bool(entries)
        after = self._status.context
        if after != before if reply is None or reply.gauge is None else reply.gauge:
            self._show_gauge(after, format_message_ids(entries))
        if reply is not None and reply.pick is not None:
            return pick_session(launched, reply.pick, portal=portal, loop=self._loop, screen=screen)
        return None if reply is None else reply.open

    def _show_gauge(self, state: ContextState | None, ids: str) -> None:
        if not self._has_status and state is not None:
            self._screen.draw_gauge(state, ids)
        elif ids:
            self._screen.line(ids, "dim")

    def _say_goodbye(self, session_id: str) -> None:
        # An empty session is not stored.
        if self._has_entries:
            self._screen.line(f"resume with: clew --resume {session_id}", "dim")

    def _end_line(self) -> None:
        """End the line of the prompt; the terminal editor does so itself."""
        if not self._has_status:
            self._screen.line()

    def _current_status(self) -> SessionStatus:
        self._has_status = True
        return self._status.status

    def _complete(self, line: str) -> list[Completion]:
        assert self._session is not None  # noqa: S101 - nothing is read before it is open
        items = [_menu_item(command) for command in self._portal.call(self._session.commands)]
        return complete_command(line, [*items, CommandItem("quit", "exit; you can resume later")])


def _menu_item(command: CommandInfo) -> CommandItem:
    subcommands = tuple(_menu_item(one) for one in command.subcommands)
    return CommandItem(command.name, sanitize_line(command.description, 80), subcommands)


def greet(
    launched: LaunchedSession, now: SessionSnapshot, screen: Screen, *, again: bool = False
) -> None:
    """Show the model and the permission mode; for a resumed session, its last messages.

    Args:
        launched: The session, and how its model was chosen.
        now: Its state.
        screen: Where to show it.
        again: True when another session was open before; skips what has not changed.
    """
    if not again:
        screen.say(f"{launched.choice.model}: {launched.choice.why}", style="dim")
        screen.say(f"permission mode: {now.mode}", style="dim")
        if notice := launched.take_sandbox_notice():
            screen.say(notice, style="dim")
    if launched.resumed:
        _show_recap(now, screen)
    if not again:
        words = "/help lists the commands, !ls runs a shell command, Ctrl-D exits"
        screen.say(words, style="dim")


def _show_recap(now: SessionSnapshot, screen: Screen) -> None:
    name = now.name or now.session_id
    screen.line(f"session {name}: {pluralize(now.last_entry, 'entry', 'entries')}", "dim")
    for who, role in (("you", "user"), ("answer", "assistant")):
        if text := _last_message(now.history, role):
            screen.say(f"  {who}: {sanitize_line(text, _MAX_RECAP)}", style="dim")
    if not screen.live:
        screen.draw_gauge(now.context)


def _last_message(history: tuple[HistoryEntry, ...], role: str) -> str:
    for item in reversed(history):
        if item.type == role and item.message is not None and item.message.text.strip():
            return item.message.text
    return ""


def show_result(
    task: "Future[tuple[CommandOutcome, ExecutionResult | None]]", line: str, screen: Screen
) -> LineReply | None:
    """Show the result of a line; returns None when it failed."""
    try:
        reply = make_reply(*task.result(), line)
    except AbortError:
        screen.line(ABORTED)
    except ClewError as error:
        screen.say(f"clew: {error}")
    except Exception as error:
        # A bug must not end the prompt.
        if "CLEW_DEBUG" in os.environ:
            logger.exception("a line failed")
        what = f"{type(error).__name__}: {error}"
        screen.say(f"clew: unexpected error: {sanitize_line(what, _MAX_ERROR)}")
    else:
        if not reply.is_shown:
            screen.say(*reply.lines)
        if reply.output:
            screen.line(reply.output)
        if reply.answer:
            screen.answer(reply.answer)
        return reply
    return None
