"""Clew's MCP client as the conformance suite runs it: `python mcp_client.py URL`.

The suite says in variables which scenario it plays and, where the arguments of calls matter, which
calls it waits for. Otherwise every tool is called once.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import msgspec

from clew.core.permissions import Approval, PermissionAnswer
from clew.sdk.host import Host
from clew.tools.mcp.config import ServerConfig
from clew.tools.mcp.pool import McpPool
from clew.tools.mcp.source import McpToolSource
from clew.tools.protocol import ToolContext

ARGUMENTS: dict[str, dict[str, Any]] = {"add_numbers": {"a": 5, "b": 3}}
FOCAL, ECHO = "json_schema_2020_12_tool", "json_schema_echo"
"""The schema of the first one is sent to the second one, as a model gets it."""
UNANSWERED = {"json-schema-ref-no-deref"}
"""Scenarios whose server only lists tools."""


class Call(msgspec.Struct, frozen=True):
    """A call that a scenario waits for."""

    name: str
    arguments: dict[str, Any]


class Wanted(msgspec.Struct, frozen=True, rename="camel"):
    """What a scenario tells the client."""

    tool_calls: list[Call] = []


async def say_yes(_: str, __: Mapping[str, object]) -> PermissionAnswer:
    return PermissionAnswer(approval=Approval.ONCE)


def list_calls(pool: McpPool) -> list[Call]:
    """Return the calls that the scenario names, or one call of each tool."""
    text = os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")
    named = msgspec.json.decode(text, type=Wanted).tool_calls
    tools = {tool.own_name: tool.spec for tool, _ in pool.tools}
    if ECHO in tools:
        return [Call(ECHO, {"schema": tools[FOCAL].schema})]
    return named or [Call(name, ARGUMENTS.get(name, {})) for name in tools]


async def call_tools(pool: McpPool) -> list[str]:
    """Make the calls, and return what failed."""
    source, context = McpToolSource(pool), ToolContext(cwd=Path.cwd(), ask=say_yes)
    names = {tool.own_name: tool.spec.name for tool, _ in pool.tools}
    failed = []
    for call in list_calls(pool):
        found = source.find(names[call.name])
        assert found is not None
        output = await found.run(dict(call.arguments), context)
        if output.failed:
            failed.append(f"{call.name}: {output.text}")
    return failed


async def main(url: str) -> None:
    """Connect, call tools, and read every resource and prompt that the server lists."""
    config = ServerConfig(name="suite", transport="http", url=url)
    async with Host() as host:
        pool = McpPool([config], cwd=Path.cwd(), environ=os.environ)
        host.add(pool)
        pool.start(host.start_soon)
        await pool.wait_settled(20)
        failed = await call_tools(pool)
        connection, context = pool.connections["suite"], ToolContext(cwd=Path.cwd())
        for resource in connection.catalogue.resources:
            await connection.calls.read_resource(resource.uri, context)
        for prompt in connection.catalogue.prompts:
            await connection.calls.get_prompt(prompt, {}, context)
    if failed and os.environ.get("MCP_CONFORMANCE_SCENARIO") not in UNANSWERED:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    anyio.run(main, sys.argv[-1])
