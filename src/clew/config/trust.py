"""Which folders the user has accepted, and with which settings in them."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from clew.config.layers import Layer, at, leaves, put
from clew.core.access import PermissionMode
from clew.core.errors import ConfigError
from clew.core.redaction import redact
from clew.files.atomic import make_private_folder, replace_file
from clew.files.locks import file_lock

_PRIVATE_FILE = 0o600


class _Folder(Struct, frozen=True, kw_only=True, omit_defaults=True):
    fingerprint: str
    declined: bool = False
    """True when the user said no to just these settings."""


class _Content(Struct, frozen=True, kw_only=True):
    version: int = 1
    folders: dict[str, _Folder] = {}


_decoder = msgspec.json.Decoder(_Content)


class Trust:
    """Keeps the accepted folders in a private file of the user; all methods block.

    A folder is accepted together with the content of its settings: when a byte of them
    changes, it is not accepted any more. Several processes may write at once.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def is_accepted(self, cwd: Path, fingerprint: str) -> bool:
        """Say whether the user has accepted the folder with just these settings.

        Raises:
            ConfigError: The file cannot be read.
        """
        return self._read().folders.get(_name(cwd)) == _Folder(fingerprint=fingerprint)

    def is_declined(self, cwd: Path, fingerprint: str) -> bool:
        """Say whether the user was asked about just these settings and said no.

        Raises:
            ConfigError: The file cannot be read.
        """
        known = self._read().folders.get(_name(cwd))
        return known == _Folder(fingerprint=fingerprint, declined=True)

    def decline(self, cwd: Path, fingerprint: str) -> None:
        """Remember that the user does not want to be asked about these settings again.

        Raises:
            ConfigError: The file cannot be read or written.
        """
        self._change(_name(cwd), _Folder(fingerprint=fingerprint, declined=True))

    def accept(self, cwd: Path, fingerprint: str) -> None:
        """Remember that the user accepts the folder with these settings, and no others.

        Raises:
            ConfigError: The file cannot be read or written.
        """
        self._change(_name(cwd), _Folder(fingerprint=fingerprint))

    def forget(self, cwd: Path) -> bool:
        """Accept the folder no longer; say whether it was accepted.

        Raises:
            ConfigError: The file cannot be read or written.
        """
        return self._change(_name(cwd), None)

    def _change(self, name: str, new: _Folder | None) -> bool:
        """Put one folder in or take it out; say whether it was there."""
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
                f"{self._file}, which says what folders you accepted, is damaged ({error});"
                " remove it, and you will be asked again"
            ) from error

    def _write(self, content: _Content) -> None:
        data = msgspec.json.format(msgspec.json.encode(content))
        replace_file(self._file, data, mode=_PRIVATE_FILE)


def _name(cwd: Path) -> str:
    """Return the real path as text that JSON can hold, whatever bytes it is made of."""
    return os.fsencode(cwd.resolve()).decode("utf-8", "backslashreplace")


_Way: TypeAlias = tuple[str, ...]
_MODES = tuple(str(mode) for mode in PermissionMode)
"""The one that allows least first."""
_LONGEST = 200
_BY_DANGER: tuple[tuple[str, ...], ...] = (
    ("hooks.",),
    ("env.",),
    ("currentProvider", "provider"),
    ("permissions.allow",),
    ("permissions.defaultMode",),
)
"""How keys begin, the ones that can do most first: a long list must not hide them."""


class Withheld(Struct, frozen=True, kw_only=True):
    """Something that a project asks for and does not get before its folder is accepted."""

    path: Path
    key: str
    why: str
    """What it would do, as the end of a sentence that begins with the file."""


class Screened(Struct, frozen=True, kw_only=True):
    """What counts of a layer, and what does not."""

    data: Mapping[str, Any]
    withheld: tuple[Withheld, ...] = ()


def screen(layer: Layer, below: Mapping[str, Any]) -> Screened:
    """Divide a project's layer.

    Args:
        layer: The project's file.
        below: What the layers below it say together.
    """
    kept: dict[str, Any] = {}
    held: list[Withheld] = []
    for way, value in leaves(layer.data):
        if way[0] == "hooks":
            continue
        if _passes(way, value, below):
            put(kept, way, value)
        else:
            held += (
                Withheld(path=layer.path, key=_shortened(".".join(way)), why=_shortened(why))
                for why in _whys(way, value)
            )
    held += (
        Withheld(
            path=layer.path,
            key=f"hooks.{hook.place}",
            why=_shortened(f"runs `{hook.handler.brief}` on {hook.event}"),
        )
        for hook in layer.hooks.hooks
    )
    return Screened(data=kept, withheld=tuple(held))


