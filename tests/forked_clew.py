"""`clew` as a process that need not import anything, because it is forked from one that has.

Most of the time of a short `clew` command goes into imports. `run_clew` forks the command from a
server that has imported Clew and does nothing else (`tests/fork_server.py`). The command is a
process with its own environment, folder and streams. Tests of the start itself, of signals and of
terminals start `python -m clew.cli` instead.
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from io import FileIO
from pathlib import Path

import anyio

SERVER = Path(__file__).with_name("fork_server.py")
KNOWN = ("PATH", "PYTHONPATH")
READ_BY_PYTHON = ("PYTHONPATH", "COVERAGE_PROCESS_START", "LANG")
"""Variables that count when Python starts, where the server has them already."""


async def run_clew(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | bytes,
    input: bytes = b"",  # noqa: A002 (as in `anyio.run_process`)
) -> "subprocess.CompletedProcess[bytes]":
    """Run `clew` to its end, and return its exit code and what it wrote."""
    with ExitStack() as files:
        stdin, to_stdin = _pipe(files)
        from_stdout, stdout = _pipe(files)
        from_stderr, stderr = _pipe(files)
        report = _start(_encode(arguments, env, cwd), [stdin, stdout, stderr])
        files.enter_context(report)
        pid = int(report.recv(64))  # comes at once
        out, err = bytearray(), bytearray()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_write, to_stdin, input)
                tasks.start_soon(_read, from_stdout, out)
                tasks.start_soon(_read, from_stderr, err)
            await anyio.wait_readable(report)
        except BaseException:
            os.kill(pid, signal.SIGKILL)
            raise
        code = int(report.recv(64))
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


def _encode(arguments: Sequence[str], env: Mapping[str, str], cwd: Path | bytes) -> bytes:
    known = {name: value for name, value in env.items() if name not in READ_BY_PYTHON}
    assert env.get("PYTHONPATH") in (None, os.environ.get("PYTHONPATH")), "start Python instead"
    assert not any(name.startswith(("PYTHON", "LC_")) for name in known), "start Python instead"
    command = {"arguments": list(arguments), "env": known, "cwd": os.fsdecode(cwd)}
    return json.dumps(command).encode() + b"\n"


def _start(command: bytes, streams: Sequence[FileIO]) -> socket.socket:
    """Send a command with its streams to the server; returns what the server reports on."""
    server = _server()
    ours, theirs = socket.socketpair()
    with theirs:
        numbers = [theirs.fileno(), *(stream.fileno() for stream in streams)]
        sent = socket.send_fds(server, [command], numbers)
        server.sendall(command[sent:])
    for stream in streams:
        stream.close()
    return ours


def _pipe(files: ExitStack) -> tuple[FileIO, FileIO]:
    source, target = os.pipe()
    return (
        files.enter_context(FileIO(source, "rb")),
        files.enter_context(FileIO(target, "wb")),
    )


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
