"""`clew -p`: run one prompt, or those of standard input, and print the answers.

A prompt that starts with a command, such as `/context` or the name of a skill, runs the command.
"""

import os
import select
import stat
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from msgspec.structs import replace

from clew.cli.argument_parser import UsageError
from clew.cli.arguments import session_spec
from clew.cli.environment import own_environment
from clew.cli.print_session import PrintSession, open_in_process, open_on_server
from clew.cli.printer import EventPrinter
from clew.cli.replies import make_reply
from clew.cli.streams import print_json, write_err, write_out
from clew.core.errors import AnswerRejected, ClewError, SessionError
from clew.core.sanitize import sanitize_line
from clew.core.tasks import TaskKind, TaskState
from clew.core.text import pluralize
from clew.sdk.client import PromptInput, SessionClient, run_line, wait_for_run
from clew.sdk.input_line import similar_command
from clew.sdk.session import InteractiveSession
from clew.sdk.session_spec import SessionSpec
from clew.sdk.session_tasks import SessionTasks
from clew.tui.signals import ending_signals, exit_code

if TYPE_CHECKING:
    from clew.sdk.json_schema import JsonSchema

_PIPE_SECONDS = 3.0
"""How long to wait for the first input from a pipe."""
_SCHEMA_FAILED = 3
"""The exit code when the answer does not satisfy the schema."""


def run_print(arguments: Namespace) -> int:
    """Run the prompt; `-` reads it from standard input, otherwise piped input is appended."""
    _check_flags(arguments)
    prompts: list[PromptInput] = []
    if arguments.input_format == "text":
        prompts = [_read_prompt(arguments.prompt)]
        if not prompts[0].text.strip():
            raise UsageError("the prompt is empty; pass it to -p, or pipe it to `clew -p`")
    elif arguments.prompt:
        prompts = [PromptInput(text=arguments.prompt)]
    if arguments.detach:
        return _spawn_detached(arguments, prompts[0].text)
    schema = _read_schema(arguments.json_schema)
    printer = EventPrinter(arguments.output_format, structured=schema is not None)
    spec = session_spec(arguments)
    if schema is not None:
        spec = replace(spec, answer_schema=dict(schema.document))
    job = _PrintJob(arguments, spec, printer, schema)
    try:
        return anyio.run(job.run, prompts)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        write_err(f"aborted; the partial answer is saved{printer.how_to_resume}")
        return 130


def _spawn_detached(arguments: Namespace, prompt: str) -> int:
    """Give the prompt to the workers of the store, and print the id of its task."""
    from clew.sdk.detach import spawn_detached  # noqa: PLC0415 - seldom needed

    async def spawn() -> tuple[TaskState, int]:
        spec, environ = session_spec(arguments), own_environment(arguments)
        return await spawn_detached(spec, prompt, environ=environ)

    state, workers = anyio.run(spawn)
    if arguments.output_format == "text":
        write_out(f"{state.task_id}\n")
    else:
        print_json(state)
    if not workers:
        write_err("no worker is running: start one with `clew worker`")
    return 0


def _check_flags(arguments: Namespace) -> None:
    if arguments.connect and arguments.json_schema:
        raise UsageError("--json-schema does not work with --connect")
    if arguments.resume == "":
        raise UsageError(
            "--resume needs the id of a session in print mode; `clew sessions` lists them, and"
            " --continue resumes the newest"
        )
    if arguments.detach and (
        arguments.latest or arguments.resume or arguments.fork or arguments.json_schema
    ):
        raise UsageError(
            "--detach starts a new agent: leave out --continue, --resume, --fork and --json-schema"
        )
    if arguments.detach and arguments.input_format != "text":
        raise UsageError("--detach takes one prompt: leave out --input-format")
    if arguments.input_format == "stream-json" and arguments.output_format != "stream-json":
        raise UsageError("--input-format stream-json needs --output-format stream-json")