def danger(one: Withheld) -> int:
    """Return a number for sorting: what can do most comes first."""
    ranks = (rank for rank, begins in enumerate(_BY_DANGER) if one.key.startswith(begins))
    return next(ranks, len(_BY_DANGER))


def summary(withheld: Sequence[Withheld], *, most: int = 20) -> str:
    """Return a line for each thing that was withheld, `most` of them at the most."""
    lines = [f"{each.path}: {each.key} {each.why}" for each in withheld[:most]]
    if len(withheld) > most:
        lines.append(f"… and {len(withheld) - most} more")
    return "\n".join(lines)


def _passes(way: _Way, value: Any, below: Mapping[str, Any]) -> bool:
    if way in _FREE:
        return True
    if _is_crippling(way, value):
        return False
    if way[0] == "context":
        return not _names_a_model(way, value)
    tightens = _TIGHTENING.get(way)
    return tightens is not None and tightens(value, at(below, way))


_FREE = frozenset(
    {
        ("$schema",),
        ("disableAllHooks",),  # of a project it speaks for the project's own hooks alone
        ("language",),
        ("permissions", "ask"),
        ("permissions", "deny"),
        ("permissions", "disableBypassPermissionsMode"),
        ("session", "recall"),
    }
)


_LEAST: Mapping[_Way, float] = MappingProxyType(
    {
        ("context", "blockThreshold"): 0.5,
        ("context", "compactThreshold"): 0.3,
        ("context", "maxContextTokens"): 8_192,
        ("context", "maxToolOutputChars"): 1_000,
        ("session", "maxTurns"): 10,
        ("session", "toolTimeout"): 5_000,
    }
)
"""A limit below these would keep a session from working, and nobody would know why."""
_SAME_MODEL = "default"
"""Stands for the model of the session, wherever another could be chosen."""
_LEAST_TOKENS = 8_192
"""The same for the tokens from which a strategy compacts."""


def _is_crippling(way: _Way, value: Any) -> bool:
    if isinstance(value, dict):
        return bool(value.get("maxTokens", _LEAST_TOKENS) < _LEAST_TOKENS)
    return way in _LEAST and bool(value < _LEAST[way])


def _names_a_model(way: _Way, value: Any) -> bool:
    if way == ("context", "compactionModel"):
        return bool(value != _SAME_MODEL)
    return isinstance(value, dict) and value.get("summaryModel", _SAME_MODEL) != _SAME_MODEL


def _is_lower(new: Any, old: Any) -> bool:
    return old is None or bool(new <= old)


def _is_true(new: Any, old: Any) -> bool:  # noqa: ARG001
    return new is True


def _is_stricter_mode(new: Any, old: Any) -> bool:
    return _MODES.index(new) <= _MODES.index(old or "default")


_TIGHTENING: Mapping[_Way, Callable[[Any, Any], bool]] = MappingProxyType(
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
"""Says whether a value allows no more than the one below it, which may be None."""


def _whys(way: _Way, value: Any) -> Iterator[str]:
    match way:
        case ("permissions", "allow"):
            yield from (f"lets {rule} run without asking" for rule in value)
        case ("permissions", "additionalDirectories"):
            yield from (f"lets the model read {folder}" for folder in value)
        case ("permissions", "defaultMode"):
            yield f"sets the permission mode to {value}"
        case (("provider" | "providers"), *_, "baseURL"):
            yield f"sends requests to {_host(value)}"
        case ("currentProvider",):
            yield f"chooses the provider {value}"
        case ("env", name):
            yield f"sets the variable {name}"
        case ("model",) | ("context", "compactionModel"):
            yield f"chooses the model {value}"
        case ("context", "strategy") if _names_a_model(way, value):
            yield f"chooses the model {value['summaryModel']}"
        case (("provider" | "providers"), *_):
            yield "changes how a provider is reached"
        case _:
            little = ", too little to work with" if _is_crippling(way, value) else ""
            yield f"would be {str(value).lower()}{little}"


def _host(address: str) -> str:
    try:
        host = urlsplit(address).hostname
    except ValueError:
        host = None
    return host or "an address"


def _shortened(why: str) -> str:
    safe = redact(" ".join(why[: _LONGEST * 4].split()))
    return safe if len(safe) <= _LONGEST else f"{safe[: _LONGEST - 1]}…"
