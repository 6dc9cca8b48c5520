"""What the schema says about its keys: types, spellings, allowed values, documentation."""

from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import Struct, UnsetType, inspect

from clew.config.schema import SettingsFile
from clew.config.sections import Section

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SCALARS: dict[type[inspect.Type], str] = {
    inspect.BoolType: "true or false",
    inspect.StrType: "a string",
    inspect.DictType: "an object",
    inspect.StructType: "an object",
    inspect.AnyType: "anything",
}


class SettingRow(Struct, frozen=True, kw_only=True):
    """One setting, as a row of the documentation."""

    key: str
    allowed: str
    meaning: str


def list_settings() -> tuple[SettingRow, ...]:
    """Return a row for each setting, in the order of the schema."""
    return tuple(_rows(SettingsFile, ""))


def format_markdown() -> str:
    """Return the table of settings for the documentation."""
    lines = ["| key | values | meaning |", "|---|---|---|"]
    lines += (f"| `{row.key}` | {row.allowed} | {row.meaning} |" for row in list_settings())
    return "\n".join(lines) + "\n"


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a settings file, with every accepted spelling of a key."""
    (root,), definitions = msgspec.json.schema_components(
        [SettingsFile], ref_template="#/$defs/{name}"
    )
    for kind in _all_sections(SettingsFile):
        properties = definitions[kind.__name__]["properties"]
        for spelling, name in key_spellings(kind).items():
            properties.setdefault(spelling, properties[name])
    return {"$schema": _DIALECT, **root, "$defs": definitions}


def key_spellings(kind: type[Section]) -> dict[str, str]:
    """Return every accepted spelling of a key of `kind`, with its canonical name."""
    known: dict[str, str] = {}
    for each in msgspec.structs.fields(kind):
        known[each.encode_name] = each.encode_name
        if not each.encode_name.startswith("$"):
            known[each.name] = each.encode_name
    for alias, name in kind.aliases.items():
        known |= {alias: name, _snake_case(alias): name}
    tag = kind.__struct_config__.tag_field
    return known | ({tag: tag} if tag else {})


def union_members(kind: object) -> tuple[object, ...]:
    """Return the types that a value of `kind` may have, without `UNSET`."""
    if get_origin(kind) is Annotated:
        return union_members(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        found = [inner for each in get_args(kind) for inner in union_members(each)]
        return tuple(each for each in found if each is not UnsetType)
    return (kind,)


def section_types(kind: object) -> tuple[type[Section], ...]:
    """Return the sections among the types that a value of `kind` may have."""
    return tuple(
        each for each in union_members(kind) if isinstance(each, type) and issubclass(each, Section)
    )


def dict_value_type(kind: object) -> object | None:
    """Return the type of the values if `kind` is an object with any keys; None otherwise."""
    for each in union_members(kind):
        if get_origin(each) is dict:
            return get_args(each)[1]  # type: ignore[no-any-return]
    return None


def tag_of(kind: type[Struct]) -> str:
    """Return the value of `type` that selects this section; empty if it has no `type`."""
    return str(kind.__struct_config__.tag or "")


def describe_allowed(kind: object) -> str:
    """Return the allowed values of the type `kind` in words."""
    return _describe(inspect.type_info(kind))


def describe_meaning(kind: object) -> str:
    """Return the description in the type `kind`; empty if it has none."""
    info = inspect.type_info(kind)
    while isinstance(info, inspect.Metadata):
        if info.extra_json_schema and "description" in info.extra_json_schema:
            return str(info.extra_json_schema["description"])
        info = info.type
    return ""


def _describe(info: inspect.Type) -> str:
    match info:
        case inspect.Metadata(type=inner):
            return _describe(inner)
        case inspect.LiteralType(values=values):
            return ", ".join(_describe_literal(value) for value in values)
        case inspect.IntType() | inspect.FloatType():
            return _describe_number(info)
        case inspect.StrType(max_length=int(most)):
            return f"a string of 1 to {most} characters"
        case inspect.ListType(item_type=item):
            return "a list of strings" if isinstance(item, inspect.StrType) else "a list"
        case inspect.UnionType(types=types):
            return " or ".join(dict.fromkeys(_describe(each) for each in types))
        case _:
            return _SCALARS.get(type(info), "something else")


def _describe_number(info: inspect.IntType | inspect.FloatType) -> str:
    noun = "a whole number" if isinstance(info, inspect.IntType) else "a number"
    limits = [
        f"{words} {limit:g}"
        for words, limit in (("above", info.gt), ("of at least", info.ge), ("at most", info.le))
        if limit is not None
    ]
    return " ".join([noun, " and ".join(limits)]).strip()


def _describe_literal(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rows(kind: type[Section], above: str) -> Iterator[SettingRow]:
    for each in msgspec.structs.fields(kind):
        key = f"{above}{each.encode_name}"
        inner = section_types(each.type)
        values = dict_value_type(each.type)
        named = section_types(values) if values is not None else ()
        if named:
            yield from _rows(named[0], f"{key}.NAME.")
        elif len(inner) == 1 and not describe_meaning(each.type):
            yield from _rows(inner[0], f"{key}.")
        else:
            meaning = describe_meaning(each.type) + _aliases(kind, each.encode_name)
            yield SettingRow(key=key, allowed=describe_allowed(each.type), meaning=meaning)
            for section in inner:
                yield from _option_rows(section, key)


def _option_rows(kind: type[Section], key: str) -> Iterator[SettingRow]:
    """Yield the rows of one of several objects that a key may have as its value."""
    tag = tag_of(kind)
    about = f" For `{tag}`: {kind.__doc__}" if tag else ""
    for index, row in enumerate(_rows(kind, f"{key}.")):
        suffix = about if index == 0 else (f" For `{tag}`." if tag else "")
        yield SettingRow(key=row.key, allowed=row.allowed, meaning=row.meaning + suffix)


def _aliases(kind: type[Section], name: str) -> str:
    others = [f"`{alias}`" for alias, canonical in kind.aliases.items() if canonical == name]
    return f" Also {' and '.join(others)}." if others else ""


def _all_sections(kind: type[Section]) -> Iterator[type[Section]]:
    yield kind
    for each in msgspec.structs.fields(kind):
        values = dict_value_type(each.type)
        inner = section_types(values) if values is not None else ()
        for section in (*section_types(each.type), *inner):
            yield from _all_sections(section)


def _snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
