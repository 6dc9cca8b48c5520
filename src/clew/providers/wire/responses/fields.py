"""JSON objects whose shape only the provider decides: read with care, kept as text."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

Fields: TypeAlias = Mapping[str, Any]

_json = msgspec.json.Encoder()
_object = msgspec.json.Decoder(dict[str, Any])


def inner(value: Any) -> Fields:
    """Return `value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def inners(value: Any) -> list[Fields]:
    """Return the objects in `value` if it is a list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def words(value: Any) -> str:
    """Return `value` as text: itself, nothing for nothing, else its JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else _json.encode(value).decode()


def rest(fields: Fields, *known: str) -> dict[str, Any]:
    """Return the fields that are not `known` and say something."""
    return {
        name: value
        for name, value in fields.items()
        if name not in known and value is not None and value != []
    }


def packed(fields: Fields) -> str:
    """Return `fields` as the text of an `extra`."""
    return _json.encode(fields).decode() if fields else ""


def unpacked(text: str) -> dict[str, Any]:
    """Return the fields of an `extra`."""
    return _object.decode(text) if text else {}
