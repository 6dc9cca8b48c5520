"""Where settings are: which files there may be, and in which order they count."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from clew.config.documents import Checked, Fault, Keys, check, decode, located, spelled
from clew.config.schema import SettingsFile
from clew.core.errors import ConfigError
from clew.files.safe_read import NotRegularFile, read_regular
from clew.hooks.settings import HookSource, HookTable, parse_hooks
from clew.permissions.rules import Rule, parse_allow_rule, parse_rule


class Scope(StrEnum):
    """Whose a file is."""

    USER = "user"
    """The user's own: it is obeyed."""
    PROJECT = "project"
    """It came with the folder, and nobody may have read it."""


class Convention(StrEnum):
    """Whose format a file is in."""

    CLEW = "clew"
    """Ours: a key that is not known is a mistake."""
    CLAUDE = "claude"
    """Claude Code's: it has many keys that mean nothing here."""


class Place(Struct, frozen=True, kw_only=True):
    """A file that may hold settings."""

    path: Path
    label: str
    """How people know it: `~/.clew/settings.json`, or a path in the project."""
    scope: Scope
    convention: Convention
    root: Path
    """The folder that a project's file must really be in."""


def places(cwd: Path, *, user_home: Path, clew_home: Path) -> tuple[Place, ...]:
    """Return all files that count in `cwd`, the one that counts least first."""
    return tuple(_each_once(_all(cwd, user_home, clew_home)))


def _all(cwd: Path, user_home: Path, clew_home: Path) -> Iterator[Place]:
    for name in ("clew.toml", "settings.json"):
        yield _user(clew_home / name, user_home, Convention.CLEW)
    yield _user(user_home / ".claude" / "settings.json", user_home, Convention.CLAUDE)
    yield _project(cwd, "clew.toml", Convention.CLEW)
    for folder, convention in ((".clew", Convention.CLEW), (".claude", Convention.CLAUDE)):
        for name in ("settings.json", "settings.local.json"):
            yield _project(cwd, f"{folder}/{name}", convention)


def _user(path: Path, home: Path, convention: Convention) -> Place:
    label = f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
    return Place(path=path, label=label, scope=Scope.USER, convention=convention, root=path.parent)


def _project(cwd: Path, name: str, convention: Convention) -> Place:
    return Place(path=cwd / name, label=name, scope=Scope.PROJECT, convention=convention, root=cwd)


def _each_once(found: Iterator[Place]) -> Iterator[Place]:
    """Leave out what was there already: in the home folder the user's files are the project's."""
    seen: set[Path] = set()
    for place in found:
        real = Path(os.path.realpath(place.path.parent), place.path.name)
        if real not in seen:
            seen.add(real)
            yield place


_MODES = {"manual": "default", "auto": "default", "dontAsk": "default"}
_UNLIKE = frozenset({"auto", "dontAsk"})
"""Modes that there are not here. To ask is what comes nearest and risks nothing."""
_SHORT_NAME = re.compile(r"(?:default|best|haiku|sonnet|opus|opusplan)(?:\[\w+\])?|.*\[\w+\]")
"""Names of models that only Claude Code can tell the meaning of."""


def translated(data: dict[str, Any]) -> tuple[dict[str, Any], tuple[Keys, ...]]:
    """Return the settings in our words, and the ways to what has no like here."""
    odd: list[Keys] = []
    found = dict(data)
    match data.get("permissions"):
        case {"defaultMode": str(mode), **rest} if mode in _MODES:
            found["permissions"] = {**rest, "defaultMode": _MODES[mode]}
            if mode in _UNLIKE:
                odd.append(("permissions", "defaultMode"))
    match data.get("sandbox"):
        case {"enabled": bool(enabled), **rest}:
            must = rest.pop("failIfUnavailable", False) is True
            found["sandbox"] = {**rest, "mode": _mode(enabled=enabled, must=must)}
    match data.get("model"):
        case str(model) if _SHORT_NAME.fullmatch(model):
            del found["model"]
            odd.append(("model",))
    return found, tuple(odd)


def _mode(*, enabled: bool, must: bool) -> str:
    if not enabled:
        return "off"
    return "on" if must else "auto"


_ADDING = frozenset(
    ("permissions", name) for name in ("allow", "ask", "deny", "additionalDirectories")
)
"""Lists of texts that grow from layer to layer."""
_WHOLE = frozenset(
    ("context", name) for name in ("strategy", "compressToolResults", "compressReasoningText")
)


