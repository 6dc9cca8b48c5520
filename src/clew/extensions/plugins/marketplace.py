"""Reads a marketplace: `.claude-plugin/marketplace.json` in the format of Claude Code.

A marketplace lists plugins and says where each comes from. One wrong entry does not hide the
others: it is listed with the reason why it cannot be installed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import msgspec
from msgspec import Struct

from clew.core.errors import ConfigError
from clew.core.json_text import decode_json
from clew.core.sanitize import sanitize_line
from clew.extensions.plugins.sources import (
    AnySource,
    ArchiveSource,
    GitSource,
    NpmSource,
    PathSource,
    Source,
    UnsupportedSource,
    check_folder,
    describe_source,
    find_protocol,
    is_loopback,
    make_git_source,
    parse_source_object,
)

MARKETPLACE_FILE = ".claude-plugin/marketplace.json"
MAX_BYTES = 5_000_000
_MAX_PLUGINS = 10_000
_MAX_RENAMES = 10
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_OF_LIST = frozenset({"source", "strict", "category", "tags"})
"""Fields of an entry that no manifest has."""


_RESERVED = frozenset(
    {
        "claude-code-marketplace",
        "claude-code-plugins",
        "claude-plugins-official",
        "anthropic-marketplace",
        "anthropic-plugins",
        "agent-skills",
    }
)
"""Names of marketplaces that come from one place only, as in Claude Code."""
_OFFICIAL = re.compile(r"(?:https://|ssh://git@|git@)github\.com[:/]anthropics/", re.IGNORECASE)


class MarketplacePlugin(Struct, frozen=True, kw_only=True):
    """One plugin of a marketplace."""

    name: str
    description: str = ""
    version: str = ""
    category: str = ""
    author: str = ""
    words: tuple[str, ...] = ()
    """Keywords and tags."""
    source: AnySource
    """As written: the path of a `PathSource` is relative to the marketplace."""
    strict: bool = True
    """False if the entry describes the plugin, which then needs no manifest of its own."""
    manifest: Mapping[str, Any] = {}
    """The fields that a manifest can have; they complete the plugin's own manifest."""

    @property
    def problem(self) -> str:
        """Why it cannot be installed; empty for most."""
        return self.source.reason if isinstance(self.source, UnsupportedSource) else ""


class Marketplace(Struct, frozen=True, kw_only=True):
    """A list of plugins."""

    name: str
    owner: str = ""
    description: str = ""
    version: str = ""
    plugins: tuple[MarketplacePlugin, ...] = ()
    renames: Mapping[str, str] = {}
    """New names of plugins, by the old ones."""
    problems: tuple[str, ...] = ()
    """Entries that are not listed, and why."""

    def find(self, name: str) -> MarketplacePlugin | None:
        """Return the plugin of that name, also by a name that it had before."""
        known = {one.name: one for one in self.plugins}
        for _ in range(_MAX_RENAMES):
            if name in known or name not in self.renames:
                break
            name = self.renames[name]
        return known.get(name)


def is_name(text: object) -> bool:
    """Return whether a text is a name that a plugin or a marketplace can have."""
    return isinstance(text, str) and _NAME.fullmatch(text) is not None and ".." not in text


def check_reserved(name: str, source: Source) -> None:
    """Check that a marketplace with a name that people trust comes from its owner.

    Raises:
        ConfigError: It has such a name, and comes from elsewhere.
    """
    is_official = isinstance(source, GitSource) and _OFFICIAL.match(source.url)
    if name.lower() in _RESERVED and not is_official:
        raise ConfigError(
            f"{describe_source(source)} calls itself {name}, a name that is reserved for"
            " repositories of github.com/anthropics; ask its author to rename it"
        )


