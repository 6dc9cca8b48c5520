"""Settings layers: which files there are, how each is read, and how they merge.

The higher layer wins, key by key. Permission rules and hooks add up instead, so no layer removes
the guards of another.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from msgspec import Struct

from clew.config.documents import (
    CheckedDocument,
    InvalidSetting,
    KeyPath,
    check_document,
    find_mistakes,
    format_key,
    locate_error,
    parse_document,
)
from clew.config.foreign_files import translate_claude, translate_mcp
from clew.config.schema import SettingsFile
from clew.core.errors import ConfigError
from clew.files.safe_read import NotRegularFile, read_regular
from clew.hooks.settings import HookSource, HookTable, parse_hooks
from clew.permissions.rules import Rule, parse_allow_rule, parse_rule

Names: TypeAlias = tuple[str, ...]
"""The path to a value in a merged document: names of keys only."""
RULE_LISTS: Mapping[str, Callable[..., Rule]] = MappingProxyType(
    {"allow": parse_allow_rule, "ask": parse_rule, "deny": parse_rule}
)
"""The lists of permission rules, and how their rules are parsed."""
MAX_RULES = 1_000
"""Rules in one list: each is compared with every call."""
MAX_BYTES = 1_000_000
"""The size of a settings file; larger ones are refused."""

_ADDITIVE = frozenset(
    {
        *(("permissions", name) for name in ("allow", "ask", "deny", "additionalDirectories")),
        ("context", "protect"),
        ("mcp", "disabled"),
    }
)
"""Lists to which every layer adds."""
_REPLACED_WHOLE = frozenset(
    ("context", name) for name in ("strategy", "compressToolResults", "compressReasoningText")
)
"""Values with several types; a higher layer replaces them as a whole."""
_NAMED_WHOLE = frozenset({"extraKnownMarketplaces", "mcpServers"})
"""Objects whose values a higher layer replaces as a whole."""


class SettingsScope(StrEnum):
    """Who wrote a settings file."""

    USER = "user"
    """The user: all of it applies."""
    PROJECT = "project"
    """It came with the folder, and the user may never have read it."""


class FileFormat(StrEnum):
    """The format of a settings file."""

    CLEW = "clew"
    """Clew's own: an unknown key is an error."""
    CLAUDE = "claude"
    """Claude Code's: it has many keys that Clew does not use."""
    MCP = "mcp"
    """`.mcp.json`: the MCP servers of a project, as many programs read it."""


