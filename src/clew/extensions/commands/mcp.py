"""`/mcp`: the MCP servers of the session, and whether they can be called."""

import msgspec

from clew.core.sanitize import sanitize_line
from clew.core.text import pluralize
from clew.extensions.commands.arguments import Builtin, build_result, reject_arguments
from clew.extensions.commands.protocol import Command, CommandHost, CommandResult
from clew.tools.mcp.values import ServerState, ServerStatus

_SHOWN = 100


async def _mcp(host: CommandHost, arguments: str) -> CommandResult:
    reject_arguments(arguments, "mcp")
    servers = host.mcp_servers
    if not servers:
        return build_result(
            ["no MCP server is configured; add one with: clew mcp add NAME -- COMMAND"], servers=[]
        )
    rows = [line for one in servers for line in format_server(one)]
    return build_result(rows, servers=msgspec.to_builtins(servers))


def format_server(one: ServerStatus) -> list[str]:
    """Return a server as lines: its name and state, and what is wrong."""
    name, target = sanitize_line(one.name, 40), sanitize_line(one.target, _SHOWN)
    counts = [
        pluralize(number, word)
        for number, word in (
            (one.tools, "tool"),
            (one.prompts, "prompt"),
            (one.resources, "resource"),
        )
        if number
    ]
    facts = f": {', '.join(counts)}" if one.state is ServerState.READY and counts else ""
    origin = f"  ({one.origin})" if one.origin else ""
    error = [f"      {sanitize_line(one.error, 300)}"] if one.error else []
    return [f"  {name:<18} {one.state}{facts}  {target}{origin}", *error]


MCP_COMMANDS = (
    Builtin(
        Command(
            name="mcp",
            description="show the MCP servers: state, tools, errors",
            safety="read-only",
        ),
        _mcp,
    ),
)
