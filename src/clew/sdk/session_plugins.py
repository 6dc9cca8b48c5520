"""The plugins of a session: which are loaded, and what they are called beside everything else."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from clew.config.settings import LoadedSettings
from clew.core.errors import ConfigError
from clew.core.text import one_line
from clew.extensions.agent_definitions import AgentDefinition
from clew.extensions.commands.protocol import Command
from clew.extensions.commands.registry import CommandRegistry
from clew.extensions.commands.sources import PluginCommand, PluginCommandSource
from clew.extensions.plugins.contribution import Plugin, with_data
from clew.extensions.plugins.reader import read_plugin
from clew.extensions.skills import Skill
from clew.extensions.text_lists import summarize_warnings
from clew.files.atomic import make_private_folder
from clew.hooks.settings import HookTable, merge_tables
from clew.sdk.folders import Homes

_MOST_NAMED = 3


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


def data_folder(homes: Homes, name: str) -> Path:
    """Return the folder for a plugin's own data, which updates leave alone."""
    return homes.clew / "plugins" / "data" / name


def load_plugins(homes: Homes, folders: Sequence[str | Path] = ()) -> SessionPlugins:
    """Read the plugins of a session, without running anything of them; blocks.

    Args:
        homes: The user's folders.
        folders: Plugins that the caller of the session brings.
    """
    found: dict[str, Plugin] = {}
    problems: list[str] = []
    for folder in folders:
        try:
            plugin = read_plugin(Path(folder))
        except ConfigError as error:
            problems.append(f"the plugin in {one_line(str(folder), 200)} is not loaded: {error}")
            continue
        if found.setdefault(plugin.name, plugin) is not plugin:
            why = f"{plugin.name} is the name of another plugin"
            problems.append(f"the plugin in {plugin.root} is not loaded: {why}")
    return SessionPlugins(
        plugins=tuple(_give_data(found[name], homes) for name in sorted(found)),
        problems=tuple(problems),
    )


def _give_data(plugin: Plugin, homes: Homes) -> Plugin:
    """Return a plugin that knows the folder for its data, which is made if something can use it."""
    parts = plugin.contribution
    if not parts.hooks.hooks and not parts.servers:
        return plugin
    folder = data_folder(homes, plugin.name)
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


def describe_warnings(plugins: SessionPlugins) -> list[str]:
    """Return which plugins are not loaded, and what is not used of the others."""
    said = list(plugins.problems)
    for plugin in plugins.plugins:
        first, *others = plugin.contribution.warnings or (None,)
        if first is not None:
            more = f" (and {len(others):,} more)" if others else ""
            said.append(f"plugin {plugin.name}: {first}{more}; clew plugin show {plugin.name}")
    return said
