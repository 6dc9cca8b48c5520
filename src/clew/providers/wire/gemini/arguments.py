"""The arguments of a call, where the API sends them value by value.

Each piece names its place in the object (`$.list[0].name`); a text may come in several.
"""

import re
from typing import Any

import msgspec
from msgspec import Struct

_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d+)\]|\[(?:'([^']*)'|"([^"]*)")\]""")
_json = msgspec.json.Encoder()


class Piece(Struct, rename="camel"):
    """One value, or a piece of a text, and where it belongs."""

    json_path: str = "$"
    string_value: str | None = None
    number_value: int | float | None = None
    bool_value: bool | None = None

    @property
    def value(self) -> str | float | bool | None:
        """The value; none of the fields means null."""
        given = (self.string_value, self.number_value, self.bool_value)
        return next((value for value in given if value is not None), None)


class Arguments:
    """An object that is still arriving."""

    def __init__(self) -> None:
        self._root: Any = {}

    def take(self, piece: Piece) -> None:
        """Put the next piece in its place."""
        self._root = _put(self._root, _steps(piece.json_path), piece.value)

    @property
    def text(self) -> str:
        """What has arrived, as JSON."""
        return _json.encode(self._root).decode()


def _steps(path: str) -> list[str | int]:
    return [
        int(found[2]) if found[2] else found[1] or found[3] or found[4] or ""
        for found in _STEP.finditer(path)
    ]


def _put(node: Any, steps: list[str | int], value: Any) -> Any:
    """Return `node` with `value` at the end of `steps`; a text is appended to."""
    if not steps:
        return node + value if isinstance(node, str) and isinstance(value, str) else value
    step, *rest = steps
    if isinstance(step, int):
        items = node if isinstance(node, list) else []
        inner = items[step] if step < len(items) else None
        items[step : step + 1] = [_put(inner, rest, value)]
        return items
    fields = node if isinstance(node, dict) else {}
    fields[step] = _put(fields.get(step), rest, value)
    return fields
