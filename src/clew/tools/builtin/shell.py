"""What commands of a session have in common: folder, sandbox, environment.

The Bash tool runs them to their end; `clew.runtime.process_runner` runs them in the background.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from clew.core.permissions import DeniedPaths
from clew.tools.builtin.child_process import child_environment
from clew.tools.builtin.files import ToolFailure
from clew.tools.protocol import ToolContext
from clew.tools.sandbox import Sandbox, SandboxMode


class ShellOptions(Struct, frozen=True, kw_only=True):
    """The sandbox for commands, and the secrets they may see."""

    sandbox: Sandbox
    pass_env: tuple[str, ...] = ()


class ShellCall(Struct, frozen=True, kw_only=True):
    """One command line, checked and ready to run."""

    command: str
    start: Path
    context: ToolContext
    sandboxed: bool
    ends_processes: bool = False
    """Do processes that it leaves behind end with it?"""
    denied: DeniedPaths = DeniedPaths()
    """Paths that it must not reach."""
    unsuited: str = ""
    """Why it runs without the sandbox, although there is one."""


def prepare_call(
    command: str, *, start: Path, context: ToolContext, options: ShellOptions
) -> ShellCall:
    """Check whether a command can start in a folder, and whether in the sandbox.

    Raises:
        ToolFailure: The folder does not exist, or the command must not run without the sandbox.
    """
    if not start.is_dir():
        raise ToolFailure(f"The working directory {start} no longer exists.")
    active = options.sandbox.active
    reason = options.sandbox.explain_unsuited(context.cwd) if active else ""
    if reason and options.sandbox.policy.mode is SandboxMode.ON:
        raise ToolFailure(f"Not run: commands must run in the sandbox, but {reason}.")
    return ShellCall(
        command=command,
        start=start,
        context=context,
        sandboxed=active and not reason,
        ends_processes=options.sandbox.ends_processes and not reason,
        unsuited=reason,
    )


def find_start(context: ToolContext) -> Path:
    """Return the folder in which the next command starts: where the last one ended.

    Raises:
        ToolFailure: Another command has changed the folder since the call was allowed, or the
            folder no longer exists.
    """
    start = context.shell.cwd or context.cwd
    if context.allowed_paths and str(start.resolve()) != context.allowed_paths[0]:
        raise ToolFailure("Not run: another command has changed the folder meanwhile. Try again.")
    if start != context.cwd and not start.is_dir():
        context.shell.cwd = None
        raise ToolFailure(
            f"Not run: {start}, where the last command ended, no longer exists. "
            f"The next command starts in {context.cwd}."
        )
    return start


async def wrap_call(
    call: ShellCall, shell: Sequence[str], options: ShellOptions
) -> tuple[ShellCall, list[str]]:
    """Return the command line that runs `shell` in the sandbox, if there is one.

    The call that is returned also has the paths that are denied now.
    """
    if not call.sandboxed:
        return call, list(shell)
    find = call.context.find_denied
    if find is not None:
        call = replace(call, denied=await anyio.to_thread.run_sync(find))
    folder = call.context.cwd
    return call, options.sandbox.wrap(shell, folder=folder, cwd=call.start, denied=call.denied)


def shell_environment(call: ShellCall, options: ShellOptions) -> dict[str, str]:
    """Return the environment of a command: that of this process, without secrets."""
    return child_environment(
        os.environ,
        extra=call.context.env,
        passed=options.pass_env,
        secrets=call.context.redact_values or (),
    )
