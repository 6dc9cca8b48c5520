"""`clew -p`: one prompt, one answer, for people in a hurry and for scripts.

A prompt that begins with a command, such as `/context` or the name of a skill, is carried out.
"""

import os
import select
import stat
import sys
from argparse import Namespace
from collections.abc import Mapping

import anyio
import msgspec

from clew.cli.harmless import harmless, harmless_json, one_line
from clew.cli.leaving import exit_code, signals
from clew.cli.lines import Reply, command_in, nearest, run_command
from clew.cli.opening import Desired, Opened, opened
from clew.cli.paint import stop_note
from clew.cli.streams import OutputLost, reader_left, tell, write_out
from clew.core.access import Access, Decision
from clew.core.context_state import ContextState
from clew.core.errors import ClewError, ConfigError, SessionError
from clew.core.events import Event, RunEnded, TextDelta, ToolStarted, Warned
from clew.core.usage import Usage
from clew.sdk.interactive import InteractiveSession

_PIPE_SECONDS = 3.0
"""How long a pipe that nobody writes to is waited for."""
_SHOWN_TARGET = 200


class Begun(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="session"):
    """The first line of `stream-json`."""

    session_id: str
    model: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="result"):
    """What `--output-format json` prints, and the last line of `stream-json`."""

    session_id: str
    text: str
    stop_reason: str
    usage: Usage | None
    context: ContextState
    used_percentage: float
    error: str = ""
    data: Mapping[str, object] | msgspec.UnsetType = msgspec.UNSET
    """What a command says, as facts; only there after a command."""


def run_print(arguments: Namespace) -> int:
    """Answer the prompt; with `-` it is read from standard input, which otherwise follows it."""
    prompt = _prompt(arguments.prompt)
    if not prompt.strip():
        raise ConfigError("the prompt is empty; write it after -p, or pipe it to `clew -p -`")
    printer = Printer(arguments.output_format)
    try:
        return anyio.run(_print, arguments, prompt, printer)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        tell(f"aborted; what had arrived is saved{printer.how_to_resume}")
        return 130


async def _print(arguments: Namespace, prompt: str, printer: "Printer") -> int:
    desired = Desired(on_event=printer, on_denied=_tell_denied)
    async with opened(arguments, desired) as made:
        printer.begin(made)
        printer.check()
        failure = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(printer.watch)
            tasks.start_soon(_heed_signals, made, printer)
            try:
                await _carry_out(made, prompt, printer)
            except ClewError as error:
                failure = error
            tasks.cancel_scope.cancel()
        printer.check()
        if printer.left_by:
            printer.end_line()
            tell(f"ended by a signal; what had arrived is saved{printer.how_to_resume}")
            return exit_code(printer.left_by)
        if failure is not None and printer.style == "text":
            printer.end_line()
            raise failure
        return printer.end(error="" if failure is None else str(failure))


async def _heed_signals(made: Opened, printer: "Printer") -> None:
    """Abort when the program is asked to end, so that what had arrived is kept."""
    with anyio.open_signal_receiver(*signals()) as received:
        async for number in received:
            printer.left_by = number
            made.session.abort()


async def _carry_out(made: Opened, prompt: str, printer: "Printer") -> None:
    line = prompt.strip()
    command = command_in(made, line)
    if command is None:
        if line.startswith("/") and len(line.split()) == 1 and (near := nearest(made, line[1:])):
            raise SessionError(f"there is no command {one_line(line, 40)}; did you mean /{near}?")
        await made.session.submit(prompt)
        return
    reply = await run_command(made, command, line)
    if reply.pick is not None or reply.go_to is not None:
        raise SessionError(
            f"/{command.name} is for the interactive prompt; here --continue, --resume ID and"
            " --fork ID choose the session, and without them a new one begins"
        )
    printer.tell(reply)


