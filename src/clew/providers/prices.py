"""What a call costs."""

from collections.abc import Mapping

from msgspec import Struct

from clew.core.usage import Usage


class Price(Struct, frozen=True, kw_only=True):
    """US dollars per million tokens."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


def price(
    usage: Usage, *, provider: str, model: str, overrides: Mapping[str, Price] | None = None
) -> float | None:
    """Return what a call cost, or None when its price is unknown."""
    return None
