"""Installs, updates and removes plugins.

A plugin is fetched and read first, and nothing of it runs. It counts as installed when it is in
the registry, which happens last: whatever interrupts an installation leaves the old state.
"""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from anyio import to_thread
from msgspec import Struct, field
from msgspec.structs import replace

from clew.core.errors import ConfigError
from clew.extensions.plugins.archive import find_top, unpack
from clew.extensions.plugins.content import (
    FileChanges,
    compare_files,
    compute_hash,
    copy_tree,
    list_files,
)
from clew.extensions.plugins.contribution import Plugin
from clew.extensions.plugins.download import download
from clew.extensions.plugins.manifest import PluginError
from clew.extensions.plugins.reader import read_listed
from clew.extensions.plugins.registry import (
    InstalledPlugin,
    PluginRegistry,
    RegistryContent,
    Scope,
    drop_plugin,
    make_id,
    put_plugin,
)
from clew.extensions.plugins.repository import fetch
from clew.extensions.plugins.sources import (
    ARCHIVE_ENDINGS,
    ArchiveSource,
    GitSource,
    NpmSource,
    PathSource,
    PluginSource,
    describe_source,
)
from clew.extensions.plugins.storage import PluginStorage, list_missing_generated

_TREE, _COPY = "tree", "plugin"
"""Folders for work in progress: of what an archive contains, and of the plugin."""


class PluginOrigin(Struct, frozen=True, kw_only=True):
    """Where a plugin comes from, and what a marketplace says about it."""

    source: PluginSource
    name: str = ""
    """The name in the marketplace; empty for what the plugin calls itself."""
    marketplace: str = ""
    listed: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = True


