"""Command hooks: runs a program with the event on its standard input, and bounds its output."""

import os
import re
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct, field

from clew.hooks.context import HookContext
from clew.hooks.handlers import CommandHook
from clew.hooks.output import ProcessResult
from clew.hooks.protocol import HookInput
from clew.hooks.settings import Hook
from clew.process import CallGuard, guard_call, read_pipe, start_group, terminate_group

if TYPE_CHECKING:
    from anyio.abc import Process

MAX_BYTES = 65_536
"""Kept of each output stream; the rest is read and dropped."""
_CHUNK = 65_536
_GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL."""
_LINGER = 1.0
"""Seconds that children may hold the pipes once the command itself has ended."""


class BoundedOutput(Struct):
    """Keeps the beginning of a stream and counts the bytes it drops."""

    data: bytearray = field(default_factory=bytearray)
    dropped: int = 0

    def add(self, chunk: bytes) -> None:
        """Add the next bytes."""
        room = MAX_BYTES - len(self.data)
        self.data += chunk[:room]
        self.dropped += max(0, len(chunk) - room)

    def text(self) -> str:
        """Return the output that was kept."""
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


async def run_process(
    argv: Sequence[str], *, stdin: bytes, cwd: Path, env: Mapping[str, str]
) -> ProcessResult:
    """Run a command to its end and return what it printed.

    Children that still hold its pipes are terminated then. A child that closed them, such as a
    server that the command started, keeps running. Cancellation terminates the whole group; if
    this process is killed, a guard does that.

    Raises:
        OSError: The command cannot be started.
        ValueError: An argument holds a null character.
    """
    async with guard_call() as guard:
        return await _run_guarded(argv, guard, stdin=stdin, cwd=cwd, env=env)


async def _run_guarded(
    argv: Sequence[str], guard: CallGuard, *, stdin: bytes, cwd: Path, env: Mapping[str, str]
) -> ProcessResult:
    pipes = [Pipe.open() for _ in range(3)]
    given, out, err = pipes
    heads = BoundedOutput(), BoundedOutput()
    try:
        descriptors = given.reader, out.writer, err.writer
        process = await start_group(argv, pipes=descriptors, cwd=cwd, env={**env, **guard.env})
        guard.watch(process)
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
    return ProcessResult(code, heads[0].text(), heads[1].text(), heads[0].dropped)


async def _follow(
    process: "Process",
    stdin: bytes,
    pipes: Sequence[Pipe],
    heads: tuple[BoundedOutput, BoundedOutput],
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


_SHELLS = {
    None: ("/bin/sh", "-c"),
    "bash": ("bash", "-c"),
    "powershell": ("pwsh", "-NoProfile", "-NonInteractive", "-Command"),
}
_PLACEHOLDER = re.compile(r"\$\{(CLAUDE_PROJECT_DIR|CLAUDE_PLUGIN_ROOT|CLAUDE_PLUGIN_DATA)\}")
_SAFE_PATH = re.compile(r"[\w@%+=:,./ -]*")


async def run_command(
    hook: Hook, handler: CommandHook, payload: HookInput, context: HookContext
) -> ProcessResult:
    """Run the command of a hook and return its result.

    Raises:
        OSError: The command cannot be started.
        ValueError: An argument holds a null character.
    """
    paths = _paths(hook, context)
    return await run_process(
        build_argv(handler, paths),
        stdin=payload.encode(hook.event),
        cwd=choose_folder(payload, context),
        env={
            **_inherit_environment(context.environ),
            **hook.env,
            **paths,
            **_session(payload, context),
        },
    )


def build_argv(handler: CommandHook, paths: Mapping[str, str]) -> list[str]:
    """Return the arguments to start, with placeholders such as `${CLAUDE_PLUGIN_ROOT}` replaced.

    In a shell command line, a path without special characters is inserted, so that it also works
    between single quotes; the shell itself expands any other path, and never runs it as code.
    """

    def fill(text: str, *, as_code: bool = False) -> str:
        def path(match: re.Match[str]) -> str:
            value = paths.get(match[1])
            if value is None or (as_code and not _SAFE_PATH.fullmatch(value)):
                return match[0]
            return value

        return _PLACEHOLDER.sub(path, text)

    if handler.args is not None:
        return [fill(handler.command), *map(fill, handler.args)]
    return [*_SHELLS[handler.shell], fill(handler.command, as_code=True)]


def choose_folder(payload: HookInput, context: HookContext) -> Path:
    """Return the folder to run in: the working directory, or the first fallback that exists."""
    return next(folder for folder in _folders(payload, context) if folder.is_dir())


def _folders(payload: HookInput, context: HookContext) -> Iterator[Path]:
    yield Path(payload.cwd)
    yield context.project
    yield Path(context.environ.get("HOME") or "/")
    yield Path(tempfile.gettempdir())


def _paths(hook: Hook, context: HookContext) -> dict[str, str]:
    paths = {"CLAUDE_PROJECT_DIR": str(context.project)}
    if hook.source.plugin_root is not None:
        paths["CLAUDE_PLUGIN_ROOT"] = str(hook.source.plugin_root)
    if hook.source.plugin_data is not None:
        paths["CLAUDE_PLUGIN_DATA"] = str(hook.source.plugin_data)
    return paths


def _inherit_environment(environ: Mapping[str, str]) -> dict[str, str]:
    # The session itself may run under a plugin, whose folders are not those of this hook.
    foreign = ("CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA")
    return {name: value for name, value in environ.items() if name not in foreign}


def _session(payload: HookInput, context: HookContext) -> dict[str, str]:
    return {"CLEW_PROJECT_DIR": str(context.project), "CLAUDE_SESSION_ID": payload.session_id}
