"""`Redactor` for documents and `StreamRedactor` for text that arrives in pieces."""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import TypeAlias
from urllib.parse import quote

import msgspec

from clew.core.redaction import scan
from clew.core.redaction.classification import (
    SecretName,
    ValueForm,
    classify_name_or_extra,
    find_secret_part,
    normalize_name,
    split_words,
)
from clew.core.redaction.marks import MARK, RedactedText

_Open: TypeAlias = tuple[dict[object, object] | list[object], SecretName | None]
"""A copy whose contents are not redacted yet, and the name that applies to them."""

_SHORTEST_VALUE = 4
_SHORTEST_ENCODED = 8
"""Bytes of a value whose base64 form is long enough to be no accident."""
_URL_SAFE = str.maketrans("+/", "-_")
_SCHEMA_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})


class Redactor:
    """Redacts texts and nested documents with the same extra names and values."""

    def __init__(self, extra_keys: Iterable[str] = (), extra_values: Iterable[str] = ()) -> None:
        named = {normalize_name(key): split_words(key) for key in extra_keys}
        self._triggers = {key: parts[0].encode() for key, parts in named.items() if parts}
        self._names = frozenset(self._triggers)
        known = [value for value in extra_values if len(value) >= _SHORTEST_VALUE]
        self._values = tuple(dict.fromkeys(form for value in known for form in _spell(value)))

    def redact(self, value: object, name: SecretName | None = None) -> object:
        """Return a copy of `value` without secrets, at any depth.

        Args:
            value: A text, or anything made of dicts, lists, tuples and scalars.
            name: The kind of secret that `value` is known to be.
        """
        if isinstance(value, str) and name is None:
            return self.text(value)
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
        """Return `text` without secrets; the same object if it has none."""
        return scan.redact_text(text, names=self._triggers, values=self._values)

    def hide(self, text: str) -> RedactedText:
        """Return `text` without secrets, and the originals behind its marks."""
        return scan.hide_secrets(text, names=self._triggers, values=self._values)

    def _name(self, key: object) -> SecretName | None:
        return classify_name_or_extra(key, self._names) if isinstance(key, str) else None

    def _pair(self, copy: dict[object, object]) -> SecretName | None:
        """Classify the value of a pair such as `{"name": "DB_PASSWORD", "value": …}`."""
        return self._name(copy.get("name")) or self._name(copy.get("key"))

    def _copy(self, value: object, name: SecretName | None, todo: list[_Open]) -> object:
        match value:
            case str():
                return self._redact_named_text(value, name) if name else self.text(value)
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

    def _redact_named_text(self, value: str, name: SecretName) -> str:
        text = self.text(value)
        start, end = find_secret_part(value, name, ValueForm.FIELD)
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


def _spell(value: str) -> Iterator[str]:
    """Yield a known secret as it is, and as it looks in JSON, URLs and base64."""
    yield value
    yield msgspec.json.encode(value)[1:-1].decode()
    yield quote(value, safe="")
    data = value.encode("utf-8", "surrogatepass")
    if len(data) < _SHORTEST_ENCODED:
        return
    for shift in range(3):
        # The first and the last sign also depend on the bytes beside the value.
        whole = b64encode(bytes(shift) + data).decode().rstrip("=")
        inner = whole[(shift * 4 + 2) // 3 : len(whole) - ((shift + len(data)) % 3 != 0)]
        yield inner
        yield inner.translate(_URL_SAFE)


def _is_schema_type(kind: object) -> bool:
    return isinstance(kind, str) and kind in _SCHEMA_TYPES


_MAX_HELD = 65_536
_MAX_TAIL = 4_096
_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY")
_NAME_WAITS = re.compile(r"""\b(?:name|key)["']?[ ]*:[ ]*["']?[\w.-]{1,80}["']?,?\s*$""")
"""A line such as `- name: DB_PASSWORD`, whose value is on the next line."""


class StreamRedactor:
    """Redacts a text piece by piece, buffering what may be the beginning of a secret.

    It returns a line when the line is complete, and a private key when its end arrived. The
    buffer holds at most 64 KiB: a longer line is split at a space, and a secret across that
    split may be missed.
    """

    def __init__(self, extra_keys: Iterable[str] = (), extra_values: Iterable[str] = ()) -> None:
        self._redactor = Redactor(extra_keys, extra_values)
        self._held = ""

    def feed(self, piece: str) -> str:
        """Add the next piece, and return the text that is ready."""
        self._held += piece
        ready = self._ready()
        done, self._held = self._held[:ready], self._held[ready:]
        return self._redactor.text(done)

    def close(self) -> str:
        """Return the rest. Do not call `feed` after this."""
        rest, self._held = self._held, ""
        return self._redactor.text(rest)

    def _ready(self) -> int:
        """Return how much of the buffer can be redacted without the next piece."""
        held, ready = self._held, self._held.rfind("\n") + 1
        if len(held) > _MAX_HELD:
            tail = len(held) - _MAX_TAIL
            return max(ready, held.rfind(" ", 0, tail) + 1 or tail)
        begin = held.rfind("-----BEGIN ", 0, ready)
        if begin >= 0 and _KEY_BEGINS.match(held, begin) and "-----END " not in held[begin:ready]:
            return begin
        last_line = held.rfind("\n", 0, max(0, ready - 1)) + 1
        return last_line if _NAME_WAITS.search(held, last_line, ready) else ready
