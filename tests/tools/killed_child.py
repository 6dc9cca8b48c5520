"""A session that runs a command which ignores signals, until it is killed; see `test_orphans`."""

import sys
from pathlib import Path

import anyio

from clew import Session
from clew.core.permissions import PermissionMode
from clew.core.tasks import TaskKind
from clew.hooks.context import HookContext
from clew.hooks.runner import HookRunner
from clew.hooks.settings import HookSource, read_hooks
from clew.providers.scripted import ScriptedProvider, call_reply
from clew.runtime.manager import BackgroundTaskManager
from clew.runtime.process_runner import ProcessRunner
from clew.runtime.protocol import TaskRequest
from clew.session.gate import Gate
from clew.tools.builtin import builtin_tools
from clew.tools.protocol import ToolContext
from clew.tools.sandbox.policy import SandboxMode, SandboxPolicy
from clew.tools.sandbox.selection import Sandbox

SETTINGS = '{"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "sh x"}]}]}}'


async def main(kind: str, folder: Path) -> None:
    """Run the script `x` of the folder: as a command of the model, a hook or in the background."""
    if kind == "background":
        await run_in_background(folder)
    mode = SandboxMode.ON if kind == "sandbox" else SandboxMode.OFF
    settings = SETTINGS if kind == "hook" else "{}"
    session = Session(
        ScriptedProvider([call_reply(("Bash", {"command": "sh x"})), "done"]),
        model="m",
        tools=builtin_tools(sandbox=Sandbox(SandboxPolicy(mode=mode))),
        cwd=folder,
        gate=Gate(cwd=folder, mode=PermissionMode.BYPASS),
        hooks=HookRunner(
            read_hooks(settings.encode(), HookSource(name="settings.json")),
            HookContext(project=folder),
        ),
    )
    async with session:
        sys.stdout.write(await session.run("go"))
        sys.stdout.flush()
        await anyio.sleep_forever()


async def run_in_background(folder: Path) -> None:
    """Run the script as a background task."""
    context = ToolContext(cwd=folder)
    sandbox = Sandbox(SandboxPolicy(mode=SandboxMode.OFF))
    runner = ProcessRunner(folder / "logs", context=lambda: context, sandbox=sandbox)
    manager = BackgroundTaskManager([runner])
    await manager.spawn(TaskRequest(kind=TaskKind.PROCESS, prompt="sh x"))
    await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], Path(sys.argv[2]))
