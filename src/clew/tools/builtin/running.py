"""Running a program in a process group that never outlives its welcome.

Output is read from a pipe of our own rather than the event loop's: waiting for the program
must not depend on a background child that keeps the pipe open.
"""

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL

import anyio
from anyio import CancelScope
from anyio.abc import Process
from msgspec import Struct

from clew.tools.builtin.output import HeadTail

_CHUNK = 65_536
_GRACE = 1.0
"""Seconds between asking a group to end and ending it, when its time is up."""
_HASTE = 0.2
"""The same when the call was cancelled: somebody waits."""
_DRAIN = 0.2
"""Seconds given to late output once the program is gone."""
_GIVE_UP = 5.0
"""Seconds to wait for a killed program that hangs in the kernel."""
_POLL = 0.02


class Job(Struct, frozen=True, kw_only=True):
    """What to run, and how."""

    command: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    seconds: float
    pass_fds: tuple[int, ...] = ()


class Ran(Struct, frozen=True, kw_only=True):
    """How it ended."""

    output: HeadTail
    code: int
    """Negative for a signal."""
    timed_out: bool
    group: int
    goes_on: bool
    """True when the program ended and left others of its group running."""


async def run(job: Job) -> Ran:
    """Run a program without input, stdout and stderr together.

    When time is up or the call is cancelled the whole group is ended: it is asked first,
    and killed when it does not follow. What the program left in the background when it
    ended by itself goes on.

    Raises:
        OSError: The program could not be started.
        ValueError: The same; a null byte cannot be passed to a program.
    """
    output = HeadTail()
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    try:
        try:
            process = await _start(job, writer)
        finally:
            os.close(writer)
        over = False
        limit = CancelScope(deadline=anyio.current_time() + job.seconds)
        try:
            with limit:
                await _follow(process, reader, output)
                over = True
        finally:
            if not over:
                await _end(process, _GRACE if limit.cancelled_caught else _HASTE)
                _drain(reader, output)
    finally:
        os.close(reader)
    return Ran(
        output=output,
        code=-signal.SIGKILL if process.returncode is None else process.returncode,
        timed_out=not over,
        group=process.pid,
        goes_on=over and _lives(process),
    )


async def _start(job: Job, writer: int) -> Process:
    # Shielded: a process that has been started must become known to us, so that it can be ended.
    with CancelScope(shield=True):
        process = await anyio.open_process(
            job.command,
            stdin=DEVNULL,
            stdout=writer,
            stderr=writer,
            cwd=job.cwd,
            env=job.env,
            start_new_session=True,
            pass_fds=job.pass_fds,
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
        for _ in range(64):
            output.add(os.read(reader, _CHUNK))


async def _end(process: Process, grace: float) -> None:
    with CancelScope(shield=True):
        _signal(process, signal.SIGTERM)
        with anyio.move_on_after(grace):
            await process.wait()
            while _lives(process):  # noqa: ASYNC110 - nobody tells when a group is empty
                await anyio.sleep(_POLL)
        _signal(process, signal.SIGKILL)
        with anyio.move_on_after(_GIVE_UP):
            await process.wait()


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _lives(process: Process) -> bool:
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
