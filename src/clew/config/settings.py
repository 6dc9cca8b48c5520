"""The settings of a folder: load all layers, merge them, and return typed values.

Each file is read once. Whether a project's own settings apply is decided afterwards, on the bytes
that were read, so they cannot change between the question and the answer.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from clew.config.layers import (
    Layer,
    Names,
    find_layer_mistakes,
    is_additive,
    iter_values,
    list_paths,
    merge,
    read_layer,
)
from clew.config.schema import (
    ContextSection,
    LegacySection,
    MarketplaceSection,
    McpSection,
    McpServerSection,
    ProfileSection,
    SandboxSection,
    SessionSection,
    SettingsFile,
)
from clew.config.sections import StatusLineSection, TelemetrySection, TerminalSection
from clew.config.trust import (
    TOOL_FOLDER,
    ScreenedLayer,
    Trust,
    WithheldSetting,
    danger_rank,
    read_tool_files,
    screen_layer,
    withhold_tools,
)
from clew.core.permissions import PermissionMode
from clew.files.safe_read import FileContent
from clew.hooks.settings import HookTable, merge_tables
from clew.permissions.rules import Rule

_GLOB = re.compile(r"([*?\[\]\\])")


class PermissionSettings(Struct, frozen=True, kw_only=True):
    """Permission rules, each with its file, and the permission mode."""

    allow: tuple[Rule, ...] = ()
    """Includes a rule for each additional directory."""
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    default_mode: PermissionMode = PermissionMode.DEFAULT
    bypass_disabled: bool = False
    """True when the mode `bypassPermissions` is disabled."""


class UnusedKey(Struct, frozen=True, kw_only=True):
    """A key that Clew does not use."""

    label: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a folder. A string that is not set is empty."""

    permissions: PermissionSettings = field(default_factory=PermissionSettings)
    hooks: HookTable = field(default_factory=HookTable, repr=False)
    current_provider: str = ""
    providers: Mapping[str, ProfileSection] = field(default_factory=dict)
    """As written; `clew.config.providers` resolves them."""
    provider: LegacySection | None = None
    model: str = ""
    language: str = ""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    context: ContextSection = field(default_factory=ContextSection)
    session: SessionSection = field(default_factory=SessionSection)
    sandbox: SandboxSection = field(default_factory=SandboxSection)
    terminal: TerminalSection = field(default_factory=TerminalSection)
    telemetry: TelemetrySection = field(default_factory=TelemetrySection)
    status_line: StatusLineSection | None = None
    mcp_servers: Mapping[str, McpServerSection] = field(default_factory=dict, repr=False)
    """As written; `clew.sdk.mcp_servers` resolves them."""
    mcp: McpSection = field(default_factory=McpSection)
    enabled_plugins: Mapping[str, bool] = field(default_factory=dict)
    """By `name@marketplace`; `clew.sdk.active_plugins` says what that means."""
    extra_known_marketplaces: Mapping[str, MarketplaceSection] = field(default_factory=dict)
    unused: tuple[UnusedKey, ...] = ()


def build_settings(
    document: Mapping[str, Any],
    layers: Sequence[tuple[Layer, Mapping[str, Any]]],
    *,
    cwd: Path,
    user_home: Path,
) -> Settings:
    """Build settings from the merged document, and from each layer with the part that applies."""
    file = msgspec.convert(document, SettingsFile)
    return Settings(
        permissions=_permissions(file, layers, cwd=cwd, user_home=user_home),
        hooks=_hooks(layers),
        current_provider=file.current_provider or "",
        providers=file.providers,
        provider=file.provider or None,
        model=file.model or "",
        language=file.language or "",
        env={name: _to_string(value) for name, value in file.env.items()},
        context=file.context,
        session=file.session,
        sandbox=file.sandbox,
        terminal=file.terminal,
        telemetry=file.telemetry,
        status_line=file.status_line or None,
        mcp_servers=file.mcp_servers,
        mcp=file.mcp,
        enabled_plugins=file.enabled_plugins,
        extra_known_marketplaces=file.extra_known_marketplaces,
        unused=tuple(
            UnusedKey(label=layer.label, key=key) for layer, _ in layers for key in layer.unused
        ),
    )


