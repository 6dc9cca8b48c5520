"""Reads lines on the main thread, and answers permission requests and Ctrl-C during a run."""

import shutil
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from types import FrameType
from typing import TypeVar

from anyio.from_thread import BlockingPortal

from clew.cli.editor import LineEditor
from clew.cli.question import (
    MOST_LINES,
    VIEW,
    approval,
    barred,
    choices,
    question,
)
from clew.cli.screen import Screen
from clew.core.access import Approval
from clew.core.errors import SessionError
from clew.core.events import PermissionRequest
from clew.sdk.client import SessionClient

_T = TypeVar("_T")


class _Done:
    """The line is carried out."""


class _Abort:
    """Ctrl-C was pressed while a line is being carried out."""


class InputLoop:
    """Reads lines and answers questions on the main thread.

    Ctrl-C breaks off the reading of a line; at any other time it is a message to the loop
    that waits for the run, so that it can never hit the program between two steps.
    """

    def __init__(self, screen: Screen, editor: LineEditor) -> None:
        self._screen = screen
        self._editor = editor
        self._inbox: SimpleQueue[PermissionRequest | _Done | _Abort] = SimpleQueue()
        self._reading = False
        self._aborting = False
        self.left_by = 0
        """The signal that asked to end; 0 for none."""

    def read(self, prompt: str) -> str:
        """Read a line.

        Raises:
            KeyboardInterrupt: On Ctrl-C.
            EOFError: On Ctrl-D.
            OutputLost: Nobody can see what would be asked.
        """
        return self._read(self._editor.read, prompt)

    def ask_line(self, prompt: str) -> str:
        """Read an answer that is remembered nowhere; raises as `read` does."""
        return self._read(self._editor.ask, prompt)

    def _read(self, how: Callable[[str], str], prompt: str) -> str:
        self._screen.end_line()
        self._screen.check()
        self._reading = True
        try:
            return how(prompt)
        finally:
            self._reading = False

    def interrupt(self, _number: int, _frame: FrameType | None) -> None:
        """Handle the signal that Ctrl-C sends."""
        if self._reading:
            raise KeyboardInterrupt
        self._aborting = True
        self._inbox.put(_Abort())

    def hang_up(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal that asks to end: what is under way is aborted, nothing more is read."""
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
        """Answer permission requests until `task` is done; Ctrl-C aborts, and asks no more."""
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
                    approval = Approval.NO if self._aborting else self._settle(request)
                    if self._aborting:
                        portal.call(session.abort)
                    else:
                        portal.call(_answer, session, request.request_id, approval)

    def _settle(self, request: PermissionRequest) -> Approval:
        width = shutil.get_terminal_size().columns
        title, lines = question(request, width=width)
        hidden = len(lines) > MOST_LINES
        rules = request.project_rules
        offered = choices(session=request.session_scope, project=bool(rules), hidden=hidden)
        with self._screen.hold():
            self._screen.say("", title)
            self._screen.lines(*barred(lines, width=width))
            self._screen.say(f"({request.reason})", style="dim")
            self._screen.say(offered)
            while True:
                typed = self._answer("allow? ")
                if typed is None:
                    return Approval.NO
                if hidden and typed.strip().lower() in VIEW:
                    self._screen.lines(*barred(lines, width=width, most=None))
                elif (answer := approval(typed, project=bool(rules))) is not None:
                    break
                else:
                    self._screen.say(f"please answer with one of: {offered}")
            if answer is Approval.PROJECT:
                self._screen.say(f"allowed in this folder: {', '.join(rules)}", style="dim")
        return answer

    def _answer(self, prompt: str) -> str | None:
        """Read an answer; None when there is none, which is a no."""
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
