"""Comparing what a file holds with the schema, key by key.

The result has every key under its one name. A mistake is a `Fault`, which knows the way to it
as the file spells it; only who read the file can say on which line that is.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from clew.config.schema import Section
from clew.config.schema_info import allowed, sections, spellings, tag_of, values_of
from clew.core.errors import ConfigError

Key: TypeAlias = str | int
Keys: TypeAlias = tuple[Key, ...]
"""The way to a value: names of keys, and places in lists."""


class Fault(Exception):
    """Something in a file that cannot stay so."""

    def __init__(self, keys: Keys, problem: str, *, allowed: str = "") -> None:
        super().__init__(problem)
        self.keys = keys
        self.problem = problem
        self.allowed = allowed


@dataclass(frozen=True, slots=True)
class Checked:
    """What a file says, by the names of the schema."""

    data: dict[str, Any] = field(repr=False)
    unknown: tuple[Keys, ...] = ()
    """Ways to keys that the schema does not have; they are not in the data."""


def check(data: Mapping[str, Any], kind: type[Section], *, tolerant: bool) -> Checked:
    """Compare `data` with the schema `kind`.

    Args:
        data: What a file holds.
        kind: The schema.
        tolerant: Leave keys out that are not known, rather than refuse them.

    Raises:
        Fault: A value is not of its type, or a key is unknown or written twice.
    """
    checker = _Checker(tolerant=tolerant)
    return Checked(checker.section(data, kind, ()), tuple(checker.unknown))


def spelled(keys: Keys) -> str:
    """Return the way to a value as people write it, on one line: `permissions.allow[2]`."""
    text = ""
    for key in keys:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            line = " ".join(key[: _LONGEST_SHOWN + 1].split())
            short = line if len(key) <= _LONGEST_SHOWN else f"{line[: _LONGEST_SHOWN - 1]}…"
            plain = _PLAIN.fullmatch(short)
            text += ("." if text else "") + (short if plain else f'"{short}"')
    return text


class _Checker:
    """Walks a document along the schema, and gathers what it does not know."""

    def __init__(self, *, tolerant: bool) -> None:
        self.unknown: list[Keys] = []
        self._tolerant = tolerant

    def section(self, data: Mapping[str, Any], kind: type[Section], way: Keys) -> dict[str, Any]:
        names = spellings(kind)
        types = {each.encode_name: each.type for each in msgspec.structs.fields(kind)}
        found: dict[str, Any] = {}
        written: dict[str, str] = {}
        for key, value in data.items():
            name = names.get(key)
            if name is None:
                self._refuse_or_note(key, names, way)
                continue
            if name in written:
                raise Fault((*way, key), f"says the same as {written[name]}; keep one of them")
            written[name] = key
            found[name] = self._value(value, types[name], (*way, key)) if name in types else value
        for each in msgspec.structs.fields(kind):
            if each.required and each.encode_name not in found:
                raise Fault(way, f"lacks {each.encode_name}", allowed=allowed(each.type))
        return found

    def _value(self, value: Any, kind: Any, way: Keys) -> Any:
        if isinstance(value, dict):
            if kinds := sections(kind):
                return self._one_of(value, kinds, way)
            if (inner := values_of(kind)) is not None:
                return {key: self._value(each, inner, (*way, key)) for key, each in value.items()}
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise _translated(error, value, kind, way) from error
        return value

    def _one_of(
        self, value: dict[str, Any], kinds: tuple[type[Section], ...], way: Keys
    ) -> dict[str, Any]:
        if len(kinds) == 1:
            return self.section(value, kinds[0], way)
        tags = {tag_of(each): each for each in kinds}
        tag = value.get("type")
        plain = tag.replace("_", "-") if isinstance(tag, str) else ""
        if plain in tags:
            return self.section({**value, "type": plain}, tags[plain], way)
        problem = "is not a type" if "type" in value else "lacks its type"
        at = (*way, "type") if "type" in value else way
        raise Fault(at, problem, allowed=", ".join(sorted(tags)))

    def _refuse_or_note(self, key: str, names: Mapping[str, str], way: Keys) -> None:
        if self._tolerant:
            self.unknown.append((*way, key))
            return
        import difflib  # noqa: PLC0415 - only needed for a word that is wrong

        near = difflib.get_close_matches(key, names, n=1)
        if near:
            raise Fault((*way, key), f"is not a setting; did you mean {names[near[0]]}?")
        raise Fault((*way, key), "is not a setting", allowed=", ".join(sorted(set(names.values()))))


def _translated(error: msgspec.ValidationError, value: object, kind: object, way: Keys) -> Fault:
    """Say what msgspec says in words, with the way to it."""
    reason, _, place = str(error).partition(" - at `$")
    inner = tuple(int(number) for number in _INDEX.findall(place))
    got = reason.partition(", got ")[2].strip("`")
    problem = f"is {_GOT.get(got, got)}" if got else f"cannot be {_shown(value)}"
    return Fault((*way, *inner), problem, allowed="" if inner else allowed(kind))


def _shown(value: object) -> str:
    """Return a short value. Keys that hold secrets take any text, so theirs never come here."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST_SHOWN else "so long"


