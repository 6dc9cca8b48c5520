"""Changing one value in a settings file, and nothing else in it."""

import difflib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from clew.config.documents import Fault, decode, spelled
from clew.config.layers import Place, Scope, read_bytes, understood
from clew.config.schema import Section, SettingsFile
from clew.config.schema_info import members, sections, spellings, values_of
from clew.config.settings import Loaded, fingerprint
from clew.config.trust import Trust
from clew.core.errors import ConfigError
from clew.files.atomic import make_private_folder, replace_file
from clew.files.locks import file_lock

TARGETS: Mapping[str, str] = {
    "user": "",
    "project": ".clew/settings.json",
    "local": ".clew/settings.local.json",
}
"""The files that may be written: the user's own, and by their labels the project's."""
_NOTHING = object()
_PIECE = re.compile(r'"((?:[^"\\]|\\.)*)"|([^."]+)')


def target(loaded: Loaded, name: str) -> Place:
    """Return the file that one of `TARGETS` means.

    Raises:
        ConfigError: There is no project here that is not the user's own folder.
    """
    for layer in loaded.layers:
        user = layer.place.scope is Scope.USER and layer.path.suffix == ".json"
        if (user and name == "user") or (layer.is_project and layer.label == TARGETS[name]):
            return layer.place
    raise ConfigError("this is your home folder, whose settings are your own; use --user")


def set_value(loaded: Loaded, place: Place, key: str, text: str, *, trust: Trust) -> None:
    """Set `key` in the file at `place` to what `text` says.

    What is set is a JSON value, or a text where the key takes one. Everything else in the
    file stays, and nothing is written that could not be read again. Where the user trusted
    the folder's settings before, they are trusted with this change too.

    Raises:
        ConfigError: There is no such key, it cannot have that value, or the file cannot be
            written.
    """
    way, kind = find_key(key)
    value = _value(kind, text)
    _edit(loaded, place, lambda data: _put(data, SettingsFile, way, value), trust=trust)


def unset_value(loaded: Loaded, place: Place, key: str, *, trust: Trust) -> None:
    """Take `key` out of the file at `place`; everything else stays, as with `set_value`.

    Raises:
        ConfigError: There is no such key, that file does not set it, or it cannot be written.
    """
    way, _ = find_key(key)

    def drop(data: dict[str, Any]) -> None:
        if not _drop(data, SettingsFile, way):
            raise ConfigError(f"{key} is not set in {place.label}")

    _edit(loaded, place, drop, trust=trust)


def add_allow_rules(loaded: Loaded, rules: Sequence[str], *, trust: Trust) -> None:
    """Write rules that a person allowed into the project's settings for that person alone.

    Args:
        loaded: The settings as they are now; read anew for every call.
        rules: What may run without asking.
        trust: Where accepted folders are kept.

    Raises:
        ConfigError: A rule is malformed, or the file cannot be written.
    """

    def add(data: dict[str, Any]) -> None:
        known = data.get("permissions", {}).get("allow", [])
        _put(data, SettingsFile, ("permissions", "allow"), list(dict.fromkeys([*known, *rules])))

    _edit(loaded, target(loaded, "local"), add, trust=trust)


def find_key(text: str) -> tuple[tuple[str, ...], Any]:
    """Return the names that a key such as `context.strategy` is made of, and its type.

    Raises:
        ConfigError: There is no such setting.
    """
    names = [quoted.replace('\\"', '"') or plain for quoted, plain in _PIECE.findall(text)]
    way: list[str] = []
    kind: Any = SettingsFile
    for name in names:
        inner = sections(kind)
        if inner:
            name, kind = _field(inner, name, text)  # noqa: PLW2901
        elif (values := values_of(kind)) is not None:
            kind = values
        elif kind is not Any:
            raise ConfigError(f"{'.'.join(way)} holds a value and no keys, so not {name}")
        way.append(name)
    if not way:
        raise ConfigError("say which setting, such as context.strategy")
    return tuple(way), kind


