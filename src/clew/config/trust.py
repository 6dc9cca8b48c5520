"""Trust: which folders the user has accepted, and what a project may set before that.

Before its folder is accepted, a project may only tighten settings, or change harmless ones.
Everything else is withheld and reported. A new key of the schema is withheld until it is listed
here.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct

from clew.config.layers import Layer, Names, get_value, iter_values, put_value
from clew.config.mcp_summary import describe_server, find_host
from clew.core.errors import ConfigError
from clew.core.json_text import JsonDecoder
from clew.core.permissions import PermissionMode
from clew.core.redaction import redact
from clew.core.text import truncate
from clew.files.atomic import make_private_folder, replace_file
from clew.files.locks import file_lock
from clew.files.safe_read import FileContent, read_folder

TOOL_FOLDER = "tools"
"""In `.clew` of a project, and in Clew's folder of the user."""
_PRIVATE_FILE = 0o600
_MAX_TOOLS = 50
_MAX_TOOL_BYTES = 1_000_000


class _Folder(Struct, frozen=True, kw_only=True, omit_defaults=True):
    fingerprint: str
    declined: bool = False
    """True when the user declined exactly these settings."""


class _Content(Struct, frozen=True, kw_only=True):
    version: int = 1
    folders: dict[str, _Folder] = {}


_decoder = JsonDecoder(_Content)


class Trust:
    """Stores the accepted folders in a private file of the user. All methods block.

    A folder is accepted together with the content of its settings: after any change to them it
    is no longer accepted. Several processes may write at the same time.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def is_accepted(self, cwd: Path, fingerprint: str) -> bool:
        """Return whether the user has accepted the folder with exactly these settings.

        Raises:
            ConfigError: The file cannot be read.
        """
        return self._read().folders.get(_name(cwd)) == _Folder(fingerprint=fingerprint)

    def is_declined(self, cwd: Path, fingerprint: str) -> bool:
        """Return whether the user has declined exactly these settings.

        Raises:
            ConfigError: The file cannot be read.
        """
        known = self._read().folders.get(_name(cwd))
        return known == _Folder(fingerprint=fingerprint, declined=True)

    def decline(self, cwd: Path, fingerprint: str) -> None:
        """Store that the user declined these settings and should not be asked again.

        Raises:
            ConfigError: The file cannot be read or written.
        """
        self._change(_name(cwd), _Folder(fingerprint=fingerprint, declined=True))

    def accept(self, cwd: Path, fingerprint: str) -> None:
        """Store that the user accepts the folder with exactly these settings.

        Raises:
            ConfigError: The file cannot be read or written.
        """
        self._change(_name(cwd), _Folder(fingerprint=fingerprint))

    def forget(self, cwd: Path) -> bool:
        """Remove the folder; return whether it was stored.

        Raises:
            ConfigError: The file cannot be read or written.
        """
        return self._change(_name(cwd), None)

    def _change(self, name: str, new: _Folder | None) -> bool:
        """Store or remove one folder; return whether it was stored before."""
        try:
            make_private_folder(self._file.parent)
            with file_lock(self._file):
                folders = dict(self._read().folders)
                before = folders.pop(name, None)
                if new is not None:
                    folders[name] = new
                if before != new:
                    self._write(_Content(folders=folders))
        except OSError as error:
            raise ConfigError(f"{self._file} cannot be written: {error.strerror}") from error
        return before is not None

    def _read(self) -> _Content:
        try:
            return _decoder.decode(self._file.read_bytes())
        except FileNotFoundError:
            return _Content()
        except OSError as error:
            raise ConfigError(f"{self._file} cannot be read: {error.strerror}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{self._file} lists the folders that you accepted and is damaged ({error});"
                " remove it, and Clew asks you again"
            ) from error

    def _write(self, content: _Content) -> None:
        data = msgspec.json.format(msgspec.json.encode(content))
        replace_file(self._file, data, mode=_PRIVATE_FILE)


def _name(cwd: Path) -> str:
    """Return the real path as text that JSON can represent, whatever bytes it has."""
    return os.fsencode(cwd.resolve()).decode("utf-8", "backslashreplace")


_MODES = tuple(str(mode) for mode in PermissionMode)
"""The strictest first."""
_MAX_SHOWN = 200
_MAX_SERVER = 1_000
"""The description of a server shortens its parts itself."""
_BY_DANGER: tuple[tuple[str, ...], ...] = (
    ("hooks.", "statusLine", "tools"),
    ("mcpServers.",),
    ("env.",),
    ("currentProvider", "provider"),
    ("permissions.allow",),
    ("permissions.defaultMode",),
)
"""Prefixes of keys, the most dangerous first, so that a long list does not hide them."""


class WithheldSetting(Struct, frozen=True, kw_only=True):
    """A project's setting that does not apply until the user accepts the folder."""

    path: Path
    key: str
    why: str
    """What it would do; continues a sentence that begins with the key."""