class StagedPlugin(Struct, frozen=True, kw_only=True):
    """A plugin that was fetched and read, and is not installed yet."""

    origin: PluginOrigin
    plugin: Plugin
    folder: Path
    commit: str
    content: str
    generated: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name under which it is installed."""
        return self.origin.name or self.plugin.name

    @property
    def id(self) -> str:
        """The name that settings will use: `name@marketplace`."""
        return make_id(self.name, self.origin.marketplace)


class Installer:
    """Installs plugins into Clew's folder of the user.

    Args:
        folder: Clew's folder for plugins.
    """

    def __init__(self, folder: Path) -> None:
        self.registry = PluginRegistry(folder)
        self.storage = PluginStorage(folder)

    @asynccontextmanager
    async def stage(self, origin: PluginOrigin) -> AsyncIterator[StagedPlugin]:
        """Fetch and read a plugin; what is not installed at the end is removed.

        Raises:
            ConfigError: It cannot be fetched, is not a plugin, or is not acceptable.
        """
        async with self.storage.stage() as staging:
            try:
                staged = await _stage(origin, staging)
            except OSError as error:
                where = describe_source(origin.source)
                raise ConfigError(f"{where} cannot be read: {error.strerror or error}") from error
            yield staged

    async def install(
        self,
        staged: StagedPlugin,
        *,
        scope: Scope = "user",
        project: str = "",
        before: InstalledPlugin | None = None,
    ) -> InstalledPlugin:
        """Install a plugin that the user accepted; it replaces the one of the same name.

        Args:
            staged: The plugin, within its block of `stage`.
            scope: `user` for all folders, `project` for one.
            project: That folder.
            before: The version that it replaces, which may have another name.

        Raises:
            ConfigError: It cannot be written.
        """
        new = InstalledPlugin(
            name=staged.name,
            marketplace=staged.origin.marketplace,
            scope=scope,
            project=project if scope == "project" else "",
            version=staged.plugin.manifest.version,
            source=staged.origin.source,
            commit=staged.commit,
            content=staged.content,
            generated=staged.generated,
            listed=dict(staged.origin.listed),
            strict=staged.origin.strict,
            installed=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        # The thread is not cancelled: from here on it happens, and takes little time.
        return await to_thread.run_sync(self._install, staged, new, before)

    def _install(
        self, staged: StagedPlugin, new: InstalledPlugin, before: InstalledPlugin | None
    ) -> InstalledPlugin:
        try:
            self.storage.keep(staged.folder, content=new.content, generated=new.generated)
        except OSError as error:
            raise ConfigError(f"{new.id} cannot be stored: {error.strerror or error}") from error

        def put(content: RegistryContent) -> RegistryContent:
            places = [new.place, *([before.place] if before is not None else [])]
            known = {one.place: one for one in content.plugins}
            replaced = [known[place] for place in places if place in known]
            enabled = replaced[0].enabled if replaced else True
            for one in replaced:
                content = drop_plugin(content, one)
            return put_plugin(content, replace(new, enabled=enabled))

        after = self._change(put)
        return next(one for one in after.plugins if one.place == new.place)

    def remove(self, plugin: InstalledPlugin) -> None:
        """Remove a plugin; blocks. Its files stay for a week, for sessions that are open.

        Raises:
            ConfigError: The registry cannot be written.
        """
        self._change(lambda content: drop_plugin(content, plugin))

    def set_enabled(self, plugin: InstalledPlugin, *, enabled: bool) -> None:
        """Enable or disable a plugin; blocks.

        Raises:
            ConfigError: The registry cannot be written.
        """

        def switch(content: RegistryContent) -> RegistryContent:
            here = next((one for one in content.plugins if one.place == plugin.place), None)
            return content if here is None else put_plugin(content, replace(here, enabled=enabled))

        self._change(switch)

    def read(self, plugin: InstalledPlugin) -> Plugin:
        """Read an installed plugin, after a comparison of its files with the hash; blocks.

        Raises:
            ContentChanged: Its files were changed.
            PluginError: It cannot be read.
        """
        root = self.storage.verify(plugin)
        return read_listed(root, called=plugin.name, listed=plugin.listed, strict=plugin.strict)

    def find_changed_files(self, old: InstalledPlugin, new: StagedPlugin) -> FileChanges:
        """Return the paths of the files that differ between two versions; blocks.

        Raises:
            ConfigError: The files cannot be read.
        """
        try:
            before = list_files(self.storage.locate(old), ignored=old.generated)
        except FileNotFoundError:
            before = {}
        after = list_files(new.folder)
        return compare_files(before, after, differ=old.content != new.content)

    def _change(self, edit: Callable[[RegistryContent], RegistryContent]) -> RegistryContent:
        before: list[RegistryContent] = []

        def remember(content: RegistryContent) -> RegistryContent:
            before.append(content)
            return edit(content)

        after = self.registry.change(remember)
        used = {one.content for one in after.plugins}
        released = {one.content for one in before[0].plugins} - used
        self.storage.remove_unused(used, released=released)
        return after


async def _stage(origin: PluginOrigin, staging: Path) -> StagedPlugin:
    source, commit = origin.source, ""
    if isinstance(source, GitSource):
        fetched = await fetch(source, staging)
        tree, root = await fetched.unpack(staging)
        commit = fetched.commit
    elif isinstance(source, PathSource):
        tree, root = await to_thread.run_sync(_open_path, source, staging)
    else:
        tree = root = await to_thread.run_sync(
            _unpack, await download(source, staging), staging, describe_source(source)
        )
    folder = staging / _COPY

    def read() -> StagedPlugin:
        copy_tree(tree, folder, root=root)
        return StagedPlugin(
            origin=origin,
            plugin=_read(folder, origin, _guess_name(source, tree)),
            folder=folder,
            commit=commit,
            content=compute_hash(folder),
            generated=list_missing_generated(folder),
        )

    return await to_thread.run_sync(read)


def _read(folder: Path, origin: PluginOrigin, name: str) -> Plugin:
    try:
        return read_listed(
            folder, name=name, called=origin.name, listed=origin.listed, strict=origin.strict
        )
    except PluginError as error:
        # The user knows the source; the folder that was read is gone in a moment.
        said = str(error).replace(os.path.realpath(folder), describe_source(origin.source))
        raise PluginError(said, kind=error.kind) from error


def _open_path(source: PathSource, staging: Path) -> tuple[Path, Path]:
    path = Path(source.path)
    if path.is_file():
        top = _unpack(path, staging, path.name)
        return top, top
    if not path.is_dir():
        raise ConfigError(f"{path} does not exist")
    return path, Path(source.root) if source.root else path


def _unpack(archive: Path, staging: Path, name: str) -> Path:
    """Unpack an archive; returns the folder of the plugin in it."""
    tree = staging / _TREE
    try:
        unpack(archive, tree)
    except ConfigError as error:
        raise ConfigError(str(error).replace(archive.name, name, 1)) from error
    return find_top(tree)


def _guess_name(source: PluginSource, tree: Path) -> str:
    """Return a name for a plugin that has no manifest: of its folder, archive or repository."""
    if isinstance(source, NpmSource):
        return source.package.rpartition("/")[2]
    if isinstance(source, PathSource | ArchiveSource):
        path = Path(source.path if isinstance(source, PathSource) else urlsplit(source.url).path)
        if isinstance(source, PathSource) and path.is_dir():
            return path.name
        if tree.parent.name == _TREE:
            return tree.name
        ending = next((one for one in ARCHIVE_ENDINGS if path.name.endswith(one)), "")
        return path.name.removesuffix(ending)
    last = (source.folder or source.url).rstrip("/").replace(":", "/").rpartition("/")[2]
    return last.removesuffix(".git")