def _permissions(
    file: SettingsFile,
    layers: Sequence[tuple[Layer, Mapping[str, Any]]],
    *,
    cwd: Path,
    user_home: Path,
) -> PermissionSettings:
    forbidden = file.permissions.disable_bypass_permissions_mode is not UNSET
    mode = PermissionMode(file.permissions.default_mode or "default")
    folders: dict[Path, str] = {}
    for layer, data in layers:
        for text in data.get("permissions", {}).get("additionalDirectories", ()):
            folders.setdefault(
                additional_directory(text, cwd=cwd, user_home=user_home), layer.label
            )
    return PermissionSettings(
        allow=(
            *_rules("allow", layers),
            *(read_rule(folder, label) for folder, label in folders.items()),
        ),
        ask=_rules("ask", layers),
        deny=_rules("deny", layers),
        default_mode=PermissionMode.DEFAULT
        if forbidden and mode is PermissionMode.BYPASS
        else mode,
        bypass_disabled=forbidden,
    )


def _rules(name: str, layers: Sequence[tuple[Layer, Mapping[str, Any]]]) -> tuple[Rule, ...]:
    """Return the rules of all layers in which the list applies."""
    return tuple(
        rule
        for layer, data in layers
        if name in data.get("permissions", {})
        for rule in layer.rules[name]
    )


def _hooks(layers: Sequence[tuple[Layer, Mapping[str, Any]]]) -> HookTable:
    """Join the hooks. A project can disable its own hooks, never the user's."""
    off = {layer.is_project for layer, data in layers if data.get("disableAllHooks")}
    if False in off:
        return HookTable()
    return merge_tables(
        *(layer.hooks for layer, data in layers if "hooks" in data and layer.is_project not in off)
    )


def additional_directory(text: str, *, cwd: Path, user_home: Path) -> Path:
    """Return the folder that a setting or a flag names; `~` is the home folder."""
    if text == "~" or text.startswith("~/"):
        return Path(os.path.realpath(user_home / text[2:]))
    return Path(os.path.realpath(cwd / text))


def read_rule(folder: Path, label: str) -> Rule:
    """Return the rule that allows reading a folder; glob characters in its name are escaped."""
    escaped = _GLOB.sub(r"\\\1", str(folder)).rstrip("/")
    return Rule("Read", f"/{escaped}/**", label)


