"""Names and descriptions of MCP tools: unique, valid for every provider, safe to show."""

import hashlib
import re
from collections.abc import Iterable

from clew.core.models import TOOL_SEARCH
from clew.core.sanitize import sanitize

PREFIX = "mcp__"
CALL_TOOL = "CallMcpTool"
READ_RESOURCE = "ReadMcpResource"
OWN_TOOLS = frozenset({TOOL_SEARCH, CALL_TOOL, READ_RESOURCE})
"""Tools that Clew adds where there are servers."""
MAX_NAME = 64
"""The longest name that every provider accepts."""
MAX_DESCRIPTION = 2_048
_INVALID = re.compile(r"[^A-Za-z0-9_-]+")
_UNDERSCORES = re.compile(r"_{2,}")
_HASH = 8


def is_mcp_tool(name: str) -> bool:
    """Return whether a tool belongs to MCP servers, or finds and calls their tools."""
    return name.startswith(PREFIX) or name in OWN_TOOLS


def server_prefix(server: str) -> str:
    """Return what the names of a server's tools begin with: `mcp__git__`."""
    return f"{PREFIX}{clean_server(server)}__"


def clean_server(server: str) -> str:
    """Return a server's name as tool names have it.

    It has no two underscores in a row: a rule for `mcp__git` must not match the tools of a server
    that is called `git__evil`.
    """
    return _UNDERSCORES.sub("_", _clean(server)).strip("_") or "server"


def name_tools(server: str, tools: Iterable[str]) -> dict[str, str]:
    """Return a unique name for each tool of a server, by the tool's own name.

    The same tools get the same names in every session. Of two names that are the same after
    sanitizing, both get a hash, so that none can take the place of another.
    """
    prefix = server_prefix(server)
    wanted = {tool: f"{prefix}{_clean(tool)}" for tool in dict.fromkeys(tools)}
    counts: dict[str, int] = {}
    for name in wanted.values():
        counts[name] = counts.get(name, 0) + 1
    return {
        tool: name
        if len(name) <= MAX_NAME and counts[name] == 1
        else _shorten(name, f"{server}\0{tool}")
        for tool, name in wanted.items()
    }


def clean_text(text: str | None, most: int = MAX_DESCRIPTION) -> str:
    """Return a text of a server without control characters, truncated."""
    kept = sanitize((text or "")[: most * 2]).strip()
    return kept if len(kept) <= most else f"{kept[: most - 1]}…"


def _clean(name: str) -> str:
    return _INVALID.sub("_", name) or "_"


def _shorten(name: str, seed: str) -> str:
    digest = hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
    return f"{name[: MAX_NAME - _HASH - 1]}_{digest}"
