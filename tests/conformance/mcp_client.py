"""Clew's MCP client as the conformance suite runs it: `python mcp_client.py URL`."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import anyio

from clew.core.permissions import Approval, PermissionAnswer
from clew.sdk.host import Host
from clew.tools.mcp.config import ServerConfig
from clew.tools.mcp.pool import McpPool
from clew.tools.mcp.source import McpToolSource
from clew.tools.protocol import ToolContext

ARGUMENTS = {"add_numbers": {"a": 5, "b": 3}}


async def say_yes(_: str, __: Mapping[str, object]) -> PermissionAnswer:
    return PermissionAnswer(approval=Approval.ONCE)


async def main(url: str) -> None:
    """Connect, and call every tool once."""
    config = ServerConfig(name="suite", transport="http", url=url)
    async with Host() as host:
        pool = McpPool([config], cwd=Path.cwd(), environ=os.environ)
        host.add(pool)
        pool.start(host.start_soon)
        await pool.wait_settled(20)
        source = McpToolSource(pool)
        context = ToolContext(cwd=Path.cwd(), ask=say_yes)
        for tool, _ in pool.tools:
            found = source.find(tool.spec.name)
            assert found is not None
            output = await found.run(dict(ARGUMENTS.get(tool.own_name, {})), context)
            if output.failed:
                sys.exit(1)


if __name__ == "__main__":
    anyio.run(main, sys.argv[-1])
