"""`clew -p`: run one prompt and print the answer.

A prompt that starts with a command, such as `/context` or the name of a skill, runs the command.
"""

import os
import select
import stat
import sys
from argparse import Namespace
from collections.abc import Mapping

import anyio
import msgspec

from clew.cli.argument_parser import UsageError
from clew.cli.arguments import session_spec
from clew.cli.environment import own_environment
from clew.cli.paint import stop_note
from clew.cli.replies import LineReply, make_reply
from clew.cli.streams import OutputLost, wait_for_reader_exit, write_err, write_out
from clew.core.context_state import ContextState
from clew.core.errors import ClewError, ConfigError, SessionError
from clew.core.events import (
    Envelope,
    Event,
    PermissionDenied,
    RunCompleted,
    RunInterrupted,
    TextDelta,
    ToolStarted,
    Warned,
)
from clew.core.results import ExecutionResult
from clew.core.sanitize import sanitize, sanitize_json, sanitize_line
from clew.core.text import make_encodable
from clew.core.usage import Usage
from clew.sdk.client import PromptInput, SessionClient, run_line, wait_for_run
from clew.sdk.input_line import similar_command
from clew.sdk.launch import launch
from clew.tui.signals import ending_signals, exit_code

_PIPE_SECONDS = 3.0
"""How long to wait for the first input from a pipe."""
_MAX_TARGET = 200


class StreamStart(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="session"):
    """The first line of `stream-json`."""

    session_id: str
    model: str


class PrintResult(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="result"):
    """What `--output-format json` prints, and the last line of `stream-json`."""

    session_id: str
    text: str
    stop_reason: str
    usage: Usage | None
    context: ContextState
    used_percentage: float
    error: str = ""
    data: Mapping[str, object] | msgspec.UnsetType = msgspec.UNSET
    """The result of a command as data; only after a command."""


def run_print(arguments: Namespace) -> int:
    """Run the prompt; `-` reads it from standard input, otherwise piped input is appended."""
    if arguments.resume == "":
        raise UsageError(
            "--resume needs the id of a session in print mode; `clew sessions` lists them, and"
            " --continue resumes the newest"
        )
    prompt = _read_prompt(arguments.prompt)
    if not prompt.strip():
        raise ConfigError("the prompt is empty; pass it to -p, or pipe it to `clew -p -`")
    printer = Printer(arguments.output_format)
    try:
        return anyio.run(_print, arguments, prompt, printer)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        write_err(f"aborted; the partial answer is saved{printer.how_to_resume}")
        return 130


async def _print(arguments: Namespace, prompt: str, printer: "Printer") -> int:
    async with launch(
        session_spec(arguments), on_envelope=printer, environ=own_environment(arguments)
    ) as launched:
        session = launched.session
        await printer.start(session)
        printer.check()
        failure = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(printer.watch)
            tasks.start_soon(_handle_signals, session, printer)
            try:
                await _execute(session, prompt, printer)
            except ClewError as error:
                failure = error
            tasks.cancel_scope.cancel()
        printer.check()
        if printer.left_by:
            printer.end_line()
            write_err(f"ended by a signal; the partial answer is saved{printer.how_to_resume}")
            return exit_code(printer.left_by)
        if failure is not None and printer.style == "text":
            printer.end_line()
            raise failure
        return await printer.end(error="" if failure is None else str(failure))


async def _handle_signals(session: SessionClient, printer: "Printer") -> None:
    """Abort the run on a signal that ends the program, so that the partial answer is saved."""
    with anyio.open_signal_receiver(*ending_signals()) as received:
        async for number in received:
            printer.left_by = number
            session.abort()


async def _execute(session: SessionClient, prompt: str, printer: "Printer") -> None:
    line = prompt.strip()
    name = line[1:].split(maxsplit=1)[:1] if line.startswith("/") else []
    known = [command.name for command in await session.commands()] if name else []
    if not name or name[0].lower() not in (one.lower() for one in known):
        if name and line == f"/{name[0]}" and (similar := similar_command(name[0], known)):
            raise SessionError(
                f"there is no command {sanitize_line(line, 40)}; did you mean /{similar}?"
            )
        after = (await session.snapshot()).seq
        run_id = await session.submit(PromptInput(text=prompt))
        await wait_for_run(session, run_id, after=after)
        return
    outcome, result = await run_line(session, line)
    reply = make_reply(outcome, result, line)
    if reply.pick is not None or reply.open is not None:
        raise SessionError(
            f"/{outcome.name} works only at the interactive prompt; choose the session with"
            " --continue, --resume ID or --fork ID, or start a new one without them"
        )
    printer.show_reply(reply)


