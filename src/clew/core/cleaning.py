"""Making text fit for disk and wire.

File names and broken streams can carry half characters (lone surrogates), which neither UTF-8
nor JSON has. They are replaced by the sign for an unreadable character, so that one odd name
cannot break a session.
"""

from typing import TypeVar

import msgspec

_T = TypeVar("_T", bound=msgspec.Struct)


def clean_text(text: str) -> str:
    """Return `text` without lone surrogates; the same object when there are none."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def clean(value: _T) -> _T:
    """Return `value` with every text in it clean; the same object when all are."""
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.convert(_clean(msgspec.to_builtins(value)), type(value))
    return value


def _clean(value: object) -> object:
    match value:
        case str():
            return clean_text(value)
        case dict():
            return {_clean(key): _clean(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_clean(inner) for inner in value]
        case _:
            return value
