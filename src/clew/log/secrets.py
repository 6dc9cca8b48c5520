"""How a log keeps secrets out: whole values, and text that arrives in pieces."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol

from msgspec import Struct


class Stream(Protocol):
    """Takes a text piece by piece and gives it back without secrets, perhaps a little later."""

    def feed(self, piece: str) -> str:
        """Take in a piece, and return what can be judged by now."""
        ...

    def close(self) -> str:
        """Return the rest."""
        ...


class Redaction(Struct, frozen=True, kw_only=True):
    """What is done to everything before it reaches the disk."""

    value: Callable[[Any], Any]
    stream: Callable[[], Stream]

    @classmethod
    def standard(
        cls, *, extra_keys: Iterable[str] = (), extra_values: Iterable[str] = ()
    ) -> "Redaction":
        """Redact what looks like a secret or is named like one; see `clew.core.redaction`."""
        # Imported here because its patterns take a while to compile.
        from clew.core.redaction import Redactor, StreamRedactor  # noqa: PLC0415

        keys, values = tuple(extra_keys), tuple(extra_values)
        return cls(
            value=Redactor(keys, values).redact,
            stream=partial(StreamRedactor, extra_keys=keys, extra_values=values),
        )

    @classmethod
    def none(cls) -> "Redaction":
        """Change nothing."""
        return cls(value=_same, stream=_Through)


class _Through:
    def feed(self, piece: str) -> str:
        return piece

    def close(self) -> str:
        return ""


def _same(value: Any) -> Any:
    return value
