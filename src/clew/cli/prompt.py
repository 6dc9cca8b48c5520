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
from clew.cli.desk import Desk
from clew.cli.editor import Completion, LineDropped, LineEditor, Offer, offered
from clew.cli.greeting import greet
from clew.cli.harmless import one_line
from clew.cli.history import numbers
from clew.cli.leaving import exit_code, heeding
from clew.cli.lines import ABORTED, Reply, carry_out, leaves
from clew.cli.opening import Desired, Opened, opened
from clew.cli.paint import painter
from clew.cli.picking import pick
from clew.cli.places import working_folder
from clew.cli.screen import Screen
from clew.cli.status import Standing
from clew.core.context_state import ContextState
from clew.core.entries import ModeChanged, SetupChanged
from clew.core.errors import AbortError, ClewError
from clew.extensions.commands.protocol import Command
from clew.sdk.places import user_folder

logger = logging.getLogger(__name__)

_SHOWN_ERROR = 300


def run_prompt(arguments: Namespace) -> int:
    """Talk until the user leaves."""
    screen = Screen(painter())
    cwd = working_folder()
    ask_to_accept(cwd, screen)
    go_to: str | None = None
    with start_blocking_portal() as portal:
        while True:
            talk = _Talk(arguments, portal, screen)
            go_to = talk.run(go_to)
            if go_to is None:
                return exit_code(talk.left_by) if talk.left_by else 0
            arguments.resume = arguments.fork = None
            arguments.latest = False


class _Talk:
    """One session at the prompt."""

    def __init__(self, arguments: Namespace, portal: BlockingPortal, screen: Screen) -> None:
        self._arguments = arguments
        self._portal = portal
        self._screen = screen
        self._made: Opened | None = None
        self._has_status = False
        """True once an editor has shown the status line: it tells what the gauge would."""
        self._editor = LineEditor(
            user_folder() / "history",
            complete=self._complete,
            status=self._standing,
            folder=working_folder(),
        )
        self._desk = Desk(screen, self._editor)

    def run(self, session_id: str | None) -> str | None:
        """Talk until the user leaves; returns the session to go on with, if that was asked."""
        screen, portal = self._screen, self._portal
        desired = Desired(
            on_event=screen, on_task=screen.task, ask=self._desk.ask, resume=session_id or None
        )
        with portal.wrap_async_context_manager(opened(self._arguments, desired)) as made:
            self._made = made
            self._desk.keeps_rules = made.keeps_rules
            screen.on_lost = made.session.abort
            watching = portal.start_task_soon(screen.watch)
            try:
                greet(made, screen, again=session_id is not None)
                signal.signal(signal.SIGINT, self._desk.interrupt)
                with heeding(self._desk.hang_up):
                    for line in self._lines():
                        go_to = self._carry_out(made, line)
                        screen.check()
                        if go_to is not None and not self.left_by:
                            return go_to
                self._say_goodbye(made)
            finally:
                watching.cancel()
        return None

    @property
    def left_by(self) -> int:
        """The signal that ended it; 0 when the user left."""
        return self._desk.left_by

    def _lines(self) -> Iterator[str]:
        """Yield what the user types, until end of file, /quit, or Ctrl-C twice in a row."""
        warned = False
        screen = self._screen
        while not self.left_by:
            screen.check()
            try:
                line = self._desk.read("> ").strip()
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
            if leaves(line):
                return
            if line:
                yield line

    def _carry_out(self, made: Opened, line: str) -> str | None:
        session, screen = made.session, self._screen
        before = self._portal.call(session.get_context_state)
        known = len(session.session.journal.entries)
        screen.by_hand = line.startswith("!")
        if not line.startswith(("!", "/")):
            screen.hint()
        ticking = self._portal.start_task_soon(screen.tick)
        task = self._portal.start_task_soon(carry_out, made, line)
        self._desk.wait(task, portal=self._portal, abort=session.abort)
        ticking.cancel()
        reply = show_result(task, screen)
        after = self._portal.call(session.get_context_state)
        if after != before if reply is None or reply.gauge is None else reply.gauge:
            self._show_standing(after, numbers(session.session.journal.entries[known:]))
        if reply is not None and reply.pick is not None:
            return pick(made, reply.pick, portal=self._portal, desk=self._desk, screen=screen)
        return None if reply is None else reply.go_to

    def _show_standing(self, state: ContextState, new: str) -> None:
        if not self._has_status:
            self._screen.gauge(state, new)
        elif new:
            self._screen.line(new, "dim")

    def _say_goodbye(self, made: Opened) -> None:
        # A session in which nothing was said is not kept.
        entries = made.session.session.journal.entries
        if any(not isinstance(entry.body, SetupChanged | ModeChanged) for entry in entries):
            self._screen.line(f"go on with: clew --resume {made.session.get_session_id()}", "dim")

    def _end_line(self) -> None:
        """End the line of a prompt that was left; an editor does so itself."""
        if not self._has_status:
            self._screen.line()

    def _standing(self) -> Standing:
        assert self._made is not None  # noqa: S101 - nothing is read before it is made
        self._has_status = True
        session = self._made.session
        return Standing(
            model=session.session.journal.view.setup.model.name,
            mode=str(self._made.mode),
            name=session.get_name(),
            context=session.get_context_state(),
        )

    def _complete(self, line: str) -> list[Completion]:
        assert self._made is not None  # noqa: S101 - nothing is read before it is made
        commands = self._made.session.list_commands()
        offers = [_offer(command) for command in commands]
        return offered(line, [*offers, Offer("quit", "leave; the session can be resumed")])


def _offer(command: Command) -> Offer:
    below = tuple(_offer(one) for one in command.subcommands)
    return Offer(command.name, one_line(command.description, 80), below)


def show_result(task: "Future[Reply]", screen: Screen) -> Reply | None:
    """Show how a line ended; returns what it brought, or None when it failed."""
    try:
        reply = task.result()
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
        if not reply.is_told:
            screen.say(*reply.lines)
        if reply.output:
            screen.line(reply.output)
        if reply.answer:
            screen.answer(reply.answer)
        return reply
    return None
