"""The installed plugins, as they are in one folder: list, find, switch and remove them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from clew.core.errors import ConfigError
from clew.extensions.plugins.active import PluginSwitches, choose_active, is_active
from clew.extensions.plugins.installer import Installer
from clew.extensions.plugins.registry import InstalledPlugin, Scope
from clew.extensions.plugins.summary import PluginSummary, summarize
from clew.sdk.active_plugins import find_switches
from clew.sdk.session_plugins import data_folder
from clew.sdk.settings import LoadedSettings


class PluginRow(Struct, frozen=True, kw_only=True):
    """An installed plugin, as it is in one folder."""

    plugin: InstalledPlugin
    active: bool
    """True when a session in this folder loads it."""
    why: str = ""
    """Why it is not as the registry says: the settings file that decides."""
    problem: str = ""
    """Why it is not loaded although it is enabled."""
    prompt_tokens: int = 0
    """About how many tokens it adds to every request; 0 if it is not loaded."""


class InstalledPlugins:
    """The plugins of the user and of one folder. All methods block.

    Args:
        installer: Reads and changes the registry.
        project: The path that the registry has for the folder.
        load: Reads the settings that apply in the folder.
    """

    def __init__(
        self, installer: Installer, project: str, load: Callable[[], LoadedSettings]
    ) -> None:
        self._installer = installer
        self._project = project
        self._load = load

    def list(self) -> Sequence[PluginRow]:
        """Return the plugins of the user and of this folder, sorted by name.

        Raises:
            ConfigError: The registry or a settings file is wrong.
        """
        content, switches = self._installer.registry.read(), self._find_switches()
        active = {one.place for one in choose_active(content, switches, project=self._project)}
        rows = [
            self._describe(one, switches, active=one.place in active)
            for one in content.plugins
            if one.project in ("", self._project)
        ]
        first: dict[str, str] = {}
        for row in rows:
            if row.active:
                first.setdefault(row.plugin.name, row.plugin.id)
        return [_find_conflict(row, first) for row in rows]

    def list_missing(self) -> dict[str, str]:
        """Return plugins that settings enable and that are not installed, with the files."""
        known = {row.plugin.id for row in self.list()}
        switches = self._find_switches()
        return {one: file for one, file in switches.wanted.items() if one not in known}

    def get(self, name: str, *, scope: Scope | None = None) -> InstalledPlugin:
        """Return an installed plugin; that of this project before that of the user.

        Raises:
            ConfigError: There is none of that name, or several.
        """
        content = self._installer.registry.read()
        found = [
            one
            for one in content.find_installed(name, project=self._project)
            if scope in (None, one.scope)
        ]
        if not found:
            here = sorted({row.plugin.id for row in self.list()})
            where = f" for the {scope}" if scope else ""
            known = ", ".join(here) or "none"
            raise ConfigError(f"the plugin {name} is not installed{where}; there are: {known}")
        if len({one.id for one in found}) > 1:
            ids = ", ".join(sorted({one.id for one in found}))
            raise ConfigError(f"several plugins are called {name}; write one of: {ids}")
        return found[0]

    def summarize(self, plugin: InstalledPlugin) -> PluginSummary:
        """Return what an installed plugin adds.

        Raises:
            ConfigError: Its files were changed, or cannot be read.
        """
        return summarize(self._installer.read(plugin))

    def remove(self, plugin: InstalledPlugin) -> Path | None:
        """Remove a plugin; returns the folder with its own data, which stays, if there is one.

        Raises:
            ConfigError: The registry cannot be written.
        """
        self._installer.remove(plugin)
        data = data_folder(self._installer.registry.folder, plugin.id)
        return data if data.is_dir() else None

    def set_enabled(self, plugin: InstalledPlugin, *, enabled: bool) -> PluginRow:
        """Enable or disable a plugin; returns what that means in this folder.

        Raises:
            ConfigError: The registry cannot be written.
        """
        self._installer.set_enabled(plugin, enabled=enabled)
        return next(row for row in self.list() if row.plugin.place == plugin.place)

    def _find_switches(self) -> PluginSwitches:
        return find_switches(self._load())

    def _describe(
        self, plugin: InstalledPlugin, switches: PluginSwitches, *, active: bool
    ) -> PluginRow:
        problem, tokens = "", 0
        if active:
            try:
                tokens = self._installer.read(plugin).contribution.prompt_tokens
            except ConfigError as error:
                problem = str(error)
        return PluginRow(
            plugin=plugin,
            active=active and not problem,
            why=_explain(plugin, switches, active=active),
            problem=problem,
            prompt_tokens=tokens,
        )


def _find_conflict(row: PluginRow, first: Mapping[str, str]) -> PluginRow:
    """Return a row that says when another plugin of the same name is loaded instead."""
    name = row.plugin.name
    if not row.active or first[name] == row.plugin.id:
        return row
    problem = f"it is not loaded: {first[name]} is called {name} too; disable one of them"
    return replace(row, active=False, problem=problem, prompt_tokens=0)


def _explain(plugin: InstalledPlugin, switches: PluginSwitches, *, active: bool) -> str:
    if plugin.enabled and plugin.id in switches.disabled:
        return f"disabled by {switches.disabled[plugin.id]}"
    if not plugin.enabled and is_active(plugin, switches):
        return f"enabled by {switches.enabled[plugin.id]}"
    return "the one of this project is used" if plugin.enabled and not active else ""
