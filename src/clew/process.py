"""Process groups: start a program in a group of its own, read its pipes, end the whole group.

A guard ends the group if Clew itself is killed; see `guard_call`.

Use pipes of your own (`os.pipe`) rather than the event loop's: waiting for the program must not
depend on a background child that keeps a pipe open.
"""

import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from secrets import token_hex
from subprocess import DEVNULL
from typing import TYPE_CHECKING

import anyio
from anyio import CancelScope

if TYPE_CHECKING:
    from anyio.abc import Process

_CHUNK = 65_536
_GIVE_UP = 5.0
"""Seconds to wait for a killed program that hangs in the kernel."""
_POLL = 0.02
_STRAY_ROUNDS = 50


async def start_group(
    command: Sequence[str],
    *,
    pipes: tuple[int, int, int],
    cwd: Path,
    env: Mapping[str, str],
    pass_fds: Sequence[int] = (),
) -> "Process":
    """Start a program as the leader of a new session and process group.

    Cancellation takes effect only after the program has started, so the caller can always end it.

    Args:
        command: The program and its arguments.
        pipes: Descriptors for standard input, output and error.
        cwd: Where it runs.
        env: Its environment. `TRACEPARENT` of the current span is added.
        pass_fds: Other descriptors that it inherits.

    Raises:
        OSError: The program cannot be started.
        ValueError: An argument holds a null character.
    """
    stdin, stdout, stderr = pipes
    with CancelScope(shield=True):
        process = await anyio.open_process(
            list(command),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env={**env, **trace_variables()},
            start_new_session=True,
            pass_fds=pass_fds,
        )
    return process  # noqa: RET504  (mypy: a cancel scope may swallow)


def trace_variables() -> dict[str, str]:
    """Return `TRACEPARENT` of the current OpenTelemetry span, for the environment of a program.

    Empty where nothing is traced: then no part of OpenTelemetry has been imported, or no span is
    current.
    """
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None or trace.get_current_span() is trace.INVALID_SPAN:
        return {}
    from opentelemetry import propagate  # noqa: PLC0415 - see above

    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    names = ("traceparent", "tracestate")
    return {name.upper(): carrier[name] for name in names if name in carrier}


CALL_VARIABLE = "CLEW_CALL"
"""Marks the processes of one call, including those that leave its process group."""

_GUARD = """
trap '' HUP INT QUIT TERM
group=
while read -r line; do
    [ "$line" = done ] && exit
    group=$line
done
[ -n "$group" ] && kill -s KILL -- "-$group"
for round in 1 2 3; do
    for file in /proc/[0-9]*/environ; do
        grep -qsaF "$1" "$file" || continue
        pid=${file#/proc/}
        kill -s KILL "${pid%/environ}"
    done
done
"""
"""Waits for the end of its input: without `done` before it, the process that wrote is dead."""


class CallGuard:
    """Kills the processes of one call if this process dies before they end."""

    def __init__(self, writer: int, mark: str) -> None:
        self.env: Mapping[str, str] = {CALL_VARIABLE: mark}
        """For the environment of the program."""
        self._writer = writer

    def watch(self, process: "Process") -> None:
        """Guard the group of a program."""
        self._send(str(process.pid))

    def release(self) -> None:
        """Leave the processes that still run alone."""
        self._send("done")

    def kill_strays(self) -> None:
        """Kill the processes of the call that have left its process group; on Linux only.

        Reads the environment of every process, so call it in a thread.
        """
        mark = f"{CALL_VARIABLE}={self.env[CALL_VARIABLE]}".encode()
        for _ in range(_STRAY_ROUNDS):
            found = _find_processes(mark)
            for pid in found:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if not found:
                return
            # A process takes a moment to die, and may just have started another one.
            time.sleep(_POLL)

    def _send(self, line: str) -> None:
        # Someone may have killed the guard.
        with suppress(BrokenPipeError):
            os.write(self._writer, f"{line}\n".encode())


@asynccontextmanager
async def guard_call() -> AsyncIterator[CallGuard]:
    """Start a guard for one program; it ends with the block.

    The guard is a shell that waits on a pipe. If this process is killed, even with SIGKILL, it
    kills the group of the program, and on Linux the processes that have left the group and still
    have the guard's variable. Background processes of a call that has ended are left alone.
    """
    mark = token_hex(16)
    reader, writer = os.pipe()
    shell: Process | None = None
    try:
        with CancelScope(shield=True), suppress(OSError):  # without a shell there is no guard
            shell = await anyio.open_process(
                ["/bin/sh", "-c", _GUARD, "clew-guard", f"{CALL_VARIABLE}={mark}"],
                stdin=reader,
                stdout=DEVNULL,
                stderr=DEVNULL,
                cwd="/",
                env={"PATH": os.defpath},
                start_new_session=True,
            )
        os.close(reader)
        guard = CallGuard(writer, mark)
        try:
            yield guard
        finally:
            guard.release()
    finally:
        os.close(writer)
        if shell is not None:
            with CancelScope(shield=True):
                await shell.wait()


async def terminate_group(process: "Process", *, grace: float) -> None:
    """End all processes of a group: SIGTERM first, SIGKILL for what lives after `grace` seconds.

    Not cancellable. `process.returncode` is None afterwards if the program hangs in the kernel.
    """
    with CancelScope(shield=True):
        _signal_group(process, signal.SIGTERM)
        with anyio.move_on_after(grace):
            await process.wait()
            while group_is_alive(process):  # noqa: ASYNC110 - no event tells that a group is empty
                await anyio.sleep(_POLL)
        _signal_group(process, signal.SIGKILL)
        with anyio.move_on_after(_GIVE_UP):
            await process.wait()


def group_is_alive(process: "Process") -> bool:
    """Return whether a process of the group still runs, the program itself included."""
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _has_only_zombies(process.pid)


async def read_pipe(reader: int, add: Callable[[bytes], None], closed: anyio.Event) -> None:
    """Pass on what arrives in a pipe until its last writer closes it, then set `closed`."""
    while True:
        await anyio.wait_readable(reader)
        chunk = os.read(reader, _CHUNK)
        if not chunk:
            closed.set()
            return
        add(chunk)


def drain_pipe(reader: int, add: Callable[[bytes], None]) -> None:
    """Pass on what is in a non-blocking pipe now; at most 4 MB, as a writer may never stop."""
    with suppress(BlockingIOError):
        for _ in range(64):
            add(os.read(reader, _CHUNK))


def _has_only_zombies(group: int) -> bool:
    """Return whether all processes of a group have ended, and wait for their parent to notice.

    The system's first process may take a second for that. Only Linux tells.
    """
    found = False
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, member_of = file.read_bytes().rpartition(b")")[2].split()[:3]
            if int(member_of) == group:
                found = True
                if state not in b"ZX":
                    return False
    return found


def _find_processes(mark: bytes) -> list[int]:
    """Return the processes with this variable; one that was killed has no environment."""
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in file.read_bytes().split(b"\0"):
                found.append(int(file.parent.name))
    return found


def _signal_group(process: "Process", number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