class Printer:
    """Writes events in one of the formats; without a reader it aborts the session."""

    def __init__(self, style: str) -> None:
        self.style = style
        self._session: InteractiveSession | None = None
        self._early: list[Event] = []
        self._ended = RunEnded(text="")
        self._data: Mapping[str, object] | msgspec.UnsetType = msgspec.UNSET
        self._open_line = False
        self._lost: OutputLost | None = None
        self.left_by = 0
        """The signal that asked to end; 0 for none."""

    @property
    def how_to_resume(self) -> str:
        """The command that goes on with this session, if there is one."""
        return f" (clew --resume {self._session.get_session_id()})" if self._session else ""

    def begin(self, made: Opened) -> None:
        """Say which session it is, and what happened while it was opened."""
        self._session = made.session
        if self.style == "stream-json":
            session_id = made.session.get_session_id()
            self._write_json(Begun(session_id=session_id, model=made.choice.model))
        for event in self._early:
            self._show(event)

    def __call__(self, event: Event) -> None:
        """Show one event."""
        if self._session is None:
            self._early.append(event)
        else:
            self._show(event)

    async def watch(self) -> None:
        """Notice that the reader of a pipe left, also while there is nothing to write."""
        self._lose(await reader_left())

    def check(self) -> None:
        """Raise `OutputLost` if nobody can read the answer."""
        if self._lost is not None:
            raise self._lost

    def tell(self, reply: Reply) -> None:
        """Write what a command brought beside events."""
        text = "\n".join(filter(None, (*reply.lines, reply.output, reply.answer)))
        if text:
            self._ended = RunEnded(text=text)
            if self.style == "text":
                self._write(harmless(text))
                self._open_line = not text.endswith("\n")
        if reply.data is not None:
            self._data = reply.data

    def end_line(self) -> None:
        """End the line that streamed words left open."""
        if self._open_line:
            self._write("\n")
            self._open_line = False

    def end(self, *, error: str = "") -> int:
        """Write what stands at the end; returns the exit code."""
        if self.style == "text":
            self.end_line()
        else:
            self._write_json(self._outcome(error))
        self.check()
        note = stop_note(self._ended.stop_reason, self._ended.detail)
        if note:
            tell(note)
        if self.style != "text" or self._ended.text.strip():
            return 1 if error else 0
        if not note:
            tell("the answer is empty")
        return 1

    def _show(self, event: Event) -> None:
        if isinstance(event, RunEnded):
            self._ended = event
        if self.style == "stream-json":
            self._write_json(event)
            return
        match event:
            case TextDelta(text=text) if self.style == "text":
                self._write(harmless(text))
                self._open_line = not text.endswith("\n")
            case ToolStarted() if self.style == "text":
                self.end_line()
            case Warned(text=text):
                tell(text)
            case _:
                pass

    def _outcome(self, error: str) -> Outcome:
        assert self._session is not None  # noqa: S101 - begun before it ends
        state = self._session.get_context_state()
        return Outcome(
            session_id=self._session.get_session_id(),
            text=self._ended.text,
            stop_reason=self._ended.stop_reason,
            usage=self._ended.usage,
            context=state,
            used_percentage=state.used_percentage,
            error=error,
            data=self._data,
        )

    def _write_json(self, value: msgspec.Struct) -> None:
        self._write(harmless_json(msgspec.json.encode(value).decode()) + "\n")

    def _write(self, text: str) -> None:
        if self._lost is not None:
            return
        try:
            write_out(text)
        except OutputLost as lost:
            self._lose(lost)

    def _lose(self, lost: OutputLost) -> None:
        self._lost = lost
        if self._session is not None:
            self._session.abort()


def _prompt(written: str) -> str:
    if written == "-":
        return sys.stdin.read()
    piped = _piped()
    return f"{written}\n\n{piped}" if piped.strip() else written


def _piped() -> str:
    """Return what a pipe brings; nothing for a terminal, a file, or a pipe that stays silent."""
    if not stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode):
        return ""
    ready, _, _ = select.select([sys.stdin], [], [], _PIPE_SECONDS)
    if not ready:
        tell("nothing came through the pipe at standard input; going on without it")
        return ""
    return sys.stdin.read()


def _tell_denied(access: Access, decision: Decision, remedy: str) -> None:
    target = one_line(access.target, _SHOWN_TARGET)
    tell(f"denied: {access.tool} {target} ({decision.reason}); {remedy}")
