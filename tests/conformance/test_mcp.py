"""MCP against servers that people use, of the current protocol and of the first one.

`make conformance` installs them and runs this; otherwise everything here is skipped.
"""

import json
import os
import signal
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
from tests.conformance.installed import HOME, find_node

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.req("TOL-6"),
    pytest.mark.skipif(not HOME.is_dir(), reason="make conformance installs what this needs"),
]


@dataclass(frozen=True)
class Real:
    """A server that people use, and a call with its answer."""

    name: str
    command: tuple[str, ...]
    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    says: str = ""
    protocol: str = ""
    """The version that it speaks, where that matters."""


def python(name: str, *arguments: str) -> tuple[str, ...]:
    return (str(HOME / "python/bin/python"), "-m", name, *arguments)


def node(name: str, *arguments: str) -> tuple[str, ...]:
    return ("{node}", str(HOME / "node_modules" / name / "dist/index.js"), *arguments)


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
        node("@modelcontextprotocol/server-filesystem", "{folder}"),
        "read_text_file",
        {"path": "{folder}/note.txt"},
        "the note",
    ),
    Real(
        "everything",
        node("@modelcontextprotocol/server-everything"),
        "echo",
        {"message": "hello"},
        "hello",
    ),
    Real("memory", node("@modelcontextprotocol/server-memory"), "read_graph", {}, "entities"),
    Real(
        "memory2024",
        node("server-memory-2024"),
        "read_graph",
        {},
        "entities",
        protocol="2024-11-05",
    ),
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
            status = pool.list_status()[0]
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

    assert status.state is ServerState.READY
    assert real.protocol in ("", status.version)
    assert real.says in first.text
    assert outputs[0].failed
    assert "ended during this call" in outputs[0].text
    assert real.says in last.text
    assert set(find_children()) == known
