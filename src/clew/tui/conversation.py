"""What the user sends to the session: lines, the queue of prompts, and answers to questions.

Calls run in the session's own thread. What comes back is applied in the thread of the terminal.
"""

import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from clew.core.entries import MessageAdded
from clew.core.errors import (
    AbortError,
    AlreadyRunning,
    ClewError,
    PromptCancelled,
    QueueFull,
    SessionError,
)
from clew.core.events import (
    EntryAdded,
    Event,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    Thinking,
    UserMessage,
)
from clew.core.ids import EntryId
from clew.core.messages import Role
from clew.core.permissions import Approval, PermissionMode
from clew.core.sanitize import sanitize_line
from clew.sdk.client import CommandOutcome, SessionClient
from clew.tui.blocks import Block, CommandReply, Notice, UserPrompt
from clew.tui.pending_lines import AcceptedLine, Ending, PendingLines

logger = logging.getLogger(__name__)

ABORTED: Final = "aborted; the partial answer is saved"
_MAX_ERROR = 300
_QUIT_HELP = f"  /{'quit, /exit':<14} exit; you can resume later"
_RETRY_AFTER = 0.1
_MODES = (PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS, PermissionMode.PLAN)
"""What Shift-Tab switches through."""

_T = TypeVar("_T")


class ConversationTerminal(Protocol):
    """What a conversation needs of the terminal; every call comes from its own thread."""

    def call(self, work: Callable[[], Awaitable[_T]], done: Callable[["Future[_T]"], None]) -> None:
        """Run `work` in the session's thread, and `done` afterwards in the terminal's."""
        ...

    def show(self, block: Block) -> None:
        """Print a block."""
        ...

    def give_back(self, text: str) -> None:
        """Put a line that could not be sent back into the input."""
        ...

    def apply_effect(self, effect: object) -> None:
        """Apply the effect of a command that concerns the terminal."""
        ...

    def later(self, seconds: float, work: Callable[[], None]) -> None:
        """Call a function after some time."""
        ...


