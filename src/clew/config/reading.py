"""Reading a settings file: strictly, and with the line on which something is wrong."""

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clew.config.checking import Fault, Keys, spelled
from clew.config.places import Place, Scope
from clew.core.errors import ConfigError
from clew.files.safe_read import NotRegularFile, read_regular

LARGEST = 1_000_000
"""Bytes. Nobody writes such a file by hand."""
_DEEPEST = 100
_SURROGATE = re.compile("[\ud800-\udfff]")


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
