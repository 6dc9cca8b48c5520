"""Plugins from outside a session: install, update, remove, enable, disable, list, validate.

An installation has two steps. `prepare_install` fetches a plugin and says what it adds; nothing of
it runs. Only `PreparedPlugin.accept` installs it.
"""

import hashlib
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from anyio import to_thread
from msgspec.structs import replace

from clew.core.errors import ConfigError
from clew.extensions.plugins.change import SummaryChange, compare, format_change
from clew.extensions.plugins.installer import Installer, PluginOrigin, StagedPlugin
from clew.extensions.plugins.marketplace import Marketplace, check_reserved, is_name
from clew.extensions.plugins.marketplaces import Marketplaces, Offer, ReadMarketplace
from clew.extensions.plugins.registry import InstalledPlugin, Scope
from clew.extensions.plugins.sources import (
    ARCHIVE_ENDINGS,
    GitSource,
    PathSource,
    Source,
    describe_source,
    is_archive_url,
    make_archive_source,
    parse_git_source,
    parse_source_object,
)
from clew.extensions.plugins.summary import PluginSummary, format_summary, summarize
from clew.extensions.plugins.validation import Validated, validate
from clew.sdk.active_plugins import name_project, plugin_folder
from clew.sdk.folders import Homes
from clew.sdk.installed_plugins import InstalledPlugins, PluginRow
from clew.sdk.settings import LoadedSettings, load_project_settings

__all__ = [
    "InstalledPlugin",
    "Marketplace",
    "Offer",
    "PluginRow",
    "PluginSummary",
    "Plugins",
    "PreparedPlugin",
    "ReadMarketplace",
    "Scope",
    "SummaryChange",
    "Validated",
    "describe_source",
    "format_change",
    "format_summary",
    "validate",
]

_MARKETPLACE_FILE = "marketplace.json"


class PreparedPlugin:
    """A plugin that was fetched and not installed yet: what it adds, and what changes."""

    def __init__(
        self,
        installer: Installer,
        staged: StagedPlugin,
        *,
        before: InstalledPlugin | None,
        scope: Scope,
        project: str,
    ) -> None:
        self._installer = installer
        self._staged = staged
        self._place: tuple[Scope, str] = scope, project
        self.before = before
        """The version that is installed; None for a new plugin."""
        self.summary = summarize(staged.plugin)
        self.change: SummaryChange | None = None
        """What changes in comparison with the installed version."""
        self.is_current = False
        """True when exactly this is installed already."""
        if before is not None:
            self._compare(before)

    @property
    def id(self) -> str:
        """The name that it will have: `name@marketplace`."""
        return self._staged.id

    @property
    def source(self) -> str:
        """Where it comes from, with the commit."""
        source, commit = self._staged.origin.source, self._staged.commit
        if isinstance(source, GitSource):
            source = replace(source, commit=commit)
        return describe_source(source)

    @property
    def version(self) -> str:
        """The version that it says it has, or the start of its commit."""
        return self.summary.version or self._staged.commit[:12]

    @property
    def fingerprint(self) -> str:
        """A hash of everything that the user agrees to: two with the same one are the same."""
        origin, before = self._staged.origin, self.before
        source = origin.source
        if isinstance(source, GitSource):
            source = replace(source, commit="")
        old = before and (before.place, before.content, before.listed, before.strict)
        new = self._staged.content, dict(origin.listed), origin.strict, source
        facts = self.id, self._place, new, old
        return hashlib.sha256(msgspec.json.encode(facts, order="deterministic")).hexdigest()

    @property
    def must_ask(self) -> bool:
        """True when the user must see what it adds, and agree."""
        return self.change is None or self.change.must_ask

    async def accept(self) -> InstalledPlugin:
        """Install it.

        Raises:
            ConfigError: It cannot be written.
        """
        scope, project = self._place
        return await self._installer.install(
            self._staged, scope=scope, project=project, before=self.before
        )

    def _compare(self, before: InstalledPlugin) -> None:
        try:
            old = self._installer.read(before)
        except ConfigError:
            # The installed one is damaged: the user sees all of the new one.
            return
        changed = self._installer.find_changed_files(before, self._staged)
        self.change = compare(old, self._staged.plugin, changed)
        origin = self._staged.origin
        is_same_entry = before.listed == dict(origin.listed) and before.strict == origin.strict
        is_same = before.content == self._staged.content and before.id == self.id
        self.is_current = is_same and is_same_entry