_PLAIN = re.compile(r"[$\w-]+")
_INDEX = re.compile(r"\[(\d+)\]")
_LONGEST_SHOWN = 60
_GOT = {
    "str": "a text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


_DEEPEST = 100
_SURROGATE = re.compile("[\ud800-\udfff]")


def decode(data: bytes, path: Path) -> dict[str, Any]:
    """Return the object that a file holds, read as its name says: TOML or JSON.

    Raises:
        ConfigError: It is malformed; the message names the line.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = position(data[: error.start].decode("utf-8", "replace"))
        raise ConfigError(f"{path}:{line}:{column}: this is not UTF-8 text") from error
    try:
        found = _toml(text, path) if path.suffix == ".toml" else _json(text, path)
        _refuse_odd(found, ())
    except Fault as fault:
        raise located(fault, data, path) from fault
    except RecursionError as error:
        raise ConfigError(f"{path} is nested too deeply") from error
    return found


def located(fault: Fault, data: bytes, path: Path) -> ConfigError:
    """Return the error that names file, line, key and allowed values."""
    line = _line_of(fault.keys, data.decode("utf-8-sig", "replace"), path)
    key = spelled(fault.keys)
    allowed = f"; allowed: {fault.allowed}" if fault.allowed else ""
    at = f"{path}:{line}" if line else str(path)
    named = f"{at}: {key}" if key else at
    return ConfigError(f"{named}: {fault.problem}{allowed}")


def position(before: str) -> tuple[int, int]:
    """Return line and column of what stands behind `before`, both from 1."""
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def _json(text: str, path: Path) -> dict[str, Any]:
    if not text.strip():
        raise ConfigError(f"{path} is empty; write {{}} into it or remove it")
    try:
        found = json.loads(text, object_pairs_hook=_pairs, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        where = f"{path}:{error.lineno}:{error.colno}"
        raise ConfigError(f"{where}: this is not valid JSON: {error.msg}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: this is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path} must hold an object: {{ … }}")
    return found


def _pairs(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        last = {name: place for place, (name, _) in enumerate(pairs)}
        twice = next(name for place, (name, _) in enumerate(pairs) if last[name] != place)
        # Of two lists of rules under one name, one would vanish.
        raise Fault(
            (), f"the key {spelled((twice,))} is there twice in one object; keep one of them"
        )
    return found


def _no_number(text: str) -> float:
    raise Fault((), f"{text} is not a number in JSON")


def _toml(text: str, path: Path) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - most projects have no settings in TOML

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", str(error))
        where = f"{path}:{found[1]}:{found[2]}" if found and found[1] else str(path)
        reason = str(error)[: found.start()] if found else str(error)
        raise ConfigError(f"{where}: this is not valid TOML: {reason}") from error
    except ValueError as error:  # a number of too many digits
        raise ConfigError(f"{path}: this is not valid TOML: {error}") from error


def _refuse_odd(value: Any, way: Keys) -> None:
    """Refuse what JSON cannot hold, and what no person nests so deeply."""
    if len(way) > _DEEPEST:
        raise Fault(way[:3], "is nested too deeply")
    match value:
        case dict():
            for key, inner in value.items():
                _refuse_odd(key, way)
                _refuse_odd(inner, (*way, key))
        case list():
            for index, inner in enumerate(value):
                _refuse_odd(inner, (*way, index))
        case str() if _SURROGATE.search(value):
            raise Fault(way, "holds half a character (a lone surrogate)")
        case float() if not math.isfinite(value):
            raise Fault(way, "is not a finite number")
        case str() | float() | bool() | int() | None:
            return
        case _:
            raise Fault(way, "is a date or a time", allowed="texts, numbers, lists and objects")


def _line_of(keys: Keys, text: str, path: Path) -> str:
    if not keys:
        return ""
    if path.suffix == ".toml":
        return _toml_line(keys, text)
    start = _find(text, keys)
    return "" if start is None else "{}:{}".format(*position(text[:start]))


def _toml_line(keys: Keys, text: str) -> str:
    """Return the line that sets the last key, where only one does."""
    name = next((re.escape(key) for key in reversed(keys) if isinstance(key, str)), "")
    pattern = rf"""(?m)^[ \t]*(?:[\w."'-]+\.)?["']?{name}["']?[ \t]*="""
    found = list(re.finditer(pattern, text))
    if len(found) != 1:
        return ""
    return str(position(text[: found[0].end()])[0])


_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def _find(text: str, keys: Keys) -> int | None:
    """Return where the value at the end of the way begins, in JSON that is known to be valid."""
    start = _after_blank(text, 0)
    for key in keys:
        found = _child(text, start, key)
        if found is None:
            return start
        start = found
    return start


def _child(text: str, start: int, key: str | int) -> int | None:
    opening = {"{": str, "[": int}.get(text[start])
    if opening is None or not isinstance(key, opening):
        return None
    place, index = _after_blank(text, start + 1), 0
    while text[place] not in "}]":
        name: str | int = index
        if opening is str:
            name, place = _DECODER.raw_decode(text, place)
            place = _after_blank(text, _after_blank(text, place) + 1)
        if name == key:
            return place
        place = _after_blank(text, _DECODER.raw_decode(text, place)[1])
        if text[place] == ",":
            place = _after_blank(text, place + 1)
        index += 1
    return None


def _after_blank(text: str, start: int) -> int:
    found = _BLANK.match(text, start)
    return found.end() if found else start
