"""Entry points of installed packages, found without importing any of them.

Reading the metadata of every package takes tens of milliseconds. So the folders are first searched
for the name of the group, and a program without such packages pays for a few small reads only.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from clew.core.errors import ConfigError

_METADATA = (".dist-info", ".egg-info")
_FILE = "entry_points.txt"


class InstalledPart(Struct, frozen=True):
    """A part that an installed package offers."""

    name: str
    package: str
    value: str
    """Where the object is: `module:attribute`."""

    @property
    def origin(self) -> str:
        """The package and the object, for people."""
        return f"package {self.package} ({self.value})"

    def load(self) -> Any:
        """Import the object; raises whatever its module raises."""
        from importlib.metadata import EntryPoint  # noqa: PLC0415 - see the module

        return EntryPoint(name=self.name, value=self.value, group="").load()


def find_installed(group: str, paths: Sequence[str] | None = None) -> list[InstalledPart]:
    """Return the entry points of a group such as `clew.tools`, by name. Blocks.

    Args:
        group: The group.
        paths: Where packages are installed; by default `sys.path`.
    """
    heading = f"[{group}]".encode()
    paths = sys.path if paths is None else paths
    if not any(heading in content for content in _read_all(paths)):
        return []
    from importlib.metadata import distributions  # noqa: PLC0415 - see the module

    found = {
        (point.name, point.value): InstalledPart(
            point.name, distribution.metadata["Name"] or "?", point.value
        )
        for distribution in distributions(path=list(paths))
        for point in distribution.entry_points
        if point.group == group
    }
    return [found[key] for key in sorted(found)]


def _read_all(paths: Sequence[str]) -> Iterator[bytes]:
    for path in dict.fromkeys(paths):
        try:
            with os.scandir(path or ".") as entries:
                names = [entry.name for entry in entries if entry.name.endswith(_METADATA)]
        except OSError:
            continue
        for name in names:
            try:
                yield Path(path, name, _FILE).read_bytes()
            except OSError:
                continue


def load_installed(group: str, name: str) -> Any:
    """Return the object that a package offers under a name; None if there is none.

    Case and punctuation of the name do not matter.

    Raises:
        ConfigError: The package cannot be imported.
    """
    for part in find_installed(group):
        if _plain(part.name) == _plain(name):
            try:
                return part.load()
            except (Exception, SystemExit) as error:
                why = f"{type(error).__name__}: {error}"
                raise ConfigError(f"{part.origin} cannot be loaded: {why}") from error
    return None


def _plain(name: str) -> str:
    return "".join(sign for sign in name.lower() if sign.isalnum())