class Plugins:
    """The plugins and marketplaces of the user, as they are in one folder.

    Methods that are not async block.

    Args:
        cwd: The folder.
        environ: Environment variables; those of the process by default.
        homes: The user's folders; by default those that the environment names.
    """

    def __init__(
        self,
        cwd: Path,
        environ: Mapping[str, str] | None = None,
        *,
        homes: Homes | None = None,
    ) -> None:
        self._cwd = cwd
        self._environ = os.environ if environ is None else environ
        self._homes = homes or Homes.of(self._environ)
        self._project = name_project(self._homes, cwd)
        folder = plugin_folder(self._homes)
        self._installer = Installer(folder)
        self.installed = InstalledPlugins(self._installer, self._project, self._load)
        self.marketplaces = Marketplaces(folder)

    @asynccontextmanager
    async def prepare_install(
        self, text: str, *, scope: Scope = "user"
    ) -> AsyncIterator[PreparedPlugin]:
        """Fetch a plugin to install; it is discarded at the end unless it was accepted.

        Args:
            text: `name`, `name@marketplace`, a folder, an archive, or a git repository.
            scope: `user` for all folders, `project` for this one.

        Raises:
            ConfigError: There is no such plugin, or it cannot be fetched or read.
        """
        origin = await self._find_origin(text)
        async with self._prepare(origin, scope) as prepared:
            yield prepared

    @asynccontextmanager
    async def prepare_update(self, plugin: InstalledPlugin) -> AsyncIterator[PreparedPlugin]:
        """Fetch the newest version of a plugin; it is discarded unless it was accepted.

        The list of its marketplace should be up to date: see `Marketplaces.update`.

        Raises:
            ConfigError: The plugin is gone, or cannot be fetched or read.
        """
        if plugin.marketplace:
            found = await to_thread.run_sync(
                self.marketplaces.find, plugin.name, plugin.marketplace
            )
        else:
            found = PluginOrigin(source=plugin.source)
        async with self._prepare(found, plugin.scope, before=plugin) as prepared:
            yield prepared

    @asynccontextmanager
    async def _prepare(
        self, origin: PluginOrigin, scope: Scope, *, before: InstalledPlugin | None = None
    ) -> AsyncIterator[PreparedPlugin]:
        async with self._installer.stage(origin) as staged:
            yield await to_thread.run_sync(self._make, staged, scope, before)

    def _make(
        self, staged: StagedPlugin, scope: Scope, before: InstalledPlugin | None
    ) -> PreparedPlugin:
        project = self._project if scope == "project" else ""
        known = self._installer.registry.read().plugins
        here = next((one for one in known if one.place == (staged.id, project)), None)
        if before is not None and here is not None and before.place != here.place:
            raise ConfigError(
                f"it is called {staged.id} now, which is installed already; remove this one:"
                f" clew plugin remove {before.id}"
            )
        before = before or here
        return PreparedPlugin(self._installer, staged, before=before, scope=scope, project=project)

    async def add_marketplace(self, text: str) -> ReadMarketplace:
        """Add a marketplace: a git repository, `owner/name` of GitHub, or a folder.

        Raises:
            ConfigError: It cannot be fetched, or is not a marketplace.
        """
        source = _parse_source(text, self._cwd)
        if source is None:
            raise ConfigError(
                f"{text} is neither a folder nor a git repository; write ./FOLDER, owner/name, or"
                " an address such as https://example.com/plugins.git"
            )
        return await self.marketplaces.add(source)

    async def _find_origin(self, text: str) -> PluginOrigin:
        name, _, market = text.partition("@")
        if is_name(name) and not text.endswith(ARCHIVE_ENDINGS) and (not market or is_name(market)):
            if market:
                await self._add_from_settings(market)
            return await to_thread.run_sync(self.marketplaces.find, name, market)
        if is_archive_url(text):
            return PluginOrigin(source=make_archive_source(text))
        source = _parse_source(text, self._cwd)
        if source is None:
            raise ConfigError(
                f"{text} is not a plugin; write NAME@MARKETPLACE, ./FOLDER, an archive, or the"
                " address of a git repository"
            )
        return PluginOrigin(source=source)

    async def _add_from_settings(self, name: str) -> None:
        """Add a marketplace that only the settings know; the user has just named it."""
        known = await to_thread.run_sync(self.marketplaces.list_known)
        if any(one.name == name for one in known):
            return
        entry = _find_settings_marketplaces(self._load(), self._cwd).get(name)
        if entry is not None:
            check_reserved(name, entry)
            await self.marketplaces.add(entry, name=name)

    def list_settings_marketplaces(self) -> dict[str, str]:
        """Return marketplaces that only the settings know, with their sources."""
        known = {one.name for one in self.marketplaces.list_known()}
        return {
            name: describe_source(source)
            for name, source in _find_settings_marketplaces(self._load(), self._cwd).items()
            if name not in known
        }

    def _load(self) -> LoadedSettings:
        return load_project_settings(self._cwd, self._homes, self._environ)


def _parse_source(text: str, cwd: Path) -> Source | None:
    """Return the source that a user names; None if the text is not of a form that Clew knows.

    `./folder`, `/folder`, `~/folder` and names of archives are paths; everything else is a git
    repository.

    Raises:
        ConfigError: It is an address that Clew cannot use.
    """
    is_archive = text.endswith(ARCHIVE_ENDINGS) and "://" not in text
    if text.startswith((".", "/", "~")) or is_archive:
        path = (cwd / Path(text).expanduser()).resolve()
        # The file stands for the marketplace that it describes.
        is_list = path.name == _MARKETPLACE_FILE and path.is_file()
        return PathSource(path=str(path.parent.parent if is_list else path))
    if "://" in text and text.partition("#")[0].endswith((".json", *ARCHIVE_ENDINGS)):
        raise ConfigError(f"{text} is a file; download it, and give its path instead")
    return parse_git_source(text)


def _find_settings_marketplaces(loaded: LoadedSettings, cwd: Path) -> dict[str, Source]:
    """Return the marketplaces in the settings that apply, by name.

    Those of a project are among them once it is trusted. Sources that Clew cannot use are left
    out.
    """
    found: dict[str, Source] = {}
    for name, entry in loaded.settings.extra_known_marketplaces.items():
        source = parse_source_object(entry.source)
        if isinstance(source, PathSource):
            found[name] = PathSource(path=str((cwd / source.path).resolve()))
        elif isinstance(source, GitSource):
            found[name] = source
    return found
