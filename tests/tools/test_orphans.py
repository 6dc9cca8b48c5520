"""No process of a running call outlives Clew, even if Clew is killed with SIGKILL.

Every process of the scripts holds a named pipe open: its end of file is the event that says that
all of them are gone.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import pytest

from clew.process import CALL_VARIABLE, guard_call, start_group
from clew.tools.sandbox.policy import SandboxPolicy
from clew.tools.sandbox.selection import Sandbox

pytestmark = [pytest.mark.anyio, pytest.mark.req("TOL-5")]

ROOT = Path(__file__).parent.parent.parent
IGNORING = "trap '' TERM HUP INT QUIT\nexec 9>pipe\n"
SLEEP = "sleep 1000 >/dev/null 2>&1 </dev/null"
SCRIPTS = {
    "a command": f"{IGNORING}echo ready >&9\n{SLEEP}\n",
    "a child in the background": f"{IGNORING}{SLEEP} &\necho ready >&9\n{SLEEP}\n",
    "a child in another session": f"{IGNORING}setsid {SLEEP} &\necho ready >&9\n{SLEEP}\n",
    "a grandchild that was left by its parent": (
        f'{IGNORING}(setsid sh -c "{SLEEP} &" &)\necho ready >&9\n{SLEEP}\n'
    ),
}


@contextmanager
def running(kind: str, folder: Path, script: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run Clew until the block ends."""
    (folder / "x").write_text(script)
    os.mkfifo(folder / "pipe")
    command = [sys.executable, "-m", "tests.tools.killed_child", kind, str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as child:
        try:
            yield child
        finally:
            child.kill()


@pytest.mark.slow("kills processes")
@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("kind", ["plain", "sandbox", "hook", "background"])
async def test_a_killed_clew_leaves_no_process_of_a_running_call(
    kind: str, name: str, tmp_path: Path
) -> None:
    if kind == "sandbox" and not Sandbox(SandboxPolicy()).active:
        pytest.skip("needs a sandbox")
    with running(kind, tmp_path, SCRIPTS[name]) as clew, anyio.fail_after(60):
        pipe = await anyio.open_file(tmp_path / "pipe", "rb")
        assert await pipe.readline() == b"ready\n"

        clew.send_signal(signal.SIGKILL)
        clew.wait()

        assert await pipe.read() == b""
        await pipe.aclose()


@pytest.mark.slow("kills processes")
async def test_a_process_that_a_finished_call_left_running_is_not_killed(tmp_path: Path) -> None:
    script = f"exec 9>pipe\nnohup setsid {SLEEP} &\necho $! >&9\n"
    with running("plain", tmp_path, script) as clew, anyio.fail_after(60):
        pipe = await anyio.open_file(tmp_path / "pipe", "rb")
        server = int(await pipe.readline())
        assert clew.stdout is not None
        assert clew.stdout.read(4) == b"done"

        clew.send_signal(signal.SIGKILL)
        clew.wait()

        os.kill(server, signal.SIGKILL)  # raises an error if it is gone
        assert await pipe.read() == b""
        await pipe.aclose()


async def test_a_guard_that_was_killed_does_not_disturb_the_call(tmp_path: Path) -> None:
    async with guard_call() as guard:
        mark = f"{CALL_VARIABLE}={guard.env[CALL_VARIABLE]}".encode()
        for line in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if mark in line.read_bytes().split(b"\0"):
                    os.kill(int(line.parent.name), signal.SIGKILL)
        process = await start_group(
            ["true"],
            pipes=(subprocess.DEVNULL, subprocess.DEVNULL, subprocess.DEVNULL),
            cwd=tmp_path,
            env={**os.environ, **guard.env},
        )
        guard.watch(process)
        with anyio.fail_after(60):
            assert await process.wait() == 0
