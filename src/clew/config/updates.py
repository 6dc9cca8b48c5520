"""Updates of settings files: set, unset and add values, and change nothing else."""

import difflib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from clew.config.documents import InvalidSetting, find_mistakes, parse_document
from clew.config.layers import SettingsPath, SettingsScope, parse_layer, read_bytes
from clew.config.schema import McpServerSection, SettingsFile
from clew.config.schema_info import dict_value_type, key_spellings, section_types, union_members
from clew.config.sections import Section
from clew.config.settings import LoadedSettings, compute_fingerprint, project_files
from clew.config.trust import Trust
from clew.core.errors import ConfigError
from clew.core.json_text import decode_json
from clew.files.atomic import make_private_folder, replace_file
from clew.files.locks import file_lock
from clew.files.project_folder import keep_out_of_git

TARGETS: Mapping[str, str] = {
    "user": "",
    "project": ".clew/settings.json",
    "local": ".clew/settings.local.json",
}
"""The files that can be written: the user's own, and the project's by label."""
_MISSING = object()
_KEY_PART = re.compile(r'"((?:[^"\\]|\\.)*)"|([^."]+)')


def find_target(loaded: LoadedSettings, name: str) -> SettingsPath:
    """Return the file for one of `TARGETS`.

    Raises:
        ConfigError: The working folder is the home folder and has no project settings.
    """
    for layer in loaded.layers:
        user = layer.place.scope is SettingsScope.USER and layer.path.suffix == ".json"
        if (user and name == "user") or (layer.is_project and layer.label == TARGETS[name]):
            return layer.place
    raise ConfigError("the home folder has no project settings; use --user")


def set_value(
    loaded: LoadedSettings, place: SettingsPath, key: str, text: str, *, trust: Trust
) -> None:
    """Set `key` in the file at `place` to the value `text`.

    The value is JSON, or plain text if the key takes a string. The rest of the file stays, and
    only valid settings are written. If the user trusted the folder's settings before, they are
    trusted with this change too.

    Raises:
        ConfigError: The key does not exist, cannot have that value, or the file cannot be
            written.
    """
    path, kind = find_key(key)
    value = _value(kind, text)
    _edit(loaded, place, lambda data: _put(data, SettingsFile, path, value), trust=trust)


def unset_value(loaded: LoadedSettings, place: SettingsPath, key: str, *, trust: Trust) -> None:
    """Remove `key` from the file at `place`; the rest stays, as with `set_value`.

    Raises:
        ConfigError: The key does not exist, the file does not set it, or it cannot be written.
    """
    path, _ = find_key(key)

    def drop(data: dict[str, Any]) -> None:
        if not _drop(data, SettingsFile, path):
            raise ConfigError(f"{key} is not set in {place.label}")

    _edit(loaded, place, drop, trust=trust)


def add_allow_rules(loaded: LoadedSettings, rules: Sequence[str], *, trust: Trust) -> None:
    """Add rules to the user's own settings for this project.

    Args:
        loaded: The current settings; load them again for every call.
        rules: Rules for calls that run without asking.
        trust: The accepted folders.

    Raises:
        ConfigError: A rule is malformed, or the file cannot be written.
    """

    def add(data: dict[str, Any]) -> None:
        known = data.get("permissions", {}).get("allow", [])
        _put(data, SettingsFile, ("permissions", "allow"), list(dict.fromkeys([*known, *rules])))

    _edit(loaded, find_target(loaded, "local"), add, trust=trust)


def find_server_file(loaded: LoadedSettings, scope: str) -> SettingsPath:
    """Return the file for MCP servers: `.mcp.json` for a project, else one of `TARGETS`.

    Raises:
        ConfigError: The working folder is the home folder and has no project settings.
    """
    if scope != "project":
        return find_target(loaded, scope)
    for layer in loaded.layers:
        if layer.is_project and layer.label == ".mcp.json":
            return layer.place
    raise ConfigError("the home folder has no project settings; use the scope user")


def set_server(
    loaded: LoadedSettings,
    place: SettingsPath,
    name: str,
    entry: Mapping[str, Any] | None,
    *,
    trust: Trust,
) -> None:
    """Set the MCP server `name` in the file at `place`, or remove it with None.

    Raises:
        ConfigError: The entry is wrong, there is none to remove, or the file cannot be written.
    """
    if entry is not None:
        for mistake in find_mistakes(entry, McpServerSection, tolerant=False):
            raise ConfigError(f"the MCP server {name}: {mistake}")

    def change(data: dict[str, Any]) -> None:
        servers = data.get("mcpServers", {})
        if entry is not None:
            data["mcpServers"] = {**servers, name: dict(entry)}
        elif name in servers:
            data["mcpServers"] = {key: value for key, value in servers.items() if key != name}
        else:
            raise ConfigError(f"{place.label} has no MCP server {name}")

    _edit(loaded, place, change, trust=trust)