def read_tool_files(folder: Path) -> tuple[FileContent, ...]:
    """Return the Python files in the folder for tools, each with the content that is trusted."""
    return read_folder(folder / TOOL_FOLDER, ".py", max_files=_MAX_TOOLS, max_bytes=_MAX_TOOL_BYTES)


def withhold_tools(files: Sequence[FileContent]) -> list[WithheldSetting]:
    """Return what the user must accept before the tools of a project are loaded."""
    return [
        WithheldSetting(path=file.path, key=TOOL_FOLDER, why="run as Python code inside Clew")
        for file in files
    ]


class ScreenedLayer(Struct, frozen=True, kw_only=True):
    """The part of a layer that applies, and what is withheld."""

    data: Mapping[str, Any]
    withheld: tuple[WithheldSetting, ...] = ()


def screen_layer(layer: Layer, below: Mapping[str, Any]) -> ScreenedLayer:
    """Split a project's layer into what applies and what is withheld.

    Args:
        layer: The project's file.
        below: The merged layers below it.
    """
    kept: dict[str, Any] = {}
    held: list[WithheldSetting] = []
    for path, value in iter_values(layer.data):
        if path[0] == "hooks":
            continue
        if _is_allowed(path, value, below):
            put_value(kept, path, value)
        else:
            most = _MAX_SERVER if path[0] == "mcpServers" else _MAX_SHOWN
            key = _sanitize(".".join(path))
            held += (
                WithheldSetting(path=layer.path, key=key, why=_sanitize(why, most))
                for why in _reasons(path, value)
            )
    held += (
        WithheldSetting(
            path=layer.path,
            key=f"hooks.{hook.place}",
            why=_sanitize(f"runs `{hook.handler.brief}` on {hook.event}"),
        )
        for hook in layer.hooks.hooks
    )
    return ScreenedLayer(data=kept, withheld=tuple(held))


def danger_rank(one: WithheldSetting) -> int:
    """Return a sort key: the most dangerous setting comes first."""
    ranks = (rank for rank, begins in enumerate(_BY_DANGER) if one.key.startswith(begins))
    return next(ranks, len(_BY_DANGER))


def format_withheld(withheld: Sequence[WithheldSetting], *, most: int = 20) -> str:
    """Return one line for each withheld setting, at most `most` of them."""
    lines = [f"{each.path}: {each.key} {each.why}" for each in withheld[:most]]
    if len(withheld) > most:
        lines.append(f"… and {len(withheld) - most} more")
    return "\n".join(lines)


def _is_allowed(path: Names, value: Any, below: Mapping[str, Any]) -> bool:
    if path in _HARMLESS or (path[0] == "enabledPlugins" and value is False):
        return True
    if _is_crippling(path, value):
        return False
    if path[0] == "context":
        return not _names_a_model(path, value) and not _calls_a_model(path, value)
    tightens = _TIGHTENING.get(path)
    return tightens is not None and tightens(value, get_value(below, path))


_HARMLESS = frozenset(
    {
        ("$schema",),
        ("disableAllHooks",),  # in a project it only disables the project's own hooks
        ("language",),
        ("mcp", "disabled"),
        ("permissions", "ask"),
        ("permissions", "deny"),
        ("permissions", "disableBypassPermissionsMode"),
        ("session", "recall"),
        ("terminal", "theme"),
    }
)


