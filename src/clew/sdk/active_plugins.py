"""The plugins that a session in a folder loads: the registry, and what the settings say."""

import os
from pathlib import Path

from clew.config.settings import LoadedSettings
from clew.extensions.plugins.active import ActivePlugins, PluginSwitches, load_active
from clew.extensions.plugins.registry import PluginRegistry
from clew.extensions.plugins.storage import PluginStorage
from clew.sdk.folders import Homes

__all__ = ["find_active_plugins", "find_switches", "name_project", "plugin_folder"]


def plugin_folder(homes: Homes) -> Path:
    """Return Clew's folder for plugins."""
    return homes.clew / "plugins"


def name_project(homes: Homes, cwd: Path) -> str:
    """Return the path that the registry has for the project in `cwd`.

    A worktree that Clew made has the plugins of the project that it was made for.
    """
    folder = homes.find_settings_folder(cwd).resolve()
    return os.fsencode(folder).decode("utf-8", "backslashreplace")


def find_active_plugins(loaded: LoadedSettings, homes: Homes, cwd: Path) -> ActivePlugins:
    """Return the plugins to load in a folder, each with its verified files; blocks.

    Args:
        loaded: The settings that apply; those of a project count once it is trusted.
        homes: The user's folders.
        cwd: The project's folder.

    Raises:
        ConfigError: The registry cannot be read.
    """
    folder = plugin_folder(homes)
    return load_active(
        PluginRegistry(folder).read(),
        find_switches(loaded),
        PluginStorage(folder),
        project=name_project(homes, cwd),
    )


def find_switches(loaded: LoadedSettings) -> PluginSwitches:
    """Return what `enabledPlugins` says in the settings that apply."""
    projects = {layer.label for layer in loaded.layers if layer.is_project}
    disabled, enabled, wanted = {}, {}, {}
    for name, is_on in loaded.settings.enabled_plugins.items():
        file = loaded.origins.get(("enabledPlugins", name), ("",))[-1]
        if not is_on:
            disabled[name] = file
            continue
        wanted[name] = file
        if file in projects:
            enabled[name] = file
    return PluginSwitches(disabled=disabled, enabled=enabled, wanted=wanted)
