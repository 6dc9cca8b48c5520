"""Keeping secrets out of what is written down.

`redact` cleans a text or a document; a `Redactor` does so many times with the same settings, and
a `StreamRedactor` cleans text that arrives in pieces. What is found is replaced by
`[redacted:kind]`. Nothing here reads or writes anything.

The patterns take a while to compile, so they are loaded when the first text is cleaned.
"""

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from clew.core.redaction.redactor import Redactor, StreamRedactor

__all__ = ["Redactor", "StreamRedactor", "redact"]

_T = TypeVar("_T")
_LATER = {
    "Redactor": "clew.core.redaction.redactor",
    "StreamRedactor": "clew.core.redaction.redactor",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)


def redact(value: _T, *, extra_keys: Iterable[str] = (), extra_values: Iterable[str] = ()) -> _T:
    """Return `value` with every secret in it replaced by `[redacted:kind]`.

    Texts are searched for what looks like a secret and for what stands beside a secret's name;
    in objects the keys are such names. Types and structure stay as they are: only texts change,
    so a number is never hidden. What was redacted once is not changed by a second time. The
    argument is left alone.

    Args:
        value: A text, or anything made of dicts, lists, tuples and scalars.
        extra_keys: Further names of secrets, written in any style.
        extra_values: Texts to hide wherever they stand, such as a key from the settings. Those
            below four characters are passed over: they would tear any text to pieces.
    """
    from clew.core.redaction.redactor import Redactor  # noqa: PLC0415 - compiles the patterns

    return cast("_T", Redactor(extra_keys, extra_values).redact(value))
