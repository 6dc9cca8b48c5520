"""One settings file: parse it, check it against the schema, and find the line of a mistake.

A checked document has every key under its canonical name. A mistake is an `InvalidSetting`, which
has the path to the value as the file spells it; `locate_error` adds the line.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from clew.config.schema_info import (
    describe_allowed,
    dict_value_type,
    key_spellings,
    section_types,
    tag_of,
)
from clew.config.sections import Section
from clew.core.errors import ConfigError
from clew.core.text import split_validation_error, truncate

Key: TypeAlias = str | int
KeyPath: TypeAlias = tuple[Key, ...]
"""The path to a value: names of keys, and positions in lists."""

_MAX_DEPTH = 100
_MAX_SHOWN = 60
_PLAIN_KEY = re.compile(r"[$\w-]+")
_INDEX = re.compile(r"\[(\d+)\]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_JSON_TYPES = {
    "str": "a string",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


class InvalidSetting(Exception):
    """A mistake in a settings file."""

    def __init__(self, path: KeyPath, problem: str, *, allowed: str = "") -> None:
        super().__init__(problem)
        self.path = path
        self.problem = problem
        self.allowed = allowed

    def __str__(self) -> str:
        allowed = f"; allowed: {self.allowed}" if self.allowed else ""
        key = format_key(self.path)
        return f"{key}: {self.problem}{allowed}" if key else f"{self.problem}{allowed}"


@dataclass(frozen=True, slots=True)
class CheckedDocument:
    """The content of a file, with the names of the schema."""

    data: dict[str, Any] = field(repr=False)
    unknown: tuple[KeyPath, ...] = ()
    """Keys that are not in the schema; they are not in the data."""


def check_document(
    data: Mapping[str, Any], kind: type[Section], *, tolerant: bool
) -> CheckedDocument:
    """Check `data` against the schema `kind`.

    Args:
        data: The content of a file.
        kind: The schema.
        tolerant: Report unknown keys instead of raising.

    Raises:
        InvalidSetting: A value has the wrong type, or a key is unknown or written twice.
    """
    checker = _Checker(tolerant=tolerant)
    found = checker.section(data, kind, ())
    if checker.mistakes:
        raise checker.mistakes[0]
    return CheckedDocument(found, tuple(checker.unknown))


def find_mistakes(
    data: Mapping[str, Any], kind: type[Section], *, tolerant: bool
) -> list[InvalidSetting]:
    """Return every mistake in `data`, in the order of the document."""
    checker = _Checker(tolerant=tolerant)
    checker.section(data, kind, ())
    return checker.mistakes


def parse_document(data: bytes, path: Path) -> dict[str, Any]:
    """Parse a file as TOML or JSON, depending on its name.

    Raises:
        ConfigError: It is malformed; the message has the line.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = line_and_column(data[: error.start].decode("utf-8", "replace"))
        raise ConfigError(f"{path}:{line}:{column}: this is not UTF-8 text") from error
    try:
        found = _parse_toml(text, path) if path.suffix == ".toml" else _parse_json(text, path)
        _check_values(found, ())
    except InvalidSetting as error:
        raise locate_error(error, data, path) from error
    except RecursionError as error:
        raise ConfigError(f"{path} is nested too deeply") from error
    return found


def locate_error(error: InvalidSetting, data: bytes, path: Path) -> ConfigError:
    """Return an error with the file, the line, the key and the allowed values."""
    line = find_line(error.path, data.decode("utf-8-sig", "replace"), path)
    return ConfigError(f"{path}:{line}: {error}" if line else f"{path}: {error}")


