"""`ProcessRunner`: runs a command line in the background, with a log, until it ends.

It runs as Bash would run it: in the sandbox of the session, with its environment. It has a
process group of its own, and nothing of it is left when the task has ended.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import anyio
from anyio import CancelScope
from anyio.abc import Process
from anyio.to_thread import run_sync

from clew.core.errors import BackgroundTaskError
from clew.core.events import TextDelta
from clew.core.tasks import LogPage, TaskErrorCategory, TaskKind
from clew.process import (
    CallGuard,
    drain_pipe,
    group_is_alive,
    guard_call,
    read_pipe,
    start_group,
    terminate_group,
)
from clew.runtime.log_pages import open_log, read_page, remove_old_logs
from clew.runtime.process_output import ProcessOutput
from clew.runtime.protocol import LOG_PAGE_LINES, RunningTask, TaskFacts, TaskResult
from clew.tools.builtin.child_process import name_signal
from clew.tools.builtin.files import ToolFailure
from clew.tools.builtin.shell import ShellOptions, prepare_call, shell_environment, wrap_call
from clew.tools.protocol import ToolContext
from clew.tools.sandbox import Sandbox

END_OF_INPUT = "\x04"
"""As a message to a process: closes its input, as Ctrl-D does in a terminal."""

KEPT_SECONDS = 30 * 24 * 3_600
"""How long a log is kept that nothing is added to."""
GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL: servers close connections and remove their files."""
_DRAIN = 0.2
"""Seconds to wait for late output once the program has ended."""
_REPORT = 0.1
"""Seconds between two reports of output."""
SEND_TIMEOUT = 10.0
"""Seconds until a process has to have read its input."""


class ProcessRunner:
    """Runs processes. Their logs are `<folder>/<task id>.log`, redacted, one line per line.

    A task completes when its program exits with 0, and fails with any other exit code. What the
    program leaves running in the background ends with it. Logs are kept for 30 days.

    Args:
        folder: Where the logs are.
        context: Returns where and how commands of the session run.
        sandbox: The sandbox for commands; None uses the one that works here.
        pass_env: Names of variables that commands get although they look like secrets.
        grace: Seconds between SIGTERM and SIGKILL when a process is ended.
        send_timeout: Seconds until a process has to have read its input.
    """

    kind = TaskKind.PROCESS

    def __init__(
        self,
        folder: Path,
        *,
        context: Callable[[], ToolContext],
        sandbox: Sandbox | None = None,
        pass_env: Sequence[str] = (),
        grace: float = GRACE,
        send_timeout: float = SEND_TIMEOUT,
    ) -> None:
        self._folder = folder
        self._context = context
        self._options = ShellOptions(sandbox=sandbox or Sandbox(), pass_env=tuple(pass_env))
        self._grace = grace
        self._send_timeout = send_timeout
        self._running: dict[str, _Pipes] = {}
        self._has_cleaned = False

    async def run(self, task: RunningTask) -> TaskResult:
        """Run the command line of the request until it ends or is cancelled."""
        path = self._path(task.task_id)
        secrets = self._context().redact_values
        await self._clean_up()
        try:
            with open_log(path) as log:
                output = ProcessOutput(log, secrets)
                task.describe(TaskFacts(log_path=str(path)))
                code = await self._run(task, output)
        except (ToolFailure, OSError, ValueError) as error:
            raise BackgroundTaskError(
                f"the command could not be started: {error}", category=TaskErrorCategory.PROCESS
            ) from error
        if code != 0:
            why = f"exit code {code}" if code > 0 else f"killed by {name_signal(-code)}"
            raise BackgroundTaskError(
                why, category=TaskErrorCategory.PROCESS, partial=output.result()
            )
        return TaskResult(text=output.result(), exit_code=code)

    async def send(self, task_id: str, text: str) -> None:
        """Write a line to the standard input of a process; `END_OF_INPUT` closes it.

        Raises:
            BackgroundTaskError: The process is not running, or does not read its input.
        """
        pipes = self._running.get(task_id)
        if pipes is None:
            # It is just starting or ending.
            raise _refuse(f"{task_id} is not running", recoverable=True)
        if text == END_OF_INPUT:
            pipes.close_input()
            return
        line = text if text.endswith("\n") else f"{text}\n"
        try:
            with anyio.fail_after(self._send_timeout):
                await pipes.write(line.encode(errors="replace"))
        except TimeoutError:
            raise _refuse(f"{task_id} does not read its input") from None
        except (OSError, anyio.ClosedResourceError):
            raise _refuse(f"the input of {task_id} is closed") from None

    async def read_log(
        self, task_id: str, *, offset: int = 0, limit: int = LOG_PAGE_LINES
    ) -> LogPage:
        """Return a page of the log: lines such as `[stdout] ready`."""
        read = partial(read_page, self._path(task_id), task_id, offset=offset, limit=limit)
        return await run_sync(read)

    async def _clean_up(self) -> None:
        if not self._has_cleaned:
            self._has_cleaned = True
            long_ago = time.time() - KEPT_SECONDS
            await run_sync(partial(remove_old_logs, self._folder, older_than=long_ago))

    def _path(self, task_id: str) -> Path:
        name = Path(task_id).name
        if not task_id or name != task_id:
            raise _refuse(f"{task_id!r} is not the id of a process")
        return self._folder / f"{name}.log"

    async def _run(self, task: RunningTask, output: ProcessOutput) -> int:
        context, request = self._context(), task.request
        start = Path(request.cwd) if request.cwd else context.cwd
        call = prepare_call(request.prompt, start=start, context=context, options=self._options)
        call, command = await wrap_call(call, ["bash", "-c", call.command], self._options)
        env = shell_environment(call, self._options)
        async with guard_call() as guard:
            with _open_pipes() as pipes:
                process = await start_group(
                    command, pipes=pipes.of_child, cwd=start, env={**env, **guard.env}
                )
                try:
                    guard.watch(process)
                    pipes.close_child()
                    task.describe(TaskFacts(pid=process.pid, cwd=str(start)))
                    self._running[task.task_id] = pipes
                    await _follow(process, task, output, pipes)
                finally:
                    self._running.pop(task.task_id, None)
                    await _end(process, guard, output, grace=self._grace)
                    for name, reader in pipes.readers.items():
                        drain_pipe(reader, partial(output.add, name))
                    output.close()
                    _report_news(task, output)
                    facts = TaskFacts(exit_code=process.returncode, result=output.result())
                    task.describe(facts)
        return -signal.SIGKILL if process.returncode is None else process.returncode


