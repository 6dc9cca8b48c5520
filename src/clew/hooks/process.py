"""Running a hook's command so that nothing of it stays behind.

The command leads a process group of its own. Its pipes are ours rather than the event loop's:
waiting for it must not depend on a child that keeps them open.
"""

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import anyio
from anyio import CancelScope
from anyio.abc import Process
from msgspec import Struct, field

from clew.hooks.output import Ended

MAX_BYTES = 65_536
"""Kept of each stream; the rest is read and dropped."""
_CHUNK = 65_536
_GRACE = 1.0
"""Seconds between asking a group to end and ending it."""
_LINGER = 1.0
"""Seconds given to children that still hold the pipes once the command itself is over."""


class Head(Struct):
    """Keeps the beginning of a stream, and counts what it drops."""

    data: bytearray = field(default_factory=bytearray)
    dropped: int = 0

    def add(self, chunk: bytes) -> None:
        """Take in the next bytes."""
        room = MAX_BYTES - len(self.data)
        self.data += chunk[:room]
        self.dropped += max(0, len(chunk) - room)

    def text(self) -> str:
        """What was kept."""
        return self.data.decode(errors="replace")


class Pipe(Struct):
    """Both ends of a pipe. Closing one that is closed is harmless."""

    reader: int
    writer: int

    @classmethod
    def open(cls) -> "Pipe":
        """Make a pipe that no child inherits by accident."""
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
        """Close what is still open."""
        self.close_reader()
        self.close_writer()


async def run(argv: Sequence[str], *, stdin: bytes, cwd: Path, env: Mapping[str, str]) -> Ended:
    """Run a command to its end and return what it said.

    When it is over, children that hold its pipes are ended too; one that let go of them, such
    as a server it started, is left alone. Cancellation ends the whole group.

    Raises:
        OSError: It could not be started.
        ValueError: Its words hold a character that no command may hold.
    """
    pipes = [Pipe.open() for _ in range(3)]
    given, out, err = pipes
    try:
        process = await _start(argv, pipes, cwd=cwd, env=env)
        given.close_reader()
        out.close_writer()
        err.close_writer()
        heads = Head(), Head()
        alone = False
        try:
            alone = await _follow(process, stdin, pipes, heads)
        finally:
            if not alone:
                await _end(process, (out.reader, err.reader))
    finally:
        for pipe in pipes:
            pipe.close()
    dropped = heads[0].dropped
    return Ended(process.returncode or 0, heads[0].text(), heads[1].text(), dropped)


async def _start(
    argv: Sequence[str], pipes: Sequence[Pipe], *, cwd: Path, env: Mapping[str, str]
) -> Process:
    given, out, err = pipes
    # Shielded: a process that has been started must become known to us, so that it can be ended.
    with CancelScope(shield=True):
        process = await anyio.open_process(
            list(argv),
            stdin=given.reader,
            stdout=out.writer,
            stderr=err.writer,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
    return process  # noqa: RET504  (mypy: a cancel scope may swallow)


async def _follow(
    process: Process, stdin: bytes, pipes: Sequence[Pipe], heads: tuple[Head, Head]
) -> bool:
    """Speak and listen until the command is over; True if nobody holds its pipes then."""
    given, *outputs = pipes
    closed = [anyio.Event() for _ in outputs]
    async with anyio.create_task_group() as group:
        group.start_soon(_feed, given, stdin)
        for pipe, head, event in zip(outputs, heads, closed, strict=True):
            group.start_soon(_collect, pipe.reader, head, event)
        await process.wait()
        with anyio.move_on_after(_LINGER):
            for event in closed:
                await event.wait()
        group.cancel_scope.cancel()
    return all(event.is_set() for event in closed)


async def _feed(pipe: Pipe, data: bytes) -> None:
    os.set_blocking(pipe.writer, False)
    rest = memoryview(data)
    # A command that does not read its input is none the worse for it.
    with suppress(BrokenPipeError):
        while rest:
            await anyio.wait_writable(pipe.writer)
            with suppress(BlockingIOError):
                rest = rest[os.write(pipe.writer, rest[:_CHUNK]) :]
    pipe.close_writer()


async def _collect(reader: int, head: Head, closed: anyio.Event) -> None:
    while True:
        await anyio.wait_readable(reader)
        chunk = os.read(reader, _CHUNK)
        if not chunk:
            closed.set()
            return
        head.add(chunk)


async def _end(process: Process, outputs: Sequence[int]) -> None:
    """End the whole group: ask first, then insist on what lives or holds the pipes."""
    with CancelScope(shield=True):
        _signal(process, signal.SIGTERM)
        with anyio.move_on_after(_GRACE):
            await process.wait()
            for reader in outputs:
                await _collect(reader, Head(), anyio.Event())
        _signal(process, signal.SIGKILL)
        await process.wait()


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
