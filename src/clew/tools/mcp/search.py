"""Tools on demand: find MCP tools by words, and call them by name.

The declarations of these tools never change, so that loading a schema leaves the beginning of
requests as it is, whatever the provider.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from clew.core.json_text import decode_json
from clew.core.models import TOOL_SEARCH, ToolSpec
from clew.core.permissions import Access, Risk
from clew.tools.mcp.names import CALL_TOOL
from clew.tools.protocol import Tool, ToolContext, ToolOutput

_SELECT = "select:"
_MOST = 20
_DEFAULT = 5
_WORD = re.compile(r"[a-z0-9]+")
_SEARCH_TEXT = """\
Find tools of MCP servers and read their schemas. `query` has words such as "create issue", or \
`select:NAME,NAME` for tools by name. Call a tool that it returns like your other tools if you \
can, else with CallMcpTool."""
_CALL_TEXT = """\
Call a tool of an MCP server that is not among your tools. Read its schema with ToolSearch first."""


class ToolSearch:
    """Returns the schemas of MCP tools that match a query.

    Args:
        index: What the description says about the servers.
        list_tools: Returns the tools that can be called now.
        wait: Waits for servers that are starting.
    """

    max_output_chars: int | None = None

    def __init__(
        self,
        index: str,
        list_tools: Callable[[], Sequence[Tool]],
        wait: Callable[[], Awaitable[object]],
    ) -> None:
        self._list_tools, self._wait = list_tools, wait
        self.spec = ToolSpec(
            name=TOOL_SEARCH,
            description=f"{_SEARCH_TEXT}\n{index}" if index else _SEARCH_TEXT,
            schema={
                "type": "object",
                "properties": {
                    "query": {"type": "string"},
                    "max_results": {"type": "integer", "description": f"Default {_DEFAULT}."},
                },
                "required": ["query"],
            },
        )

    def access(self, arguments: dict[str, Any], context: ToolContext) -> Access:  # noqa: ARG002
        """Reading schemas touches nothing."""
        return Access(tool=TOOL_SEARCH, risk=Risk.INSPECT, target=str(arguments.get("query") or ""))

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:  # noqa: ARG002
        """Return the tools that match best."""
        query, most = arguments.get("query"), arguments.get("max_results")
        if not isinstance(query, str) or not query.strip():
            return ToolOutput(text=f"Invalid arguments for {TOOL_SEARCH}: no query", failed=True)
        await self._wait()
        tools = self._list_tools()
        limit = min(max(most, 1), _MOST) if isinstance(most, int) else _DEFAULT
        found = rank_tools(tools, query, limit)
        if not found:
            return ToolOutput(text=f"None of the {len(tools):,} MCP tools matches.")
        text = "\n".join(map(_describe, found))
        names = tuple(tool.spec.name for tool in found)
        return ToolOutput(text=text, data={"tools": list(names)}, loads=names)


class CallMcpTool:
    """Passes a call on to an MCP tool; permissions and hooks see that tool."""

    max_output_chars: int | None = None
    spec = ToolSpec(
        name=CALL_TOOL,
        description=_CALL_TEXT,
        schema={
            "type": "object",
            "properties": {
                "tool": {"type": "string", "description": "Its name: mcp__server__tool."},
                "arguments": {"type": "object", "description": "As its schema says."},
            },
            "required": ["tool", "arguments"],
        },
    )

    def __init__(self, find: Callable[[str], Tool | None]) -> None:
        self._find = find

    def access(self, arguments: dict[str, Any], context: ToolContext) -> Access:  # noqa: ARG002
        """The tool that is called is judged in place of this one."""
        return Access(tool=CALL_TOOL, risk=Risk.INSPECT, target=str(arguments.get("tool") or ""))

    def resolve(self, arguments: dict[str, Any]) -> tuple[Tool, dict[str, Any]] | ToolOutput:
        """Return the tool and its arguments, or why there is none."""
        name, inner = arguments.get("tool"), arguments.get("arguments", {})
        if isinstance(inner, str):
            try:
                inner = decode_json(inner or "{}")
            except msgspec.DecodeError:
                inner = None
        if not isinstance(name, str) or not isinstance(inner, dict):
            text = f"Invalid arguments for {CALL_TOOL}: it takes `tool` and an object `arguments`."
            return ToolOutput(text=text, failed=True)
        tool = self._find(name)
        if tool is None:
            text = f"Error: there is no MCP tool {name[:100]}. {TOOL_SEARCH} finds the tools."
            return ToolOutput(text=text, failed=True)
        return tool, inner

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        """Call the tool; sessions use `resolve` instead."""
        found = self.resolve(arguments)
        return found if isinstance(found, ToolOutput) else await found[0].run(found[1], context)


def rank_tools(tools: Sequence[Tool], query: str, limit: int) -> list[Tool]:
    """Return the tools that match a query, the best first; equal ones by name."""
    if query.startswith(_SELECT):
        wanted = [name.strip() for name in query.removeprefix(_SELECT).split(",")]
        by_name = {tool.spec.name: tool for tool in tools}
        return [by_name[name] for name in dict.fromkeys(wanted) if name in by_name][:_MOST]
    words = set(_WORD.findall(query.lower()))
    scored = [(_score(tool.spec, words), tool) for tool in tools]
    best = sorted(
        (pair for pair in scored if pair[0]), key=lambda pair: (-pair[0], pair[1].spec.name)
    )
    return [tool for _, tool in best[:limit]]


def _score(spec: ToolSpec, words: set[str]) -> int:
    name, text = spec.name.lower(), spec.description.lower()
    parts, said = set(_WORD.findall(name)), set(_WORD.findall(text))
    return sum(
        4 * (word in parts) + 2 * (word in name) + 2 * (word in said) + (word in text)
        for word in words
    )


def _describe(tool: Tool) -> str:
    return msgspec.json.encode(
        {
            "name": tool.spec.name,
            "description": tool.spec.description,
            "schema": tool.spec.schema,
        }
    ).decode()