def line_and_column(before: str) -> tuple[int, int]:
    """Return line and column of the character after `before`, both from 1."""
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def format_key(path: KeyPath) -> str:
    """Format the path to a value on one line: `permissions.allow[2]`."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            short = truncate(" ".join(key[: _MAX_SHOWN + 1].split()), _MAX_SHOWN)
            quoted = short if _PLAIN_KEY.fullmatch(short) else f'"{short}"'
            text += f".{quoted}" if text else quoted
    return text


class _Checker:
    """Walks a document along the schema and collects mistakes and unknown keys.

    Each value is converted by itself: the path in an error of msgspec does not have the keys of
    objects such as `providers` and `env`, so converting the whole document could not name them.
    """

    def __init__(self, *, tolerant: bool) -> None:
        self.unknown: list[KeyPath] = []
        self.mistakes: list[InvalidSetting] = []
        self._tolerant = tolerant

    def section(
        self, data: Mapping[str, Any], kind: type[Section], path: KeyPath
    ) -> dict[str, Any]:
        names = key_spellings(kind)
        fields = {each.encode_name: each for each in msgspec.structs.fields(kind)}
        found: dict[str, Any] = {}
        written: dict[str, str] = {}
        for key, value in data.items():
            name = names.get(key)
            if name is None:
                self._reject_unknown(key, names, path)
                continue
            if name in written:
                self._report(
                    (*path, key), f"is the same setting as {written[name]}; keep one of them"
                )
            written[name] = key
            is_field = name in fields
            found[name] = self._value(value, fields[name].type, (*path, key)) if is_field else value
        for name, each in fields.items():
            if each.required and name not in found:
                self._report(path, f"has no {name}", allowed=describe_allowed(each.type))
        return found

    def _value(self, value: Any, kind: Any, path: KeyPath) -> Any:
        if isinstance(value, dict):
            if kinds := section_types(kind):
                return self._one_of(value, kinds, path)
            if (inner := dict_value_type(kind)) is not None:
                return {key: self._value(each, inner, (*path, key)) for key, each in value.items()}
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            self.mistakes.append(_describe_error(error, value, kind, path))
        return value

    def _one_of(
        self, value: dict[str, Any], kinds: tuple[type[Section], ...], path: KeyPath
    ) -> dict[str, Any]:
        if len(kinds) == 1:
            return self.section(value, kinds[0], path)
        tags = {tag_of(each): each for each in kinds}
        tag = value.get("type")
        name = tag.replace("_", "-") if isinstance(tag, str) else ""
        if name in tags:
            return self.section({**value, "type": name}, tags[name], path)
        problem = "is not a known type" if "type" in value else "has no type"
        place = (*path, "type") if "type" in value else path
        self._report(place, problem, allowed=", ".join(sorted(tags)))
        return value

    def _report(self, path: KeyPath, problem: str, *, allowed: str = "") -> None:
        self.mistakes.append(InvalidSetting(path, problem, allowed=allowed))

    def _reject_unknown(self, key: str, names: Mapping[str, str], path: KeyPath) -> None:
        if self._tolerant:
            self.unknown.append((*path, key))
            return
        import difflib  # noqa: PLC0415 - only needed for a misspelled key

        near = difflib.get_close_matches(key, names, n=1)
        if near:
            self._report((*path, key), f"is not a setting; did you mean {names[near[0]]}?")
            return
        allowed = ", ".join(sorted(set(names.values())))
        self._report((*path, key), "is not a setting", allowed=allowed)


def _describe_error(
    error: msgspec.ValidationError, value: object, kind: object, path: KeyPath
) -> InvalidSetting:
    """Translate an error of msgspec."""
    reason, place = split_validation_error(error)
    inner = tuple(int(number) for number in _INDEX.findall(place))
    got = reason.partition(", got ")[2].strip("`")
    if got:
        problem = f"is {_JSON_TYPES.get(got, got)}"
    else:
        # Keys with secrets take any string, so their values are never shown here.
        text = msgspec.json.encode(value).decode()
        problem = f"cannot be {text}" if len(text) <= _MAX_SHOWN else "has a value that is too long"
    return InvalidSetting((*path, *inner), problem, allowed="" if inner else describe_allowed(kind))


def _parse_json(text: str, path: Path) -> dict[str, Any]:
    if not text.strip():
        raise ConfigError(f"{path} is empty; write {{}} into it or remove it")
    try:
        found = json.loads(text, object_pairs_hook=_build_object, parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        where = f"{path}:{error.lineno}:{error.colno}"
        raise ConfigError(f"{where}: this is not valid JSON: {error.msg}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: this is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path} must contain an object: {{ … }}")
    return found


def _build_object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        last = {name: index for index, (name, _) in enumerate(pairs)}
        twice = next(name for index, (name, _) in enumerate(pairs) if last[name] != index)
        # One of two lists of rules with the same name would be lost.
        raise InvalidSetting(
            (), f"the key {format_key((twice,))} appears twice in one object; keep one of them"
        )
    return found


def _reject_constant(text: str) -> float:
    raise InvalidSetting((), f"{text} is not a number in JSON")


def _parse_toml(text: str, path: Path) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - most projects have no settings in TOML

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", str(error))
        where = f"{path}:{found[1]}:{found[2]}" if found and found[1] else str(path)
        reason = str(error)[: found.start()] if found else str(error)
        raise ConfigError(f"{where}: this is not valid TOML: {reason}") from error
    except ValueError as error:  # a number with too many digits
        raise ConfigError(f"{path}: this is not valid TOML: {error}") from error


def _check_values(value: Any, path: KeyPath) -> None:
    """Reject values that JSON cannot represent, and deep nesting."""
    if len(path) > _MAX_DEPTH:
        raise InvalidSetting(path[:3], "is nested too deeply")
    match value:
        case dict():
            for key, inner in value.items():
                _check_values(key, path)
                _check_values(inner, (*path, key))
        case list():
            for index, inner in enumerate(value):
                _check_values(inner, (*path, index))
        case str() if _SURROGATE.search(value):
            raise InvalidSetting(path, "contains half a character (a lone surrogate)")
        case float() if not math.isfinite(value):
            raise InvalidSetting(path, "is not a finite number")
        case str() | float() | bool() | int() | None:
            return
        case _:
            allowed = "strings, numbers, lists and objects"
            raise InvalidSetting(path, "is a date or a time", allowed=allowed)


def find_line(path: KeyPath, text: str, file: Path) -> str:
    """Return the line of a value, or of the nearest one above it; empty if it is not clear."""
    if not path:
        return ""
    if file.suffix == ".toml":
        return _find_toml_line(path, text)
    return "{}:{}".format(*line_and_column(text[: _find_json(text, path)]))


def _find_toml_line(path: KeyPath, text: str) -> str:
    """Return the line that sets the last key, if exactly one line does."""
    name = next((re.escape(key) for key in reversed(path) if isinstance(key, str)), "")
    pattern = rf"""(?m)^[ \t]*(?:[\w."'-]+\.)?["']?{name}["']?[ \t]*="""
    found = list(re.finditer(pattern, text))
    if len(found) != 1:
        return ""
    return str(line_and_column(text[: found[0].end()])[0])


def _find_json(text: str, path: KeyPath) -> int:
    """Return where the value at `path`, or the nearest one above it, begins in valid JSON."""
    start = _skip_blank(text, 0)
    for key in path:
        found = _find_child(text, start, key)
        if found is None:
            break
        start = found
    return start


def _find_child(text: str, start: int, key: Key) -> int | None:
    opening = {"{": str, "[": int}.get(text[start])
    if opening is None or not isinstance(key, opening):
        return None
    place, index = _skip_blank(text, start + 1), 0
    while text[place] not in "}]":
        name: Key = index
        if opening is str:
            name, place = _DECODER.raw_decode(text, place)
            place = _skip_blank(text, _skip_blank(text, place) + 1)
        if name == key:
            return place
        place = _skip_blank(text, _DECODER.raw_decode(text, place)[1])
        if text[place] == ",":
            place = _skip_blank(text, place + 1)
        index += 1
    return None


def _skip_blank(text: str, start: int) -> int:
    found = _BLANK.match(text, start)
    return found.end() if found else start
