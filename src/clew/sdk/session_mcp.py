"""The MCP servers as a session uses them: whether it needs any, and their tools and prompts.

A prompt of a server is a command: `/mcp__server__prompt ARGUMENTS`.
"""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from clew.core.errors import SessionError
from clew.extensions.commands.protocol import Command
from clew.sdk.project_scan import ProjectScan
from clew.sdk.session_parts import Blueprint, McpAccess, SessionParts
from clew.tools.protocol import ToolContext

if TYPE_CHECKING:
    # Loaded only when a server is configured.
    from clew.tools.mcp.pool import McpPool
    from clew.tools.mcp.values import PromptArgument, ServerPrompt

MCP_SOURCE = "mcp"


def connect_servers(blueprint: Blueprint, scan: ProjectScan) -> McpAccess | None:
    """Start the servers of settings and plugins in the background; None without any."""
    loaded, plugins = scan.loaded, scan.plugins.plugins
    brings_tools = blueprint.options.keys() & {"tools", "session", "tool_source"}
    is_used = (
        loaded.settings.mcp_servers
        or blueprint.options.get("mcp_servers")
        or any(one.label == ".mcp.json" for one in loaded.settings.unused)
        or any(plugin.contribution.servers for plugin in plugins)
    )
    if brings_tools or not is_used:
        return None
    from clew.sdk.mcp_servers import open_servers  # noqa: PLC0415 - few sessions have servers

    return open_servers(blueprint, loaded, plugins)


def add_source(blueprint: Blueprint, mcp: McpAccess | None) -> Blueprint:
    """Return the blueprint with the tools and the secrets of the MCP servers."""
    if mcp is None:
        return blueprint
    options = blueprint.options.copy()
    options["tool_source"] = mcp.source
    options["redact_values"] = (*options.get("redact_values", ()), *mcp.secrets)
    return replace(blueprint, options=options)


def add_servers(parts: SessionParts, mcp: McpAccess | None) -> None:
    """Give an open session the servers: their states, their problems, their prompts."""
    if mcp is not None:
        parts.mcp, parts.warnings = mcp, (*parts.warnings, *mcp.problems)
        parts.registry.add_source(McpCommandSource(mcp.source.pool))


class McpCommandSource:
    """Lists the prompts of all servers as commands."""

    name = MCP_SOURCE

    def __init__(self, pool: "McpPool") -> None:
        self._pool = pool
        self._built_at = -1
        self._commands: tuple[Command, ...] = ()

    def commands(self) -> Sequence[Command]:
        """Return the prompts that the servers have now."""
        if self._built_at != self._pool.version:
            self._built_at = self._pool.version
            self._commands = tuple(map(_describe, self._pool.prompts))
        return self._commands


def _describe(prompt: "ServerPrompt") -> Command:
    hints = (f"<{one.name}>" if one.required else f"[{one.name}]" for one in prompt.arguments)
    return Command(
        name=prompt.name,
        description=prompt.description,
        argument_hint=" ".join(hints),
        safety="changes-session",
        source=MCP_SOURCE,
    )


async def write_prompt(parts: SessionParts, name: str, line: str) -> str:
    """Return the text of a prompt with the arguments of a line.

    Raises:
        SessionError: There is no such prompt, an argument is missing, or the server failed.
    """
    assert parts.mcp is not None  # noqa: S101 - its commands come from there
    pool = parts.mcp.source.pool
    prompt = next((one for one in pool.prompts if one.name == name), None)
    if prompt is None:
        raise SessionError(f"no MCP server has the prompt {name}; /mcp lists the servers")
    arguments = split_arguments(prompt.arguments, line)
    context = ToolContext(cwd=parts.blueprint.cwd)
    output = await pool.connections[prompt.server].calls.get_prompt(prompt, arguments, context)
    if output.failed:
        raise SessionError(output.text.removeprefix("Error: "))
    return output.text


def split_arguments(arguments: Sequence["PromptArgument"], line: str) -> dict[str, str]:
    """Return the words of a line by the names of the arguments; the last one takes the rest.

    Raises:
        SessionError: A required argument is missing.
    """
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    if len(words) > len(arguments) > 0:
        first = words[: len(arguments) - 1]
        words = [*first, " ".join(words[len(arguments) - 1 :])]
    given = dict(zip((one.name for one in arguments), words, strict=False))
    missing = [one.name for one in arguments if one.required and one.name not in given]
    if missing:
        raise SessionError(f"write {', '.join(f'<{name}>' for name in missing)} after the command")
    return given
