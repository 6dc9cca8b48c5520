"""What all layers say together, as values that the rest of Clew can use."""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from clew.config.layers import Layer, adds_up, leaves, merge, places, read_layer
from clew.config.schema import (
    ContextSection,
    LegacySection,
    ProfileSection,
    SandboxSection,
    SessionSection,
    SettingsFile,
)
from clew.config.trust import Screened, Trust, Withheld, danger, screen
from clew.core.access import PermissionMode
from clew.hooks.settings import HookTable, merge_tables
from clew.permissions.rules import Rule

_GLOB = re.compile(r"([*?\[\]\\])")


class Permissions(Struct, frozen=True, kw_only=True):
    """Rules, each with the file it comes from, and a mode."""

    allow: tuple[Rule, ...] = ()
    """With a rule for each folder outside the working folder that may be read."""
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    default_mode: PermissionMode = PermissionMode.DEFAULT
    bypass_disabled: bool = False
    """True when nothing may run in the mode `bypassPermissions`."""


class Unused(Struct, frozen=True, kw_only=True):
    """A key that is there and means nothing to Clew."""

    label: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a folder. Texts that are not set are empty."""

    permissions: Permissions = field(default_factory=Permissions)
    hooks: HookTable = field(default_factory=HookTable, repr=False)
    current_provider: str = ""
    providers: Mapping[str, ProfileSection] = field(default_factory=dict)
    """As they are written; `clew.config.providers` makes them definite."""
    provider: LegacySection | None = None
    model: str = ""
    language: str = ""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    context: ContextSection = field(default_factory=ContextSection)
    session: SessionSection = field(default_factory=SessionSection)
    sandbox: SandboxSection = field(default_factory=SandboxSection)
    unused: tuple[Unused, ...] = ()


def settings_of(
    document: Mapping[str, Any],
    layers: Sequence[tuple[Layer, Mapping[str, Any]]],
    *,
    cwd: Path,
    user_home: Path,
) -> Settings:
    """Make settings of the merged document and of the layers, each with what counts of it."""
    file = msgspec.convert(document, SettingsFile)
    return Settings(
        permissions=_permissions(file, layers, cwd=cwd, user_home=user_home),
        hooks=_hooks(layers),
        current_provider=file.current_provider or "",
        providers=file.providers,
        provider=file.provider or None,
        model=file.model or "",
        language=file.language or "",
        env={name: _text(value) for name, value in file.env.items()},
        context=file.context,
        session=file.session,
        sandbox=file.sandbox,
        unused=tuple(
            Unused(label=layer.label, key=key) for layer, _ in layers for key in layer.unused
        ),
    )


def _permissions(
    file: SettingsFile,
    layers: Sequence[tuple[Layer, Mapping[str, Any]]],
    *,
    cwd: Path,
    user_home: Path,
) -> Permissions:
    forbidden = file.permissions.disable_bypass_permissions_mode is not UNSET
    mode = PermissionMode(file.permissions.default_mode or "default")
    folders: dict[Path, str] = {}
    for layer, data in layers:
        for text in data.get("permissions", {}).get("additionalDirectories", ()):
            folders.setdefault(_folder(text, cwd=cwd, user_home=user_home), layer.label)
    return Permissions(
        allow=(
            *_rules("allow", layers),
            *(_reading(folder, label) for folder, label in folders.items()),
        ),
        ask=_rules("ask", layers),
        deny=_rules("deny", layers),
        default_mode=PermissionMode.DEFAULT
        if forbidden and mode is PermissionMode.BYPASS
        else mode,
        bypass_disabled=forbidden,
    )


def _rules(name: str, layers: Sequence[tuple[Layer, Mapping[str, Any]]]) -> tuple[Rule, ...]:
    """Return the rules of all layers in which the list counts."""
    return tuple(
        rule
        for layer, data in layers
        if name in data.get("permissions", {})
        for rule in layer.rules[name]
    )


def _hooks(layers: Sequence[tuple[Layer, Mapping[str, Any]]]) -> HookTable:
    """Add the hooks up. A project can switch off its own, and never the user's."""
    off = {layer.is_project for layer, data in layers if data.get("disableAllHooks")}
    if False in off:
        return HookTable()
    return merge_tables(
        *(layer.hooks for layer, data in layers if "hooks" in data and layer.is_project not in off)
    )


def _folder(text: str, *, cwd: Path, user_home: Path) -> Path:
    if text == "~" or text.startswith("~/"):
        return Path(os.path.realpath(user_home / text[2:]))
    return Path(os.path.realpath(cwd / text))


def _reading(folder: Path, label: str) -> Rule:
    """Return the rule that lets a model read a folder, whatever signs its name holds."""
    escaped = _GLOB.sub(r"\\\1", str(folder)).rstrip("/")
    return Rule("Read", f"/{escaped}/**", label)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


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
