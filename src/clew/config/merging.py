"""Putting layers together: by key, the higher one wins; guards add up.

Documents are as `clew.config.checking` returns them, so a key has the same kind of value in
every layer. Where a value may be of several kinds, it is replaced as a whole.
"""

from collections.abc import Iterator, Mapping
from typing import Any

_ADDING = frozenset(
    ("permissions", name) for name in ("allow", "ask", "deny", "additionalDirectories")
)
"""Lists of texts that grow from layer to layer."""
_WHOLE = frozenset(
    ("context", name) for name in ("strategy", "compressToolResults", "compressReasoningText")
)


def merge(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """Return both documents in one."""
    return _merged(low, high, ())


def leaves(document: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each value with the way to it; what is replaced as a whole counts as one."""
    return _leaves(document, ())


def adds_up(way: tuple[str, ...]) -> bool:
    """Say whether the list at the end of this way grows from layer to layer."""
    return way in _ADDING or way[:1] == ("hooks",)


def at(document: Mapping[str, Any], way: tuple[str, ...]) -> Any:
    """Return what is at the end of this way, or None."""
    found: Any = document
    for key in way:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def put(document: dict[str, Any], way: tuple[str, ...], value: Any) -> None:
    """Put a value at the end of this way, and make the objects that lead there."""
    for key in way[:-1]:
        document = document.setdefault(key, {})
    document[way[-1]] = value


def _merged(
    low: Mapping[str, Any], high: Mapping[str, Any], way: tuple[str, ...]
) -> dict[str, Any]:
    made = dict(low)
    for key, new in high.items():
        here = (*way, key)
        old = made.get(key)
        if isinstance(old, dict) and isinstance(new, dict) and here not in _WHOLE:
            made[key] = _merged(old, new, here)
        elif isinstance(old, list) and isinstance(new, list) and adds_up(here):
            made[key] = _joined(old, new, once=here in _ADDING)
        else:
            made[key] = new
    return made


def _joined(old: list[Any], new: list[Any], *, once: bool) -> list[Any]:
    return list(dict.fromkeys([*old, *new])) if once else [*old, *new]


def _leaves(
    document: Mapping[str, Any], way: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in document.items():
        here = (*way, key)
        if isinstance(value, dict) and value and here not in _WHOLE:
            yield from _leaves(value, here)
        else:
            yield here, value
