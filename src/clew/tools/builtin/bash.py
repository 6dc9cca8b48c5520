"""Bash: a command line, run in a process group that never outlives its welcome.

Output is read from a pipe of our own rather than the event loop's: waiting for the shell
must not depend on a background child that keeps the pipe open.
"""

import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from subprocess import DEVNULL
from typing import Annotated

import anyio
from anyio import CancelScope
from anyio.abc import Process
from msgspec import Meta

from clew.core.access import Risk
from clew.tools.builtin.files import failure
from clew.tools.function import tool
from clew.tools.protocol import Place, Tool, ToolOutput

DEFAULT_SECONDS = 120
MAX_SECONDS = 600
MAX_BYTES = 1_000_000
"""Kept in memory of one call: the first and the last half of this."""
_CHUNK = 65_536
_GRACE = 1.0
"""Seconds between asking a group to end and ending it."""
_DRAIN = 0.2
"""Seconds given to late output once the shell is gone."""


@dataclass(slots=True)
class HeadTail:
    """Keeps the beginning and the end of a stream of bytes, and counts what it drops."""

    limit: int = MAX_BYTES
    dropped: int = 0
    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)

    def add(self, chunk: bytes) -> None:
        """Take in the next bytes."""
        room = self.limit // 2 - len(self.head)
        self.head += chunk[:room]
        self.tail += chunk[room:]
        excess = len(self.tail) - self.limit // 2
        if excess > 0:
            del self.tail[:excess]
            self.dropped += excess

    def text(self) -> str:
        """What was kept, with a line where something is missing."""
        if not self.dropped:
            return (self.head + self.tail).decode(errors="replace")
        head, tail = (part.decode(errors="replace") for part in (self.head, self.tail))
        return f"{head}\n[{self.dropped} bytes left out]\n{tail}"


def bash_tool() -> Tool:
    """Make the Bash tool."""

    @tool(name="Bash", risk=Risk.EXECUTE, target="command")
    async def bash(
        command: str,
        place: Place,
        timeout: Annotated[float, Meta(gt=0, le=MAX_SECONDS)] = DEFAULT_SECONDS,  # noqa: ASYNC109
    ) -> ToolOutput:
        """Run a command line with bash in the working folder. Each call starts a new shell
        without input; stdout and stderr come back together. Prefer Read, Edit, Glob and Grep
        for what they can do.

        Args:
            command: The command line.
            place: Where the call runs.
            timeout: Seconds until the command and its children are ended.
        """  # noqa: D205
        return await _run(command, place, timeout)

    return bash


async def _run(command: str, place: Place, seconds: float) -> ToolOutput:
    output = HeadTail()
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    try:
        try:
            process = await _start(command, place, writer)
        except (OSError, ValueError) as error:
            return failure(f"The command could not be started: {error}")
        finally:
            os.close(writer)
        over = False
        try:
            with anyio.move_on_after(seconds):
                await _follow(process, reader, output)
                over = True
        finally:
            if not over:
                await _end(process)
                _drain(reader, output)
    finally:
        os.close(reader)
    return _worded(process, output, None if over else seconds)


async def _start(command: str, place: Place, writer: int) -> Process:
    # Shielded: a process that has been started must become known to us, so that it can be ended.
    with CancelScope(shield=True):
        process = await anyio.open_process(
            ["bash", "-c", command],
            stdin=DEVNULL,
            stdout=writer,
            stderr=writer,
            cwd=place.cwd,
            start_new_session=True,
        )
    return process  # noqa: RET504  (mypy: a cancel scope may swallow)


async def _follow(process: Process, reader: int, output: HeadTail) -> None:
    closed = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(_collect, reader, output, closed)
        await process.wait()
        with anyio.move_on_after(_DRAIN):
            await closed.wait()
        group.cancel_scope.cancel()


async def _collect(reader: int, output: HeadTail, closed: anyio.Event) -> None:
    while True:
        await anyio.wait_readable(reader)
        chunk = os.read(reader, _CHUNK)
        if not chunk:
            closed.set()
            return
        output.add(chunk)


def _drain(reader: int, output: HeadTail) -> None:
    # Bounded: a process that left the group may write for ever.
    with suppress(BlockingIOError):
        for _ in range(MAX_BYTES // _CHUNK):
            output.add(os.read(reader, _CHUNK))


async def _end(process: Process) -> None:
    """End the whole group: ask first, then insist."""
    with CancelScope(shield=True):
        _signal(process, signal.SIGTERM)
        with anyio.move_on_after(_GRACE):
            await process.wait()
        _signal(process, signal.SIGKILL)
        await process.wait()


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _worded(process: Process, output: HeadTail, timeout: float | None) -> ToolOutput:
    code = process.returncode or 0
    notes = []
    if timeout is not None:
        notes.append(f"timed out after {timeout:g} s; the command and its children were ended")
    elif code < 0:
        notes.append(f"ended by {signal.Signals(-code).name}")
    elif code:
        notes.append(f"exit code {code}")
    if timeout is None and _group_lives(process):
        notes.append(
            f"background processes go on in process group {process.pid}, their output is not "
            f"followed; end them with: kill -- -{process.pid}"
        )
    text = output.text().rstrip("\n")
    lines = [text] if text else []
    lines += [f"[{note}]" for note in notes]
    return ToolOutput(
        text="\n".join(lines) or "[no output]",
        failed=bool(code) or timeout is not None,
        data={"exit_code": code, "timed_out": timeout is not None, "dropped": output.dropped},
    )


def _group_lives(process: Process) -> bool:
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
