"""Which installed plugins a session loads in a folder.

The registry has the user's decision. A project's settings can differ from it: `false` disables a
plugin there, and `true` enables one that the user installed, once the project is trusted.
"""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from clew.extensions.plugins.registry import InstalledPlugin, RegistryContent
from clew.extensions.plugins.storage import ContentChanged, PluginStorage


class PluginSwitches(Struct, frozen=True, kw_only=True):
    """What `enabledPlugins` in the settings that apply says, by the ids of plugins."""

    disabled: Mapping[str, str] = {}
    """Plugins that a settings file disables, with the name of the file."""
    enabled: Mapping[str, str] = {}
    """Plugins that a trusted project enables, with the name of the file."""
    wanted: Mapping[str, str] = {}
    """Plugins that some settings file enables, with the name of the file."""


class ActivePlugin(Struct, frozen=True, kw_only=True):
    """A plugin to load: its files are those that the user installed."""

    installed: InstalledPlugin
    root: Path


class ActivePlugins(Struct, frozen=True, kw_only=True):
    """The plugins of a session, sorted by name, and what is wrong with others."""

    plugins: tuple[ActivePlugin, ...] = ()
    problems: tuple[str, ...] = ()


def is_active(plugin: InstalledPlugin, switches: PluginSwitches) -> bool:
    """Return whether a plugin of this folder is loaded."""
    if plugin.id in switches.disabled:
        return False
    return plugin.enabled or plugin.id in switches.enabled


def choose_active(
    content: RegistryContent, switches: PluginSwitches, *, project: str
) -> tuple[InstalledPlugin, ...]:
    """Return the plugins to load, sorted by id; one for the project replaces the user's own.

    Args:
        content: The registry.
        switches: What the settings say.
        project: The real path of the project's folder.
    """
    closest: dict[str, InstalledPlugin] = {}
    for one in sorted(content.plugins, key=lambda one: one.scope == "project"):
        if one.project in ("", project):
            closest[one.id] = one
    return tuple(one for _, one in sorted(closest.items()) if is_active(one, switches))


def load_active(
    content: RegistryContent, switches: PluginSwitches, storage: PluginStorage, *, project: str
) -> ActivePlugins:
    """Return the plugins to load, each with its verified folder; blocks."""
    found: list[ActivePlugin] = []
    problems: list[str] = []
    for one in choose_active(content, switches, project=project):
        try:
            found.append(ActivePlugin(installed=one, root=storage.verify(one)))
        except ContentChanged as error:
            problems.append(str(error))
    known = {one.id for one in content.plugins if one.project in ("", project)}
    problems += (
        f"{file} enables the plugin {plugin}, which is not installed; install it with:"
        f" clew plugin install {plugin}"
        for plugin, file in switches.wanted.items()
        if plugin not in known and plugin not in switches.disabled
    )
    return ActivePlugins(plugins=tuple(found), problems=tuple(problems))
