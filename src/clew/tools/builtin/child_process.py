"""Runs a program for a tool: with a timeout, bounded output, and an environment without secrets."""

import os
import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from subprocess import DEVNULL
from typing import TYPE_CHECKING

import anyio
from anyio import CancelScope
from msgspec import Struct, field

from clew.core.secret_variables import is_secret_variable
from clew.process import (
    CallGuard,
    drain_pipe,
    group_is_alive,
    guard_call,
    read_pipe,
    start_group,
    terminate_group,
)
from clew.tools.protocol import Progress

if TYPE_CHECKING:
    from anyio.abc import Process

ALWAYS = {"CLEW": "1", "GIT_EDITOR": "true", "GIT_OPTIONAL_LOCKS": "0"}
"""Tells programs that Clew runs them, and git that it cannot open an editor, and that commands
which only read, such as `git status`, must not write its index."""

_GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL after a timeout."""
_CANCEL_GRACE = 0.2
"""The same after a cancellation, when the user waits."""
_REPORT = 0.1
"""Seconds between two reports of a program's output."""
_RECENT_BYTES = 16_384
"""The end of the output that is reported: longer than private keys."""
_DRAIN = 0.2
"""Seconds to wait for late output once the program has ended."""
MAX_BYTES = 10_000_000
"""The most bytes of one call's output to keep: the first half and the last half."""

_ESCAPES = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # colours, cursor movements
    r"|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # titles, links
    r"|[PX^_][^\x1b]*\x1b\\"  # device strings
    r"|[ -/]+[0-~]"  # character sets
    r"|[0-~]"
    r")"
)
_STRUCK_OVER = re.compile(r"[^\n\x08]\x08")
_UNPRINTABLE = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\ufffd]+")


class HeadTail(Struct):
    """Keeps the beginning and the end of a stream, and counts the bytes that it drops."""

    limit: int = MAX_BYTES
    dropped: int = 0
    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)

    def add(self, chunk: bytes) -> None:
        """Add the next bytes."""
        room = self.limit // 2 - len(self.head)
        self.head += chunk[:room]
        self.tail += chunk[room:]
        excess = len(self.tail) - self.limit // 2
        if excess > 0:
            del self.tail[:excess]
            self.dropped += excess

    @property
    def size(self) -> int:
        """How many bytes were added."""
        return len(self.head) + len(self.tail) + self.dropped

    def recent_text(self) -> str:
        """Return the last whole lines and the line that is not complete yet, as printable text.

        A line whose beginning is too far back is left out: it may have lost half of a secret.
        """
        end = self.tail[-_RECENT_BYTES:]
        if not self.dropped and len(end) < _RECENT_BYTES:
            end = self.head[len(end) - _RECENT_BYTES :] + end
        text = make_printable(bytes(end))
        return text if len(end) == self.size else text.partition("\n")[2]

    def text(self) -> str:
        """Return the kept bytes as printable text, with a note where bytes are missing."""
        if not self.dropped:
            return make_printable(bytes(self.head + self.tail))
        note = f"[{self.dropped:,} bytes omitted: only {self.limit:,} are kept]"
        return f"{make_printable(bytes(self.head))}\n{note}\n{make_printable(bytes(self.tail))}"


def make_printable(data: bytes) -> str:
    """Return the output of a program as text without control codes.

    Colours and cursor movements are removed, a carriage return starts a new line, and a run of
    bytes that are not text becomes one replacement character.
    """
    text = data.decode(errors="replace")
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "\x08" in text:
        text = _STRUCK_OVER.sub("", text)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _UNPRINTABLE.sub("\ufffd", text)


class ChildProcess(Struct, frozen=True, kw_only=True):
    """A program to run."""

    command: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    timeout: float
    """In seconds."""
    pass_fds: tuple[int, ...] = ()
    progress: Progress | None = None
    """Where to report its output while it runs."""


class ChildResult(Struct, frozen=True, kw_only=True):
    """How a program ended."""

    output: HeadTail
    code: int
    """The exit code; the negative signal number if a signal ended it."""
    timed_out: bool
    timeout: float
    """The seconds that it had."""
    group: int
    """The id of its process group."""
    has_background: bool
    """True if the program ended and left other processes of its group running."""


async def run_child(child: ChildProcess) -> ChildResult:
    """Run a program without input, standard output and error together.

    After the timeout, or when the call is cancelled, the whole process group is terminated; if
    this process is killed, a guard does that. Background processes of a program that ended by
    itself keep running.

    Raises:
        OSError: The program cannot be started.
        ValueError: An argument holds a null character.
    """
    async with guard_call() as guard:
        return await _run_guarded(child, guard)


async def _run_guarded(child: ChildProcess, guard: CallGuard) -> ChildResult:
    output = HeadTail()
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    try:
        try:
            process = await start_group(
                child.command,
                pipes=(DEVNULL, writer, writer),
                cwd=child.cwd,
                env={**child.env, **guard.env},
                pass_fds=child.pass_fds,
            )
            guard.watch(process)
        finally:
            os.close(writer)
        finished = False
        limit = CancelScope(deadline=anyio.current_time() + child.timeout)
        try:
            with limit:
                await _follow(process, reader, output, child.progress)
                finished = True
        finally:
            if not finished:
                grace = _GRACE if limit.cancelled_caught else _CANCEL_GRACE
                await terminate_group(process, grace=grace)
                drain_pipe(reader, output.add)
    finally:
        os.close(reader)
    return ChildResult(
        output=output,
        code=-signal.SIGKILL if process.returncode is None else process.returncode,
        timed_out=not finished,
        timeout=child.timeout,
        group=process.pid,
        has_background=finished and group_is_alive(process),
    )


def name_signal(number: int) -> str:
    """Return the name of a signal, such as `SIGTERM`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def child_environment(
    own: Mapping[str, str],
    *,
    extra: Mapping[str, str],
    passed: Iterable[str] = (),
    secrets: Iterable[str] = (),
) -> dict[str, str]:
    """Return the environment for a child process.

    Args:
        own: The environment of this process.
        extra: Variables for children; never left out.
        passed: Names that are passed on although they look like secrets; `*` is a wildcard.
        secrets: Texts that no variable may contain, unless its name is passed on.
    """
    patterns, known = tuple(passed), tuple(secrets)
    kept = {
        name: value
        for name, value in own.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
        or not (is_secret_variable(name) or any(secret in value for secret in known))
    }
    return {**kept, **ALWAYS, **extra}


async def _follow(
    process: "Process", reader: int, output: HeadTail, progress: Progress | None
) -> None:
    closed = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(read_pipe, reader, output.add, closed)
        if progress is not None:
            progress.get_partial = output.text
            group.start_soon(_report, output, progress)
        await process.wait()
        with anyio.move_on_after(_DRAIN):
            await closed.wait()
        group.cancel_scope.cancel()


async def _report(output: HeadTail, progress: Progress) -> None:
    """Report the newest output of a program, until cancelled."""
    seen = 0
    while True:
        await anyio.sleep(_REPORT)
        if output.size != seen:
            seen = output.size
            progress.report(output.recent_text())