def _field(kinds: tuple[type[Section], ...], name: str, text: str) -> tuple[str, Any]:
    known: dict[str, str] = {}
    for kind in kinds:
        names = spellings(kind)
        known |= names
        for each in msgspec.structs.fields(kind):
            if names.get(name) == each.encode_name:
                return each.encode_name, each.type
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {known[near[0]]}?" if near else f"there are: {', '.join(sorted(known))}"
    raise ConfigError(f"{text} is not a setting; {hint}")


def _value(kind: Any, text: str) -> Any:
    if str in members(kind):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _edit(
    loaded: Loaded, place: Place, change: Callable[[dict[str, Any]], None], *, trust: Trust
) -> None:
    with file_lock(place.path):
        before = read_bytes(place)
        data = {} if before is None else decode(before, place.path)
        if before is not None:
            understood(place, before)
        change(data)
        after = json.dumps(data, indent=2, ensure_ascii=False).encode() + b"\n"
        _check(place, after)
        _write(place, after, new=before is None)
        if place.scope is Scope.PROJECT:
            _keep_trust(loaded, place, trust, before=before, after=after)


def _check(place: Place, content: bytes) -> None:
    """Make sure that a file may hold `content`, which is not written yet."""
    try:
        understood(place, content)
    except ConfigError as error:
        fault = error.__cause__
        if not isinstance(fault, Fault):
            raise
        allowed = f"; allowed: {fault.allowed}" if fault.allowed else ""
        raise ConfigError(f"{spelled(fault.keys)}: {fault.problem}{allowed}") from error


def _drop(data: dict[str, Any], kind: Any, way: tuple[str, ...]) -> bool:
    """Take out the value that the way leads to, and what is empty without it."""
    key = _spelling(data, kind, way[0])
    if len(way) == 1:
        return data.pop(key, _NOTHING) is not _NOTHING
    below = data.get(key)
    if not isinstance(below, dict) or not _drop(below, _below(kind, way[0]), way[1:]):
        return False
    if not below:
        del data[key]
    return True


def _spelling(data: Mapping[str, Any], kind: Any, name: str) -> str:
    """Return how the file writes a key; its name, if it does not have it."""
    names: dict[str, str] = {}
    for section in sections(kind):
        names |= spellings(section)
    return next((each for each in data if names.get(each) == name), name)


def _put(data: dict[str, Any], kind: Any, way: tuple[str, ...], value: Any) -> None:
    """Put a value where the way leads, under the spelling that the file already has."""
    key = _spelling(data, kind, way[0])
    if len(way) == 1:
        data[key] = value
        return
    below = data.setdefault(key, {})
    if not isinstance(below, dict):
        below = data[key] = {}
    _put(below, _below(kind, way[0]), way[1:], value)


def _below(kind: Any, name: str) -> Any:
    for section in sections(kind):
        for each in msgspec.structs.fields(section):
            if each.encode_name == name:
                return each.type
    return values_of(kind) or Any


def _write(place: Place, data: bytes, *, new: bool) -> None:
    private = place.scope is Scope.USER
    folder = Path(os.path.realpath(place.path.parent))
    if not private and not folder.is_relative_to(os.path.realpath(place.root)):
        raise ConfigError(
            f"{place.path} cannot be written: {place.path.parent} leads out of the project, to"
            f" {folder}; put a folder in place of the link"
        )
    try:
        path = place.path
        if private:
            make_private_folder(path.parent)
        path.parent.mkdir(parents=True, exist_ok=True)
        path = path.resolve()
        mode = (0o600 if private else 0o644) if new else path.stat().st_mode & 0o777
        replace_file(path, data, mode=mode)
    except OSError as error:
        raise ConfigError(f"{place.path} cannot be written: {error.strerror}") from error


def _keep_trust(
    loaded: Loaded, place: Place, trust: Trust, *, before: bytes | None, after: bytes
) -> None:
    files = {layer.label: layer.content for layer in loaded.layers if layer.is_project}
    trusted = loaded.accepted or not loaded.withheld
    if not trusted or files.get(place.label) != before:
        return
    files[place.label] = after
    there = [(label, content) for label, content in files.items() if content is not None]
    trust.accept(loaded.cwd, fingerprint(there))