def merge(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Return both documents in one."""
    return _merged(low, high, ())


def leaves(document: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each value with the way to it; what is replaced as a whole counts as one."""
    return _leaves(document, ())


def adds_up(way: tuple[str, ...]) -> bool:
    """Say whether the list at the end of this way grows from layer to layer."""
    return way in _ADDING or way[:1] == ("hooks",)


def at(document: Mapping[str, Any], way: tuple[str, ...]) -> Any:
    """Return what is at the end of this way, or None."""
    found: Any = document
    for key in way:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def put(document: dict[str, Any], way: tuple[str, ...], value: Any) -> None:
    """Put a value at the end of this way, and make the objects that lead there."""
    for key in way[:-1]:
        document = document.setdefault(key, {})
    document[way[-1]] = value


def _merged(
    low: Mapping[str, Any], high: Mapping[str, Any], way: tuple[str, ...]
) -> dict[str, Any]:
    made = dict(low)
    for key, new in high.items():
        here = (*way, key)
        old = made.get(key)
        if isinstance(old, dict) and isinstance(new, dict) and here not in _WHOLE:
            made[key] = _merged(old, new, here)
        elif isinstance(old, list) and isinstance(new, list) and adds_up(here):
            made[key] = _joined(old, new, once=here in _ADDING)
        else:
            made[key] = new
    return made


def _joined(old: list[Any], new: list[Any], *, once: bool) -> list[Any]:
    return list(dict.fromkeys([*old, *new])) if once else [*old, *new]


def _leaves(
    document: Mapping[str, Any], way: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in document.items():
        here = (*way, key)
        if isinstance(value, dict) and value and here not in _WHOLE:
            yield from _leaves(value, here)
        else:
            yield here, value


LISTS: Mapping[str, Callable[..., Rule]] = MappingProxyType(
    {"allow": parse_allow_rule, "ask": parse_rule, "deny": parse_rule}
)
"""The lists of rules, and how a rule of each is read."""
MOST_RULES = 1_000
"""How many a list may have: each is compared with every call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A file of settings."""

    place: Place
    content: bytes | None = field(default=None, repr=False)
    """What the file holds; None if there is none."""
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What it says, by the names of the schema."""
    unused: tuple[str, ...] = ()
    """Keys that mean nothing here."""
    rules: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict)
    """Its permission rules, by the name of the list."""
    hooks: HookTable = field(default_factory=HookTable, repr=False)

    @property
    def path(self) -> Path:
        """Where the file is, or would be."""
        return self.place.path

    @property
    def label(self) -> str:
        """How people know it."""
        return self.place.label

    @property
    def exists(self) -> bool:
        """Say whether there is such a file."""
        return self.content is not None

    @property
    def is_project(self) -> bool:
        """Say whether it came with the folder."""
        return self.place.scope is Scope.PROJECT


def read_layer(place: Place) -> Layer:
    """Read the file at `place`, if there is one.

    Raises:
        ConfigError: Something about it is wrong; the message says where and what.
    """
    content = read_bytes(place)
    return Layer(place=place) if content is None else understood(place, content)


def understood(place: Place, content: bytes) -> Layer:
    """Return the layer of a file that holds `content`.

    Raises:
        ConfigError: Something about it is wrong; the message says where and what.
    """
    data = decode(content, place.path)
    odd: tuple[Keys, ...] = ()
    foreign = place.convention is Convention.CLAUDE
    if foreign:
        data, odd = translated(data)
    try:
        found = check(data, SettingsFile, tolerant=foreign)
        rules = _rules(found, place)
    except Fault as fault:
        raise located(fault, content, place.path) from fault
    source = HookSource(name=str(place.path), project=place.scope is Scope.PROJECT)
    return Layer(
        place=place,
        content=content,
        data=found.data,
        unused=tuple(spelled(way) for way in (*odd, *found.unknown)),
        rules=rules,
        hooks=parse_hooks(found.data.get("hooks", {}), source),
    )


def _rules(found: Checked, place: Place) -> dict[str, tuple[Rule, ...]]:
    lists = found.data.get("permissions", {})
    for name in LISTS:
        if len(lists.get(name, ())) > MOST_RULES:
            raise Fault(("permissions", name), f"has more than {MOST_RULES:,} rules")
    return {
        name: tuple(
            _rule(name, index, text, place) for index, text in enumerate(lists.get(name, ()))
        )
        for name in LISTS
    }


def _rule(name: str, index: int, text: str, place: Place) -> Rule:
    try:
        return LISTS[name](text, source=place.label)
    except ConfigError as error:
        raise Fault(("permissions", name, index), str(error)) from error


LARGEST = 1_000_000
"""Bytes. Nobody writes such a file by hand."""


def read_bytes(place: Place) -> bytes | None:
    """Return what the file holds, or None if there is none.

    Raises:
        ConfigError: It is too large, no file, not readable, or a project's file that leads
            out of the project.
    """
    path = place.path
    try:
        real = path.resolve(strict=True)
        if place.scope is Scope.PROJECT and not real.is_relative_to(place.root.resolve()):
            raise ConfigError(
                f"{path} leads out of the project, to {real}; put a file in place of the link"
            )
        return _content(real, path)
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise ConfigError(f"{path} is a link to nothing; remove it") from None
        return None
    except RuntimeError as error:  # a circle of links, in Python before 3.13
        raise ConfigError(f"{path} cannot be read: {error}") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error


def _content(real: Path, path: Path) -> bytes:
    try:
        data = read_regular(real, limit=LARGEST + 1)
    except NotRegularFile as error:
        raise ConfigError(f"{path} is not a file; remove it or put settings there") from error
    if len(data) > LARGEST:
        raise ConfigError(f"{path} is larger than {LARGEST:,} bytes; settings are much smaller")
    return data
