"""Decides whether a session needs MCP servers, and gives it their tools."""

from msgspec.structs import replace

from clew.sdk.project_scan import ProjectScan
from clew.sdk.session_parts import Blueprint, McpAccess


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
