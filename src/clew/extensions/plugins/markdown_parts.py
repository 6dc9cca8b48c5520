"""The parts of a plugin that are Markdown files: skills, commands and agents."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from clew.core.text import one_line
from clew.extensions.agent_definitions import AgentDefinition
from clew.extensions.agent_discovery import MAX_ALL, load_agent, scan_agents
from clew.extensions.discovery import Folder, ReadLimit, Refused, make_word
from clew.extensions.plugins.manifest import CommandFile
from clew.extensions.plugins.plugin_folder import PluginFolder
from clew.extensions.skills import (
    MAX_HEADS,
    Skill,
    load_command,
    load_skill,
    scan_commands,
    scan_skills,
)

_Part = TypeVar("_Part", Skill, AgentDefinition)


def read_skills(plugin: PluginFolder, *, adds: bool) -> tuple[Skill, ...]:
    """Return the skills of a plugin.

    Args:
        plugin: The plugin.
        adds: True when the field `skills` adds to the folder `skills/`; False when it replaces it.
    """
    found = _choose(plugin, _find_skills(plugin, adds=adds), {})
    return tuple(_place(plugin, one) for one in found)


def read_commands(plugin: PluginFolder, skills: Iterable[Skill]) -> tuple[Skill, ...]:
    """Return the commands of a plugin, without those that are named like one of its skills."""
    found = _choose(plugin, _find_commands(plugin), {one.name: one.path for one in skills})
    return tuple(_place(plugin, one) for one in found)


def read_agents(plugin: PluginFolder) -> tuple[AgentDefinition, ...]:
    """Return the agents of a plugin."""
    found = _choose(plugin, _find_agents(plugin), {})
    return tuple(replace(one, system_prompt=plugin.expand(one.system_prompt)) for one in found)


def _find_skills(plugin: PluginFolder, *, adds: bool) -> Iterator[Skill | Refused]:
    custom, root = plugin.manifest.skills, plugin.root
    limit = ReadLimit(MAX_HEADS)
    if custom is None or adds:
        folder = Folder(root / "skills", root, limit)
        yield from scan_skills(folder, source="plugin", prefix=plugin.prefix)
    if custom is None and not os.path.lexists(root / "skills"):
        own = _load_skill(plugin, root, limit)
        if own is not None:
            yield own
    for path in plugin.resolve(custom or ()):
        found = _load_skill(plugin, path, limit)
        if found is not None:
            yield found
        else:
            folder = Folder(path, root, limit)
            yield from scan_skills(folder, source="plugin", prefix=plugin.prefix)


def _load_skill(plugin: PluginFolder, path: Path, limit: ReadLimit) -> Skill | Refused | None:
    # The folder of an installed plugin is named after its content.
    name = plugin.manifest.name if os.path.realpath(path) == str(plugin.root) else ""
    folder = Folder(path, plugin.root, limit)
    return load_skill(path, folder, source="plugin", prefix=plugin.prefix, name=name)


def _find_commands(plugin: PluginFolder) -> Iterator[Skill | Refused]:
    manifest, root, limit = plugin.manifest, plugin.root, ReadLimit(MAX_HEADS)
    if manifest.commands is None and not manifest.named_commands:
        folder = Folder(root / "commands", root, limit)
        yield from scan_commands(folder, source="plugin", prefix=plugin.prefix)
    for path in plugin.resolve(manifest.commands or ()):
        if path.is_dir():
            folder = Folder(path, root, limit)
            yield from scan_commands(folder, source="plugin", prefix=plugin.prefix)
        else:
            yield from _load_command(plugin, path, limit)
    for name, file in manifest.named_commands.items():
        for path in plugin.resolve((file.source,)):
            for found in _load_command(plugin, path, limit):
                yield found if isinstance(found, Refused) else _rename(plugin, found, name, file)


def _load_command(plugin: PluginFolder, path: Path, limit: ReadLimit) -> Iterator[Skill | Refused]:
    folder = Folder(path.parent, plugin.root, limit)
    found = load_command(path, folder, source="plugin", prefix=plugin.prefix)
    if found is not None:
        yield found


def _rename(plugin: PluginFolder, command: Skill, name: str, file: CommandFile) -> Skill:
    return replace(
        command,
        name=plugin.prefix + (make_word(name) or "command"),
        description=one_line(file.description) or command.description,
        argument_hint=one_line(file.argument_hint) or command.argument_hint,
    )


def _find_agents(plugin: PluginFolder) -> Iterator[AgentDefinition | Refused]:
    custom, root, limit = plugin.manifest.agents, plugin.root, ReadLimit(MAX_ALL)
    if custom is None:
        folder = Folder(root / "agents", root, limit)
        yield from scan_agents(folder, source="plugin", prefix=plugin.prefix)
    for path in plugin.resolve(custom or ()):
        folder = Folder(path, root, limit)
        if path.is_dir():
            yield from scan_agents(folder, source="plugin", prefix=plugin.prefix)
        else:
            yield load_agent(path, folder, source="plugin", prefix=plugin.prefix)


def _choose(
    plugin: PluginFolder, found: Iterable[_Part | Refused], taken: Mapping[str, Path]
) -> list[_Part]:
    """Return the first part of each name that is not taken; the others are reported."""
    paths, chosen = dict(taken), []
    for one in found:
        if isinstance(one, Refused):
            plugin.refuse(one)
            continue
        assert one.path is not None  # noqa: S101 - only built-in agents have no file
        first = paths.setdefault(one.name, one.path)
        if first is one.path:
            chosen.append(one)
        elif os.path.realpath(first) != os.path.realpath(one.path):
            why = f"has the name {one.name} of {plugin.shorten(first)}; it is not used"
            plugin.report("duplicate", plugin.shorten(one.path), why)
    return chosen


def _place(plugin: PluginFolder, skill: Skill) -> Skill:
    tools = tuple(plugin.expand(word) for word in skill.allowed_tools)
    return replace(skill, plugin_root=plugin.root, allowed_tools=tools)
