"""The parts of a plugin that are JSON: hooks and MCP servers."""

import re
from collections.abc import Iterator
from typing import Any

from clew.core.errors import ConfigError
from clew.extensions.plugins.contribution import PluginServer
from clew.extensions.plugins.manifest import PluginError, parse_json
from clew.extensions.plugins.plugin_folder import PluginFolder
from clew.hooks.settings import HookSource, HookTable, merge_tables, parse_hooks, read_hooks
from clew.tools.mcp.config import check_entry

MAX_SERVERS = 50
"""Servers that one plugin may have."""
_SERVER = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)


def read_plugin_hooks(plugin: PluginFolder) -> HookTable:
    """Return the hooks of a plugin; a file or section with a mistake is not used."""
    source = HookSource(name=f"plugin {plugin.manifest.name}", plugin_root=plugin.root)
    tables: list[HookTable] = []
    for where, section in plugin.read_sections("hooks/hooks.json", plugin.manifest.hooks):
        try:
            if isinstance(section, str):
                tables.append(read_hooks(section.encode(), source))
            else:
                tables.append(parse_hooks(section.get("hooks", section), source))
        except ConfigError as error:
            plugin.report("malformed", where, f"is not used: {error}")
    merged = merge_tables(*tables)
    for problem in merged.problems:
        plugin.report("unsupported", "hooks of", problem)
    return HookTable(merged.hooks)


def read_servers(plugin: PluginFolder) -> tuple[PluginServer, ...]:
    """Return the MCP servers of a plugin; an entry with a mistake is not used."""
    found: dict[str, PluginServer] = {}
    for where, name, entry in _list_entries(plugin):
        server = _make_server(plugin, where, name, entry)
        if server is None:
            continue
        if len(found) >= MAX_SERVERS:
            plugin.report("unsupported", where, f"has more than {MAX_SERVERS} servers")
            break
        if found.setdefault(name, server) is not server:
            plugin.report("duplicate", where, f"has a second server {name}; it is not used")
    return tuple(found.values())


def _list_entries(plugin: PluginFolder) -> Iterator[tuple[str, str, Any]]:
    for where, section in plugin.read_sections(".mcp.json", plugin.manifest.mcp_servers):
        try:
            document = parse_json(section, where) if isinstance(section, str) else section
        except PluginError as error:
            plugin.report(error.kind, where, f"is not used: {error}")
            continue
        # Many plugins put the servers at the top level.
        entries = document.get("mcpServers", document)
        if not isinstance(entries, dict):
            plugin.report("malformed", where, "is not used: mcpServers must be an object")
            continue
        for name, entry in entries.items():
            yield where, name, entry


def _make_server(plugin: PluginFolder, where: str, name: str, entry: Any) -> PluginServer | None:
    if not _SERVER.fullmatch(name):
        plugin.report("malformed", where, f"has a server with the invalid name {name!r:.80}")
        return None
    try:
        check_entry(name, entry)
    except ConfigError as error:
        plugin.report("malformed", where, f"has a server that cannot be started: {error}")
        return None
    full = f"plugin:{plugin.manifest.name}:{name}"
    return PluginServer(name=full, short_name=name, entry=entry, variables=plugin.variables)