def _to_string(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSettings:
    """The settings of a folder, with their sources."""

    settings: Settings
    layers: tuple[Layer, ...]
    """All settings files, from the lowest layer to the highest; also those that do not exist."""
    withheld: tuple[WithheldSetting, ...]
    """The project's settings that do not apply until the user accepts the folder, the most
    dangerous first."""
    fingerprint: str
    """A hash of the project's own files."""
    accepted: bool
    document: Mapping[str, Any] = field(repr=False)
    """The merged settings that apply, with the names of the schema."""
    origins: Mapping[Names, tuple[str, ...]] = field(repr=False)
    """The files that each value comes from, by its path."""
    environ: Mapping[str, str] = field(repr=False)
    """The environment, with the variables of the settings."""
    tool_files: tuple[FileContent, ...] = field(repr=False)
    """The project's own tools, to be loaded only if the folder is accepted."""
    cwd: Path
    _user_home: Path = field(repr=False)
    _own_environ: Mapping[str, str] = field(repr=False)

    @property
    def disables_hooks(self) -> bool:
        """True when the user disabled all hooks; a project can only disable its own."""
        return any(
            layer.data.get("disableAllHooks") for layer in self.layers if not layer.is_project
        )

    def accept_files(self) -> "LoadedSettings":
        """Return the settings that apply when the user accepts exactly the files that were read."""
        return _combine(
            self.layers,
            self.tool_files,
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
) -> LoadedSettings:
    """Read and merge all settings for `cwd`.

    Args:
        cwd: The working folder.
        user_home: The user's home folder, which has `.claude`.
        clew_home: Clew's folder of the user.
        environ: The environment of the process.
        accepted: Whether the user has accepted the folder; see `load_trusted`.

    Raises:
        ConfigError: A file is malformed, too large, or leads out of the project.
    """
    layers = tuple(
        read_layer(place) for place in list_paths(cwd, user_home=user_home, clew_home=clew_home)
    )
    # In the home folder the user's tools are also the project's; they count as the user's.
    is_home = os.path.realpath(cwd / ".clew") == os.path.realpath(clew_home)
    tools = () if is_home else read_tool_files(cwd / ".clew")
    return _combine(layers, tools, cwd=cwd, user_home=user_home, environ=environ, accepted=accepted)


def load_sound(
    cwd: Path, *, user_home: Path, clew_home: Path, environ: Mapping[str, str]
) -> tuple[LoadedSettings, list[str]]:
    """Return the settings of the files without mistakes, as if accepted, and all mistakes."""
    mistakes: list[str] = []
    layers: list[Layer] = []
    for place in list_paths(cwd, user_home=user_home, clew_home=clew_home):
        found = find_layer_mistakes(place)
        mistakes += found
        layers.append(Layer(place=place) if found else read_layer(place))
    loaded = _combine(
        tuple(layers), (), cwd=cwd, user_home=user_home, environ=environ, accepted=True
    )
    return loaded, mistakes


def load_trusted(
    cwd: Path, *, user_home: Path, clew_home: Path, environ: Mapping[str, str], trust: Trust
) -> LoadedSettings:
    """Load the settings, with the project's own if the user has accepted exactly these.

    Raises:
        ConfigError: A file is malformed, too large, or leads out of the project.
    """
    loaded = load_settings(
        cwd, user_home=user_home, clew_home=clew_home, environ=environ, accepted=False
    )
    if loaded.withheld and trust.is_accepted(cwd, loaded.fingerprint):
        return loaded.accept_files()
    return loaded


def compute_fingerprint(files: Iterable[tuple[str, bytes]]) -> str:
    """Return a hash of the names and contents of a project's files."""
    digest = hashlib.sha256()
    for name, content in files:
        for piece in (name.encode("utf-8", "surrogateescape"), content):
            digest.update(len(piece).to_bytes(8, "big"))
            digest.update(piece)
    return digest.hexdigest()


def project_files(layers: Iterable[Layer], tools: Iterable[FileContent] = ()) -> dict[str, bytes]:
    """Return the contents of the project's own files that exist, by label, in order."""
    return {
        layer.label: layer.content
        for layer in layers
        if layer.is_project and layer.content is not None
    } | {f"{TOOL_FOLDER}/{file.path.name}": file.content for file in tools}


def _combine(
    layers: tuple[Layer, ...],
    tools: tuple[FileContent, ...],
    *,
    cwd: Path,
    user_home: Path,
    environ: Mapping[str, str],
    accepted: bool,
) -> LoadedSettings:
    document: dict[str, Any] = {}
    applied: list[tuple[Layer, Mapping[str, Any]]] = []
    withheld: list[WithheldSetting] = []
    for layer in layers:
        if layer.is_project and not accepted:
            screened = screen_layer(layer, document)
        else:
            screened = ScreenedLayer(data=layer.data)
        document = merge(document, screened.data)
        applied.append((layer, screened.data))
        withheld += screened.withheld
    withheld += [] if accepted else withhold_tools(tools)
    settings = build_settings(document, applied, cwd=cwd, user_home=user_home)
    return LoadedSettings(
        settings=settings,
        layers=layers,
        withheld=tuple(sorted(withheld, key=danger_rank)),
        fingerprint=compute_fingerprint(project_files(layers, tools).items()),
        accepted=accepted,
        document=document,
        origins=_origins(applied),
        environ={**environ, **settings.env},
        tool_files=tools,
        cwd=cwd,
        _user_home=user_home,
        _own_environ=environ,
    )


def _origins(
    applied: Iterable[tuple[Layer, Mapping[str, Any]]],
) -> dict[Names, tuple[str, ...]]:
    found: dict[Names, tuple[str, ...]] = {}
    for layer, data in applied:
        for path, _ in iter_values(data):
            before = found.get(path, ()) if is_additive(path) else ()
            found[path] = (*before, layer.label)
    return found