def _read_schema(path: str | None) -> "JsonSchema | None":
    if path is None:
        return None
    from clew.sdk.structured_answer import read_schema  # noqa: PLC0415 - seldom needed

    return read_schema(Path(path))


class _PrintJob:
    """The prompts of one call of `clew -p`."""

    def __init__(
        self,
        arguments: Namespace,
        spec: SessionSpec,
        printer: EventPrinter,
        schema: "JsonSchema | None",
    ) -> None:
        self._arguments = arguments
        self._spec = spec
        self._printer = printer
        self._schema = schema
        self._code = 0
        self._usage_error: UsageError | None = None
        """What is wrong with the lines of standard input."""

    async def run(self, prompts: list[PromptInput]) -> int:
        """Open the session, run the prompts, and return the exit code."""
        printer = self._printer
        async with self._open() as opened:
            session = opened.client
            await printer.start(session)
            printer.check()
            sender, receiver = anyio.create_memory_object_stream[PromptInput](float("inf"))
            for prompt in prompts:
                sender.send_nowait(prompt)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(printer.watch)
                tasks.start_soon(printer.note.run, opened.model)
                tasks.start_soon(_handle_signals, session, printer)
                if self._arguments.input_format == "stream-json":
                    tasks.start_soon(self._feed, opened, sender)
                else:
                    sender.close()
                failure = await self._run_prompts(opened, receiver)
                if opened.local is not None:
                    _report_open(opened.local)
                tasks.cancel_scope.cancel()
            printer.note.end()
        printer.check()
        if self._usage_error is not None:
            raise self._usage_error
        if printer.left_by:
            printer.end_line()
            write_err(f"ended by a signal; the partial answer is saved{printer.how_to_resume}")
            return exit_code(printer.left_by)
        if failure is not None and printer.style == "text":
            printer.end_line()
            if not isinstance(failure, AnswerRejected):
                raise failure
            write_err(str(failure))
            return _SCHEMA_FAILED
        return self._code

    def _open(self) -> AbstractAsyncContextManager[PrintSession]:
        if self._arguments.connect:
            return open_on_server(self._arguments, self._printer)
        return open_in_process(self._arguments, self._spec, self._printer)

    async def _run_prompts(
        self, opened: PrintSession, prompts: MemoryObjectReceiveStream[PromptInput]
    ) -> ClewError | None:
        """Run the prompts one after the other; returns the last failure."""
        failure: ClewError | None = None
        async with prompts:
            async for prompt in prompts:
                self._printer.begin_prompt()
                failure = await self._attempt(opened, prompt)
                if self._is_over:
                    break
                if failure is None or self._printer.style != "text":
                    code = await self._printer.end_prompt(failure)
                    self._code = _exit_code(failure) or code or self._code
        return failure

    @property
    def _is_over(self) -> bool:
        """True when no further prompt makes sense."""
        printer = self._printer
        return bool(printer.left_by or printer.is_lost or self._usage_error is not None)

    async def _attempt(self, opened: PrintSession, prompt: PromptInput) -> ClewError | None:
        try:
            await opened.begin()
            await self._execute(opened.client, prompt)
            if opened.local is not None:
                await self._finish_agents(opened.local)
        except ClewError as error:
            return error
        finally:
            await opened.drain()
        return None

    async def _finish_agents(self, session: InteractiveSession) -> None:
        """Wait for the agents in the background; the model reads their results and answers again.

        Processes are not waited for: a server would never end.
        """
        tasks = session.parts.tasks
        while not self._is_over:
            agents = [one for one in tasks.list_open() if _is_waited_for(one)]
            if agents:
                self._printer.end_line()
                write_err(f"waiting for {pluralize(len(agents), 'background agent')}")
                await _wait_for(tasks, agents, self._printer.stopped)
            elif self._schema is None and session.session.state.notices:
                self._printer.end_line()
                await session.continue_run()
            else:
                return

    async def _execute(self, session: SessionClient, prompt: PromptInput) -> None:
        line = prompt.text.strip()
        name = line[1:].split(maxsplit=1)[:1] if line.startswith("/") else []
        known = [command.name for command in await session.commands()] if name else []
        if not name or name[0].lower() not in (one.lower() for one in known):
            if name and line == f"/{name[0]}" and (similar := similar_command(name[0], known)):
                raise SessionError(
                    f"there is no command {sanitize_line(line, 40)}; did you mean /{similar}?"
                )
            await self._ask(session, prompt)
            return
        outcome, result = await run_line(session, line)
        self._printer.show_reply(make_reply(outcome, result))

    async def _ask(self, session: SessionClient, prompt: PromptInput) -> None:
        if self._schema is None:
            after = (await session.snapshot()).seq
            run_id = await session.submit(prompt)
            await wait_for_run(session, run_id, after=after)
            return
        from clew.sdk.structured_answer import ask_structured  # noqa: PLC0415

        answer = await ask_structured(session, prompt, self._schema)
        self._printer.show_value(answer.value)

    async def _feed(
        self, opened: PrintSession, prompts: MemoryObjectSendStream[PromptInput]
    ) -> None:
        """Pass the lines of standard input on; at its end, open permission requests are denied."""
        from clew.cli.input_stream import apply_line, read_input  # noqa: PLC0415 - seldom needed

        stop_answering = opened.start_answering()
        try:
            async for line in read_input(sys.stdin.fileno()):
                await apply_line(line, opened.client, prompts.send_nowait)
        except UsageError as error:
            self._usage_error = error
            opened.client.abort()
        finally:
            stop_answering()
            prompts.close()


