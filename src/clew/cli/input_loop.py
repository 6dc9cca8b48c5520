"""Reads lines on the main thread; during a run it handles permission requests and Ctrl-C."""

import shutil
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from types import FrameType
from typing import TypeVar

from anyio.from_thread import BlockingPortal

from clew.cli.editor import LineEditor
from clew.cli.permission_prompt import (
    MAX_LINES,
    VIEW,
    add_bars,
    format_choices,
    format_request,
    parse_approval,
)
from clew.cli.screen import Screen
from clew.core.errors import SessionError
from clew.core.events import PermissionRequest
from clew.core.permissions import Approval
from clew.sdk.client import SessionClient

_T = TypeVar("_T")


class _Done:
    """The line has been executed."""


class _Abort:
    """Ctrl-C was pressed while a line is executed."""


class InputLoop:
    """Reads lines and answers questions on the main thread.

    Ctrl-C interrupts the reading of a line. At any other time it is a message to the loop that
    waits for the run, so it never interrupts the program between two steps.
    """

    def __init__(self, screen: Screen, editor: LineEditor) -> None:
        self._screen = screen
        self._editor = editor
        self._inbox: SimpleQueue[PermissionRequest | _Done | _Abort] = SimpleQueue()
        self._reading = False
        self._aborting = False
        self.left_by = 0
        """The signal that ended the program; 0 for none."""

    def read(self, prompt: str) -> str:
        """Read a line.

        Raises:
            KeyboardInterrupt: On Ctrl-C.
            EOFError: On Ctrl-D.
            OutputLost: Standard output is closed.
        """
        return self._read(self._editor.read, prompt)

    def ask_line(self, prompt: str) -> str:
        """Read an answer, which does not go into the history; raises as `read` does."""
        return self._read(self._editor.ask, prompt)

    def _read(self, read: Callable[[str], str], prompt: str) -> str:
        self._screen.end_line()
        self._screen.check()
        self._reading = True
        try:
            return read(prompt)
        finally:
            self._reading = False

    def interrupt(self, _number: int, _frame: FrameType | None) -> None:
        """Handle the signal that Ctrl-C sends."""
        if self._reading:
            raise KeyboardInterrupt
        self._aborting = True
        self._inbox.put(_Abort())

    def hang_up(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal that ends the program: abort the run, and read nothing more."""
        self.left_by = number
        self._aborting = True
        if self._reading:
            self._editor.leave()
        else:
            self._inbox.put(_Abort())

    def ask(self, request: PermissionRequest) -> None:
        """Queue a permission request; called from the session's event loop."""
        self._inbox.put(request)

    def wait(self, task: "Future[_T]", *, portal: BlockingPortal, session: SessionClient) -> None:
        """Answer permission requests until `task` is done; after Ctrl-C, abort and ask nothing."""
        while not self._inbox.empty():
            self._inbox.get()
        self._aborting = bool(self.left_by)
        if self._aborting:
            self._inbox.put(_Abort())
        task.add_done_callback(lambda _: self._inbox.put(_Done()))
        while True:
            match self._inbox.get():
                case _Done():
                    return
                case _Abort():
                    portal.call(session.abort)
                case PermissionRequest() as request:
                    approval = Approval.NO if self._aborting else self._ask_user(request)
                    if self._aborting:
                        portal.call(session.abort)
                    else:
                        portal.call(_answer, session, request.request_id, approval)

    def _ask_user(self, request: PermissionRequest) -> Approval:
        width = shutil.get_terminal_size().columns
        title, lines = format_request(request, width=width)
        hidden = len(lines) > MAX_LINES
        rules = request.project_rules
        choices = format_choices(session=request.session_scope, project=bool(rules), hidden=hidden)
        with self._screen.hold():
            self._screen.say("", title)
            self._screen.lines(*add_bars(lines, width=width))
            self._screen.say(f"({request.reason})", style="dim")
            self._screen.say(choices)
            while True:
                typed = self._answer("allow? ")
                if typed is None:
                    return Approval.NO
                if hidden and typed.strip().lower() in VIEW:
                    self._screen.lines(*add_bars(lines, width=width, limit=None))
                elif (answer := parse_approval(typed, project=bool(rules))) is not None:
                    break
                else:
                    self._screen.say(f"answer with one of: {choices}")
            if answer is Approval.PROJECT:
                self._screen.say(f"allowed in this folder: {', '.join(rules)}", style="dim")
        return answer

    def _answer(self, prompt: str) -> str | None:
        """Read an answer; None when there is none, which means no."""
        try:
            return None if self._aborting else self.ask_line(prompt)
        except EOFError:
            self._screen.line()
        except KeyboardInterrupt:
            self._screen.line()
            self._aborting = True
        return None


async def _answer(session: SessionClient, request_id: str, approval: Approval) -> None:
    # Another client may have answered first, or the run may be over.
    with suppress(SessionError):
        await session.answer(request_id, approval)
