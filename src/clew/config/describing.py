"""The schema of the settings, for editors and for the documentation."""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from clew.config.checking import sections, spellings, tag_of, values_of
from clew.config.schema import Section, SettingsFile
from clew.config.wording import allowed, described

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
