"""The plugins of a session: which are loaded, and what they are called beside everything else."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from clew.config.settings import LoadedSettings
from clew.core.errors import ConfigError
from clew.core.text import one_line, pluralize
from clew.extensions.agent_definitions import AgentDefinition
from clew.extensions.agent_discovery import find_agent
from clew.extensions.commands.protocol import Command
from clew.extensions.commands.registry import CommandRegistry
from clew.extensions.commands.sources import PluginCommand, PluginCommandSource
from clew.extensions.plugins.active import ActivePlugin, ActivePlugins
from clew.extensions.plugins.contribution import Plugin, with_data
from clew.extensions.plugins.reader import read_listed, read_plugin
from clew.extensions.skills import Skill
from clew.extensions.text_lists import summarize_warnings
from clew.files.atomic import make_private_folder
from clew.hooks.settings import HookTable, merge_tables
from clew.sdk.active_plugins import find_active_plugins, find_switches, plugin_folder
from clew.sdk.folders import Homes

_MOST_NAMED = 3
_HARMLESS = frozenset({"unsupported", "duplicate", "conflict"})


class SessionPlugins(Struct, frozen=True, kw_only=True):
    """The plugins that a session loads, sorted by name, and why others are not loaded."""

    plugins: tuple[Plugin, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def skills(self) -> tuple[Skill, ...]:
        """The skills and commands of all plugins."""
        return tuple(one for plugin in self.plugins for one in plugin.contribution.callable_skills)

    @property
    def agents(self) -> dict[str, AgentDefinition]:
        """The agents of all plugins, by qualified name."""
        found = (one for plugin in self.plugins for one in plugin.contribution.agents)
        return {one.name: one for one in found}

    def make_source(self) -> PluginCommandSource:
        """Return the commands of all plugins."""
        return PluginCommandSource(
            PluginCommand(plugin=plugin.name, skill=skill)
            for plugin in self.plugins
            for skill in plugin.contribution.callable_skills
        )


def data_folder(folder: Path, plugin: str) -> Path:
    """Return the folder for a plugin's own data, by its id, in Clew's folder for plugins."""
    return folder / "data" / plugin


def load_plugins(
    loaded: LoadedSettings, homes: Homes, cwd: Path, folders: Sequence[str | Path] = ()
) -> SessionPlugins:
    """Read the plugins of a session, without running anything of them; blocks.

    Args:
        loaded: The settings that apply.
        homes: The user's folders.
        cwd: The project's folder.
        folders: Plugins that the caller of the session brings; they come before installed ones.
    """
    problems: list[str] = []
    try:
        active = find_active_plugins(loaded, homes, cwd)
    except ConfigError as error:
        active = ActivePlugins(problems=(f"no plugin is loaded: {error}",))
    problems += active.problems
    found: dict[str, Plugin] = {}
    ids: dict[str, str] = {}
    for name, label, read in (*_list_folders(folders), *_list_installed(active)):
        try:
            plugin = read()
        except ConfigError as error:
            problems.append(f"the plugin {one_line(label, 200)} is not loaded: {error}")
            continue
        if found.setdefault(plugin.name, plugin) is not plugin:
            why = f"another plugin is called {plugin.name} too"
            problems.append(f"the plugin {one_line(label, 200)} is not loaded: {why}")
            continue
        ids[plugin.name] = name or plugin.name
    problems += _warn_enabled(loaded, active, {ids[name]: one for name, one in found.items()})
    return SessionPlugins(
        plugins=tuple(
            _give_data(found[name], data_folder(plugin_folder(homes), ids[name]))
            for name in sorted(found)
        ),
        problems=tuple(problems),
    )


def _warn_enabled(
    loaded: LoadedSettings, active: ActivePlugins, installed: Mapping[str, Plugin]
) -> Iterator[str]:
    """Yield what the plugins add that the folder enables, not the user; `installed` is by id."""
    files = find_switches(loaded).enabled
    for one in (one.installed for one in active.plugins):
        if not one.enabled and one.id in files and one.id in installed:
            adds = describe_parts(installed[one.id])
            yield f"{files[one.id]} of this folder enables the plugin {one.id}: {adds}"


def describe_parts(plugin: Plugin) -> str:
    """Return what a plugin adds in a few words: `2 skills, 1 hook`."""
    parts = plugin.contribution
    counts = (
        (len(parts.skills), "skill"),
        (len(parts.commands), "command"),
        (len(parts.agents), "agent"),
        (len(parts.hooks.hooks), "hook"),
        (len(parts.servers), "MCP server"),
    )
    return ", ".join(pluralize(count, word) for count, word in counts if count) or "nothing"


_Read: TypeAlias = tuple[str, str, Callable[[], Plugin]]
"""The id of a plugin, empty for one in a folder; its name in messages; and how to read it."""


def _list_folders(folders: Sequence[str | Path]) -> Iterator[_Read]:
    for folder in folders:
        yield "", f"in {folder}", partial(read_plugin, Path(folder))


def _list_installed(active: ActivePlugins) -> Iterator[_Read]:
    for one in active.plugins:
        yield one.installed.id, one.installed.id, partial(_read_installed, one)


def _read_installed(one: ActivePlugin) -> Plugin:
    installed = one.installed
    return read_listed(
        one.root, called=installed.name, listed=installed.listed, strict=installed.strict
    )


def _give_data(plugin: Plugin, folder: Path) -> Plugin:
    """Return a plugin that knows the folder for its data, which is made if something can use it."""
    parts = plugin.contribution
    if not parts.hooks.hooks and not parts.servers:
        return plugin
    try:
        make_private_folder(folder)
    except OSError:
        return plugin
    return with_data(plugin, folder)


def merge_hooks(loaded: LoadedSettings, plugins: SessionPlugins) -> HookTable:
    """Return the hooks of the settings and the plugins; `disableAllHooks` disables both."""
    own = loaded.settings.hooks
    if loaded.disables_hooks:
        return own
    return merge_tables(own, *(plugin.contribution.hooks for plugin in plugins.plugins))


def merge_agents(
    agents: Mapping[str, AgentDefinition], plugins: SessionPlugins
) -> dict[str, AgentDefinition]:
    """Return all agents; one of the project or the user comes before one of a plugin."""
    return {**agents, **{n: one for n, one in plugins.agents.items() if n not in agents}}


def warn_conflicts(
    registry: CommandRegistry, agents: Mapping[str, AgentDefinition], plugins: SessionPlugins
) -> tuple[str, ...]:
    """Return what the user should know about names that plugins share with others."""
    said = [*_find_command_conflicts(registry, plugins), *_find_agent_conflicts(agents, plugins)]
    return summarize_warnings(said, _MOST_NAMED, "names that plugins share with others")


def _find_command_conflicts(registry: CommandRegistry, plugins: SessionPlugins) -> Iterator[str]:
    for command in plugins.make_source().commands():
        listed, short = registry.find(command.name), registry.find(command.short_name)
        if listed is None or listed.skill != command.skill:
            yield f"/{command.name} of a plugin cannot be called: another command has its name"
        elif short is None or short.skill != command.skill:
            other = "several plugins have that name" if short is None else _describe(short)
            yield f"/{command.short_name} is not the plugin's: {other}; type /{command.name}"


def _describe(command: Command) -> str:
    origin = command.skill.source if command.skill is not None else "built-in"
    return f"it is {'a' if origin != 'plugin' else 'another'} {origin} command"


def _find_agent_conflicts(
    agents: Mapping[str, AgentDefinition], plugins: SessionPlugins
) -> Iterator[str]:
    for name, agent in plugins.agents.items():
        short = name.partition(":")[2]
        if agents.get(name) is not agent:
            yield f"the agent {name} of a plugin cannot be used: another agent has its name"
        elif short in agents:
            yield f"the agent {short} is not the plugin's; its name is {name}"
        elif find_agent(agents, short) is None:
            yield f"several plugins have an agent {short}; the name of this one is {name}"


def describe_warnings(plugins: SessionPlugins) -> list[str]:
    """Return which plugins are not loaded, and which mistakes the others have.

    What Clew has nothing for is no mistake: `clew plugin show` lists it.
    """
    said = list(plugins.problems)
    for plugin in plugins.plugins:
        mistakes = [one for one in plugin.contribution.warnings if one.kind not in _HARMLESS]
        if mistakes:
            more = f" (and {len(mistakes) - 1:,} more)" if len(mistakes) > 1 else ""
            said.append(f"plugin {plugin.name}: {mistakes[0]}{more}")
    return said
