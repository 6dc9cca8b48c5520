"""The MCP servers of a project: from its settings to the tools of a session."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from clew.config.schema import McpSection
from clew.config.settings import LoadedSettings
from clew.core.errors import ConfigError
from clew.core.events import Warned
from clew.core.text import one_line
from clew.extensions.plugins.contribution import Plugin, PluginServer
from clew.permissions.rules import names_tool
from clew.sdk.permissions import list_denied
from clew.sdk.session_parts import Blueprint, McpAccess
from clew.tools.mcp.config import ServerConfig, find_transport, parse_server
from clew.tools.mcp.names import clean_server, is_mcp_tool
from clew.tools.mcp.pool import McpPool
from clew.tools.mcp.source import DEFER_THRESHOLD, NAMED_WAIT, STARTUP_WAIT, McpToolSource

_MILLISECONDS = 1_000


class ServerList(Struct, frozen=True, kw_only=True):
    """The servers that can be started, and why others cannot."""

    servers: tuple[ServerConfig, ...] = ()
    problems: tuple[str, ...] = ()


def token_folder(clew_home: Path) -> Path:
    """Return the folder with the tokens of logins."""
    return clew_home / "mcp-tokens"


def list_servers(
    loaded: LoadedSettings,
    given: Mapping[str, Mapping[str, Any]] | None = None,
    plugins: Sequence[Plugin] = (),
) -> ServerList:
    """Return the servers of the settings, sorted by name, without those that are disabled.

    A server of the project's files is not trusted, even if the user accepted the folder: what it
    says about its tools is not believed.

    Args:
        loaded: The settings.
        given: More servers, which the program brings; one with the name of another replaces it.
        plugins: Plugins that the user accepted; their servers are trusted as the user's own.
    """
    by_project = {layer.label for layer in loaded.layers if layer.is_project}
    found: dict[str, ServerConfig] = {}
    problems: list[str] = []
    for name, source in sorted(_list_sources(loaded, given or {}, plugins).items()):
        trusted, environ = source.origin not in by_project, {**loaded.environ, **source.variables}
        try:
            server = parse_server(
                name, source.entry, environ, trusted=trusted, origin=source.origin
            )
        except ConfigError as error:
            problems.append(f"the MCP server {one_line(name)} is not started: {error}")
            continue
        other = found.setdefault(clean_server(name), server)
        if other is not server:
            why = f"its name is too similar to {one_line(other.name)}"
            problems.append(f"the MCP server {one_line(name)} is not started: {why}")
    problems += _list_unreadable(loaded)
    return ServerList(servers=tuple(found.values()), problems=tuple(problems))


class _Source(Struct, frozen=True, kw_only=True):
    entry: Mapping[str, Any]
    origin: str = ""
    variables: Mapping[str, str] = {}


def _list_sources(
    loaded: LoadedSettings, given: Mapping[str, Mapping[str, Any]], plugins: Sequence[Plugin]
) -> dict[str, _Source]:
    settings, origins = loaded.settings, loaded.origins
    found = {
        name: _Source(
            entry=msgspec.to_builtins(section), origin=origins.get(("mcpServers", name), ("",))[-1]
        )
        for name, section in settings.mcp_servers.items()
        if not section.disabled and name not in settings.mcp.disabled
    }
    found |= {name: _Source(entry=entry) for name, entry in given.items()}
    for plugin in plugins:
        for server in plugin.contribution.servers:
            if server.name not in settings.mcp.disabled:
                found.setdefault(server.name, _add_variables(server, f"plugin {plugin.name}"))
    return found


def _add_variables(server: PluginServer, origin: str) -> _Source:
    """Return the entry of a plugin's server; its program gets the plugin's folders as variables."""
    entry = dict(server.entry)
    if find_transport(entry) == "stdio":
        folders = {name: f"${{{name}}}" for name in server.variables}
        entry["env"] = {**folders, **entry.get("env", {})}
    return _Source(entry=entry, origin=origin, variables=server.variables)


def _list_unreadable(loaded: LoadedSettings) -> list[str]:
    return [
        f"{one.key} in {one.label} is not a server that Clew can start; see docs/mcp.md"
        for one in loaded.settings.unused
        if one.label == ".mcp.json" and one.key.startswith("mcpServers.")
    ]


def open_servers(
    blueprint: Blueprint, loaded: LoadedSettings, plugins: Sequence[Plugin] = ()
) -> McpAccess | None:
    """Start the servers in the background, unless the host has started them; None without any."""
    given = blueprint.options.get("mcp_servers")
    known, settings = list_servers(loaded, given, plugins), loaded.settings.mcp
    if not known.servers and not known.problems:
        return None
    pool = blueprint.host.share(
        ("mcp", str(blueprint.cwd), msgspec.json.encode(known.servers)),
        lambda: McpPool(
            known.servers,
            cwd=blueprint.cwd,
            environ=loaded.environ,
            sampling=bool(settings.sampling),
            tokens=token_folder(blueprint.homes.clew),
        ),
    )
    unsubscribe = pool.subscribe(lambda text: blueprint.bus.publish(Warned(text)))
    pool.start(blueprint.host.start_soon)
    denied = [rule for rule in list_denied(blueprint) if rule.covers_all]
    threshold = settings.defer_threshold
    source = McpToolSource(
        pool,
        threshold=threshold if isinstance(threshold, float | int) else DEFER_THRESHOLD,
        wait=_choose_wait(settings, blueprint.options.get("allowed_tools", ())),
        allows=lambda name: not any(names_tool(rule, name) for rule in denied),
    )
    return McpAccess(
        source=source,
        problems=known.problems,
        secrets=tuple(value for one in known.servers for value in one.find_secrets()),
        unsubscribe=unsubscribe,
    )


def _choose_wait(settings: McpSection, allowed: Sequence[str]) -> float:
    """Return the seconds that the first prompt waits; longer if the user has named a server."""
    if isinstance(settings.startup_wait, int):
        return settings.startup_wait / _MILLISECONDS
    return NAMED_WAIT if any(map(is_mcp_tool, allowed)) else STARTUP_WAIT
