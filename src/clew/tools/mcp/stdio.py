"""The stdio transport: a server as a child process, in a process group of its own.

Unlike the SDK's transport it limits the length of a message, skips output that is no message,
keeps the end of standard error for reports, and leaves no process of the group behind.
"""

import os
import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import anyio
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import DEFAULT_INHERITED_ENV_VARS
from mcp.shared.message import SessionMessage

from clew.core.errors import ConfigError
from clew.core.sanitize import sanitize
from clew.process import group_is_alive, guard_call, read_pipe, start_group, terminate_group
from clew.tools.mcp.config import ServerConfig

MAX_MESSAGE = 16_000_000
"""Bytes of one message; a server that sends a longer one is cut off."""
_MAX_STDERR = 4_000
_SHOWN_LINES = 10
_INHERITED = frozenset(DEFAULT_INHERITED_ENV_VARS) | {
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
}
_PROXIES = frozenset({"ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"})
_EXIT_GRACE = 1.0
"""Seconds for a server to end when its input is closed, and again after SIGTERM."""
_POLL = 0.02
_PACKAGES = {"uvx": "uv", "uv": "uv", "npx": "Node.js", "node": "Node.js", "docker": "Docker"}
"""Where programs come from that many servers are started with."""

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


class ErrorTail:
    """Keeps the end of what a server writes to standard error."""

    def __init__(self) -> None:
        self._data = b""

    def add(self, chunk: bytes) -> None:
        """Add output."""
        self._data = (self._data + chunk)[-_MAX_STDERR:]

    @property
    def last_lines(self) -> tuple[str, ...]:
        """The last lines that are not empty."""
        lines = sanitize(self._data.decode("utf-8", "replace")).splitlines()
        return tuple(line.rstrip() for line in lines if line.strip())[-_SHOWN_LINES:]


def choose_environment(environ: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a server: a few harmless ones, and those of its configuration.

    Harmless are those that say how the network is reached, unless they contain a password.
    """
    kept = {
        key: value
        for key, value in environ.items()
        if key in _INHERITED or (key.upper() in _PROXIES and "@" not in value)
    }
    return {**kept, **own}


@asynccontextmanager
async def open_stdio(
    config: ServerConfig, *, cwd: Path, environ: Mapping[str, str], errors: ErrorTail
) -> AsyncGenerator[tuple[Incoming, Outgoing], None]:
    """Start a server and yield its streams; at the end its whole process group is gone.

    Raises:
        ConfigError: The program cannot be started.
    """
    pipes = _Pipes()
    try:
        async with guard_call() as guard:
            env = {**choose_environment(environ, config.env), **guard.env}
            folder = cwd / os.path.expanduser(config.cwd)  # noqa: PTH111, ASYNC240
            command = (config.command, *config.args)
            try:
                process = await start_group(command, pipes=pipes.theirs, cwd=folder, env=env)
            except (OSError, ValueError) as error:
                why = _explain(config.command, env.get("PATH"), error)
                raise ConfigError(f"{config.command} cannot be started: {why}") from error
            try:
                guard.watch(process)
                pipes.close_theirs()
                async with _bridge(pipes, errors) as streams:
                    yield streams
            finally:
                with anyio.CancelScope(shield=True):
                    pipes.close_input()
                    with anyio.move_on_after(_EXIT_GRACE):
                        while process.returncode is None:  # noqa: ASYNC110 - see `_POLL`
                            await anyio.sleep(_POLL)
                    if process.returncode is None or group_is_alive(process):
                        await terminate_group(process, grace=_EXIT_GRACE)
                    await process.wait()
    finally:
        pipes.close()


def _explain(command: str, path: str | None, error: OSError | ValueError) -> str:
    """Return why a program cannot be started."""
    if isinstance(error, FileNotFoundError) and shutil.which(command, path=path) is None:
        hint = _PACKAGES.get(command, "")
        return f"there is no such program in your PATH{f'; it comes with {hint}' if hint else ''}"
    return str(getattr(error, "strerror", None) or error)


@asynccontextmanager
async def _bridge(
    pipes: "_Pipes", errors: ErrorTail
) -> AsyncGenerator[tuple[Incoming, Outgoing], None]:
    """Connect the pipes of a process with the streams that the SDK uses."""
    arrived, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, leaving = anyio.create_memory_object_stream[SessionMessage](0)
    async with arrived, incoming, outgoing, leaving, anyio.create_task_group() as tasks:
        tasks.start_soon(_read_messages, pipes.output, arrived)
        tasks.start_soon(partial(read_pipe, pipes.errors, errors.add, anyio.Event()))
        tasks.start_soon(_write_messages, pipes.input, leaving, arrived)
        try:
            yield incoming, outgoing
        finally:
            tasks.cancel_scope.cancel()


async def _read_messages(
    reader: int, arrived: MemoryObjectSendStream[SessionMessage | Exception]
) -> None:
    """Pass on the messages of a server until it ends, or sends one that is too long."""
    rest = bytearray()
    async with arrived:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            while True:
                await anyio.wait_readable(reader)
                chunk = os.read(reader, 65_536)
                if not chunk:
                    return
                rest += chunk
                if b"\n" in chunk:
                    *lines, rest = rest.split(b"\n")
                    for line in lines:
                        if (message := _parse(bytes(line))) is not None:
                            await arrived.send(message)
                if len(rest) > MAX_MESSAGE:
                    return


def _parse(line: bytes) -> SessionMessage | None:
    """Return the message in a line; None for anything else, such as a greeting."""
    if not line.lstrip().startswith(b"{") or len(line) > MAX_MESSAGE:
        return None
    try:
        return SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None


async def _write_messages(
    writer: int,
    leaving: MemoryObjectReceiveStream[SessionMessage],
    arrived: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    """Write messages; when the server does not read any more, the connection is over."""
    try:
        async with leaving:
            async for item in leaving:
                data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
                await _write(writer, data + b"\n")
    except OSError:
        await arrived.aclose()


async def _write(writer: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        await anyio.wait_writable(writer)
        with suppress(BlockingIOError):
            left = left[os.write(writer, left) :]


class _Pipes:
    """Three pipes to a process; our ends do not block."""

    def __init__(self) -> None:
        stdin, self.input = os.pipe()
        self.output, stdout = os.pipe()
        self.errors, stderr = os.pipe()
        self.theirs = (stdin, stdout, stderr)
        self._open = {*self.theirs, self.input, self.output, self.errors}
        os.set_blocking(self.input, False)

    def close_theirs(self) -> None:
        self._close(*self.theirs)

    def close_input(self) -> None:
        self._close(self.input)

    def close(self) -> None:
        self._close(*self._open.copy())

    def _close(self, *descriptors: int) -> None:
        for one in descriptors:
            if one in self._open:
                self._open.remove(one)
                os.close(one)
