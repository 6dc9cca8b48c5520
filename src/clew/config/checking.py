"""Comparing what a file holds with the schema, key by key.

The result has every key under its one name. A mistake is a `Fault`, which knows the way to it
as the file spells it; only who read the file can say on which line that is.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin

import msgspec
from msgspec import Struct, UnsetType

from clew.config.schema import Section
from clew.config.wording import allowed
from clew.core.text import split_validation_error

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


def spellings(kind: type[Section]) -> dict[str, str]:
    """Return every way to write a key of `kind`, with the name that counts."""
    known: dict[str, str] = {}
    for each in msgspec.structs.fields(kind):
        known[each.encode_name] = each.encode_name
        if not each.encode_name.startswith("$"):
            known[each.name] = each.encode_name
    for alias, name in kind.aliases.items():
        known |= {alias: name, _snake(alias): name}
    tag = kind.__struct_config__.tag_field
    return known | ({tag: tag} if tag else {})


def members(kind: object) -> tuple[object, ...]:
    """Return the types that a value of `kind` may have, `UNSET` aside."""
    if get_origin(kind) is Annotated:
        return members(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        found = [inner for each in get_args(kind) for inner in members(each)]
        return tuple(each for each in found if each is not UnsetType)
    return (kind,)


def sections(kind: object) -> tuple[type[Section], ...]:
    """Return the schemas among the types that a value of `kind` may have."""
    return tuple(
        each for each in members(kind) if isinstance(each, type) and issubclass(each, Section)
    )


def values_of(kind: object) -> object | None:
    """Return the type of the values where `kind` is an object of them under any names."""
    for each in members(kind):
        if get_origin(each) is dict:
            return get_args(each)[1]  # type: ignore[no-any-return]
    return None


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


def tag_of(kind: type[Struct]) -> str:
    """Return what `type` says in an object of this kind, or nothing if it has no `type`."""
    return str(kind.__struct_config__.tag or "")


def _translated(error: msgspec.ValidationError, value: object, kind: object, way: Keys) -> Fault:
    """Say what msgspec says in words, with the way to it."""
    reason, path = split_validation_error(error)
    inner = tuple(int(number) for number in _INDEX.findall(path))
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


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
