"""What an MCP server of a project would do, in words, for the question whether to trust it."""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from clew.core.redaction import redact
from clew.core.text import one_line, truncate
from clew.tools.mcp.config import find_transport, list_variables

_MOST_NAMES = 5
_MAX_NAME = 30
_MAX_COMMAND = 200
_MAX_FOLDER = 60


def describe_server(server: Mapping[str, Any]) -> str:
    """Return what an entry of `mcpServers` does; continues a sentence that begins with its key.

    What is short comes first, so that no long command line hides it.
    """
    does = []
    is_program = find_transport(server) == "stdio"
    if is_program and (folder := server.get("cwd")):
        does.append(f"works in {truncate(one_line(str(folder)), _MAX_FOLDER)}")
    if is_program and (names := server.get("env")):
        does.append(f"sets {_join(names)}")
    if names := sorted(set(list_variables(server))):
        does.append(f"gets your {_join(names)}")
    if is_program:
        words = (str(server.get("command", "")), *map(str, server.get("args", ())))
        does.append(f"starts `{_shorten(' '.join(words))}`")
    else:
        does.append(f"connects to {find_host(str(server.get('url', '')))}")
    return ", ".join(does)


def find_host(address: str) -> str:
    """Return the host of an address."""
    try:
        host = urlsplit(address).hostname
    except ValueError:
        host = None
    return host or "another server"


def _join(names: Iterable[str]) -> str:
    shown = [truncate(one_line(name), _MAX_NAME) for name in names]
    more = len(shown) - _MOST_NAMES
    return ", ".join(shown[:_MOST_NAMES]) + (f" and {more:,} more variables" if more > 0 else "")


def _shorten(line: str) -> str:
    line = redact(" ".join(line.split()))
    hidden = len(line) - _MAX_COMMAND
    return line if hidden <= 0 else f"{line[:_MAX_COMMAND]}… ({hidden:,} more characters)"
