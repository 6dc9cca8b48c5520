"""The prompt without a live area: for screen readers, dumb terminals, pipes and `--plain`.

The main thread reads lines and asks questions, and prints finished blocks. Ctrl-C always reaches
it: during a run it aborts the run, and pressed twice at the prompt it exits.
"""

import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import chain, takewhile
from queue import SimpleQueue
from types import FrameType
from typing import TypeAlias, TypeVar

from clew.core.events import Envelope, Event, PermissionRequest, PermissionResolved
from clew.core.permissions import Approval
from clew.sdk.client import CopyText, SessionClient, SessionSnapshot
from clew.tui.blocks import Block, CommandReply, UserPrompt
from clew.tui.conversation import Conversation, is_quit
from clew.tui.history import take_last_turn
from clew.tui.leave import Leave, Quit, leave_for
from clew.tui.line_reader import LineReader
from clew.tui.plain_questions import ask_in_lines
from clew.tui.rendering import render_block
from clew.tui.running_tasks import describe_attention
from clew.tui.standard_output import OutputLost, write_out
from clew.tui.status import StatusTracker, status_line
from clew.tui.theme import Theme
from clew.tui.transcript import Transcript, find_shown

_T = TypeVar("_T")
Start: TypeAlias = "Callable[[Callable[[], Awaitable[object]]], Future[object]]"


class _Interrupted:
    """Ctrl-C was pressed while a line is carried out."""


