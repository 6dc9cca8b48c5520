"""The interactive prompt.

The main thread reads lines and answers questions; the session runs in an event loop on
another thread. So Ctrl-C always reaches a thread that is free to act on it: during a run
it aborts the run, twice in a row at the prompt it leaves.
"""

import logging
import os
import signal
from argparse import Namespace
from collections.abc import Iterator
from concurrent.futures import Future

from anyio.from_thread import BlockingPortal, start_blocking_portal

from clew.cli.accepting import ask_to_accept
from clew.cli.arguments import session_spec
from clew.cli.editor import Completion, LineDropped, LineEditor, Offer, offered
from clew.cli.greeting import greet
from clew.cli.history import numbers
from clew.cli.input_loop import InputLoop
from clew.cli.paint import painter
from clew.cli.picking import pick
from clew.cli.replies import ABORTED, Reply, is_quit, make_reply
from clew.cli.sanitize import one_line
from clew.cli.screen import Screen
from clew.cli.signals import exit_code, handle_signals
from clew.cli.status import Standing, StatusTracker
from clew.core.context_state import ContextState
from clew.core.errors import AbortError, ClewError
from clew.core.events import Envelope
from clew.core.results import ExecutionResult
from clew.sdk.client import CommandInfo, CommandOutcome, SessionClient, run_line
from clew.sdk.folders import user_folder, working_folder
from clew.sdk.launch import LaunchedSession, launch

logger = logging.getLogger(__name__)

_SHOWN_ERROR = 300


def run_prompt(arguments: Namespace) -> int:
    """Talk until the user leaves."""
    screen = Screen(painter())
    cwd = working_folder()
    ask_to_accept(cwd, screen)
    next_session: str | None = None
    with start_blocking_portal() as portal:
        while True:
            talk = _Talk(arguments, portal, screen)
            next_session = talk.run(next_session)
            if next_session is None:
                return exit_code(talk.left_by) if talk.left_by else 0
            arguments.resume = arguments.fork = None
            arguments.latest = False


class _Talk:
    """One session at the prompt."""

    def __init__(self, arguments: Namespace, portal: BlockingPortal, screen: Screen) -> None:
        self._arguments = arguments
        self._portal = portal
        self._screen = screen
        self._session: SessionClient | None = None
        self._status = StatusTracker()
        self._has_status = False
        """True once an editor has drawn the status line; it replaces the gauge."""
        self._said = False
        """True when there is something to resume."""
        self._editor = LineEditor(
            user_folder() / "history",
            complete=self._complete,
            status=self._standing,
            folder=working_folder(),
        )
        self._loop = InputLoop(screen, self._editor)

    def run(self, session_id: str | None) -> str | None:
        """Talk until the user leaves; returns the session to open next, if the user asked."""
        screen, portal = self._screen, self._portal
        spec = session_spec(self._arguments, resume=session_id or "")
        opening = launch(spec, on_envelope=self._hear)
        with portal.wrap_async_context_manager(opening) as launched:
            session = self._session = launched.session
            self._said = launched.resumed
            session.on("permission_request", self._loop.ask)
            now = portal.call(session.snapshot)
            self._status.start(now)
            screen.on_lost = session.abort
            watching = portal.start_task_soon(screen.watch)
            try:
                greet(launched, now, screen, again=session_id is not None)
                signal.signal(signal.SIGINT, self._loop.interrupt)
                with handle_signals(self._loop.hang_up):
                    for line in self._lines():
                        other = self._carry_out(launched, line)
                        screen.check()
                        if other is not None and not self.left_by:
                            return other
                self._say_goodbye(now.session_id)
            finally:
                watching.cancel()
        return None

    def _hear(self, envelope: Envelope) -> None:
        self._status.update(envelope)
        self._screen(envelope)

    @property
    def left_by(self) -> int:
        """The signal that ended it; 0 when the user left."""
        return self._loop.left_by

    def _lines(self) -> Iterator[str]:
        """Yield what the user types, until end of file, /quit, or Ctrl-C twice in a row."""
        warned = False
        screen = self._screen
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
                screen.line("press Ctrl-C again to leave", "dim")
                continue
            warned = False
            if is_quit(line):
                return
            if line:
                yield line

    def _carry_out(self, launched: LaunchedSession, line: str) -> str | None:
        session, screen, portal = launched.session, self._screen, self._portal
        before = self._status.context
        screen.take_entries()
        screen.by_hand = line.startswith("!")
        if not line.startswith(("!", "/")):
            screen.hint()
        ticking = portal.start_task_soon(screen.tick)
        task = portal.start_task_soon(run_line, session, line)
        self._loop.wait(task, portal=portal, session=session)
        ticking.cancel()
        reply = show_result(task, line, screen)
        entries = screen.take_entries()
        self._said = self._said or bool(entries)
        after = self._status.context
        if after != before if reply is None or reply.gauge is None else reply.gauge:
            self._show_standing(after, numbers(entries))
        if reply is not None and reply.pick is not None:
            return pick(launched, reply.pick, portal=portal, loop=self._loop, screen=screen)
        return None if reply is None else reply.open

    def _show_standing(self, state: ContextState | None, new: str) -> None:
        if not self._has_status and state is not None:
            self._screen.gauge(state, new)
        elif new:
            self._screen.line(new, "dim")

    def _say_goodbye(self, session_id: str) -> None:
        # A session in which nothing was said is not stored.
        if self._said:
            self._screen.line(f"resume with: clew --resume {session_id}", "dim")

    def _end_line(self) -> None:
        """End the line of a prompt that was left; an editor does so itself."""
        if not self._has_status:
            self._screen.line()

    def _standing(self) -> Standing:
        self._has_status = True
        return self._status.standing

    def _complete(self, line: str) -> list[Completion]:
        assert self._session is not None  # noqa: S101 - nothing is read before it is open
        offers = [_offer(command) for command in self._portal.call(self._session.commands)]
        return offered(line, [*offers, Offer("quit", "leave; the session can be resumed")])


def _offer(command: CommandInfo) -> Offer:
    below = tuple(_offer(one) for one in command.subcommands)
    return Offer(command.name, one_line(command.description, 80), below)


def show_result(
    task: "Future[tuple[CommandOutcome, ExecutionResult | None]]", line: str, screen: Screen
) -> Reply | None:
    """Show how a line ended; returns None when it failed."""
    try:
        reply = make_reply(*task.result(), line)
    except AbortError:
        screen.line(ABORTED)
    except ClewError as error:
        screen.say(f"clew: {error}")
    except Exception as error:
        # The one place where a mistake of ours must not cost the user the prompt.
        if "CLEW_DEBUG" in os.environ:
            logger.exception("a line could not be carried out")
        what = f"{type(error).__name__}: {error}"
        screen.say(f"clew: unexpected: {one_line(what, _SHOWN_ERROR)}")
    else:
        if not reply.is_shown:
            screen.say(*reply.lines)
        if reply.output:
            screen.line(reply.output)
        if reply.answer:
            screen.answer(reply.answer)
        return reply
    return None