class Conversation:
    """Sends lines, one run at a time; what is sent during a run waits in `queue`.

    Args:
        client: The session.
        terminal: Where results go.
        keys: Lines about the keys, for the help.
    """

    def __init__(
        self, client: SessionClient, terminal: ConversationTerminal, *, keys: str = ""
    ) -> None:
        self._keys = keys
        self._client = client
        self._terminal = terminal
        self._pending = PendingLines()
        self.queue: list[str] = []
        """Prompts and shell commands that wait for the end of the run."""
        self.builtins: frozenset[str] = frozenset()
        """The names of the commands that are not skills, as far as they are known."""
        self.is_held = False
        """True when the queue waits until the user sends it: after a failed run, for example."""
        self.previous: tuple[str, EntryId] | None = None
        """The newest prompt, and its entry."""
        self._prompt = ""

    @property
    def is_active(self) -> bool:
        """True while something runs, or a command is carried out."""
        return self._pending.is_active

    @property
    def is_idle(self) -> bool:
        """True when nothing runs and nothing can be sent."""
        return not (self.is_active or (self.queue and not self.is_held))

    def submit(self, line: str) -> None:
        """Send a line. Commands run at once; everything else waits for what runs to end."""
        if line.startswith("/"):
            self._execute(line)
        else:
            self.queue.append(line)
            self.is_held = False
            self.drain()

    def hold(self) -> None:
        """Keep the queue until the user sends it."""
        self.is_held = bool(self.queue)

    def release(self) -> None:
        """Send a queue that was held."""
        self.is_held = False
        self.drain()

    def take_queue(self) -> str:
        """Remove the newest prompts from the queue, or one shell command, to be edited."""
        lines = self.queue[-1:]
        del self.queue[-1:]
        while self.queue and not any(one.startswith("!") for one in (self.queue[-1], *lines)):
            lines.insert(0, self.queue.pop())
        self.is_held = self.is_held and bool(self.queue)
        return "\n".join(lines)

    def drain(self) -> None:
        """Send the next line of the queue if nothing runs."""
        if self.queue and not self.is_active and not self.is_held:
            self._execute(self.queue.pop(0))

    def resubmit(self, line: str, entry: EntryId) -> None:
        """Replace an earlier prompt: rewind the conversation to before it, then send the line."""
        command = f"/rewind conversation #{entry}"

        def finish(future: "Future[CommandOutcome]") -> None:
            outcome = self._result(future, "")
            if outcome is None:
                self._terminal.give_back(line)
            elif not outcome.success:
                self._terminal.show(CommandReply(text=f"clew: {outcome.message}", failed=True))
                self._terminal.give_back(line)
            else:
                self._terminal.show(Notice(outcome.message))
                self.queue.insert(0, line)
                self.release()

        self._terminal.call(partial(self._client.execute, command), finish)

    def abort(self) -> None:
        """Abort the run; the queue stays."""

        async def abort() -> None:
            self._client.abort()

        self._terminal.call(abort, _ignore)

    def answer(self, request_id: str, approval: Approval, reply: str = "") -> None:
        """Answer a permission request."""

        async def answer() -> None:
            # Another client may have answered first, or the run may be over.
            with suppress(SessionError):
                await self._client.answer(request_id, approval, reply=reply)

        self._terminal.call(answer, _ignore)

    def cycle_mode(self, current: str) -> None:
        """Switch to the next permission mode."""
        known = [str(mode) for mode in _MODES]
        place = known.index(current) + 1 if current in known else 0
        mode = _MODES[place % len(_MODES)]

        def finish(future: "Future[None]") -> None:
            self._result(future, "")

        self._terminal.call(partial(self._client.set_mode, mode), finish)

    def apply(self, event: Event) -> None:
        """Follow the session: which run has ended, and which prompt was the newest."""
        match event:
            case UserMessage(text=text):
                self._prompt = text
            case EntryAdded(entry=entry):
                match entry.body:
                    case MessageAdded(message=message) if message.role is Role.USER:
                        if self._prompt:
                            self.previous, self._prompt = (self._prompt, entry.id), ""
                    case _:
                        pass
            case Thinking(active=active):
                self._pending.is_working = active
            case RunCompleted(result=result) | RunInterrupted(result=result):
                ending = Ending(result)
                _finish(self._terminal, self._pending.end(result.run_id, ending), ending)
            case RunFailed(run_id=run_id, error_type=error_type):
                self.hold()
                ending = Ending(error_type=error_type)
                _finish(self._terminal, self._pending.end(run_id, ending), ending)
            case _:
                return
        self.drain()

    def _execute(self, line: str) -> None:
        number = self._pending.add(line)
        if is_echoed := self._is_builtin(line):
            self._terminal.show(UserPrompt(line))

        def finish(future: "Future[CommandOutcome]") -> None:
            self._pending.remove(number)
            outcome = self._result(future, line)
            if outcome is not None:
                if outcome.run_id is None and not is_echoed and outcome.kind != "shell":
                    self._terminal.show(UserPrompt(line))
                self._apply_outcome(outcome, line)
            self.drain()

        self._terminal.call(partial(self._client.execute, line), finish)

    def _is_builtin(self, line: str) -> bool:
        """Return True for a command that starts no run; a run shows its prompt itself."""
        name = line[1:].partition(" ")[0].lower()
        return line.startswith("/") and name in self.builtins

    def _apply_outcome(self, outcome: CommandOutcome, line: str) -> None:
        if outcome.run_id is not None:
            accepted = AcceptedLine(line, is_skill=outcome.kind == "skill")
            _finish(self._terminal, accepted, self._pending.accept(outcome.run_id, accepted))
            return
        for block in make_reply(outcome, line, keys=self._keys):
            self._terminal.show(block)
        if outcome.effect is not None:
            self._terminal.apply_effect(outcome.effect)

    def _result(self, future: "Future[_T]", line: str) -> _T | None:
        """Return the result of a call; None after an error, which is shown."""
        try:
            return future.result()
        except AbortError:
            self._terminal.show(Notice(ABORTED))
        except ClewError as error:
            self._reject(line, error)
        except Exception as error:
            # A bug must not end the prompt.
            if "CLEW_DEBUG" in os.environ:
                logger.exception("a line failed")
            what = sanitize_line(f"{type(error).__name__}: {error}", _MAX_ERROR)
            self._terminal.show(CommandReply(text=f"clew: unexpected error: {what}", failed=True))
        return None

    def _reject(self, line: str, error: ClewError) -> None:
        is_prompt = bool(line) and not line.startswith(("/", "!"))
        if isinstance(error, AlreadyRunning | QueueFull) and (is_prompt or line.startswith("!")):
            # Another client has the turn, or the run has not quite ended.
            self.queue.insert(0, line)
            self._terminal.later(_RETRY_AFTER, self.drain)
            return
        if line.startswith("!"):
            self._terminal.show(UserPrompt(line))  # Its output would have shown it.
        self._terminal.show(CommandReply(text=f"clew: {error}", failed=True))
        if is_prompt or (line and isinstance(error, PromptCancelled)):
            self._terminal.give_back(line)


def _finish(
    terminal: ConversationTerminal, accepted: AcceptedLine | None, ending: Ending | None
) -> None:
    """Give back a line that was never sent, or show the answer of a skill.

    No event has shown the answer of a skill that a subagent carried out.
    """
    if accepted is None or ending is None:
        return
    if ending.error_type == PromptCancelled.__name__:
        terminal.give_back(accepted.line)
        return
    result = ending.result if accepted.is_skill else None
    if result is not None and result.last_call is None and result.response.strip():
        terminal.show(CommandReply(text=result.response, style="markdown"))


def make_reply(outcome: CommandOutcome, line: str, *, keys: str = "") -> list[Block]:
    """Return the blocks that show what a command or a shell command did."""
    if outcome.kind == "shell":
        return []  # its events have shown it
    if not outcome.success:
        return [CommandReply(text=f"clew: {outcome.message}", failed=True)]
    if _is_shown(outcome.data) or not outcome.message:
        return []
    if isinstance(outcome.data.get("agent"), str):
        return [CommandReply(text=outcome.message, style="markdown")]
    text = outcome.message
    if outcome.name == "help" and not line.strip().partition(" ")[2]:
        text = "\n".join([text, _QUIT_HELP, *(["", keys] if keys else [])])
    return [CommandReply(text=text, style="diff" if outcome.name == "diff" else "text")]


def is_quit(line: str) -> bool:
    """Return True for a line that leaves the prompt."""
    return line.lower().split(maxsplit=1)[:1] in (["/quit"], ["/exit"])


def _is_shown(data: Mapping[str, object]) -> bool:
    """Return True for a command whose events have shown its result already: a compaction."""
    return data.get("deferred") is False


def _ignore(future: "Future[Any]") -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        logger.debug("a call to the session failed: %s", error)
