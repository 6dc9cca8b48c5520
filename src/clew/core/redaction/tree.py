"""Redaction of whole documents: texts, and objects and lists of them."""

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from clew.core.redaction import scan
from clew.core.redaction.names import Name, plain, wanted, words
from clew.core.redaction.values import MARK, Form, secret_part

_Open: TypeAlias = tuple[dict[object, object] | list[object], Name | None]
"""A copy whose contents are still to be cleaned, and the name that they all have."""

_SHORTEST_VALUE = 4
_SCHEMA_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})


class Redactor:
    """Redacts with the same extra names and values again and again."""

    def __init__(self, extra_keys: Iterable[str] = (), extra_values: Iterable[str] = ()) -> None:
        named = {plain(key): words(key) for key in extra_keys}
        self._triggers = {key: parts[0].encode() for key, parts in named.items() if parts}
        self._names = frozenset(self._triggers)
        known = [value for value in extra_values if len(value) >= _SHORTEST_VALUE]
        escaped = [msgspec.json.encode(value)[1:-1].decode() for value in known]
        self._values = tuple(dict.fromkeys([*known, *escaped]))

    def redact(self, value: object, name: Name | None = None) -> object:
        """Return a copy of `value` without secrets, however deep it is nested.

        Args:
            value: What to clean.
            name: What is known of it from outside.
        """
        todo: list[_Open] = []
        result = self._copy(value, name, todo)
        while todo:
            copy, above = todo.pop()
            if isinstance(copy, list):
                copy[:] = [self._copy(inner, above, todo) for inner in copy]
                continue
            paired = self._pair(copy)
            for key, inner in copy.items():
                known = paired if key == "value" else None
                copy[key] = self._copy(inner, self._name(key) or known or above, todo)
        return result

    def text(self, text: str) -> str:
        """Return `text` without secrets; the same object when it has none."""
        return scan.clean(text, names=self._triggers, values=self._values)

    def _name(self, key: object) -> Name | None:
        return wanted(key, self._names) if isinstance(key, str) else None

    def _pair(self, copy: dict[object, object]) -> Name | None:
        """Return what `{"name": "DB_PASSWORD", "value": …}` says about its value."""
        return self._name(copy.get("name")) or self._name(copy.get("key"))

    def _copy(self, value: object, name: Name | None, todo: list[_Open]) -> object:
        match value:
            case str():
                return self._named_text(value, name) if name else self.text(value)
            case dict():
                made = self._with_clean_keys(value)
                todo.append((made, None if _is_schema_type(value.get("type")) else name))
                return made
            case list():
                items = list(value)
                todo.append((items, name))
                return items
            case tuple():
                return tuple(self.redact(inner, name) for inner in value)
            case _:
                return value

    def _named_text(self, value: str, name: Name) -> str:
        text = self.text(value)
        start, end = secret_part(value, name, Form.FIELD)
        if not end or text.startswith(MARK, start):
            return text
        return f"{value[:start]}{MARK}{name.kind}]{self.text(value[end:])}"

    def _with_clean_keys(self, value: dict[object, object]) -> dict[object, object]:
        made: dict[object, object] = {}
        for key, inner in value.items():
            clean = self.text(key) if isinstance(key, str) else key
            while clean in made:
                clean = f"{clean}'"
            made[clean] = inner
        return made


def _is_schema_type(kind: object) -> bool:
    return isinstance(kind, str) and kind in _SCHEMA_TYPES
