"""The Bash tool: runs a command line in a new shell that starts in the last one's final folder.

The shell reports its final folder through a file descriptor that it inherits. The descriptor's
number is high, because scripts use the low ones. A shell that is replaced or killed reports
nothing, and the next one starts in the same folder.
"""

import fcntl
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from clew.core.permissions import Risk
from clew.tools.builtin.child_process import (
    ChildProcess,
    ChildResult,
    HeadTail,
    name_signal,
    run_child,
)
from clew.tools.builtin.files import ToolFailure, failure
from clew.tools.builtin.shell import (
    ShellCall,
    ShellOptions,
    find_start,
    prepare_call,
    shell_environment,
    wrap_call,
)
from clew.tools.function import tool
from clew.tools.protocol import Terminal, Tool, ToolContext, ToolOutput
from clew.tools.sandbox import Sandbox

DEFAULT_SECONDS = 120
MAX_SECONDS = 600
_HIGH_FD = 100
_LONGEST_PATH = 65_536
_READ_ONLY = "Read-only file system"
_DENIED = "Permission denied"
_PARSE_SECONDS = 5
_CHANGES_SYNTAX = re.compile(r"shopt|alias|extglob|\bset\b|\bexit\b|\bexec\b")
"""Commands that may change how bash parses the lines after them, or keep it from reading them."""
_EVAL = 'set -- "$1"; eval "$1"'
_UNSET = (
    "for _clew in $(compgen -e); do"
    ' case "$2" in *" $_clew "*) ;; *) unset "$_clew" 2>/dev/null ;; esac; done; unset _clew; '
)
"""Removes all variables whose names are not in `$2`: an editor adds its own, with its secrets."""


def bash_tool(*, sandbox: Sandbox | None = None, pass_env: Sequence[str] = ()) -> Tool:
    """Make the Bash tool.

    Args:
        sandbox: The sandbox for commands; None uses the one that works here.
        pass_env: Names of variables that commands get although they look like secrets; `*` is a
            wildcard.
    """
    options = ShellOptions(sandbox=sandbox or Sandbox(), pass_env=tuple(pass_env))

    @tool(name="Bash", risk=Risk.EXECUTE, target="command")
    async def bash(
        command: str,
        context: ToolContext,
        timeout: Annotated[float, Meta(gt=0, le=MAX_SECONDS)] = DEFAULT_SECONDS,  # noqa: ASYNC109
        description: str = "",  # noqa: ARG001 - clients show it
    ) -> ToolOutput:
        """Run a command line with bash; stdout and stderr come back together, and there is no
        input. Each call is a new shell: only the folder reached with cd is kept for the next
        call, as long as it is inside the working directory. Prefer Read, Edit, Glob and Grep for
        what they can do.

        Args:
            command: The command line.
            context: Where the call runs.
            timeout: Seconds after which the command and its children are stopped.
            description: What the command is for, in a few words; shown to the user.
        """  # noqa: D205
        try:
            start = find_start(context)
            call = prepare_call(command, start=start, context=context, options=options)
            return await _run(call, timeout, options)
        except ToolFailure as error:
            return failure(str(error))

    bash.find_problem = _find_problem
    if options.sandbox.active:
        words = f"{bash.spec.description} {options.sandbox.describe()}"
        bash.spec = replace(bash.spec, description=words)
    return bash


def _find_problem(command: str, **_: object) -> str:
    if not command.strip():
        return "The command is empty."
    if all(not line or line.startswith("#") for line in map(str.strip, command.splitlines())):
        return "The command is only a comment."
    return "The command has a null character." if "\0" in command else _find_syntax_error(command)


