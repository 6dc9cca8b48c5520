"""The MCP tools of one session: which are declared, which are found on demand."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from clew.context.estimate import tool_units
from clew.core.models import TOOL_SEARCH, ToolSpec
from clew.core.sanitize import sanitize_line
from clew.tools.mcp.names import CALL_TOOL, READ_RESOURCE, is_mcp_tool, server_prefix
from clew.tools.mcp.pool import McpPool
from clew.tools.mcp.search import CallMcpTool, ToolSearch
from clew.tools.mcp.tool import McpTool, ReadMcpResource
from clew.tools.mcp.values import ServerState
from clew.tools.protocol import Tool

if TYPE_CHECKING:
    from clew.tools.mcp.connection import McpConnection

DEFER_THRESHOLD = 0.1
"""Share of the window above which tools are found on demand."""
STARTUP_WAIT = 3.0
"""Seconds that the first prompt waits for servers."""
NAMED_WAIT = 30.0
"""The same where the user has allowed tools of servers by name: the prompt is about them."""
_SEARCH_WAIT = 30.0
"""Seconds that a search waits for servers that are starting."""
_INDEX_LINE = 240
_INDEX = 6_000
_MOST_NEWS = 30


class McpToolSource:
    """Implements `clew.tools.protocol.ToolSource` for the servers of a pool.

    Args:
        pool: The servers.
        threshold: Share of the window that declarations may take; above it all tools are deferred.
        wait: Seconds that the first prompt waits for servers.
        allows: Whether the session may use a tool of that name.
        is_agent: Declare nothing if the session may use no tool of the servers.
    """

    def __init__(
        self,
        pool: McpPool,
        *,
        threshold: float = DEFER_THRESHOLD,
        wait: float = STARTUP_WAIT,
        allows: Callable[[str], bool] = lambda _: True,
        is_agent: bool = False,
    ) -> None:
        self.pool = pool
        self._threshold, self.wait, self._allows = threshold, wait, allows
        self._is_agent, self._has_waited = is_agent, False
        self._tools: dict[str, Tool] = {}
        self._built_at = -1
        self._known: dict[str, ToolSpec] | None = None
        """The tools that the model has been told of."""
        self._own: dict[str, Tool] = {
            TOOL_SEARCH: self._make_search(""),
            CALL_TOOL: CallMcpTool(self._find_server_tool),
            READ_RESOURCE: ReadMcpResource(pool, self._may_read),
        }

    def restrict(self, allows: Callable[[str], bool]) -> "McpToolSource":
        """Return a source for a subagent, which may use only some of the tools."""
        return McpToolSource(
            self.pool,
            threshold=self._threshold,
            wait=self.wait,
            allows=lambda name: self._allows(name) and allows(name),
            is_agent=True,
        )

    async def wait_ready(self) -> None:
        """Wait for the servers to start, once and not for long."""
        if not self._has_waited:
            self._has_waited = True
            await self.pool.wait_settled(self.wait)

    def find(self, name: str) -> Tool | None:
        """Return the tool of that name, unless the session may not use it."""
        return self._own[name] if self._offers(name) else self._find_server_tool(name)

    def list_names(self) -> Sequence[str]:
        """Return the names of all tools that the session may use."""
        return [*filter(self._offers, self._own), *self._update()]

    def owns(self, name: str) -> bool:
        """Return whether the name is one of an MCP tool."""
        return is_mcp_tool(name)

    def choose_specs(self, window: int) -> tuple[ToolSpec, ...]:
        """Declare all tools if that takes little of the window; else only how to find them.

        Deferred declarations reach only those providers that can load them by name.
        """
        specs = [tool.spec for tool in self._update().values()]
        if self._is_agent and not specs:
            return ()
        deferred = not specs or tool_units(specs) > self._threshold * window
        self._known = {spec.name: spec for spec in specs}
        self._own[TOOL_SEARCH] = self._make_search(self._write_index(deferred=deferred))
        own = [
            self._own[name].spec
            for name in (CALL_TOOL, READ_RESOURCE, TOOL_SEARCH)
            if self._offers(name) and (name != READ_RESOURCE or self._has_resources())
        ]
        return (*own, *(replace(spec, deferred=True) if deferred else spec for spec in specs))

    def take_news(self) -> str:
        """Return which tools came and went since the model was last told."""
        if self._known is None:
            return ""
        now = {name: tool.spec for name, tool in self._update().items()}
        before, self._known = self._known, now
        if now == before:
            return ""
        came = [name for name, spec in now.items() if before.get(name) != spec]
        gone = [name for name in before if name not in now]
        said = []
        if came:
            how = f"{TOOL_SEARCH} shows their schemas, {CALL_TOOL} calls them"
            said.append(f"New or changed MCP tools: {_join(came)}. {how}.")
        if gone:
            said.append(f"These MCP tools are not available any more: {_join(gone)}.")
        return " ".join(said)

    def _make_search(self, index: str) -> ToolSearch:
        wait = partial(self.pool.wait_settled, _SEARCH_WAIT)
        return ToolSearch(index, self._list_tools, wait)

    def _find_server_tool(self, name: str) -> Tool | None:
        return self._update().get(name)

    def _list_tools(self) -> Sequence[Tool]:
        return list(self._update().values())

    def _update(self) -> dict[str, Tool]:
        """Return the tools of the servers, sorted by name."""
        if self._built_at != self.pool.version:
            self._built_at = self.pool.version
            self._tools = {
                tool.spec.name: McpTool(tool, connection)
                for tool, connection in self.pool.tools
                if self._allows(tool.spec.name)
            }
        return self._tools

    def _offers(self, own: str) -> bool:
        """Return whether the session has one of Clew's own tools for servers.

        A subagent with a tool of a server can find and call it; to read resources, it must have
        the tool that does so.
        """
        if own not in self._own:
            return False
        if not self._is_agent or self._allows(own):
            return True
        return own != READ_RESOURCE and bool(self._update())

    def _may_read(self, server: str) -> bool:
        """Return whether the session may read resources: it may use some tool of the server."""
        prefix = server_prefix(server)
        return self._allows(prefix) or any(name.startswith(prefix) for name in self._update())

    def _has_resources(self) -> bool:
        servers = self.pool.connections.items()
        return any(one.catalogue.resources and self._may_read(name) for name, one in servers)

    def _write_index(self, *, deferred: bool) -> str:
        """Return one line for each server whose tools are not declared."""
        status = {one.name: one.state for one in self.pool.list_status()}
        starting = [name for name, state in status.items() if state is ServerState.STARTING]
        lines = [
            line
            for name, connection in sorted(self.pool.connections.items())
            if deferred and (line := self._write_line(connection)) and name not in starting
        ]
        lines += (
            f"{sanitize_line(name, 60)}: starting, a search waits for it" for name in starting
        )
        return "\n".join(["Servers and their tools:", *lines])[:_INDEX] if lines else ""

    def _write_line(self, connection: "McpConnection") -> str:
        tools = [one for one in connection.catalogue.tools if self._allows(one.spec.name)]
        if not tools:
            return ""
        names = ", ".join(one.own_name for one in tools)
        return sanitize_line(f"{connection.config.name} ({len(tools)}): {names}", _INDEX_LINE)


def _join(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NEWS
    return ", ".join(names[:_MOST_NEWS]) + (f" and {more:,} more" if more > 0 else "")