class _Pipes:
    """The three pipes of a process. Closing them ends a `write` that waits."""

    def __init__(self) -> None:
        self._stdin, self._stdout, self._stderr = os.pipe(), os.pipe(), os.pipe()
        self._open = {*self._stdin, *self._stdout, *self._stderr}
        self._writing = anyio.Lock()
        for handle in (self._stdin[1], *self.readers.values()):
            os.set_blocking(handle, False)

    @property
    def of_child(self) -> tuple[int, int, int]:
        """The ends of the process."""
        return self._stdin[0], self._stdout[1], self._stderr[1]

    @property
    def readers(self) -> dict[str, int]:
        """Where its output arrives."""
        return {"stdout": self._stdout[0], "stderr": self._stderr[0]}

    async def write(self, data: bytes) -> None:
        """Write to the input of the process.

        Raises:
            OSError: The process has closed its input.
            ClosedResourceError: The input was closed here.
        """
        writer = self._stdin[1]
        async with self._writing:
            while data:
                if writer not in self._open:
                    raise anyio.ClosedResourceError
                await anyio.wait_writable(writer)
                with suppress(BlockingIOError):
                    data = data[os.write(writer, data) :]

    def close_input(self) -> None:
        """Close the input of the process; calling it again does nothing."""
        self._close(self._stdin[1])

    def close_child(self) -> None:
        """Close the ends of the process, which has its own copies."""
        for handle in self.of_child:
            self._close(handle)

    def close(self) -> None:
        """Close all ends."""
        for handle in tuple(self._open):
            self._close(handle)

    def _close(self, handle: int) -> None:
        if handle in self._open:
            self._open.remove(handle)
            if handle == self._stdin[1]:
                anyio.notify_closing(handle)
            os.close(handle)


@contextmanager
def _open_pipes() -> Iterator[_Pipes]:
    pipes = _Pipes()
    try:
        yield pipes
    finally:
        pipes.close()


async def _follow(
    process: Process, task: RunningTask, output: ProcessOutput, pipes: _Pipes
) -> None:
    """Pass on the output of a process until it ends."""
    closed = {name: anyio.Event() for name in pipes.readers}
    async with anyio.create_task_group() as group:
        for name, reader in pipes.readers.items():
            group.start_soon(read_pipe, reader, partial(output.add, name), closed[name])
        group.start_soon(_report, task, output)
        await process.wait()
        with anyio.move_on_after(_DRAIN):
            for event in closed.values():
                await event.wait()
        group.cancel_scope.cancel()


async def _report(task: RunningTask, output: ProcessOutput) -> None:
    """Report new output again and again, until cancelled."""
    seen = 0
    while True:
        await anyio.sleep(_REPORT)
        if output.size != seen:
            seen = output.size
            _report_news(task, output)


def _report_news(task: RunningTask, output: ProcessOutput) -> None:
    if news := output.take_news():
        task.report(TextDelta(news))
    if line := output.read_unfinished():
        task.describe(TaskFacts(preview=line))


async def _end(process: Process, guard: CallGuard, output: ProcessOutput, *, grace: float) -> None:
    """End everything that a process has started, even if it has ended itself."""
    with CancelScope(shield=True):
        is_over = process.returncode is not None
        if not is_over or group_is_alive(process):
            await terminate_group(process, grace=grace)
            if is_over:
                output.note("ended the processes that the command left in the background")
        await run_sync(guard.kill_strays)


def _refuse(message: str, *, recoverable: bool = False) -> BackgroundTaskError:
    category = TaskErrorCategory.VALIDATION
    return BackgroundTaskError(message, category=category, recoverable=recoverable)
