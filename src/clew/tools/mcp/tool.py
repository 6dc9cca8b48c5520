"""A tool of an MCP server, as a session calls it."""

from typing import TYPE_CHECKING, Any

from clew.core.models import ToolSpec
from clew.core.permissions import Access, Risk
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
