"""`AgentProcess`: a process that runs one agent, with pipes for lines and events."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path

import anyio
import msgspec
from anyio.abc import TaskGroup

from clew.core.events import Envelope, decode_envelope
from clew.process import guard_call, read_pipe, start_group, terminate_group
from clew.sdk.agent_pipe import LineBuffer, StartAgent, ToAgent

_COMMAND = (sys.executable, "-P", "-m", "clew.sdk.agent_child")
_GRACE = 5.0
"""Seconds that a process has to end by itself before it is killed."""
_MAX_ERRORS = 4_000
"""Bytes of its standard error that are kept."""


class AgentProcess:
    """Runs `clew.sdk.agent_child`. The process and all that it started end with `run`.

    Args:
        on_start: Called with the id of the process when it has started.
    """

    def __init__(self, on_start: Callable[[int], None]) -> None:
        self._on_start = on_start
        self._send, self._lines = anyio.create_memory_object_stream[bytes](inf)
        self._errors = b""
        self.tasks: TaskGroup | None = None
        """Ends with the process; set while it runs."""
        self.exit_code: int | None = None

    def send(self, line: ToAgent) -> None:
        """Write a line to the process; one that has ended ignores it."""
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._send.send_nowait(msgspec.json.encode(line) + b"\n")

    async def run(
        self, start: StartAgent, environ: Mapping[str, str], take: Callable[[Envelope], None]
    ) -> None:
        """Start the process, and call `take` with every event until it has ended.

        Cancellation ends the process and everything that it has started.

        Raises:
            OSError: The process cannot be started.
        """
        with _open_pipes() as (stdin, stdout, stderr), self._send, self._lines:
            async with guard_call() as guard:
                process = await start_group(
                    _COMMAND,
                    pipes=(stdin.reader, stdout.writer, stderr.writer),
                    cwd=Path(start.spec.cwd),
                    env={**environ, **guard.env},
                )
                try:
                    guard.watch(process)
                    self._on_start(process.pid)
                    stdin.close(stdin.reader)
                    stdout.close(stdout.writer)
                    stderr.close(stderr.writer)
                    self.send(start)
                    await self._serve(stdin.writer, stdout.reader, stderr.reader, take)
                    await process.wait()
                finally:
                    await terminate_group(process, grace=_GRACE)
                    self.exit_code = process.returncode

    def describe_end(self) -> str:
        """Return how the process ended, with the last lines that it wrote to standard error."""
        code = self.exit_code
        how = f"was killed by signal {-code}" if code and code < 0 else f"ended with code {code}"
        said = self._errors.decode(errors="replace").strip()
        last = said.splitlines()[-1] if said else ""
        return f"the process of the agent {how}{f': {last}' if last else ''}"

    async def _serve(
        self, stdin: int, stdout: int, stderr: int, take: Callable[[Envelope], None]
    ) -> None:
        buffer = LineBuffer()

        def add(chunk: bytes) -> None:
            for line in buffer.add(chunk):
                take(decode_envelope(line))

        async with anyio.create_task_group() as self.tasks:
            self.tasks.start_soon(self._write_lines, stdin)
            self.tasks.start_soon(read_pipe, stderr, self._add_error, anyio.Event())
            await read_pipe(stdout, add, anyio.Event())
            self.tasks.cancel_scope.cancel()

    async def _write_lines(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        async for line in self._lines:
            left = memoryview(line)
            while left:
                await anyio.wait_writable(descriptor)
                try:
                    left = left[os.write(descriptor, left) :]
                except BlockingIOError:
                    continue
                except BrokenPipeError:
                    return

    def _add_error(self, chunk: bytes) -> None:
        self._errors = (self._errors + chunk)[-_MAX_ERRORS:]


class _Pipe:
    """A pipe whose ends are closed once."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        self._open = {self.reader, self.writer}

    def close(self, *descriptors: int) -> None:
        """Close these ends, or both."""
        for one in descriptors or (self.reader, self.writer):
            if one in self._open:
                self._open.discard(one)
                os.close(one)


@contextmanager
def _open_pipes() -> Iterator[tuple[_Pipe, _Pipe, _Pipe]]:
    pipes = (_Pipe(), _Pipe(), _Pipe())
    try:
        yield pipes
    finally:
        for pipe in pipes:
            pipe.close()