_MINIMUM: Mapping[Names, float] = MappingProxyType(
    {
        ("context", "blockThreshold"): 0.5,
        ("context", "compactThreshold"): 0.3,
        ("context", "maxContextTokens"): 8_192,
        ("context", "maxToolOutputChars"): 1_000,
        ("session", "maxTurns"): 10,
        ("session", "toolTimeout"): 5_000,
    }
)
"""A lower limit would keep a session from working, without a visible reason."""
_SAME_MODEL = "default"
"""Means the session's own model."""
_MIN_TOKENS = 8_192
"""The lowest `maxTokens` of a strategy, for the same reason."""


def _is_crippling(path: Names, value: Any) -> bool:
    if isinstance(value, dict):
        return bool(value.get("maxTokens", _MIN_TOKENS) < _MIN_TOKENS)
    return path in _MINIMUM and bool(value < _MINIMUM[path])


def _names_a_model(path: Names, value: Any) -> bool:
    if path == ("context", "compactionModel"):
        return bool(value != _SAME_MODEL)
    return isinstance(value, dict) and value.get("summaryModel", _SAME_MODEL) != _SAME_MODEL


def _calls_a_model(path: Names, value: Any) -> bool:
    """Return whether a setting makes calls that would not be made without it."""
    if path == ("context", "backgroundCompaction"):
        return bool(value != "off")
    return path == ("context", "verifySummary") and value is not False


def _is_lower(new: Any, old: Any) -> bool:
    return old is None or bool(new <= old)


def _is_true(new: Any, old: Any) -> bool:  # noqa: ARG001
    return new is True


def _is_stricter_mode(new: Any, old: Any) -> bool:
    return _MODES.index(new) <= _MODES.index(old or "default")


_TIGHTENING: Mapping[Names, Callable[[Any, Any], bool]] = MappingProxyType(
    {
        ("permissions", "defaultMode"): _is_stricter_mode,
        ("sandbox", "mode"): lambda new, old: new in ("on", old or "auto"),
        ("sandbox", "allowNetwork"): lambda new, _: new is False,
        ("session", "maxTurns"): _is_lower,
        ("session", "toolTimeout"): _is_lower,
        ("session", "detectLoops"): _is_true,
        ("session", "redact"): _is_true,
    }
)
"""Whether a value is at least as strict as the one below it, which may be None."""


def _reasons(path: Names, value: Any) -> Iterator[str]:
    match path:
        case ("permissions", "allow"):
            yield from (f"allows {rule} without asking" for rule in value)
        case ("permissions", "additionalDirectories"):
            yield from (f"allows reading {folder}" for folder in value)
        case ("permissions", "defaultMode"):
            yield f"sets the permission mode to {value}"
        case (("provider" | "providers"), *_, "baseURL"):
            yield f"sends requests to {find_host(value)}"
        case ("currentProvider",):
            yield f"chooses the provider {value}"
        case ("env", name):
            yield f"sets the environment variable {name}"
        case ("mcpServers", _):
            yield describe_server(value)
        case ("model",) | ("context", ("compactionModel" | "strategy")) if model := _find_model(
            value
        ):
            yield f"chooses the model {model}"
        case (("provider" | "providers"), *_):
            yield "changes the connection to a provider"
        case _:
            yield _describe(path, value)


_OF_PLUGINS = MappingProxyType(
    {
        "enabledPlugins": "enables this plugin, if you have installed it",
        "extraKnownMarketplaces": "offers the plugins of this marketplace to install",
    }
)


def _describe(path: Names, value: Any) -> str:
    if path[0] in _OF_PLUGINS:
        return _OF_PLUGINS[path[0]]
    if path == ("statusLine", "command"):
        return f"runs `{value}` for the status line"
    too_low = ", too low to work with" if _is_crippling(path, value) else ""
    return f"would be {str(value).lower()}{too_low}"


def _find_model(value: Any) -> str:
    found = value.get("summaryModel", "") if isinstance(value, dict) else value
    return "" if found == _SAME_MODEL else str(found)


def _sanitize(text: str, most: int = _MAX_SHOWN) -> str:
    return truncate(redact(" ".join(text[: most * 4].split())), most)
