"""The tools of MCP servers as a session calls them, and a tool that reads their resources."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from clew.core.models import ToolSpec
from clew.core.permissions import Access, Risk
from clew.tools.mcp.names import READ_RESOURCE, server_prefix
from clew.tools.mcp.pool import McpPool
from clew.tools.mcp.values import ServerTool
from clew.tools.protocol import ToolContext, ToolOutput

if TYPE_CHECKING:
    # Loads the SDK, which takes long.
    from clew.tools.mcp.connection import McpConnection


class McpTool:
    """Calls one tool of a server.

    A call can do anything, so it is judged as a command is. That a tool only reads is believed of
    servers that the user configured, not of those that came with a project.
    """

    max_output_chars: int | None = None

    def __init__(self, tool: ServerTool, connection: "McpConnection") -> None:
        self._tool, self._connection = tool, connection

    @property
    def spec(self) -> ToolSpec:
        """The declaration for models."""
        return self._tool.spec

    def access(self, arguments: dict[str, Any], context: ToolContext) -> Access:  # noqa: ARG002
        """Return the access of a call: rules name the tool or the server."""
        reads = self._tool.read_only and self._connection.config.trusted
        return Access(tool=self._tool.spec.name, risk=Risk.INSPECT if reads else Risk.EXECUTE)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        """Call the server; a failure is an output that says so."""
        return await self._connection.calls.call_tool(self._tool, arguments, context)


class ReadMcpResource:
    """Reads a resource of a server, or lists the resources."""

    max_output_chars: int | None = None
    spec = ToolSpec(
        name=READ_RESOURCE,
        description="Read a resource of an MCP server. Without `uri`: list the resources.",
        schema={
            "type": "object",
            "properties": {"server": {"type": "string"}, "uri": {"type": "string"}},
            "required": ["server"],
        },
    )

    def __init__(self, pool: McpPool, may_read: Callable[[str], bool]) -> None:
        self._pool, self._may_read = pool, may_read

    def has_server(self, name: str) -> bool:
        """Return whether there is a server of that name that may be read."""
        return name in self._pool.connections and self._may_read(name)

    def access(self, arguments: dict[str, Any], context: ToolContext) -> Access:  # noqa: ARG002
        """Reading changes nothing if the user configured the server."""
        server, uri = str(arguments.get("server", "")), str(arguments.get("uri", ""))
        connection = self._pool.connections.get(server)
        trusted = connection is None or connection.config.trusted or not uri
        risk = Risk.INSPECT if trusted else Risk.EXECUTE
        return Access(
            tool=READ_RESOURCE,
            risk=risk,
            target=f"{server}:{uri}",
            server=server_prefix(server) if connection is not None else "",
        )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        """Read or list."""
        servers = self._pool.connections
        connection = servers.get(name := str(arguments.get("server", "")))
        if connection is None or not self._may_read(name):
            known = ", ".join(filter(self._may_read, sorted(servers))) or "none"
            return ToolOutput(text=f"There is no such MCP server. There are: {known}.", failed=True)
        uri = arguments.get("uri")
        if uri:
            return await connection.calls.read_resource(str(uri), context)
        lines = [
            f"{one.uri}  {one.name}  {one.description}".rstrip()
            for one in connection.catalogue.resources
        ]
        return ToolOutput(text="\n".join(lines) or "The server has no resources.")