class Printer:
    """Writes events in an output format; aborts the session when the reader exits."""

    def __init__(self, style: str) -> None:
        self.style = style
        self._session: SessionClient | None = None
        self._session_id = ""
        self._early: list[Event] = []
        self._text = ""
        self._result: ExecutionResult | None = None
        self._data: Mapping[str, object] | msgspec.UnsetType = msgspec.UNSET
        self._open_line = False
        self._lost: OutputLost | None = None
        self.left_by = 0
        """The signal that ended the program; 0 for none."""

    @property
    def how_to_resume(self) -> str:
        """The command that resumes this session, if there is one."""
        return f" (clew --resume {self._session_id})" if self._session_id else ""

    async def start(self, session: SessionClient) -> None:
        """Write the id of the session, and the events of its opening."""
        now = await session.snapshot()
        self._session, self._session_id = session, now.session_id
        if self.style == "stream-json":
            self._write_json(StreamStart(session_id=now.session_id, model=now.model))
        for event in self._early:
            self._show(event)

    def __call__(self, envelope: Envelope) -> None:
        """Show one event of the session itself."""
        if envelope.task_id:
            return
        if self._session is None:
            self._early.append(envelope.event)
        else:
            self._show(envelope.event)

    async def watch(self) -> None:
        """Abort when the reader of a pipe exits, even while there is nothing to write."""
        self._stop(await wait_for_reader_exit())

    def check(self) -> None:
        """Raise `OutputLost` if standard output is closed."""
        if self._lost is not None:
            raise self._lost

    def show_reply(self, reply: LineReply) -> None:
        """Write the result of a command."""
        text = "\n".join(filter(None, (*reply.lines, reply.output, reply.answer)))
        if text:
            self._text = text
            if self.style == "text":
                self._write(sanitize(text))
                self._open_line = not text.endswith("\n")
        if reply.data is not None:
            self._data = reply.data

    def end_line(self) -> None:
        """End the line that streamed text left open."""
        if self._open_line:
            self._write("\n")
            self._open_line = False

    async def end(self, *, error: str = "") -> int:
        """Write the last line; returns the exit code."""
        if self.style == "text":
            self.end_line()
        else:
            self._write_json(await self._make_result(error))
        self.check()
        result = self._result
        note = stop_note(result.stop_reason, result.stop_detail) if result is not None else ""
        if note:
            write_err(note)
        if self.style != "text" or self._text.strip():
            return 1 if error else 0
        if not note:
            write_err("the answer is empty")
        return 1

    def _show(self, event: Event) -> None:
        if isinstance(event, RunCompleted | RunInterrupted):
            self._result, self._text = event.result, event.result.response
        if self.style == "stream-json":
            self._write_json(event)
            return
        match event:
            case TextDelta(text=text) if self.style == "text":
                self._write(sanitize(text))
                self._open_line = not text.endswith("\n")
            case ToolStarted() if self.style == "text":
                self.end_line()
            case Warned(text=text):
                write_err(text)
            case PermissionDenied():
                _report_denied(event)
            case _:
                pass

    async def _make_result(self, error: str) -> PrintResult:
        assert self._session is not None  # noqa: S101 - started before it ends
        state = (await self._session.snapshot()).context
        result = self._result
        return PrintResult(
            session_id=self._session_id,
            text=self._text,
            stop_reason=result.stop_reason if result is not None else "",
            usage=result.last_call if result is not None else None,
            context=state,
            used_percentage=state.used_percentage,
            error=error,
            data=self._data,
        )

    def _write_json(self, value: msgspec.Struct) -> None:
        text = msgspec.json.encode(make_encodable(value)).decode()
        self._write(f"{sanitize_json(text)}\n")

    def _write(self, text: str) -> None:
        if self._lost is not None:
            return
        try:
            write_out(text)
        except OutputLost as lost:
            self._stop(lost)

    def _stop(self, lost: OutputLost) -> None:
        self._lost = lost
        if self._session is not None:
            self._session.abort()


def _read_prompt(written: str) -> str:
    if written == "-":
        return sys.stdin.read()
    piped = _read_pipe()
    return f"{written}\n\n{piped}" if piped.strip() else written


def _read_pipe() -> str:
    """Return the input of a pipe; empty for a terminal, a file, or a pipe without input."""
    if not stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode):
        return ""
    ready, _, _ = select.select([sys.stdin], [], [], _PIPE_SECONDS)
    if not ready:
        write_err("no input arrived on standard input; continuing without it")
        return ""
    return sys.stdin.read()


def _report_denied(event: PermissionDenied) -> None:
    target = sanitize_line(event.target, _MAX_TARGET)
    reason = event.reason.replace(".;", ";").rstrip(".")
    write_err(f"denied: {event.tool_name} {target} ({reason}); {event.remedy}")
