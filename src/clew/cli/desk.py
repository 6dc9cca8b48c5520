"""What lands before the person at the keyboard: questions, and Ctrl-C."""

import shutil
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import SimpleQueue
from types import FrameType
from typing import TypeVar

import anyio
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
from clew.core.access import Access, Approval, Decision

_T = TypeVar("_T")


@dataclass(slots=True, kw_only=True)
class _Question:
    access: Access
    decision: Decision
    answer: Approval = Approval.NO
    answered: anyio.Event = field(default_factory=anyio.Event)


class _Done:
    """The line is carried out."""


class _Abort:
    """Ctrl-C was pressed while a line is being carried out."""


class Desk:
    """Reads lines and answers questions on the main thread.

    Ctrl-C breaks off the reading of a line; at any other time it is a message to the loop
    that waits for the run, so that it can never hit the program between two steps.
    """

    def __init__(self, screen: Screen, editor: LineEditor) -> None:
        self._screen = screen
        self._editor = editor
        self._inbox: SimpleQueue[_Question | _Done | _Abort] = SimpleQueue()
        self._reading = False
        self._aborting = False
        self.left_by = 0
        """The signal that asked to end; 0 for none."""
        self.keeps_rules = False
        """True where something can be allowed for longer than a session."""

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

    async def ask(self, access: Access, decision: Decision) -> Approval:
        """Put a question to the person; called from the session's loop."""
        asked = _Question(access=access, decision=decision)
        self._inbox.put(asked)
        await asked.answered.wait()
        return asked.answer

    def wait(
        self, task: "Future[_T]", *, portal: BlockingPortal, abort: Callable[[], object]
    ) -> None:
        """Answer questions until `task` is done; Ctrl-C calls `abort`, and asks no more."""
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
                    portal.call(abort)
                case _Question() as asked:
                    if not self._aborting:
                        self._settle(asked)
                    if self._aborting:
                        portal.call(abort)
                    portal.call(asked.answered.set)

    def _settle(self, asked: _Question) -> None:
        width = shutil.get_terminal_size().columns
        title, lines = question(asked.access, width=width)
        hidden = len(lines) > MOST_LINES
        rules = asked.decision.project_rules if self.keeps_rules else ()
        session = asked.decision.session_scope
        offered = choices(session=session, project=bool(rules), hidden=hidden)
        with self._screen.hold():
            self._screen.say("", title)
            self._screen.lines(*barred(lines, width=width))
            self._screen.say(f"({asked.decision.reason})", style="dim")
            self._screen.say(offered)
            while True:
                typed = self._answer("allow? ")
                if typed is None:
                    return
                if hidden and typed.strip().lower() in VIEW:
                    self._screen.lines(*barred(lines, width=width, most=None))
                elif (answer := approval(typed, project=bool(rules))) is not None:
                    asked.answer = answer
                    break
                else:
                    self._screen.say(f"please answer with one of: {offered}")
            if asked.answer is Approval.PROJECT:
                self._screen.say(
                    f"allowed in this folder from now on: {', '.join(rules)}", style="dim"
                )

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
