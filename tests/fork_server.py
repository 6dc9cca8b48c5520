"""A process that has imported Clew, and forks `clew` for each command that it gets.

`tests/forked_clew.py` starts it with the number of a socket. A command is a line of JSON, and comes
with four files: a socket to report on, and the three standard streams. The report is the process
id, and later the exit code. The server ends when the socket is closed.
"""

import fcntl
import gc
import json
import os
import runpy
import signal
import socket
import sys
import termios
import time
from importlib import import_module
from io import TextIOWrapper
from typing import Any

from clew.providers.tokenizers import meter_for

IMPORTED = (
    "anyio._backends._asyncio",
    "clew.checkpoints.file_checkpoints",
    "clew.cli.arguments",
    "clew.cli.log",
    "clew.cli.print_mode",
    "clew.cli.prompt",
    "clew.cli.sessions",
    "clew.cli.streams",
    "clew.core.redaction.redactor",
    "clew.providers.connections",
    "clew.providers.openai_chat",
    "clew.stores.sqlite",
    "clew.tui.app",
    "genai_prices.data",
    "genai_prices.decompose",
)
"""What most commands import."""

MODEL = "gpt-4o"
"""The model that most commands name; its vocabulary takes a while to load."""


def serve(control: socket.socket) -> dict[str, Any] | None:
    """Fork for each command; returns the command in its process, and None at the end."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that nobody need wait for supervisors
    while True:
        head, files, _, _ = socket.recv_fds(control, 65_536, 4)
        if not head:
            return None
        while not head.endswith(b"\n"):
            head += control.recv(65_536)
        if os.fork() == 0:
            control.close()
            supervise(files)
            return enter(json.loads(head), files)
        for file in files:
            os.close(file)


def supervise(files: list[int]) -> None:
    """Fork again; one process returns, the other one waits for it and reports how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if (pid := os.fork()) == 0:
        return
    for file in files[1:]:
        os.close(file)
    os.write(files[0], f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    os.write(files[0], f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def enter(command: dict[str, Any], files: list[int]) -> dict[str, Any]:
    """Give this process the streams, the environment and the folder of the command."""
    for stream, file in enumerate(files[1:]):
        os.dup2(file, stream)
    for file in files:
        os.close(file)
    if command["in_terminal"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        assert isinstance(sys.stdout, TextIOWrapper)
        sys.stdout.reconfigure(line_buffering=True)
    os.environ.clear()
    os.environ.update(command["env"])
    time.tzset()
    os.chdir(command["cwd"])
    return command


def main() -> None:
    """Import, fork, and be `clew` in each fork."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    for name in IMPORTED:
        import_module(name)
    if (count_tokens := meter_for(MODEL)) is not None:
        count_tokens("Grüße – 1, it's")
    gc.freeze()
    command = serve(control)
    if command is not None:
        sys.argv[1:] = command["arguments"]
        runpy.run_module("clew.cli", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
