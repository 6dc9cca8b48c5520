"""`clew acp` with acpx from npm, a client of the Agent Client Protocol that others wrote.

`make conformance` installs it; otherwise everything here is skipped. acpx has no command for a
fork: the client of the Python SDK does that in tests/acp.
"""

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from clew.testing.fake_openai import (
    ScriptedResponse,
    Stall,
    delta,
    fake_openai,
    text_response,
    tool_call_response,
)
from tests.conformance.installed import HOME, find_node

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.req("ACP-1"),
    pytest.mark.skipif(not HOME.is_dir(), reason="make conformance installs what this needs"),
]

WRITE = json.dumps({"file_path": "new.txt", "content": "one\n"})


class Acpx:
    """Runs acpx in a folder of its own."""

    def __init__(self, root: Path, url: str) -> None:
        self.folder = root / "project"
        self.folder.mkdir()
        command = [sys.executable, "-m", "clew.cli", "--model", "m", "--base-url", url, "acp"]
        self._agent = shlex.join(command)
        node = Path(find_node())
        self._env = {
            "HOME": str(root),
            "CLEW_HOME": str(root / "clew"),
            "PATH": f"{node.parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }
        self._start = [str(node), str(HOME / "node_modules/.bin/acpx"), "--ttl", "1"]

    async def run(self, *words: str, flags: tuple[str, ...] = ("--approve-all",)) -> str:
        """Return what a command prints."""
        place = ("--agent", self._agent, "--cwd", str(self.folder), "--format", "json")
        command = [*self._start, *place, *flags, *words]
        with anyio.fail_after(90):
            done = await anyio.run_process(command, env=self._env, check=False, stderr=None)
        return done.stdout.decode()


def list_messages(printed: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def list_updates(printed: str, kind: str) -> list[dict[str, Any]]:
    """Return the updates of a kind that acpx printed."""
    params = [one.get("params", {}) for one in list_messages(printed)]
    found = [one["update"] for one in params if isinstance(one, dict) and "update" in one]
    return [one for one in found if one["sessionUpdate"] == kind]


def join_text(printed: str) -> str:
    chunks = list_updates(printed, "agent_message_chunk")
    return "".join(one["content"]["text"] for one in chunks)


@pytest.mark.parametrize(
    ("flag", "status"), [("--approve-all", "completed"), ("--deny-all", "failed")]
)
async def test_a_prompt_asks_for_permission_and_ends(
    tmp_path: Path, flag: str, status: str
) -> None:
    script = tool_call_response("Write", WRITE), text_response("done")
    async with fake_openai(*script) as server:
        acpx = Acpx(tmp_path, server.url)
        printed = await acpx.run("exec", "write it", flags=(flag,))

    assert join_text(printed) == "done", printed
    assert "session/request_permission" in printed
    assert list_updates(printed, "tool_call_update")[-1]["status"] == status
    assert list_updates(printed, "usage_update")
    assert (acpx.folder / "new.txt").exists() is (status == "completed")


async def test_a_session_is_loaded_again_by_another_process(tmp_path: Path) -> None:
    async with fake_openai(text_response("first"), text_response("second")) as server:
        acpx = Acpx(tmp_path, server.url)
        await acpx.run("sessions", "new")
        one = await acpx.run("prompt", "remember this")
        # It keeps the agent for another second.
        while '"alive"' in await acpx.run("status"):
            pass
        two = await acpx.run("prompt", "and this")

    assert join_text(one).endswith("first"), one
    assert join_text(two).endswith("second"), two
    assert "session/resume" in two or "session/load" in two
    assert "remember this" in json.dumps(server.requests[-1]["messages"])


async def test_a_prompt_is_cancelled(tmp_path: Path) -> None:
    stall = Stall()
    script = ScriptedResponse(steps=[delta(content="Half"), stall]), text_response("again")
    async with fake_openai(*script) as server:
        acpx = Acpx(tmp_path, server.url)
        await acpx.run("sessions", "new")
        printed: list[str] = []

        async def ask() -> None:
            printed.append(await acpx.run("prompt", "go"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await stall.reached.wait()
            await acpx.run("cancel")

    assert "cancelled" in printed[0], printed[0]