class SettingsPath(Struct, frozen=True, kw_only=True):
    """A file that may contain settings."""

    path: Path
    label: str
    """The name that people know: `~/.clew/settings.json`, or a path in the project."""
    scope: SettingsScope
    format: FileFormat
    root: Path
    """The folder that a project's file must be in after following links."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One settings file, read and checked."""

    place: SettingsPath
    content: bytes | None = field(default=None, repr=False)
    """The bytes of the file; None if it does not exist."""
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The settings, with the names of the schema."""
    unused: tuple[str, ...] = ()
    """Keys that Clew does not use."""
    rules: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict)
    """The permission rules, by the name of the list."""
    hooks: HookTable = field(default_factory=HookTable, repr=False)

    @property
    def path(self) -> Path:
        """The path of the file, whether it exists or not."""
        return self.place.path

    @property
    def label(self) -> str:
        """The name that people know."""
        return self.place.label

    @property
    def exists(self) -> bool:
        """Whether the file exists."""
        return self.content is not None

    @property
    def is_project(self) -> bool:
        """Whether the file came with the folder."""
        return self.place.scope is SettingsScope.PROJECT


def list_paths(cwd: Path, *, user_home: Path, clew_home: Path) -> tuple[SettingsPath, ...]:
    """Return the settings files for `cwd`, from the lowest layer to the highest."""
    seen: set[Path] = set()
    found: list[SettingsPath] = []
    for place in _all_paths(cwd, user_home, clew_home):
        # In the home folder the user's files are also the project's; they count as the user's.
        real = Path(os.path.realpath(place.path.parent), place.path.name)
        if real not in seen:
            seen.add(real)
            found.append(place)
    return tuple(found)


def read_layer(place: SettingsPath) -> Layer:
    """Read the file at `place`, if it exists.

    Raises:
        ConfigError: The file is wrong; the message says where and why.
    """
    content = read_bytes(place)
    return Layer(place=place) if content is None else parse_layer(place, content)


def parse_layer(place: SettingsPath, content: bytes) -> Layer:
    """Return the layer of a file with this `content`.

    Raises:
        ConfigError: The content is wrong; the message says where and why.
    """
    data = parse_document(content, place.path)
    unused: tuple[KeyPath, ...] = ()
    is_tolerant = place.format is not FileFormat.CLEW
    if is_tolerant:
        data, unused = _translate(place.format, data)
    try:
        found = check_document(data, SettingsFile, tolerant=is_tolerant)
        rules = _parse_rules(found, place)
    except InvalidSetting as error:
        raise locate_error(error, content, place.path) from error
    source = HookSource(name=str(place.path), project=place.scope is SettingsScope.PROJECT)
    return Layer(
        place=place,
        content=content,
        data=found.data,
        unused=tuple(format_key(path) for path in (*unused, *found.unknown)),
        rules=rules,
        hooks=parse_hooks(found.data.get("hooks", {}), source),
    )


def find_layer_mistakes(place: SettingsPath) -> list[str]:
    """Return every mistake in the file at `place`, each with its line."""
    try:
        content = read_bytes(place)
        if content is None:
            return []
        data = parse_document(content, place.path)
    except ConfigError as error:
        return [str(error)]
    is_tolerant = place.format is not FileFormat.CLEW
    if is_tolerant:
        data, _ = _translate(place.format, data)
    found = find_mistakes(data, SettingsFile, tolerant=is_tolerant)
    if not found:
        found = _find_wrong_rules(check_document(data, SettingsFile, tolerant=is_tolerant), place)
    return [str(locate_error(error, content, place.path)) for error in found]


def _find_wrong_rules(document: CheckedDocument, place: SettingsPath) -> list[InvalidSetting]:
    lists, wrong = document.data.get("permissions", {}), []
    for name in RULE_LISTS:
        for index, text in enumerate(lists.get(name, ())):
            try:
                _parse_rule(name, index, text, place)
            except InvalidSetting as error:
                wrong.append(error)
    if not wrong:
        try:
            _parse_rules(document, place)
        except InvalidSetting as error:
            wrong.append(error)
    return wrong


def read_bytes(place: SettingsPath) -> bytes | None:
    """Return the content of a file, or None if it does not exist.

    Raises:
        ConfigError: It is too large, not a regular file, not readable, or a project's file that
            leads out of the project.
    """
    path = place.path
    try:
        real = path.resolve(strict=True)
        if place.scope is SettingsScope.PROJECT and not real.is_relative_to(place.root.resolve()):
            raise ConfigError(
                f"{path} leads out of the project, to {real}; replace the link by a file"
            )
        data = read_regular(real, limit=MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise ConfigError(f"{path} is a broken link; remove it") from None
        return None
    except NotRegularFile as error:
        raise ConfigError(f"{path} is not a regular file; remove it") from error
    except RuntimeError as error:  # a circle of links, in Python before 3.13
        raise ConfigError(f"{path} cannot be read: {error}") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_BYTES:,} bytes; make it smaller")
    return data


def merge(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two documents; `high` wins, and additive lists are joined."""
    return _merge(low, high, ())


def iter_values(document: Mapping[str, Any]) -> Iterator[tuple[Names, Any]]:
    """Yield each value with its path; an object that is replaced as a whole is one value."""
    return _iter_values(document, ())


