"""Bash: a command line, in a shell of its own that starts where the last one ended.

The shell says where it ended through a file that it inherits; its number is high, because
scripts use the low ones. A shell that is replaced or killed says nothing, and the next one
starts where it did.
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
from clew.tools.builtin.files import Unusable, failure
from clew.tools.function import tool
from clew.tools.protocol import Tool, ToolContext, ToolOutput
from clew.tools.sandbox import Sandbox, SandboxMode

DEFAULT_SECONDS = 120
MAX_SECONDS = 600
_HIGH_FD = 100
_LONGEST_PATH = 65_536
_READ_ONLY = "Read-only file system"


class Limits(Struct, frozen=True, kw_only=True):
    """What commands are kept from."""

    sandbox: Sandbox
    pass_env: tuple[str, ...] = ()


class Call(Struct, frozen=True, kw_only=True):
    """One command line on its way."""

    command: str
    seconds: float
    start: Path
    place: ToolContext
    boxed: bool
    unsuited: str = ""
    """Why it is not, although there is a sandbox."""


def bash_tool(*, sandbox: Sandbox | None = None, pass_env: Sequence[str] = ()) -> Tool:
    """Make the Bash tool.

    Args:
        sandbox: What commands run in; None uses bubblewrap where it works.
        pass_env: Names of variables, with `*` for anything, that commands get although they
            look like secrets.
    """
    limits = Limits(sandbox=sandbox or Sandbox(), pass_env=tuple(pass_env))

    @tool(name="Bash", risk=Risk.EXECUTE, target="command")
    async def bash(
        command: str,
        place: ToolContext,
        timeout: Annotated[float, Meta(gt=0, le=MAX_SECONDS)] = DEFAULT_SECONDS,  # noqa: ASYNC109
    ) -> ToolOutput:
        """Run a command line with bash; stdout and stderr come back together, and there is no
        input. Each call is a new shell: only the folder reached with cd is kept for the next
        call, as long as it is inside the working folder. Prefer Read, Edit, Glob and Grep for
        what they can do.

        Args:
            command: The command line.
            place: Where the call runs.
            timeout: Seconds until the command and its children are ended.
        """  # noqa: D205
        try:
            call = _call(command, timeout, place, limits)
            return await _run(call, limits)
        except Unusable as error:
            return failure(str(error))

    if limits.sandbox.active:
        words = f"{bash.spec.description} {limits.sandbox.describe()}"
        bash.spec = replace(bash.spec, description=words)
    return bash


def _call(command: str, seconds: float, place: ToolContext, limits: Limits) -> Call:
    start = place.shell.cwd or place.cwd
    if not start.is_dir():
        place.shell.cwd = None
        if start == place.cwd:
            raise Unusable(f"The working folder {start} does not exist any more.")
        raise Unusable(
            f"Not run: {start}, where the last command ended, does not exist any more. "
            f"The next command starts in {place.cwd}."
        )
    active = limits.sandbox.active
    reason = limits.sandbox.unsuited(place.cwd) if active else ""
    if reason and limits.sandbox.policy.mode is SandboxMode.ON:
        raise Unusable(f"Not run: commands must run in the sandbox, but {reason}.")
    return Call(
        command=command,
        seconds=seconds,
        start=start,
        place=place,
        boxed=active and not reason,
        unsuited=reason,
    )


async def _run(call: Call, limits: Limits) -> ToolOutput:
    with _report() as report:
        shell = ["bash", "-c", _prelude(report), "bash", call.command]
        if call.boxed:
            shell = limits.sandbox.wrap(shell, folder=call.place.cwd, cwd=call.start)
        env = child_environment(os.environ, extra=call.place.env, passed=limits.pass_env)
        job = Job(command=shell, cwd=call.start, env=env, timeout=call.seconds, pass_fds=(report,))
        try:
            ran = await run_job(job)
        except (OSError, ValueError) as error:
            raise Unusable(f"The command could not be started: {error}") from error
        ended = os.pread(report, _LONGEST_PATH, 0).removesuffix(b"\n")
    return _worded(call, ran, _moved(call, Path(os.fsdecode(ended)) if ended else None))


@contextmanager
def _report() -> Iterator[int]:
    """Open the file into which a shell writes where it ended."""
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
    # In memory where that is possible: a full disk must not keep commands from clearing it.
    if sys.platform == "linux":
        return os.memfd_create("clew-cwd")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _prelude(report: int) -> str:
    return f"trap 'builtin pwd -P 2>/dev/null >&{report}' EXIT; eval \"$1\""


def _moved(call: Call, ended: Path | None) -> str:
    """Keep where the shell ended for the next one; say so if that is somewhere else."""
    root = call.place.cwd.resolve()
    if ended is None or ended == call.start.resolve() or not ended.is_absolute():
        return ""
    if not ended.is_relative_to(root):
        call.place.shell.cwd = None
        return f"{ended} is outside the working folder: the next command starts in {root} again"
    call.place.shell.cwd = None if ended == root else ended
    return f"the next command starts in {ended}; paths for other tools still start in {root}"


def _worded(call: Call, ran: JobResult, moved: str) -> ToolOutput:
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
            "sandbox": call.boxed,
            "cwd": str(call.place.shell.cwd or call.place.cwd),
        },
    )


def _notes(call: Call, ran: JobResult, text: str) -> Iterator[str]:
    if ran.timed_out:
        yield f"timed out after {call.seconds:g} s; the command and its children were ended"
    elif ran.code < 0:
        yield f"ended by {_signal_name(-ran.code)}"
    elif ran.code:
        yield f"exit code {ran.code}"
    if ran.has_background and not call.boxed:
        yield (
            f"background processes go on in process group {ran.group}, their output is not "
            f"followed; end them with: kill -- -{ran.group}"
        )
    if call.unsuited:
        yield f"run without the sandbox: {call.unsuited}"
    if call.boxed and _READ_ONLY in text:
        yield "the sandbox lets commands write only in the working and temporary folders"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
