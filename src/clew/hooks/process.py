"""Run a hook's command to its end, with its input and its bounded output."""

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import anyio
from anyio.abc import Process
from msgspec import Struct, field

from clew.hooks.output import Ended
from clew.process import read_pipe, start_group, terminate_group

MAX_BYTES = 65_536
"""Kept of each output stream; the rest is read and dropped."""
_CHUNK = 65_536
_GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL."""
_LINGER = 1.0
"""Seconds that children may hold the pipes once the command itself has ended."""


class Head(Struct):
    """Keeps the beginning of a stream and counts the bytes it drops."""

    data: bytearray = field(default_factory=bytearray)
    dropped: int = 0

    def add(self, chunk: bytes) -> None:
        """Add the next bytes."""
        room = MAX_BYTES - len(self.data)
        self.data += chunk[:room]
        self.dropped += max(0, len(chunk) - room)

    def text(self) -> str:
        """Return what was kept."""
        return self.data.decode(errors="replace")


class Pipe(Struct):
    """Both ends of a pipe. Closing an end twice is harmless."""

    reader: int
    writer: int

    @classmethod
    def open(cls) -> "Pipe":
        """Make a pipe that children do not inherit by accident."""
        return cls(*os.pipe())

    def close_reader(self) -> None:
        """Close the end that is read from."""
        if self.reader >= 0:
            os.close(self.reader)
            self.reader = -1

    def close_writer(self) -> None:
        """Close the end that is written to."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close(self) -> None:
        """Close both ends."""
        self.close_reader()
        self.close_writer()


async def run(argv: Sequence[str], *, stdin: bytes, cwd: Path, env: Mapping[str, str]) -> Ended:
    """Run a command to its end and return what it printed.

    Children that still hold its pipes are terminated then. A child that closed them, such as a
    server that the command started, keeps running. Cancellation terminates the whole group.

    Raises:
        OSError: The command cannot be started.
        ValueError: An argument holds a null character.
    """
    pipes = [Pipe.open() for _ in range(3)]
    given, out, err = pipes
    heads = Head(), Head()
    try:
        descriptors = given.reader, out.writer, err.writer
        process = await start_group(argv, pipes=descriptors, cwd=cwd, env=env)
        given.close_reader()
        out.close_writer()
        err.close_writer()
        pipes_closed = False
        try:
            pipes_closed = await _follow(process, stdin, pipes, heads)
        finally:
            if not pipes_closed:
                await terminate_group(process, grace=_GRACE)
    finally:
        for pipe in pipes:
            pipe.close()
    code = -signal.SIGKILL if process.returncode is None else process.returncode
    return Ended(code, heads[0].text(), heads[1].text(), heads[0].dropped)


async def _follow(
    process: Process, stdin: bytes, pipes: Sequence[Pipe], heads: tuple[Head, Head]
) -> bool:
    """Feed the command and read its output until it ends; return whether its pipes are closed."""
    given, *outputs = pipes
    closed = [anyio.Event() for _ in outputs]
    async with anyio.create_task_group() as group:
        group.start_soon(_feed, given, stdin)
        for pipe, head, event in zip(outputs, heads, closed, strict=True):
            group.start_soon(read_pipe, pipe.reader, head.add, event)
        await process.wait()
        with anyio.move_on_after(_LINGER):
            for event in closed:
                await event.wait()
        group.cancel_scope.cancel()
    return all(event.is_set() for event in closed)


async def _feed(pipe: Pipe, data: bytes) -> None:
    os.set_blocking(pipe.writer, False)
    rest = memoryview(data)
    # A command may ignore its input.
    with suppress(BrokenPipeError):
        while rest:
            await anyio.wait_writable(pipe.writer)
            with suppress(BlockingIOError):
                rest = rest[os.write(pipe.writer, rest[:_CHUNK]) :]
    pipe.close_writer()
