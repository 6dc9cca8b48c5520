"""The marketplaces that the user added: add, update, remove, read and search them."""

from datetime import UTC, datetime
from pathlib import Path

from anyio import to_thread
from msgspec import Struct

from clew.core.errors import ConfigError
from clew.extensions.plugins.installer import PluginOrigin
from clew.extensions.plugins.marketplace import (
    MARKETPLACE_FILE,
    MAX_BYTES,
    Marketplace,
    MarketplacePlugin,
    check_reserved,
    locate_plugin,
    parse_marketplace,
    search,
)
from clew.extensions.plugins.registry import (
    KnownMarketplace,
    PluginRegistry,
    drop_marketplace,
    make_id,
    put_marketplace,
)
from clew.extensions.plugins.repository import fetch
from clew.extensions.plugins.sources import (
    GitSource,
    PathSource,
    Source,
    UnsupportedSource,
    describe_source,
    make_git_source,
)
from clew.extensions.plugins.storage import PluginStorage
from clew.files.atomic import make_private_folder, replace_file
from clew.files.safe_read import read_regular


class Offer(Struct, frozen=True, kw_only=True):
    """A plugin that a marketplace offers."""

    marketplace: str
    plugin: MarketplacePlugin

    @property
    def id(self) -> str:
        """The name to install it by."""
        return make_id(self.plugin.name, self.marketplace)


class ReadMarketplace(Struct, frozen=True, kw_only=True):
    """A marketplace that the user added, and its list."""

    known: KnownMarketplace
    marketplace: Marketplace


