"""Redaction: replaces secrets in texts and documents by `[redacted:kind]`.

`redact` handles one value; a `Redactor` handles many with the same options, and a
`StreamRedactor` handles text that arrives in pieces. All are pure.

Compiling the patterns takes a while, so they are loaded with the first use.
"""

from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from clew.core.redaction.marks import RedactedText
    from clew.core.redaction.redactor import Redactor, StreamRedactor

__all__ = ["Redactor", "StreamRedactor", "hide", "redact"]

_T = TypeVar("_T")
_LAZY = frozenset({"Redactor", "StreamRedactor"})


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("clew.core.redaction.redactor"), name)


def redact(value: _T, *, extra_keys: Iterable[str] = (), extra_values: Iterable[str] = ()) -> _T:
    """Return a copy of `value` with `[redacted:kind]` in place of every secret.

    A secret is recognised by its form (such as `sk-ant-…`) or by the name beside it; the keys
    of objects are such names. Only texts change; types and structure stay, so numbers are
    never redacted. Redacting twice gives the same result as redacting once.

    Args:
        value: A text, or anything made of dicts, lists, tuples and scalars.
        extra_keys: More names of secrets, in any spelling (`api_key`, `apiKey`, `API-Key`).
        extra_values: Texts to redact everywhere, such as a key from the settings. Values of
            fewer than four characters are ignored, because they occur in any text.
    """
    extras = tuple(extra_keys), tuple(extra_values)
    return cast("_T", _redactor(*extras).redact(value))


def hide(text: str, *, extra_values: Iterable[str] = ()) -> "RedactedText":
    """Redact `text` like `redact`, and keep the originals behind its marks."""
    return _redactor((), tuple(extra_values)).hide(text)


@lru_cache(maxsize=64)
def _redactor(keys: tuple[str, ...], values: tuple[str, ...]) -> "Redactor":
    from clew.core.redaction.redactor import Redactor  # noqa: PLC0415 - compiles the patterns

    return Redactor(keys, values)
