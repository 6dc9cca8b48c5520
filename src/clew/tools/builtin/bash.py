"""The Bash tool: runs a command line in a new shell that starts where the last one ended.

The shell writes its last working directory to an inherited file descriptor. Its number is high,
because scripts use the low ones. A shell that was replaced or killed writes nothing, and the next
one starts in the same directory.
"""

import fcntl
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from clew.core.access import Risk
from clew.tools.builtin.child_process import Job, JobResult, child_environment, run_job
from clew.tools.builtin.files import ToolFailure, failure
from clew.tools.function import tool
from clew.tools.protocol import Tool, ToolContext, ToolOutput
from clew.tools.sandbox import Sandbox, SandboxMode

DEFAULT_SECONDS = 120
MAX_SECONDS = 600
_HIGH_FD = 100
_LONGEST_PATH = 65_536
_READ_ONLY = "Read-only file system"


class BashLimits(Struct, frozen=True, kw_only=True):
    """The sandbox and the environment for commands."""

    sandbox: Sandbox
    pass_env: tuple[str, ...] = ()


class BashCall(Struct, frozen=True, kw_only=True):
    """One command line to run."""

    command: str
    seconds: float
    start: Path
    context: ToolContext
    sandboxed: bool
    unsuited: str = ""
    """Why the command runs outside the sandbox, although there is one."""


def bash_tool(*, sandbox: Sandbox | None = None, pass_env: Sequence[str] = ()) -> Tool:
    """Make the Bash tool.

    Args:
        sandbox: The sandbox for commands; None uses bubblewrap where it works.
        pass_env: Environment variables (`*` is a wildcard) that commands get although their
            names look like secrets.
    """
    limits = BashLimits(sandbox=sandbox or Sandbox(), pass_env=tuple(pass_env))

    @tool(name="Bash", risk=Risk.EXECUTE, target="command")
    async def bash(
        command: str,
        context: ToolContext,
        timeout: Annotated[float, Meta(gt=0, le=MAX_SECONDS)] = DEFAULT_SECONDS,  # noqa: ASYNC109
    ) -> ToolOutput:
        """Run a command line with bash. It returns stdout and stderr together; there is no
        input. Each call is a new shell: only the folder reached with cd is kept for the next
        call, as long as it is inside the working directory. Prefer Read, Edit, Glob and Grep for
        what they can do.

        Args:
            command: The command line.
            context: Where the call runs.
            timeout: Seconds until the command and its children are killed.
        """  # noqa: D205
        try:
            call = _prepare(command, timeout, context, limits)
            return await _run(call, limits)
        except ToolFailure as error:
            return failure(str(error))

    if limits.sandbox.active:
        words = f"{bash.spec.description} {limits.sandbox.describe()}"
        bash.spec = replace(bash.spec, description=words)
    return bash


def _prepare(command: str, seconds: float, context: ToolContext, limits: BashLimits) -> BashCall:
    start = context.shell.cwd or context.cwd
    if not start.is_dir():
        context.shell.cwd = None
        if start == context.cwd:
            raise ToolFailure(f"The working directory {start} no longer exists.")
        raise ToolFailure(
            f"Not run: {start}, where the last command ended, no longer exists. "
            f"The next command starts in {context.cwd}."
        )
    active = limits.sandbox.active
    reason = limits.sandbox.unsuited(context.cwd) if active else ""
    if reason and limits.sandbox.policy.mode is SandboxMode.ON:
        raise ToolFailure(f"Not run: commands must run in the sandbox, but {reason}.")
    return BashCall(
        command=command,
        seconds=seconds,
        start=start,
        context=context,
        sandboxed=active and not reason,
        unsuited=reason,
    )


async def _run(call: BashCall, limits: BashLimits) -> ToolOutput:
    with _report() as report:
        shell = ["bash", "-c", _prelude(report), "bash", call.command]
        if call.sandboxed:
            shell = limits.sandbox.wrap(shell, folder=call.context.cwd, cwd=call.start)
        env = child_environment(os.environ, extra=call.context.env, passed=limits.pass_env)
        job = Job(command=shell, cwd=call.start, env=env, timeout=call.seconds, pass_fds=(report,))
        try:
            ran = await run_job(job)
        except (OSError, ValueError) as error:
            raise ToolFailure(f"The command could not be started: {error}") from error
        ended = os.pread(report, _LONGEST_PATH, 0).removesuffix(b"\n")
    return _format_result(call, ran, _keep_cwd(call, Path(os.fsdecode(ended)) if ended else None))


@contextmanager
def _report() -> Iterator[int]:
    """Open the file to which a shell writes its last working directory."""
    file = _unnamed_file()
    try:
        high = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, _HIGH_FD)
    finally:
        os.close(file)
    try:
        yield high
    finally:
        os.close(high)


def _unnamed_file() -> int:
    # In memory if possible: a full disk must not prevent a command from freeing space.
    if sys.platform == "linux":
        return os.memfd_create("clew-cwd")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _prelude(report: int) -> str:
    return f"trap 'builtin pwd -P 2>/dev/null >&{report}' EXIT; eval \"$1\""


def _keep_cwd(call: BashCall, ended: Path | None) -> str:
    """Keep the last working directory for the next command; returns a note if it changed."""
    root = call.context.cwd.resolve()
    if ended is None or ended == call.start.resolve() or not ended.is_absolute():
        return ""
    if not ended.is_relative_to(root):
        call.context.shell.cwd = None
        return f"{ended} is outside the working directory: the next command starts in {root} again"
    call.context.shell.cwd = None if ended == root else ended
    return f"the next command starts in {ended}; paths for other tools still start in {root}"


def _format_result(call: BashCall, ran: JobResult, moved: str) -> ToolOutput:
    text = ran.output.text().rstrip("\n")
    lines = [text] if text else []
    lines += [f"[{note}]" for note in (*_notes(call, ran, text), moved) if note]
    return ToolOutput(
        text="\n".join(lines) or "[no output]",
        failed=bool(ran.code) or ran.timed_out,
        data={
            "exit_code": ran.code,
            "timed_out": ran.timed_out,
            "dropped": ran.output.dropped,
            "sandbox": call.sandboxed,
            "cwd": str(call.context.shell.cwd or call.context.cwd),
        },
    )


def _notes(call: BashCall, ran: JobResult, text: str) -> Iterator[str]:
    if ran.timed_out:
        yield f"timed out after {call.seconds:g} s; the command and its children were ended"
    elif ran.code < 0:
        yield f"ended by {_signal_name(-ran.code)}"
    elif ran.code:
        yield f"exit code {ran.code}"
    if ran.has_background and not call.sandboxed:
        yield (
            f"background processes keep running in process group {ran.group}, their output is "
            f"ignored; end them with: kill -- -{ran.group}"
        )
    if call.unsuited:
        yield f"run without the sandbox: {call.unsuited}"
    if call.sandboxed and _READ_ONLY in text:
        yield (
            "in the sandbox, commands can write only to the working directory and temporary folders"
        )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