def parse_marketplace(content: bytes) -> Marketplace:
    """Return the marketplace that a file describes.

    Raises:
        ConfigError: It is not a marketplace: no JSON, too large, or without name and plugins.
    """
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{MARKETPLACE_FILE} is larger than {MAX_BYTES:,} bytes")
    try:
        data = decode_json(content.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{MARKETPLACE_FILE} is not valid JSON: {error}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{MARKETPLACE_FILE} must contain an object")
    name, entries = data.get("name"), data.get("plugins")
    if not is_name(name):
        raise ConfigError(
            f"{MARKETPLACE_FILE} has no usable name (letters, digits, dots, hyphens):"
            f" {sanitize_line(repr(name), 60)}"
        )
    if not isinstance(entries, list):
        raise ConfigError(f"{MARKETPLACE_FILE} has no list of plugins")
    return _build(data, entries)


def _build(data: Mapping[str, Any], entries: Sequence[object]) -> Marketplace:
    metadata = data.get("metadata")
    facts: Mapping[str, Any] = metadata if isinstance(metadata, dict) else {}
    root = _string(facts, "pluginRoot")
    plugins: dict[str, MarketplacePlugin] = {}
    problems: list[str] = []
    for number, entry in enumerate(entries[:_MAX_PLUGINS]):
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(name, str) or not is_name(name):
            shown = sanitize_line(repr(name), 60)
            problems.append(f"plugins[{number}] has no usable name: {shown}")
        elif name in plugins:
            problems.append(f"plugins[{number}] has the same name as another one: {name}")
        else:
            plugins[name] = _parse_plugin(name, entry, root)
    if len(entries) > _MAX_PLUGINS:
        problems.append(f"only the first {_MAX_PLUGINS:,} plugins are listed")
    renames = data.get("renames")
    return Marketplace(
        name=data["name"],
        owner=_person(data.get("owner")),
        description=_string(facts, "description") or _string(data, "description"),
        version=_string(facts, "version") or _string(data, "version"),
        plugins=tuple(plugins.values()),
        renames={
            old: new
            for old, new in (renames.items() if isinstance(renames, dict) else ())
            if isinstance(new, str)
        },
        problems=tuple(problems),
    )


def _parse_plugin(name: str, entry: Mapping[str, Any], root: str) -> MarketplacePlugin:
    return MarketplacePlugin(
        name=name,
        description=_string(entry, "description"),
        version=_string(entry, "version"),
        category=_string(entry, "category"),
        author=_person(entry.get("author")),
        words=(*_strings(entry, "keywords"), *_strings(entry, "tags")),
        source=_parse_source(entry.get("source"), root),
        strict=entry.get("strict") is not False,
        manifest={key: value for key, value in entry.items() if key not in _OF_LIST},
    )


def _parse_source(source: object, root: str) -> AnySource:
    match source:
        case str():
            # The root only shortens plain names: Claude Code takes `./x` from the marketplace.
            inside = source if source.startswith("./") or source == "." else f"{root}/{source}"
            try:
                return PathSource(path=check_folder(inside if root else source))
            except ConfigError:
                return UnsupportedSource(reason=f"its path leads out of the marketplace: {source}")
        case dict():
            found = parse_source_object(source)
            if isinstance(found, PathSource):
                return UnsupportedSource(reason="its source is a folder of another machine")
            return found
        case _:
            return UnsupportedSource(reason="it has no source")


def locate_plugin(plugin: MarketplacePlugin, origin: Source) -> AnySource:
    """Return where to fetch a plugin of the marketplace that came from `origin`.

    Args:
        plugin: The plugin.
        origin: The source of the marketplace. The commit of a repository is the one that the
            list was read from.
    """
    source = plugin.source
    if _is_local(source) and not (isinstance(source, PathSource) or _is_local(origin)):
        return UnsupportedSource(reason="its source is on this machine, and its marketplace is not")
    if not isinstance(source, PathSource):
        return source
    if isinstance(origin, PathSource):
        inside = PurePosixPath(origin.path, source.path)
        return PathSource(path=str(inside), root=origin.path)
    folder = str(PurePosixPath(origin.folder, source.path))
    return make_git_source(origin.url, ref=origin.ref, commit=origin.commit, folder=folder)


def _is_local(source: AnySource) -> bool:
    match source:
        case PathSource():
            return True
        case GitSource():
            return find_protocol(source.url) in ("file", "http")
        case ArchiveSource():
            return is_loopback(source.url)
        case NpmSource():
            return is_loopback(source.registry)
        case UnsupportedSource():
            return False


def search(plugins: Sequence[MarketplacePlugin], words: Sequence[str]) -> list[MarketplacePlugin]:
    """Return the plugins that contain every word, those with it in their names first."""
    wanted = [word.casefold() for word in words if word.strip()]
    found = [one for one in plugins if all(word in _text_of(one) for word in wanted)]
    return sorted(found, key=lambda one: (not _is_named(one, wanted), one.name.casefold()))


def _is_named(plugin: MarketplacePlugin, words: Sequence[str]) -> bool:
    return any(word in plugin.name.casefold() for word in words)


def _text_of(plugin: MarketplacePlugin) -> str:
    return "\n".join(_parts(plugin)).casefold()


def _parts(plugin: MarketplacePlugin) -> Iterator[str]:
    yield from (plugin.name, plugin.description, plugin.category, plugin.author, *plugin.words)


def _string(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""


def _strings(data: Mapping[str, Any], name: str) -> tuple[str, ...]:
    values = data.get(name)
    found = values if isinstance(values, list) else []
    return tuple(one for one in found if isinstance(one, str))


def _person(value: object) -> str:
    match value:
        case {"name": str(name)}:
            return name
        case str():
            return value
        case _:
            return ""
