"""Runs the terminal UI: opens sessions one after the other, each with an application of its own.

The session runs in the event loop of another thread, so a long computation never delays a key.
"""

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from clew.core.errors import ClewError, EventsExpired
from clew.core.events import EntryAdded, Envelope, Warned
from clew.core.sanitize import sanitize_line
from clew.core.text import format_ago, pluralize
from clew.sdk.client import SessionSnapshot
from clew.sdk.folders import user_folder, working_folder
from clew.sdk.opened_session import ListedSession, OpenedSession, SessionOpener
from clew.sdk.prompt_history import PromptHistory
from clew.tui.blocks import Block, Notice
from clew.tui.leave import Leave, Open, Pick
from clew.tui.options import load_options
from clew.tui.picker import Row, can_draw, pick
from clew.tui.plain import PlainApp
from clew.tui.signals import exit_code, handle_signals
from clew.tui.standard_output import wait_for_reader_exit, write_out
from clew.tui.theme import Theme, make_theme, wants_colours

MAX_SESSIONS: Final = 50
_MAX_HEADING: Final = 60
_WIDE: Final = 1_000
"""The width of lines where standard output is not a terminal, which would wrap them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOptions:
    """How the terminal UI is run."""

    environ: Mapping[str, str] | None = None
    """Environment variables for the session; those of the process by default."""
    plain: bool = False
    """No live area and no colours; lines are read with `input`."""
    first: str = ""
    """A line to carry out at the start."""


def run(open_session: SessionOpener, options: ProgramOptions) -> int:
    """Run sessions until the user leaves; returns the exit code.

    Args:
        open_session: Opens them.
        options: How to run it.

    Raises:
        ServerUnreachable: The session is on a server that does not answer any more.
    """
    session_id, first, again = "", options.first, False
    is_live = not options.plain and can_draw(os.environ.get("TERM", ""))
    with silence_keyboard() if is_live else nullcontext(), start_blocking_portal() as portal:
        while True:
            program = _Program(portal, options, first=first)
            leave = program.run(open_session(session_id, again=again), again=again)
            if program.left_by:
                return exit_code(program.left_by)
            if not isinstance(leave, Open):
                return 0
            session_id, first, again = leave.session_id, "", True


if sys.platform == "win32":

    @contextmanager
    def silence_keyboard() -> Iterator[None]:
        """Do nothing: the console shows keys only when they are read."""
        yield

else:
    import termios

    @contextmanager
    def silence_keyboard() -> Iterator[None]:
        """Keep the terminal from showing keys while nothing reads them."""
        try:
            before = termios.tcgetattr(sys.stdin)
        except (termios.error, OSError, ValueError):
            yield
            return
        silent = termios.tcgetattr(sys.stdin)
        silent[3] &= ~termios.ECHO
        termios.tcsetattr(sys.stdin, termios.TCSANOW, silent)
        try:
            yield
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


class _Program:
    """One session."""

    def __init__(self, portal: BlockingPortal, options: ProgramOptions, *, first: str) -> None:
        self._portal, self._options, self._first = portal, options, first
        self._is_live = not options.plain and can_draw(os.environ.get("TERM", ""))
        self._terminal = load_options(working_folder(), options.environ)
        self._theme = terminal_theme(plain=not self._is_live, name=self._terminal.theme)
        self.left_by = 0
        """The signal that ended the program; 0 when the user left."""
        self._has_entries = False
        self._lost: ClewError | None = None
        """Why the events of the session ended before the user left."""

    def run(self, opening: AbstractAsyncContextManager[OpenedSession], *, again: bool) -> Leave:
        """Run the session; returns what comes next."""
        with self._portal.wrap_async_context_manager(opening) as opened:
            now = self._portal.call(opened.client.snapshot)
            self._has_entries = opened.resumed
            run = self._run_live if self._is_live else self._run_plain
            leave = run(opened, now, list(greet(opened, now, again=again)))
            if isinstance(self._lost, EventsExpired):
                return Open(now.session_id)
            if self._has_entries and not isinstance(leave, Open):
                write_out(f"resume with: clew {opened.resume_flags} {now.session_id}\n")
            if self._lost is not None:
                raise self._lost
            return leave

    def _run_live(
        self,
        opened: OpenedSession,
        now: SessionSnapshot,
        blocks: Sequence[Block],
    ) -> Leave:
        # Slow to load: not for `--plain` and pipes.
        from clew.tui.app import App, AppOptions  # noqa: PLC0415
        from clew.tui.keys import read_typeahead  # noqa: PLC0415
        from clew.tui.terminal import does_reflow, open_terminal  # noqa: PLC0415

        terminal = open_terminal(os.environ)
        app = App(
            opened.client,
            self._portal.start_task_soon,
            history=PromptHistory(user_folder() / "history", opened.list_secrets),
            folder=Path(now.cwd),
            terminal=terminal,
            options=AppOptions(
                theme=self._theme,
                terminal=self._terminal,
                reflows=does_reflow(os.environ),
                term=os.environ.get("TERM", ""),
            ),
        )
        for block in blocks:
            app.show(block)
        app.start(now)
        with self._attach(opened, now, app.receive, app.hang_up):
            while True:
                with read_typeahead() as keys:
                    app.type_ahead(keys)
                    with handle_signals(lambda number, _: self._hang_up(number, app.hang_up)):
                        leave = anyio.run(app.run, self._first)
                self._first = ""
                if not isinstance(leave, Pick):
                    return leave
                if (other := self._pick(opened, leave.candidates)) is not None:
                    return Open(other)

    def _run_plain(
        self,
        opened: OpenedSession,
        now: SessionSnapshot,
        blocks: Sequence[Block],
    ) -> Leave:
        app = PlainApp(
            opened.client, self._portal.start_task_soon, theme=self._theme, width=line_width
        )
        for block in blocks:
            app.show(block)
        app.start(now)

        async def watch() -> None:
            app.lose(await wait_for_reader_exit())
            opened.client.abort()

        before = signal.signal(signal.SIGINT, app.interrupt)
        watcher = self._portal.start_task_soon(watch)
        try:
            with (
                self._attach(opened, now, app.receive),
                handle_signals(lambda number, _: self._hang_up(number, app.hang_up)),
            ):
                while True:
                    leave = app.run(self._first)
                    self._first = ""
                    if not isinstance(leave, Pick):
                        return leave
                    other = self._pick(opened, leave.candidates, read=app.read_line)
                    if other is not None:
                        return Open(other)
        finally:
            signal.signal(signal.SIGINT, before)
            watcher.cancel()

    @contextmanager
    def _attach(
        self,
        opened: OpenedSession,
        now: SessionSnapshot,
        receive: Callable[[Envelope], None],
        leave: Callable[[], None] = lambda: None,
    ) -> Iterator[None]:
        """Bring the session's events to the application in the `with` block.

        A session that is out of reach for good ends the application.
        """

        def notify(text: str) -> None:
            event, at = Warned(text), time.time()
            receive(Envelope(seq=now.seq, session_id=now.session_id, at=at, event=event))

        async def pump() -> None:
            try:
                async with aclosing(opened.client.events(after=now.seq)) as events:
                    async for envelope in events:
                        self._has_entries |= isinstance(envelope.event, EntryAdded)
                        receive(envelope)
            except ClewError as error:
                self._lost = error
                notify(str(error))
                leave()

        for envelope in opened.early:
            if envelope.seq <= now.seq:
                receive(envelope)
        opened.listen(notify)
        pumping = self._portal.start_task_soon(pump)
        try:
            yield
        finally:
            pumping.cancel()

    def _hang_up(self, number: int, leave: Callable[[], None]) -> None:
        self.left_by = number
        leave()

    def _pick(
        self,
        opened: OpenedSession,
        candidates: tuple[str, ...],
        *,
        read: Callable[[str], str] = input,
    ) -> str | None:
        """List sessions and ask which one to open; an empty id is a new one, None is to stay."""
        found = self._portal.call(opened.other_sessions)
        records = [one for one in found if not candidates or one.id in candidates][:MAX_SESSIONS]
        if not records:
            write_out("there are no other sessions in this folder\n")
            return None
        rows = [Row(describe_session(record)) for record in records]
        place = pick(
            "Which session?",
            [*rows, Row("a new session", key="n")],
            theme=self._theme,
            live=self._is_live,
            read=read,
        )
        if place is None:
            return None
        return records[place].id if place < len(records) else ""


def choose_session(found: Sequence[ListedSession], options: ProgramOptions) -> str | None:
    """Let the user choose one of these sessions; None if there is none, or no choice."""
    live = not options.plain and can_draw(os.environ.get("TERM", ""))
    theme = terminal_theme(plain=not live)
    if not found:
        write_out("there are no sessions here yet; clew starts one\n")
        return None
    records = found[:MAX_SESSIONS]
    rows = [Row(describe_session(record)) for record in records]
    place = pick("Which session do you want to resume?", rows, theme=theme, live=live)
    return None if place is None else records[place].id


def describe_session(record: ListedSession) -> str:
    """Return a stored session on one line: its title, size and age."""
    title = sanitize_line(record.heading, _MAX_HEADING) or record.id
    age = format_ago(record.updated_at, time.time())
    return f"{title}  ({pluralize(record.messages, 'message')}, {age})"


def terminal_theme(*, plain: bool, name: str = "dark") -> Theme:
    """Return the theme for standard output."""
    colours = wants_colours(os.environ, is_terminal=sys.stdout.isatty())
    encoding = sys.stdout.encoding or "utf-8"
    return make_theme(name, plain=plain, colours=colours, encoding=encoding)


def line_width() -> int:
    """Return the columns of a line of standard output."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDE


def greet(opened: OpenedSession, now: SessionSnapshot, *, again: bool) -> Iterator[Block]:
    """Yield the model and the permission mode; for a resumed session, its name and size.

    Args:
        opened: The session.
        now: Its state.
        again: True when another session was open before; skips what has not changed.
    """
    if not again:
        yield from map(Notice, opened.greet(now))
    if opened.resumed:
        entries = pluralize(now.last_entry, "entry", "entries")
        yield Notice(f"session {now.name or now.session_id}: {entries}")
    if not again:
        yield Notice("/help lists the commands, !ls runs a shell command, Ctrl-D exits")