class PlainApp:
    """One session on a terminal that can only append lines, or on a pipe.

    Args:
        client: The session.
        start: Runs a function in the session's thread.
        theme: How blocks are shown.
        width: Returns the columns of a line; very many where the output is not a terminal.
    """

    def __init__(
        self,
        client: SessionClient,
        start: Start,
        *,
        theme: Theme,
        width: Callable[[], int],
    ) -> None:
        self._start = start
        self._theme, self._width = theme, width
        self._inbox: SimpleQueue[Envelope | Callable[[], None] | _Interrupted] = SimpleQueue()
        self._transcript = Transcript()
        self._status = StatusTracker()
        self._conversation = Conversation(client, self)
        self._last: Block | None = None
        self._leave: Leave | None = None
        self._lines = LineReader()
        self._is_aborting = False

    def start(self, now: SessionSnapshot) -> None:
        """Take the state of a session that was just opened, and show its last turn."""
        self._status.start(now)
        for block in take_last_turn(self._transcript.join(now, time.time())):
            self._print(block)
        for request in now.permission_requests:
            self._inbox.put(partial(self._ask, request))

    def receive(self, envelope: Envelope) -> None:
        """Take an event of the session; called from any thread."""
        self._inbox.put(envelope)
        if self._lines.is_reading:
            _show_hint(envelope.event)

    def run(self, first: str = "") -> Leave:
        """Read lines and carry them out, until the user leaves or opens another session.

        Args:
            first: A line to carry out before the first one is read.

        Raises:
            OutputLost: Standard output is closed.
        """
        self._leave = None
        self._catch_up()
        typed = takewhile(lambda line: not is_quit(line), self._lines.read_all(self._catch_up))
        for line in chain([first] if first else [], typed):
            if (block := find_shown(self._transcript, line)) is not None:
                self._print(block, expanded=True)
                continue
            self._carry_out(line)
            if self._leave is not None:
                return self._leave
        self._catch_up()
        return Quit()

    def read_line(self, prompt: str) -> str:
        """Read a line that is no prompt; signals end it as they end the reading of prompts.

        Raises:
            EOFError: There is no more input, or a signal ends the program.
            KeyboardInterrupt: The user pressed Ctrl-C.
            OutputLost: Standard output is closed.
        """
        return self._lines.read(prompt)

    def interrupt(self, _number: int, _frame: FrameType | None) -> None:
        """Handle the signal that Ctrl-C sends."""
        if self._lines.is_reading:
            raise KeyboardInterrupt
        self._inbox.put(_Interrupted())

    def lose(self, lost: OutputLost) -> None:
        """Record that the reader of the output is gone; called from any thread."""
        self._lines.lost = lost
        self._inbox.put(_Interrupted())

    def hang_up(self) -> None:
        """Abort the run and read nothing more; called by the handler of a signal."""
        self._lines.is_closed = True
        self._inbox.put(_Interrupted())
        if self._lines.is_reading:
            raise EOFError

    # What the conversation needs.

    def call(self, work: Callable[[], Awaitable[_T]], done: "Callable[[Future[_T]], None]") -> None:
        """Run `work` in the session's thread, and `done` afterwards in this one."""
        future: Future[_T] = self._start(work)  # type: ignore[assignment]
        future.add_done_callback(lambda ended: self._inbox.put(lambda: done(ended)))

    def show(self, block: Block) -> None:
        """Print a block; a prompt is on the screen already, because it was typed there."""
        numbered = self._transcript.add(block)
        if not isinstance(block, UserPrompt):
            self._print(numbered)

    def give_back(self, text: str) -> None:
        """Say that a line was not sent."""
        self.show(CommandReply(text=f"not sent: {text}", failed=True))

    def apply_effect(self, effect: object) -> None:
        """Apply the effect of a command: open another session, or print a text to copy."""
        if isinstance(effect, CopyText):
            self.show(CommandReply(text=effect.text))
        else:
            self._leave = leave_for(effect)

    def later(self, _seconds: float, work: Callable[[], None]) -> None:
        """Call a function soon."""
        self._inbox.put(work)

    # Lines.

    def _carry_out(self, line: str) -> None:
        before = self._status.status
        self._is_aborting = self._lines.is_closed
        self._conversation.submit(line)
        while not self._conversation.is_idle:
            self._take(self._inbox.get())
        self._take_all()
        self._lines.check()
        if self._status.status != before:
            parts = status_line(self._status.status, self._width())
            write_out(self._theme.encodable("".join(part.text for part in parts)) + "\n")

    def _catch_up(self) -> None:
        """Show what happened while no line was carried out."""
        self._is_aborting = self._lines.is_closed
        self._take_all()

    def _take_all(self) -> None:
        while not self._inbox.empty():
            self._take(self._inbox.get())

    def _take(self, item: "Envelope | Callable[[], None] | _Interrupted") -> None:
        match item:
            case Envelope():
                self._apply(item)
            case _Interrupted():
                self._is_aborting = True
                self._conversation.abort()
            case work:
                work()

    def _apply(self, envelope: Envelope) -> None:
        self._status.update(envelope)
        for block in self._transcript.apply(envelope):
            if not isinstance(block, UserPrompt):
                self._print(block)
        if isinstance(envelope.event, PermissionRequest):
            self._ask(self._transcript.tasks.sign(envelope.event, envelope.task_id))
        elif not envelope.task_id and not isinstance(envelope.event, PermissionResolved):
            self._conversation.apply(envelope.event)

    def _print(self, block: Block, *, expanded: bool = False) -> None:
        write_out(
            render_block(
                block,
                width=self._width(),
                theme=self._theme,
                expanded=expanded,
                after=self._last,
            )
        )
        self._last = block

    # Questions.

    def _ask(self, request: PermissionRequest) -> None:
        answer = None
        if not self._is_aborting:
            answer = ask_in_lines(
                request, theme=self._theme, width=self._width(), read=self._read_answer
            )
        approval, reply = answer or (Approval.NO, "")
        self._conversation.answer(request.request_id, approval, reply)
        if answer is None and self._is_aborting:
            self._conversation.abort()

    def _read_answer(self, prompt: str) -> str | None:
        """Read an answer; None when there is none, which means no."""
        try:
            return self._lines.read(self._theme.encodable(prompt))
        except EOFError:
            write_out("\n")
        except KeyboardInterrupt:
            write_out("\n")
            self._is_aborting = True
        return None


def _show_hint(event: Event) -> None:
    """Say that something waits; the line that is being read cannot be interrupted."""
    if hint := describe_attention(event):
        with suppress(OutputLost):
            write_out(f"\n{hint}; press Enter to see it\n")
