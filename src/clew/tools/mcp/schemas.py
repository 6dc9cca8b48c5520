"""The schemas of tools: which ones providers accept, and how Clew sends them."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from clew.tools.mcp.names import clean_text

_MAX_SCHEMA = 100_000
"""Characters of one schema as JSON."""
_MAX_DEPTH = 50
_KEY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_VARIANTS = ("oneOf", "anyOf", "allOf")
_REFUSED = frozenset({"$schema", *_VARIANTS, "enum", "not"})
"""Providers refuse a schema of arguments that has these keys at its top."""


def find_schema_problem(schema: Mapping[str, Any]) -> str:
    """Return why a tool with this schema would break requests; empty if it would not."""
    try:
        size = len(msgspec.json.encode(schema))
        if _is_deep(schema, _MAX_DEPTH):
            return "has a schema that is too deep"
    except (TypeError, ValueError, RecursionError):
        return "has a schema that is not JSON"
    if size > _MAX_SCHEMA:
        return "has a schema that is too long"
    if not _is_object(schema):
        return "has a schema that is not one of an object"
    return ""


def convert_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema that every provider accepts, without control characters.

    Where the arguments can have several forms, the fields of all forms are declared: the server
    checks which ones go together.
    """
    found = {key: value for key, value in schema.items() if key not in _REFUSED}
    fields = dict(schema.get("properties", {}))
    for key in _VARIANTS:
        for one in _list_forms(schema.get(key)):
            fields = {**one.get("properties", {}), **fields}
    cleaned: dict[str, Any] = _clean({**found, "type": "object", "properties": fields})
    return cleaned


def _is_object(schema: Mapping[str, Any]) -> bool:
    """Return whether the schema, and each form that it allows, describes named arguments."""
    forms = [schema, *(one for key in _VARIANTS for one in _list_forms(schema.get(key)))]
    return schema.get("type", "object") == "object" and all(map(_has_fields, forms))


def _has_fields(schema: Mapping[str, Any]) -> bool:
    fields, required = schema.get("properties", {}), schema.get("required", [])
    return (
        isinstance(fields, dict)
        and all(_KEY.fullmatch(key) for key in fields)
        and all(isinstance(one, dict | bool) for one in fields.values())
        and isinstance(required, list)
        and all(isinstance(one, str) for one in required)
    )


def _list_forms(forms: Any) -> list[dict[str, Any]]:
    return [one for one in forms if isinstance(one, dict)] if isinstance(forms, list) else []


def _is_deep(value: Any, left: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    if not left:
        return True
    inner = value.values() if isinstance(value, dict) else value
    return any(_is_deep(one, left - 1) for one in inner)


def _clean(value: Any) -> Any:
    """Return a schema whose texts have no control characters."""
    match value:
        case str():
            return clean_text(value)
        case dict():
            return {key: _clean(inner) for key, inner in value.items()}
        case list():
            return [_clean(inner) for inner in value]
        case _:
            return value