def _find_syntax_error(command: str) -> str:
    """Say why bash cannot parse a command; nothing is run."""
    if _CHANGES_SYNTAX.search(command):
        return ""
    try:
        parsed = subprocess.run(  # noqa: S603 - it only parses
            ["bash", "--norc", "--noprofile", "-n", "-c", command],  # noqa: S607
            env={"PATH": os.environ.get("PATH", os.defpath)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PARSE_SECONDS,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
    problem = parsed.stderr.decode(errors="replace").strip()
    failed = parsed.returncode and problem
    return f"Not run: bash cannot parse the command.\n{problem}" if failed else ""


async def _run(call: ShellCall, seconds: float, options: ShellOptions) -> ToolOutput:
    if call.context.terminal is not None:
        shown = await _run_in_terminal(call.context.terminal, call, seconds, options)
        if shown is not None:
            return shown
    with _report() as report:
        shell = ["bash", "-c", _prelude(report), "bash", call.command]
        call, command = await wrap_call(call, shell, options)
        child = ChildProcess(
            command=command,
            cwd=call.start,
            env=shell_environment(call, options),
            timeout=seconds,
            pass_fds=(report,),
            progress=call.context.progress,
        )
        try:
            result = await run_child(child)
        except (OSError, ValueError) as error:
            raise ToolFailure(f"The command could not be started: {error}") from error
        reported = os.pread(report, _LONGEST_PATH, 0).removesuffix(b"\n")
    final = Path(os.fsdecode(reported)) if reported else None
    return _output(call, result, _update_cwd(call, final))


async def _run_in_terminal(
    terminal: Terminal, call: ShellCall, seconds: float, options: ShellOptions
) -> ToolOutput | None:
    """Run a command where the user sees it; None if that is not possible."""
    env = shell_environment(call, options)
    with tempfile.TemporaryDirectory(prefix="clew-cwd-") as folder:
        report = Path(folder, "cwd")
        script = (
            f"{_UNSET}trap 'builtin pwd -P 2>/dev/null >{shlex.quote(str(report))}' EXIT; {_EVAL}"
        )
        shell = ["bash", "-c", script, "bash", call.command, f" {' '.join(env)} "]
        call, command = await wrap_call(call, shell, options)
        progress, latest = call.context.progress, [""]

        def show(output: str) -> None:
            latest[0] = output
            if progress is not None:
                progress.report(output)

        if progress is not None:
            progress.get_partial = lambda: latest[0]
        found = await terminal.run(
            command,
            cwd=call.start,
            env=env,
            seconds=seconds,
            report=show,
            call_id=call.context.call_id,
        )
        reported = _read_report(report)
    if found is None:
        return None
    output = HeadTail()
    output.add(found.output.encode())
    result = ChildResult(
        output=output,
        code=found.code,
        timed_out=found.timed_out,
        timeout=seconds,
        group=0,
        has_background=False,
    )
    return _output(call, result, _update_cwd(call, Path(reported) if reported else None))


def _read_report(path: Path) -> str:
    try:
        return path.read_text().removesuffix("\n")
    except OSError:
        return ""


@contextmanager
def _report() -> Iterator[int]:
    """Open the file into which a shell writes its final folder."""
    file = _create_unnamed_file()
    try:
        high = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, _HIGH_FD)
    finally:
        os.close(file)
    try:
        yield high
    finally:
        os.close(high)


def _create_unnamed_file() -> int:
    # In memory if possible: when the disk is full, commands must still run to free space.
    if sys.platform == "linux":
        return os.memfd_create("clew-cwd")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _prelude(report: int) -> str:
    return f"trap 'builtin pwd -P 2>/dev/null >&{report}' EXIT; eval \"$1\""


def _update_cwd(call: ShellCall, final: Path | None) -> str:
    """Start the next shell in the final folder of this one; return a note if it differs."""
    root = call.context.cwd.resolve()
    if final is None or final == call.start.resolve() or not final.is_absolute():
        return ""
    if not final.is_relative_to(root):
        call.context.shell.cwd = None
        return f"{final} is outside the working directory: the next command starts in {root} again"
    call.context.shell.cwd = None if final == root else final
    return f"the next command starts in {final}; paths for other tools still start in {root}"


def _output(call: ShellCall, result: ChildResult, moved: str) -> ToolOutput:
    text = result.output.text().rstrip("\n")
    lines = [text] if text else []
    lines += [f"[{note}]" for note in (*_notes(call, result, text), moved) if note]
    return ToolOutput(
        text="\n".join(lines) or "[no output]",
        failed=bool(result.code) or result.timed_out,
        data={
            "exit_code": result.code,
            "timed_out": result.timed_out,
            "dropped": result.output.dropped,
            "sandbox": call.sandboxed,
            "cwd": str(call.context.shell.cwd or call.context.cwd),
        },
    )


def _notes(call: ShellCall, result: ChildResult, text: str) -> Iterator[str]:
    if result.timed_out:
        yield f"timed out after {result.timeout:g} s; the command and its children were stopped"
    elif result.code < 0:
        yield f"killed by {name_signal(-result.code)}"
    elif result.code:
        yield f"exit code {result.code}"
    if result.has_background and not call.ends_processes:
        yield (
            f"background processes keep running in process group {result.group}; their output is "
            f"not captured. Stop them with: kill -- -{result.group}"
        )
    if call.unsuited:
        yield f"run without the sandbox: {call.unsuited}"
    if call.sandboxed and _READ_ONLY in text:
        yield (
            "in the sandbox, commands can write only to the working directory and temporary folders"
        )
    if _DENIED in text and (call.denied.hidden or call.denied.read_only):
        yield "in the sandbox, commands cannot reach files that deny rules name"
    for rule in call.denied.uncovered:
        yield f"there are too many folders to protect every file that the rule {rule} forbids"