def _is_waited_for(task: TaskState) -> bool:
    return task.kind is TaskKind.AGENT and not task.durable


async def _wait_for(tasks: SessionTasks, waited: Sequence[TaskState], stopped: anyio.Event) -> None:
    """Wait until these tasks have ended, or the program is to end."""
    async with anyio.create_task_group() as group:

        async def stop() -> None:
            await stopped.wait()
            group.cancel_scope.cancel()

        group.start_soon(stop)
        for task in waited:
            await tasks.manager.wait(task.task_id)
        group.cancel_scope.cancel()


def _report_open(session: InteractiveSession) -> None:
    """Say what happens to the tasks that still run."""
    for task in session.parts.tasks.list_open():
        what = f"{task.task_id} ({sanitize_line(task.label, 60)})"
        if task.durable:
            write_err(f"{what} continues in `clew worker`")
        else:
            write_err(f"{what} ends with this program")


def _exit_code(failure: ClewError | None) -> int:
    if failure is None:
        return 0
    return _SCHEMA_FAILED if isinstance(failure, AnswerRejected) else 1


async def _handle_signals(session: SessionClient, printer: EventPrinter) -> None:
    """Abort the run on a signal that ends the program, so that the partial answer is saved."""
    with anyio.open_signal_receiver(*ending_signals()) as received:
        async for number in received:
            printer.left_by = number
            printer.stopped.set()
            session.abort()


def _read_prompt(written: str) -> PromptInput:
    """Return the prompt with piped input; an `@path` in that attaches nothing.

    The user typed the prompt, but a log or a page that is piped may contain other people's words.
    """
    if written == "-" or (not written and not sys.stdin.isatty()):
        return PromptInput(text=sys.stdin.read(), attach=False)
    piped = _read_pipe()
    if not piped.strip():
        return PromptInput(text=written)
    return PromptInput(text=f"{written}\n\n{piped}", attach=written)


def _read_pipe() -> str:
    """Return the input of a pipe; empty for a terminal, a file, or a pipe without input."""
    if not stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode):
        return ""
    ready, _, _ = select.select([sys.stdin], [], [], _PIPE_SECONDS)
    if not ready:
        write_err("no input arrived on standard input; continuing without it")
        return ""
    return sys.stdin.read()
