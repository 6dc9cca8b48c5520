"""Run git for Clew itself, so that nothing but git runs.

The agents of a session can change the settings of the repository, also from inside the sandbox:
a hook, a file system monitor, a filter. Git would run such a program outside of the sandbox. So
every call turns them off, and refuses network protocols. Files under a filter, such as those of
Git LFS, are therefore read and written as the repository stores them.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from subprocess import DEVNULL, PIPE

import anyio
from anyio import CancelScope
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from msgspec import Struct
from msgspec.structs import replace

from clew.core.errors import BackgroundTaskError
from clew.core.tasks import TaskErrorCategory
from clew.process import terminate_group

_GRACE = 5.0
"""Seconds in which git removes its lock files when it is cancelled."""
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.quotePath": "false",
    "core.untrackedCache": "false",
    "diff.external": "",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "pack.threads": "1",
    "submodule.recurse": "false",
}
_VARIABLES = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
"""`GIT_ALLOW_PROTOCOL` names no protocol that exists, so a partial clone cannot fetch either."""


class GitOutput(Struct, frozen=True):
    """How a git command ended."""

    code: int
    out: bytes
    error: str

    @property
    def line(self) -> str:
        """The output without the newline at its end; bytes that are not UTF-8 are kept."""
        return os.fsdecode(self.out.removesuffix(b"\n"))


class Git(Struct, frozen=True, kw_only=True):
    """Runs git in one folder."""

    program: str
    folder: Path
    env: Mapping[str, str]

    @classmethod
    async def open(cls, folder: Path, variables: Mapping[str, str] | None = None) -> "Git":
        """Prepare to run git in a folder: find the filters that must not run.

        Args:
            folder: Where git runs.
            variables: More environment, such as GIT_DIR.

        Raises:
            BackgroundTaskError: Git is not installed, or the folder cannot be used.
        """
        program = shutil.which("git")
        if program is None or not Path(program).is_absolute():
            raise make_git_error("git is not installed; install it with your package manager")
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        env |= {**_VARIABLES, **(variables or {})}
        git = cls(program=program, folder=folder, env={**env, **_encode_settings(_SETTINGS)})
        listed = await git.run(
            *("config", "--null", "--name-only", "--get-regexp", r"^filter\."), check=False
        )
        keys = [os.fsdecode(key) for key in listed.out.split(b"\0") if key]
        return replace(git, env={**env, **_encode_settings({**_SETTINGS, **_disable(keys)})})

    async def run(
        self,
        *arguments: str,
        data: bytes | None = None,
        check: bool = True,
        limit: int | None = None,
    ) -> GitOutput:
        """Run one command.

        Args:
            arguments: The command and its arguments.
            data: Its standard input.
            check: Whether a failure raises.
            limit: How many bytes it may print.

        Raises:
            BackgroundTaskError: It failed, or printed too much (category `capacity`).
        """
        command = [self.program, "--no-pager", *arguments]
        try:
            with CancelScope(shield=True):
                process = await anyio.open_process(
                    command,
                    stdin=DEVNULL if data is None else PIPE,
                    stdout=PIPE,
                    stderr=PIPE,
                    cwd=self.folder,
                    env=self.env,
                    start_new_session=True,
                )
        except (OSError, ValueError) as error:
            raise make_git_error(f"git cannot run in {self.folder}: {error}") from error
        try:
            done = await _communicate(process, data, limit)
        finally:
            if process.returncode is None:
                await terminate_group(process, grace=_GRACE)
            with CancelScope(shield=True):
                await process.aclose()
        if limit is not None and len(done.out) > limit:
            raise BackgroundTaskError(
                f"git {arguments[0]} printed more than {limit:,} bytes",
                category=TaskErrorCategory.CAPACITY,
            )
        if check and done.code:
            raise make_git_error(f"git {arguments[0]} failed: {describe_failure(done)}")
        return done

    def add_variables(self, **variables: str) -> "Git":
        """Return the same with more environment variables."""
        return replace(self, env={**self.env, **variables})


def make_git_error(
    text: str, category: TaskErrorCategory = TaskErrorCategory.RUNNER
) -> BackgroundTaskError:
    """Return the error for a failure of git."""
    return BackgroundTaskError(text, category=category)


def describe_failure(done: GitOutput) -> str:
    """Return git's own message, on one line."""
    lines = [line for line in done.error.splitlines() if not line.startswith("hint:")]
    text = " ".join(" ".join(lines).split()).removeprefix("fatal: ")
    return text or f"exit code {done.code}"


def _disable(keys: list[str]) -> dict[str, str]:
    names = {key.rpartition(".")[0] for key in keys}
    return {
        f"{name}.{part}": "false" if part == "required" else ""
        for name in sorted(names)
        for part in ("clean", "smudge", "process", "required")
    }


def _encode_settings(settings: Mapping[str, str]) -> dict[str, str]:
    found = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        found[f"GIT_CONFIG_KEY_{number}"] = key
        found[f"GIT_CONFIG_VALUE_{number}"] = value
    return found


async def _communicate(process: Process, data: bytes | None, limit: int | None) -> GitOutput:
    out, error = bytearray(), bytearray()
    async with anyio.create_task_group() as group:
        if process.stdin is not None:
            group.start_soon(_send, process.stdin, data or b"")
        if process.stderr is not None:
            group.start_soon(_receive, process.stderr, error)
        if process.stdout is not None:
            await _receive(process.stdout, out, limit)
        if limit is not None and len(out) > limit:
            process.terminate()
        code = await process.wait()
    return GitOutput(code, bytes(out), error.decode(errors="replace"))


async def _send(stream: ByteSendStream, data: bytes) -> None:
    try:
        await stream.send(data)
        await stream.aclose()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return  # git ended early, and its exit code says why


async def _receive(stream: ByteReceiveStream, into: bytearray, limit: int | None = None) -> None:
    async for chunk in stream:
        into += chunk
        if limit is not None and len(into) > limit:
            return
