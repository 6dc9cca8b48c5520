"""The registry: which plugins and marketplaces the user has, in one file of the user.

The file is the user's own decision: a plugin is in it only after the user has seen what it adds.
Several processes may change it at the same time; each change reads the file again under a lock.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from clew.core.errors import ConfigError
from clew.core.json_text import JsonDecoder
from clew.extensions.plugins.sources import PluginSource, Source
from clew.files.atomic import make_private_folder, replace_file
from clew.files.locks import folder_lock

Scope: TypeAlias = Literal["user", "project"]
"""`user`: in all folders. `project`: in one."""
_VERSION = 1
_PRIVATE_FILE = 0o600
_WAIT = 30.0
"""Seconds to wait for another process that changes the file; it holds the lock for a moment."""


def make_id(name: str, marketplace: str) -> str:
    """Return the name of a plugin among all: `name@marketplace`, or the name alone."""
    return f"{name}@{marketplace}" if marketplace else name


class InstalledPlugin(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A plugin that the user installed."""

    name: str
    marketplace: str = ""
    """Empty for one that was installed from a folder, an archive or a repository."""
    scope: Scope = "user"
    project: str = ""
    """The folder, for the scope `project`."""
    enabled: bool = True
    version: str = ""
    source: PluginSource
    """Where updates come from."""
    commit: str = ""
    """The commit that is installed, if it came from a repository."""
    content: str
    """The hash of its files, which is also the name of its folder."""
    generated: tuple[str, ...] = ()
    """Names of folders that were not in it, and that its programs may make when they run."""
    listed: dict[str, Any] = field(default_factory=dict)
    """The entry of the marketplace when it was installed: it completes the manifest."""
    strict: bool = True
    """False if the entry alone says what the plugin consists of."""
    installed: str = ""
    """When, as a date of ISO 8601."""

    @property
    def id(self) -> str:
        """The name that settings use: `name@marketplace`."""
        return make_id(self.name, self.marketplace)

    @property
    def place(self) -> tuple[str, str]:
        """What there is only one of: the id, and the folder that it is installed for."""
        return self.id, self.project


class KnownMarketplace(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A marketplace that the user added; its list is in a file of its own."""

    name: str
    source: Source
    commit: str = ""
    """The commit that the list was read from."""
    updated: str = ""


class RegistryContent(Struct, frozen=True, kw_only=True):
    """All of the file."""

    version: int = _VERSION
    plugins: tuple[InstalledPlugin, ...] = ()
    marketplaces: tuple[KnownMarketplace, ...] = ()

    def find_installed(self, name: str, *, project: str = "") -> tuple[InstalledPlugin, ...]:
        """Return the plugins of a name or an id, those of the project first.

        Plugins of other projects are left out.
        """
        found = [
            one
            for one in self.plugins
            if name in (one.name, one.id) and one.project in ("", project)
        ]
        return tuple(sorted(found, key=lambda one: one.scope != "project"))

    def find_marketplace(self, name: str) -> KnownMarketplace | None:
        """Return the marketplace of that name."""
        return next((one for one in self.marketplaces if one.name == name), None)


_decoder = JsonDecoder(RegistryContent)


class PluginRegistry:
    """Reads and changes the file. All methods block.

    Args:
        folder: Clew's folder for plugins.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "registry.json"

    def read(self) -> RegistryContent:
        """Return the content; empty if there is no file.

        Raises:
            ConfigError: The file cannot be read, or a newer version of Clew wrote it.
        """
        try:
            found = _decoder.decode(self.file.read_bytes())
        except FileNotFoundError:
            return RegistryContent()
        except OSError as error:
            raise ConfigError(f"{self.file} cannot be read: {error.strerror}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{self.file} lists your plugins and is damaged ({error}); repair it, or remove it"
                " and install your plugins again"
            ) from error
        if found.version > _VERSION:
            raise ConfigError(
                f"{self.file} was written by a newer version of Clew; update Clew to use it"
            )
        return found

    def change(self, edit: Callable[[RegistryContent], RegistryContent]) -> RegistryContent:
        """Replace the content by what `edit` makes of it; returns the new content.

        Raises:
            ConfigError: The file cannot be read or written, or another process does not release
                it.
        """
        try:
            make_private_folder(self.folder)
            with folder_lock(self.folder, timeout=_WAIT):
                before = self.read()
                after = edit(before)
                if after != before:
                    data = msgspec.json.format(msgspec.json.encode(after))
                    replace_file(self.file, data + b"\n", mode=_PRIVATE_FILE)
        except UnicodeEncodeError as error:
            raise ConfigError(
                "the path of the plugin is not valid UTF-8; rename its folder, or move it"
            ) from error
        except TimeoutError as error:
            raise ConfigError(
                f"another process changes {self.file} and does not finish; try again"
            ) from error
        except OSError as error:
            raise ConfigError(f"{self.file} cannot be written: {error.strerror}") from error
        return after


def put_plugin(content: RegistryContent, plugin: InstalledPlugin) -> RegistryContent:
    """Return the content with a plugin, which replaces the one in the same place."""
    others = [one for one in content.plugins if one.place != plugin.place]
    return _with(content, plugins=(*others, plugin))


def drop_plugin(content: RegistryContent, plugin: InstalledPlugin) -> RegistryContent:
    """Return the content without a plugin."""
    return _with(content, plugins=(one for one in content.plugins if one.place != plugin.place))


def put_marketplace(content: RegistryContent, new: KnownMarketplace) -> RegistryContent:
    """Return the content with a marketplace, which replaces the one of the same name."""
    others = [one for one in content.marketplaces if one.name != new.name]
    return _with(content, marketplaces=(*others, new))


def drop_marketplace(content: RegistryContent, name: str) -> RegistryContent:
    """Return the content without a marketplace."""
    return _with(content, marketplaces=(one for one in content.marketplaces if one.name != name))


def _with(
    content: RegistryContent,
    *,
    plugins: Iterable[InstalledPlugin] | None = None,
    marketplaces: Iterable[KnownMarketplace] | None = None,
) -> RegistryContent:
    return RegistryContent(
        plugins=content.plugins if plugins is None else _sort(plugins),
        marketplaces=content.marketplaces
        if marketplaces is None
        else tuple(sorted(marketplaces, key=lambda one: one.name)),
    )


def _sort(plugins: Iterable[InstalledPlugin]) -> tuple[InstalledPlugin, ...]:
    return tuple(sorted(plugins, key=lambda one: one.place))
