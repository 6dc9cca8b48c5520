"""Checks a plugin or a marketplace for its author, before it is published."""

from itertools import islice
from pathlib import Path
from typing import TypeAlias

from clew.core.errors import ConfigError
from clew.extensions.plugins.contribution import Plugin
from clew.extensions.plugins.manifest import MANIFEST, PluginError
from clew.extensions.plugins.marketplace import (
    MARKETPLACE_FILE,
    MAX_BYTES,
    Marketplace,
    MarketplacePlugin,
    locate_plugin,
    parse_marketplace,
)
from clew.extensions.plugins.reader import read_listed, read_plugin
from clew.extensions.plugins.sources import PathSource
from clew.extensions.plugins.summary import PluginSummary, summarize
from clew.files.safe_read import read_regular

_MAX_ABOVE = 4
"""Folders above a plugin in which its marketplace may be."""

Validated: TypeAlias = PluginSummary | Marketplace


def validate(path: Path) -> tuple[Validated, ...]:
    """Read a plugin, a marketplace, or a folder that is both; blocks.

    Args:
        path: A folder, or the file of a marketplace.

    Raises:
        ConfigError: It is neither.
    """
    if path.is_file():
        return (_read_marketplace(path),)
    file = path / MARKETPLACE_FILE
    found: list[Validated] = [_read_marketplace(file)] if file.is_file() else []
    if not found or (path / MANIFEST).exists():
        found.append(summarize(_read_plugin(path)))
    return tuple(found)


def _read_marketplace(file: Path) -> Marketplace:
    try:
        return parse_marketplace(read_regular(file, limit=MAX_BYTES + 1))
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}") from error


def _read_plugin(path: Path) -> Plugin:
    try:
        return read_plugin(path)
    except PluginError as error:
        entry = _find_entry(path.resolve()) if error.kind == "missing" else None
        if entry is None:
            raise
        return read_listed(path, called=entry.name, listed=entry.manifest, strict=entry.strict)


def _find_entry(folder: Path) -> MarketplacePlugin | None:
    """Return the entry of the marketplace around a folder that describes it."""
    for above in islice(folder.parents, _MAX_ABOVE):
        if not (above / MARKETPLACE_FILE).is_file():
            continue
        for plugin in _read_marketplace(above / MARKETPLACE_FILE).plugins:
            source = locate_plugin(plugin, PathSource(path=str(above)))
            if isinstance(source, PathSource) and Path(source.path).resolve() == folder:
                return plugin
        return None
    return None