def find_key(text: str) -> tuple[tuple[str, ...], Any]:
    """Return the path and the type of a key such as `context.strategy`.

    Raises:
        ConfigError: There is no such setting.
    """
    names = [quoted.replace('\\"', '"') or plain for quoted, plain in _KEY_PART.findall(text)]
    path: list[str] = []
    kind: Any = SettingsFile
    for name in names:
        inner = section_types(kind)
        if inner:
            name, kind = _field(inner, name, text)  # noqa: PLW2901
        elif (values := dict_value_type(kind)) is not None:
            kind = values
        elif kind is not Any:
            raise ConfigError(f"{'.'.join(path)} has a value and no keys, so there is no {name}")
        path.append(name)
    if not path:
        raise ConfigError("the setting is missing; write one such as context.strategy")
    return tuple(path), kind


def _field(kinds: tuple[type[Section], ...], name: str, text: str) -> tuple[str, Any]:
    known: dict[str, str] = {}
    for kind in kinds:
        names = key_spellings(kind)
        known |= names
        for each in msgspec.structs.fields(kind):
            if names.get(name) == each.encode_name:
                return each.encode_name, each.type
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {known[near[0]]}?" if near else f"there are: {', '.join(sorted(known))}"
    raise ConfigError(f"{text} is not a setting; {hint}")


def _value(kind: Any, text: str) -> Any:
    if str in union_members(kind):
        return text
    try:
        return decode_json(text)
    except msgspec.DecodeError:
        return text


def _edit(
    loaded: LoadedSettings,
    place: SettingsPath,
    change: Callable[[dict[str, Any]], None],
    *,
    trust: Trust,
) -> None:
    with file_lock(place.path):
        before = read_bytes(place)
        data = {} if before is None else parse_document(before, place.path)
        if before is not None:
            parse_layer(place, before)
        change(data)
        after = json.dumps(data, indent=2, ensure_ascii=False).encode() + b"\n"
        _check(place, after)
        _write(place, after, new=before is None)
        if place.scope is SettingsScope.PROJECT:
            _keep_trust(loaded, place, trust, before=before, after=after)


def _check(place: SettingsPath, content: bytes) -> None:
    """Check `content` before it is written."""
    try:
        parse_layer(place, content)
    except ConfigError as error:
        if not isinstance(error.__cause__, InvalidSetting):
            raise
        raise ConfigError(str(error.__cause__)) from error


def _drop(data: dict[str, Any], kind: Any, path: tuple[str, ...]) -> bool:
    """Remove the value at `path`, and objects that are empty without it."""
    key = _find_spelling(data, kind, path[0])
    if len(path) == 1:
        return data.pop(key, _MISSING) is not _MISSING
    below = data.get(key)
    if not isinstance(below, dict) or not _drop(below, _below(kind, path[0]), path[1:]):
        return False
    if not below:
        del data[key]
    return True


def _find_spelling(data: Mapping[str, Any], kind: Any, name: str) -> str:
    """Return the spelling of a key in the file; its canonical name if the file does not have it."""
    names: dict[str, str] = {}
    for section in section_types(kind):
        names |= key_spellings(section)
    return next((each for each in data if names.get(each) == name), name)


def _put(data: dict[str, Any], kind: Any, path: tuple[str, ...], value: Any) -> None:
    """Set the value at `path`, with the spelling that the file already has."""
    key = _find_spelling(data, kind, path[0])
    if len(path) == 1:
        data[key] = value
        return
    below = data.setdefault(key, {})
    if not isinstance(below, dict):
        below = data[key] = {}
    _put(below, _below(kind, path[0]), path[1:], value)


def _below(kind: Any, name: str) -> Any:
    for section in section_types(kind):
        for each in msgspec.structs.fields(section):
            if each.encode_name == name:
                return each.type
    return dict_value_type(kind) or Any


def _write(place: SettingsPath, data: bytes, *, new: bool) -> None:
    private = place.scope is SettingsScope.USER
    folder = Path(os.path.realpath(place.path.parent))
    if not private and not folder.is_relative_to(os.path.realpath(place.root)):
        raise ConfigError(
            f"{place.path} cannot be written: {place.path.parent} leads out of the project, to"
            f" {folder}; replace the link by a folder"
        )
    try:
        path = place.path
        if private:
            make_private_folder(path.parent)
        else:
            with keep_out_of_git(path.parent):
                path.parent.mkdir(parents=True, exist_ok=True)
        path = path.resolve()
        mode = (0o600 if private else 0o644) if new else path.stat().st_mode & 0o777
        replace_file(path, data, mode=mode)
    except OSError as error:
        raise ConfigError(f"{place.path} cannot be written: {error.strerror}") from error


def _keep_trust(
    loaded: LoadedSettings, place: SettingsPath, trust: Trust, *, before: bytes | None, after: bytes
) -> None:
    files = {layer.label: layer.content for layer in loaded.layers if layer.is_project}
    trusted = loaded.accepted or not loaded.withheld
    if not trusted or files.get(place.label) != before:
        return
    files[place.label] = after
    tools = project_files((), loaded.tool_files)
    there = [(label, content) for label, content in files.items() if content is not None]
    there += tools.items()
    trust.accept(loaded.cwd, compute_fingerprint(there))
