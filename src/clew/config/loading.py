"""From a folder to its settings.

All files are read once. Whether a project's own settings count is decided after that, on the
very bytes that were read, so nobody can change them between the question and the answer.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clew.config.layers import Layer, read_layer
from clew.config.merging import adds_up, leaves, merge
from clew.config.places import places
from clew.config.screening import Screened, Withheld, danger, screen
from clew.config.settings import Settings, settings_of
from clew.config.trust import Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The settings of a folder, and where they come from."""

    settings: Settings
    layers: tuple[Layer, ...]
    """All files that may be, the one that counts least first."""
    withheld: tuple[Withheld, ...]
    """What the project asks for and does not get before its folder is accepted, the most
    dangerous first."""
    fingerprint: str
    """Changes with every byte of the project's own files."""
    accepted: bool
    document: Mapping[str, Any] = field(repr=False)
    """What counts, merged, by the names of the files."""
    origins: Mapping[tuple[str, ...], tuple[str, ...]] = field(repr=False)
    """Which files each value comes from, by the way to it."""
    environ: Mapping[str, str] = field(repr=False)
    """The environment with the variables that the settings add."""
    cwd: Path
    _user_home: Path = field(repr=False)
    _own_environ: Mapping[str, str] = field(repr=False)

    def once_accepted(self) -> "Loaded":
        """Return the settings that count when the user accepts exactly what was read."""
        return _combined(
            self.layers,
            cwd=self.cwd,
            user_home=self._user_home,
            environ=self._own_environ,
            accepted=True,
        )


def load_settings(
    cwd: Path,
    *,
    user_home: Path,
    clew_home: Path,
    environ: Mapping[str, str],
    accepted: bool,
) -> Loaded:
    """Read and merge all settings that count in `cwd`.

    Args:
        cwd: The working folder.
        user_home: The user's home, in which `.claude` is.
        clew_home: Where Clew keeps the user's things.
        environ: The variables of the process.
        accepted: Whether the user has accepted the folder; see `load_trusted`.

    Raises:
        ConfigError: A file is malformed, too large, or leads out of the project.
    """
    layers = tuple(
        read_layer(place) for place in places(cwd, user_home=user_home, clew_home=clew_home)
    )
    return _combined(layers, cwd=cwd, user_home=user_home, environ=environ, accepted=accepted)


def load_trusted(
    cwd: Path, *, user_home: Path, clew_home: Path, environ: Mapping[str, str], trust: Trust
) -> Loaded:
    """Load the settings, with the project's own if the user has accepted just these.

    Raises:
        ConfigError: A file is malformed, too large, or leads out of the project.
    """
    loaded = load_settings(
        cwd, user_home=user_home, clew_home=clew_home, environ=environ, accepted=False
    )
    if loaded.withheld and trust.is_accepted(cwd, loaded.fingerprint):
        return loaded.once_accepted()
    return loaded


def fingerprint(files: Iterable[tuple[str, bytes]]) -> str:
    """Return the hash over names and contents of a project's files."""
    digest = hashlib.sha256()
    for name, content in files:
        for piece in (name.encode("utf-8", "surrogateescape"), content):
            digest.update(len(piece).to_bytes(8, "big"))
            digest.update(piece)
    return digest.hexdigest()


def project_files(layers: Iterable[Layer]) -> dict[str, bytes]:
    """Return the project's own files that are there, by their labels, in order."""
    return {
        layer.label: layer.content
        for layer in layers
        if layer.is_project and layer.content is not None
    }


def _combined(
    layers: tuple[Layer, ...],
    *,
    cwd: Path,
    user_home: Path,
    environ: Mapping[str, str],
    accepted: bool,
) -> Loaded:
    document: dict[str, Any] = {}
    counted: list[tuple[Layer, Mapping[str, Any]]] = []
    withheld: list[Withheld] = []
    for layer in layers:
        if layer.is_project and not accepted:
            screened = screen(layer, document)
        else:
            screened = Screened(data=layer.data)
        document = merge(document, screened.data)
        counted.append((layer, screened.data))
        withheld += screened.withheld
    settings = settings_of(document, counted, cwd=cwd, user_home=user_home)
    return Loaded(
        settings=settings,
        layers=layers,
        withheld=tuple(sorted(withheld, key=danger)),
        fingerprint=fingerprint(project_files(layers).items()),
        accepted=accepted,
        document=document,
        origins=_origins(counted),
        environ={**environ, **settings.env},
        cwd=cwd,
        _user_home=user_home,
        _own_environ=environ,
    )


def _origins(
    counted: Iterable[tuple[Layer, Mapping[str, Any]]],
) -> dict[tuple[str, ...], tuple[str, ...]]:
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    for layer, data in counted:
        for way, _ in leaves(data):
            before = found.get(way, ()) if adds_up(way) else ()
            found[way] = (*before, layer.label)
    return found