class Marketplaces:
    """The marketplaces of the user.

    The list of one in a repository is stored when it is added or updated. That of a folder is
    read again every time.

    Args:
        folder: Clew's folder for plugins.
    """

    def __init__(self, folder: Path) -> None:
        self._registry = PluginRegistry(folder)
        self._storage = PluginStorage(folder)
        self._lists = folder / "marketplaces"

    async def add(self, source: Source, *, name: str = "") -> ReadMarketplace:
        """Add a marketplace, or update one that is known by this source.

        Args:
            source: Where it comes from.
            name: The name that it must have; empty for any.

        Raises:
            ConfigError: It cannot be fetched, is not a marketplace, or has the name of another.
        """
        found, content = await self._fetch(source)
        new = found.marketplace.name
        if name and new != name:
            raise ConfigError(f"{describe_source(source)} is the marketplace {new}, not {name}")
        if isinstance(source, GitSource):
            check_reserved(new, source)
        before = self._registry.read().find_marketplace(new)
        if before is not None and _without_commit(before.source) != _without_commit(source):
            raise ConfigError(
                f"there is a marketplace {new} already, from {describe_source(before.source)};"
                f" remove it first: clew plugin marketplace remove {new}"
            )
        await to_thread.run_sync(self._store, found, content)
        return found

    async def update(self, name: str) -> ReadMarketplace:
        """Fetch the list of a marketplace again.

        Raises:
            ConfigError: There is none of that name, or it cannot be fetched.
        """
        known = self.get(name)
        return await self.add(known.source, name=name)

    def remove(self, name: str) -> KnownMarketplace:
        """Remove a marketplace; its plugins stay installed. Blocks.

        Raises:
            ConfigError: There is none of that name.
        """
        known = self.get(name)
        self._registry.change(lambda content: drop_marketplace(content, name))
        (self._lists / f"{name}.json").unlink(missing_ok=True)
        return known

    def list_known(self) -> tuple[KnownMarketplace, ...]:
        """Return the marketplaces, sorted by name; blocks.

        Raises:
            ConfigError: The registry cannot be read.
        """
        return self._registry.read().marketplaces

    def get(self, name: str) -> KnownMarketplace:
        """Return one marketplace; blocks.

        Raises:
            ConfigError: There is none of that name.
        """
        content = self._registry.read()
        found = content.find_marketplace(name)
        if found is None:
            known = ", ".join(one.name for one in content.marketplaces) or "none"
            raise ConfigError(
                f"there is no marketplace {name}; there are: {known}. Add one with:"
                " clew plugin marketplace add SOURCE"
            )
        return found

    def read(self, name: str) -> ReadMarketplace:
        """Return the list of a marketplace; blocks.

        Raises:
            ConfigError: There is none of that name, or its list cannot be read.
        """
        known = self.get(name)
        try:
            if isinstance(known.source, PathSource):
                content = _read_folder(Path(known.source.path))
            else:
                content = read_regular(self._lists / f"{name}.json", limit=MAX_BYTES + 1)
            return ReadMarketplace(known=known, marketplace=parse_marketplace(content))
        except (ConfigError, OSError) as error:
            is_folder = isinstance(known.source, PathSource)
            hint = f"{'remove' if is_folder else 'update'} {name}"
            raise ConfigError(
                f"the marketplace {name} cannot be read ({error});"
                f" {'if it is gone' if is_folder else 'try'}: clew plugin marketplace {hint}"
            ) from error

    def read_all(self) -> tuple[list[ReadMarketplace], list[str]]:
        """Return the lists of all marketplaces, and why others cannot be read; blocks."""
        found: list[ReadMarketplace] = []
        problems: list[str] = []
        for one in self.list_known():
            try:
                found.append(self.read(one.name))
            except ConfigError as error:
                problems.append(str(error))
        return found, problems

    def search(self, words: list[str]) -> list[Offer]:
        """Return the plugins of all readable lists that contain all words, best first; blocks."""
        offers = {
            id(plugin): Offer(marketplace=one.known.name, plugin=plugin)
            for one in self.read_all()[0]
            for plugin in one.marketplace.plugins
        }
        found = search([offer.plugin for offer in offers.values()], words)
        return [offers[id(plugin)] for plugin in found]

    def find(self, name: str, marketplace: str = "") -> PluginOrigin:
        """Return where to install a plugin from; blocks.

        Args:
            name: The name of the plugin.
            marketplace: The marketplace; empty for the only one that has it.

        Raises:
            ConfigError: No marketplace has it, several do, or its source is not supported.
        """
        if marketplace:
            return _find_in(self.read(marketplace), name)
        read, problems = self.read_all()
        found = [one for one in read if one.marketplace.find(name) is not None]
        if len(found) == 1:
            return _find_in(found[0], name)
        if found:
            ids = ", ".join(f"{name}@{one.known.name}" for one in found)
            raise ConfigError(f"several marketplaces have {name}; write one of: {ids}")
        known = ", ".join(one.known.name for one in read)
        hint = (
            f"search for it: clew plugin marketplace search {name}"
            if known
            else "add its marketplace first: clew plugin marketplace add SOURCE"
        )
        raise ConfigError("; ".join((f"no marketplace has a plugin {name}; {hint}", *problems)))

    async def _fetch(self, source: Source) -> tuple[ReadMarketplace, bytes]:
        commit = ""
        if isinstance(source, GitSource):
            async with self._storage.stage() as staging:
                fetched = await fetch(source, staging)
                found = await fetched.read_file(MARKETPLACE_FILE, limit=MAX_BYTES)
                commit = fetched.commit
            if found is None:
                raise ConfigError(
                    f"{describe_source(source)} is not a marketplace: it has no"
                    f" {MARKETPLACE_FILE}. If it is a plugin, install it:"
                    f" clew plugin install {source.url}"
                )
            content = found
        else:
            content = await to_thread.run_sync(_read_folder, Path(source.path))
        marketplace = parse_marketplace(content)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        known = KnownMarketplace(name=marketplace.name, source=source, commit=commit, updated=now)
        return ReadMarketplace(known=known, marketplace=marketplace), content

    def _store(self, found: ReadMarketplace, content: bytes) -> None:
        try:
            if isinstance(found.known.source, GitSource):
                make_private_folder(self._lists)
                replace_file(self._lists / f"{found.known.name}.json", content, mode=0o600)
        except OSError as error:
            raise ConfigError(
                f"{self._lists} cannot be written: {error.strerror or error}"
            ) from error
        self._registry.change(lambda registry: put_marketplace(registry, found.known))


def _find_in(read: ReadMarketplace, name: str) -> PluginOrigin:
    plugin = read.marketplace.find(name)
    if plugin is None:
        raise ConfigError(
            f"the marketplace {read.known.name} has no plugin {name}; if it is new:"
            f" clew plugin marketplace update {read.known.name}"
        )
    origin = read.known.source
    if isinstance(origin, GitSource):
        origin = make_git_source(
            origin.url, ref=origin.ref, commit=read.known.commit, folder=origin.folder
        )
    source = locate_plugin(plugin, origin)
    if isinstance(source, UnsupportedSource):
        raise ConfigError(f"{name} cannot be installed: {source.reason}")
    return PluginOrigin(
        source=source,
        name=plugin.name,
        marketplace=read.known.name,
        listed=plugin.manifest,
        strict=plugin.strict,
    )


def _without_commit(source: Source) -> Source:
    if isinstance(source, PathSource):
        return source
    return GitSource(url=source.url, ref=source.ref, folder=source.folder)


def _read_folder(folder: Path) -> bytes:
    path = folder / MARKETPLACE_FILE
    try:
        return read_regular(path, limit=MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise ConfigError(f"{folder} is not a marketplace: it has no {MARKETPLACE_FILE}") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