def is_additive(path: Names) -> bool:
    """Return whether every layer adds to the list at `path`."""
    return path in _ADDITIVE or path[:1] == ("hooks",)


def get_value(document: Mapping[str, Any], path: Names) -> Any:
    """Return the value at `path`, or None."""
    found: Any = document
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def put_value(document: dict[str, Any], path: Names, value: Any) -> None:
    """Set the value at `path`, creating the objects above it."""
    for key in path[:-1]:
        document = document.setdefault(key, {})
    document[path[-1]] = value


def _all_paths(cwd: Path, user_home: Path, clew_home: Path) -> Iterator[SettingsPath]:
    for name in ("clew.toml", "settings.json"):
        yield _user_path(clew_home / name, user_home, FileFormat.CLEW)
    yield _user_path(user_home / ".claude" / "settings.json", user_home, FileFormat.CLAUDE)
    yield _project_path(cwd, ".mcp.json", FileFormat.MCP)
    yield _project_path(cwd, "clew.toml", FileFormat.CLEW)
    for folder, file_format in ((".clew", FileFormat.CLEW), (".claude", FileFormat.CLAUDE)):
        for name in ("settings.json", "settings.local.json"):
            yield _project_path(cwd, f"{folder}/{name}", file_format)


def _user_path(path: Path, home: Path, file_format: FileFormat) -> SettingsPath:
    label = f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
    return SettingsPath(
        path=path, label=label, scope=SettingsScope.USER, format=file_format, root=path.parent
    )


def _project_path(cwd: Path, name: str, file_format: FileFormat) -> SettingsPath:
    return SettingsPath(
        path=cwd / name, label=name, scope=SettingsScope.PROJECT, format=file_format, root=cwd
    )


def _translate(
    file_format: FileFormat, data: dict[str, Any]
) -> tuple[dict[str, Any], tuple[KeyPath, ...]]:
    """Translate a file of another program; also return the paths without an equivalent."""
    return (translate_mcp if file_format is FileFormat.MCP else translate_claude)(data)


def _is_whole(path: Names) -> bool:
    """Return whether a higher layer replaces the object at `path` as a whole."""
    return path in _REPLACED_WHOLE or (len(path) == 2 and path[0] in _NAMED_WHOLE)


def _parse_rules(found: CheckedDocument, place: SettingsPath) -> dict[str, tuple[Rule, ...]]:
    lists = found.data.get("permissions", {})
    for name in RULE_LISTS:
        if len(lists.get(name, ())) > MAX_RULES:
            raise InvalidSetting(("permissions", name), f"has more than {MAX_RULES:,} rules")
    return {
        name: tuple(
            _parse_rule(name, index, text, place) for index, text in enumerate(lists.get(name, ()))
        )
        for name in RULE_LISTS
    }


def _parse_rule(name: str, index: int, text: str, place: SettingsPath) -> Rule:
    try:
        return RULE_LISTS[name](text, source=place.label)
    except ConfigError as error:
        raise InvalidSetting(("permissions", name, index), str(error)) from error


def _merge(low: Mapping[str, Any], high: Mapping[str, Any], path: Names) -> dict[str, Any]:
    merged = dict(low)
    for key, new in high.items():
        here = (*path, key)
        old = merged.get(key)
        if isinstance(old, dict) and isinstance(new, dict) and not _is_whole(here):
            merged[key] = _merge(old, new, here)
        elif isinstance(old, list) and isinstance(new, list) and is_additive(here):
            both = [*old, *new]
            merged[key] = list(dict.fromkeys(both)) if here in _ADDITIVE else both
        else:
            merged[key] = new
    return merged


def _iter_values(document: Mapping[str, Any], path: Names) -> Iterator[tuple[Names, Any]]:
    for key, value in document.items():
        here = (*path, key)
        if isinstance(value, dict) and value and not _is_whole(here):
            yield from _iter_values(value, here)
        else:
            yield here, value
