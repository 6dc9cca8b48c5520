"""Saying what a key may hold, for errors and documentation."""

from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import Struct, UnsetType, inspect

from clew.config.schema import Section, SettingsFile

_SCALARS: dict[type[inspect.Type], str] = {
    inspect.BoolType: "true or false",
    inspect.StrType: "a text",
    inspect.DictType: "an object",
    inspect.StructType: "an object",
    inspect.AnyType: "anything",
}


def allowed(kind: object) -> str:
    """Return in words what a value of the type `kind` may be."""
    return _said(inspect.type_info(kind))


def described(kind: object) -> str:
    """Return the description that the type `kind` carries, or nothing."""
    info = inspect.type_info(kind)
    while isinstance(info, inspect.Metadata):
        if info.extra_json_schema and "description" in info.extra_json_schema:
            return str(info.extra_json_schema["description"])
        info = info.type
    return ""


def _said(info: inspect.Type) -> str:
    match info:
        case inspect.Metadata(type=inner):
            return _said(inner)
        case inspect.LiteralType(values=values):
            return ", ".join(_literal(value) for value in values)
        case inspect.IntType() | inspect.FloatType():
            return _number(info)
        case inspect.StrType(max_length=int(most)):
            return f"a text of 1 to {most} characters"
        case inspect.ListType(item_type=item):
            return "a list of texts" if isinstance(item, inspect.StrType) else "a list"
        case inspect.UnionType(types=types):
            return " or ".join(dict.fromkeys(_said(each) for each in types))
        case _:
            return _SCALARS.get(type(info), "something else")


def _number(info: inspect.IntType | inspect.FloatType) -> str:
    noun = "a whole number" if isinstance(info, inspect.IntType) else "a number"
    limits = [
        f"{words} {limit:g}"
        for words, limit in (("above", info.gt), ("of at least", info.ge), ("at most", info.le))
        if limit is not None
    ]
    return " ".join([noun, " and ".join(limits)]).strip()


def _literal(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


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


def tag_of(kind: type[Struct]) -> str:
    """Return what `type` says in an object of this kind, or nothing if it has no `type`."""
    return str(kind.__struct_config__.tag or "")


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Row(Struct, frozen=True, kw_only=True):
    """One setting."""

    key: str
    allowed: str
    meaning: str


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a settings file; every spelling that is understood is in it."""
    (root,), definitions = msgspec.json.schema_components(
        [SettingsFile], ref_template="#/$defs/{name}"
    )
    for kind in _all_sections(SettingsFile):
        properties = definitions[kind.__name__]["properties"]
        for spelling, name in spellings(kind).items():
            properties.setdefault(spelling, properties[name])
    return {"$schema": _DIALECT, **root, "$defs": definitions}


def table() -> tuple[Row, ...]:
    """Return a row for each setting, in the order of the schema."""
    return tuple(_rows(SettingsFile, ""))


def markdown() -> str:
    """Return the table as the documentation shows it."""
    lines = ["| key | may be | meaning |", "|---|---|---|"]
    lines += (f"| `{row.key}` | {row.allowed} | {row.meaning} |" for row in table())
    return "\n".join(lines) + "\n"


def _rows(kind: type[Section], above: str) -> Iterator[Row]:
    for each in msgspec.structs.fields(kind):
        key = f"{above}{each.encode_name}"
        inner = sections(each.type)
        values = values_of(each.type)
        named = sections(values) if values is not None else ()
        if named:
            yield from _rows(named[0], f"{key}.NAME.")
        elif len(inner) == 1 and not described(each.type):
            yield from _rows(inner[0], f"{key}.")
        else:
            other = _aliases(kind, each.encode_name)
            yield Row(key=key, allowed=allowed(each.type), meaning=described(each.type) + other)
            for section in inner:
                yield from _options(section, key)


def _options(kind: type[Section], key: str) -> Iterator[Row]:
    """Yield the rows of one of several objects that a key may hold."""
    tag = tag_of(kind)
    about = f" For `{tag}`: {kind.__doc__}" if tag else ""
    rows = list(_rows(kind, f"{key}."))
    for place, row in enumerate(rows):
        suffix = about if place == 0 else (f" For `{tag}`." if tag else "")
        yield Row(key=row.key, allowed=row.allowed, meaning=row.meaning + suffix)


def _aliases(kind: type[Section], name: str) -> str:
    others = [f"`{alias}`" for alias, meant in kind.aliases.items() if meant == name]
    return f" Also {' and '.join(others)}." if others else ""


def _all_sections(kind: type[Section]) -> Iterator[type[Section]]:
    yield kind
    for each in msgspec.structs.fields(kind):
        values = values_of(each.type)
        for inner in (*sections(each.type), *(sections(values) if values is not None else ())):
            yield from _all_sections(inner)
