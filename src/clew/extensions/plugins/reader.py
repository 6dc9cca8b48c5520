"""Reads a plugin: from its folder to what it would add to a session.

Nothing of the plugin runs, and no file outside its folder is read: a path that leads out, also
through a link, becomes a warning. So does every other part that cannot be used.

| part | default | fields of the manifest |
|---|---|---|
| skills | `skills/*/SKILL.md`, or one `SKILL.md` in the folder itself | `skills` adds folders |
| commands | `commands/**/*.md` | `commands` replaces the folder |
| agents | `agents/**/*.md` | `agents` replaces the folder |
| hooks | `hooks/hooks.json` | `hooks` adds files or sections |
| MCP servers | `.mcp.json` | `mcpServers` adds files or sections |
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from clew.extensions.plugins.contribution import Contribution, Plugin
from clew.extensions.plugins.json_parts import read_plugin_hooks, read_servers
from clew.extensions.plugins.manifest import (
    MANIFEST,
    PART_FOLDERS,
    PluginError,
    PluginManifest,
    PluginProblem,
    check_name,
    merge_manifests,
    parse_manifest,
    read_manifest,
)
from clew.extensions.plugins.markdown_parts import read_agents, read_commands, read_skills
from clew.extensions.plugins.plugin_folder import PluginFolder

_UNUSED = ("bin", "output-styles", "themes", "monitors", "workflows", ".lsp.json")
"""Parts of Claude Code's plugins that Clew has nothing for."""


def read_plugin(
    root: Path,
    *,
    name: str = "",
    called: str = "",
    listed: PluginManifest | None = None,
    strict: bool = True,
) -> Plugin:
    """Read a plugin; blocks.

    Args:
        root: The folder of the plugin.
        name: Its name if neither a manifest nor a marketplace names it; by default that of the
            folder.
        called: The name that it has, whatever its manifest says: that in the marketplace.
        listed: The entry of the marketplace that it comes from.
        strict: False when that entry alone says what the plugin consists of.

    Raises:
        PluginError: The folder is not a plugin, or its manifest is malformed.
    """
    root = Path(os.path.realpath(root))
    if not root.is_dir():
        raise PluginError(f"{root} is not a folder", kind="missing")
    manifest, problems = _find_manifest(root, called or name, listed, strict=strict)
    if called and called != manifest.name:
        why = f"calls the plugin {manifest.name}; it is installed as {called}, which counts"
        where = MANIFEST.as_posix()
        problems = (*problems, PluginProblem(kind="conflict", where=where, why=why))
        manifest = replace(manifest, name=check_name(called, where="the marketplace"))
    folder = PluginFolder(root, manifest)
    folder.problems += problems
    contribution = _read_parts(folder, adds_skills=strict or listed is None)
    is_named = (root / MANIFEST).exists() or listed is not None
    if contribution.is_empty and not is_named:
        raise PluginError(
            f"{root} is not a plugin: it has neither {MANIFEST.as_posix()} nor anything in one of"
            f" the folders {', '.join(PART_FOLDERS)}",
            kind="missing",
        )
    return Plugin(root=root, manifest=manifest, contribution=contribution)


def read_listed(
    root: Path,
    *,
    name: str = "",
    called: str = "",
    listed: Mapping[str, Any],
    strict: bool = True,
) -> Plugin:
    """Read a plugin together with the entry of its marketplace, if there is one; blocks.

    Raises:
        PluginError: The folder is not a plugin, or a manifest is malformed.
    """
    if not listed:
        return read_plugin(root, name=name, called=called)
    entry = parse_manifest(listed, where="the entry of the marketplace").manifest
    return read_plugin(root, name=name, called=called, listed=entry, strict=strict)


def _find_manifest(
    root: Path, name: str, listed: PluginManifest | None, *, strict: bool
) -> tuple[PluginManifest, Sequence[PluginProblem]]:
    parsed = read_manifest(root)
    if parsed is None:
        return listed or PluginManifest(name=check_name(name or root.name, where=str(root))), ()
    if listed is None:
        return parsed.manifest, parsed.problems
    return merge_manifests(parsed.manifest, listed, strict=strict), parsed.problems


def _read_parts(folder: PluginFolder, *, adds_skills: bool) -> Contribution:
    skills = read_skills(folder, adds=adds_skills)
    commands = read_commands(folder, skills)
    agents, hooks, servers = read_agents(folder), read_plugin_hooks(folder), read_servers(folder)
    for field in folder.manifest.unsupported:
        folder.report("unsupported", field, "has no effect in Clew")
    for name in _UNUSED:
        if os.path.lexists(folder.root / name):
            folder.report("unsupported", name, "has no effect in Clew")
    return Contribution(
        skills=skills,
        commands=commands,
        agents=agents,
        hooks=hooks,
        servers=servers,
        warnings=tuple(dict.fromkeys(folder.problems)),
    )
