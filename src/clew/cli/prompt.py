"""The interactive prompt: a plain line at a time.

The main thread reads lines and answers questions; the session runs in an event loop on
another thread. So Ctrl-C always reaches a thread that is free to act on it: during a run
it aborts the run, twice in a row at the prompt it leaves.
"""

import contextlib
import logging
import os
import signal
from argparse import Namespace
from collections.abc import Iterator
from concurrent.futures import Future

from anyio.from_thread import BlockingPortal, start_blocking_portal

from clew.cli.commands import Reply, leaves, run_line
from clew.cli.desk import Desk
from clew.cli.greeting import greet
from clew.cli.harmless import one_line
from clew.cli.history import numbers
from clew.cli.opening import Opened, opened
from clew.cli.paint import painter
from clew.cli.screen import Screen
from clew.core.errors import AbortError, ClewError

logger = logging.getLogger(__name__)

_SHOWN_ERROR = 300


def run_prompt(arguments: Namespace) -> int:
    """Talk until the user leaves."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401, PLC0415 - gives `input` line editing and history
    screen = Screen(painter())
    desk = Desk(screen)
    with start_blocking_portal() as portal:
        opening = opened(arguments, on_event=screen, ask=desk.ask)
        with portal.wrap_async_context_manager(opening) as made:
            session = made.session
            screen.on_lost = session.abort
            watching = portal.start_task_soon(screen.watch)
            try:
                greet(made, screen)
                signal.signal(signal.SIGINT, desk.interrupt)
                for line in _lines(desk, screen):
                    _carry_out(line, made, portal=portal, screen=screen, desk=desk)
                    screen.check()
                screen.line(f"go on with: clew --resume {session.session_id}")
            finally:
                watching.cancel()
    return 0


def _lines(desk: Desk, screen: Screen) -> Iterator[str]:
    """Yield what the user types, until end of file, /quit, or Ctrl-C twice in a row."""
    warned = False
    while True:
        screen.check()
        try:
            line = desk.read("> ").strip()
        except EOFError:
            screen.line()
            return
        except KeyboardInterrupt:
            screen.line()
            if warned:
                return
            warned = True
            screen.line("press Ctrl-C again to leave")
            continue
        warned = False
        if leaves(line):
            return
        if line:
            yield line


def _carry_out(
    line: str, made: Opened, *, portal: BlockingPortal, screen: Screen, desk: Desk
) -> None:
    session = made.session
    before = portal.call(session.get_context_state)
    known = len(session.journal.entries)
    screen.by_hand = line.startswith("!")
    if not line.startswith(("!", "/")):
        screen.hint()
    task = portal.start_task_soon(_one_line, made, line)
    desk.wait(task, portal=portal, abort=session.abort)
    due = show_result(task, screen)
    after = portal.call(session.get_context_state)
    if after != before if due is None else due:
        screen.gauge(after, numbers(session.journal.entries[known:]))


async def _one_line(made: Opened, line: str) -> Reply:
    reply = await run_line(made.session, made.board, line)
    if reply is None:
        await made.session.run(line)
        return Reply(gauge=True)
    return reply


def show_result(task: "Future[Reply]", screen: Screen) -> bool | None:
    """Show how a line ended; returns whether the gauge is due, or None when it failed."""
    try:
        reply = task.result()
    except AbortError:
        screen.line("aborted; what had arrived is kept")
    except ClewError as error:
        screen.line(f"clew: {error}")
    except Exception as error:
        # The one place where a mistake of ours must not cost the user the prompt.
        if "CLEW_DEBUG" in os.environ:
            logger.exception("a line could not be carried out")
        what = f"{type(error).__name__}: {error}"
        screen.line(f"clew: unexpected: {one_line(what, _SHOWN_ERROR)}")
    else:
        screen.lines(*reply.lines)
        return reply.gauge
    return None
