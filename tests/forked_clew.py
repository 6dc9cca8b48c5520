"""`clew` as a process that need not import anything, because it is forked from one that has.

Most of the time of a short `clew` command goes into imports. `run_clew` forks the command from a
server that has imported Clew and does nothing else (`tests/fork_server.py`). The command is a
process with its own environment, folder and streams. Tests of the start itself, and those where
Python must read the environment, start `python -m clew.cli` instead.
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import cache
from io import FileIO
from pathlib import Path

import anyio

SERVER = Path(__file__).with_name("fork_server.py")
KNOWN = ("PATH", "PYTHONPATH")
READ_BY_PYTHON = ("PYTHONPATH", "COVERAGE_PROCESS_START", "LANG")
"""Variables that count when Python starts, where the server has them already."""


class ForkedClew:
    """A `clew` that runs; what the tests need of `anyio.abc.Process`."""

    def __init__(self, report: socket.socket) -> None:
        self._report = report
        self.pid = _read_number(report)  # comes at once
        self.returncode: int | None = None

    async def wait(self) -> int:
        """Wait for the end; returns the exit code."""
        if self.returncode is None:
            await anyio.wait_readable(self._report)
            self.returncode = _read_number(self._report)
        return self.returncode

    def kill(self) -> None:
        """Kill the process."""
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        """Send a signal to the process."""
        os.kill(self.pid, number)


@asynccontextmanager
async def start_clew(
    arguments: Sequence[str],
    streams: Sequence[int],
    *,
    env: Mapping[str, str],
    cwd: Path | bytes,
    in_terminal: bool = False,
) -> AsyncIterator[ForkedClew]:
    """Start `clew` on three open files, which are closed here; ends it with the block.

    Args:
        arguments: The arguments of the command.
        streams: Standard input, output and error.
        env: The environment.
        cwd: The working folder.
        in_terminal: Whether the streams are a terminal, which the process shall control.
    """
    command = _encode(arguments, env, cwd, in_terminal=in_terminal)
    with _send(command, streams) as report:
        process = ForkedClew(report)
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                with anyio.CancelScope(shield=True):
                    await process.wait()


async def run_clew(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | bytes,
    input: bytes = b"",  # noqa: A002 (as in `anyio.run_process`)
) -> "subprocess.CompletedProcess[bytes]":
    """Run `clew` to its end, and return its exit code and what it wrote."""
    with ExitStack() as files:
        stdin, to_stdin = os.pipe()
        from_stdout, stdout = os.pipe()
        from_stderr, stderr = os.pipe()
        ours = [files.enter_context(FileIO(to_stdin, "wb"))]
        ours += (files.enter_context(FileIO(file, "rb")) for file in (from_stdout, from_stderr))
        out, err = bytearray(), bytearray()
        async with start_clew(arguments, [stdin, stdout, stderr], env=env, cwd=cwd) as process:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_write, ours[0], input)
                tasks.start_soon(_read, ours[1], out)
                tasks.start_soon(_read, ours[2], err)
            code = await process.wait()
    return subprocess.CompletedProcess(arguments, code, bytes(out), bytes(err))


@cache
def _server() -> socket.socket:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", SERVER, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.PIPE,  # pipes, as those of the commands will be
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={name: os.environ[name] for name in KNOWN if name in os.environ},
        )
    atexit.register(process.communicate)
    atexit.register(ours.close)
    return ours


def _encode(
    arguments: Sequence[str], env: Mapping[str, str], cwd: Path | bytes, *, in_terminal: bool
) -> bytes:
    known = {name: value for name, value in env.items() if name not in READ_BY_PYTHON}
    assert env.get("PYTHONPATH") in (None, os.environ.get("PYTHONPATH")), "start Python instead"
    assert not any(name.startswith(("PYTHON", "LC_")) for name in known), "start Python instead"
    command = {"arguments": list(arguments), "env": known, "cwd": os.fsdecode(cwd)}
    return json.dumps({**command, "in_terminal": in_terminal}).encode() + b"\n"


def _send(command: bytes, streams: Sequence[int]) -> socket.socket:
    """Send a command with its streams to the server; returns what the server reports on."""
    server = _server()
    ours, theirs = socket.socketpair()
    with theirs:
        sent = socket.send_fds(server, [command], [theirs.fileno(), *streams])
        server.sendall(command[sent:])
    for stream in set(streams):
        os.close(stream)
    return ours


def _read_number(report: socket.socket) -> int:
    line = b""
    while not line.endswith(b"\n"):
        piece = report.recv(1)
        assert piece, "the fork server has failed: run tests/fork_server.py 0"
        line += piece
    return int(line)


async def _write(stream: FileIO, data: bytes) -> None:
    os.set_blocking(stream.fileno(), False)
    try:
        while data:
            await anyio.wait_writable(stream.fileno())
            data = data[stream.write(data) or 0 :]
    except BrokenPipeError:
        pass  # the command ended without reading it all
    finally:
        stream.close()


async def _read(stream: FileIO, into: bytearray) -> None:
    while True:
        await anyio.wait_readable(stream.fileno())
        piece = stream.read(65_536)
        if not piece:
            return
        into += piece
