"""What a session has cost."""

from collections.abc import Iterable

from msgspec import Struct

from clew.core.entries import Body, Charged, Entry, MessageAdded
from clew.core.usage import Usage


class Spending(Struct, frozen=True, kw_only=True):
    """Calls, tokens and money. Nothing that was spent is ever taken back, not by an undo."""

    usd: float = 0.0
    """US dollars, as far as prices are known."""
    calls: int = 0
    unpriced: int = 0
    """Calls whose price is unknown: `usd` does not speak for them."""
    uncounted: int = 0
    """Calls that no provider counted: `usage` does not speak for them."""
    usage: Usage = Usage()

    def __add__(self, other: "Spending") -> "Spending":
        """Return both together."""
        return Spending(
            usd=self.usd + other.usd,
            calls=self.calls + other.calls,
            unpriced=self.unpriced + other.unpriced,
            uncounted=self.uncounted + other.uncounted,
            usage=self.usage + other.usage,
        )

    def with_body(self, body: Body) -> "Spending":
        """Return the spending after an entry with that body."""
        match body:
            case MessageAdded(usage=None, cost=None, uncounted=False):
                return self
            case MessageAdded(usage=usage, cost=cost) | Charged(usage=usage, cost=cost):
                return self + Spending(
                    usd=cost or 0.0,
                    calls=1,
                    unpriced=cost is None,
                    uncounted=usage is None,
                    usage=usage or Usage(),
                )
            case _:
                return self


def spending(entries: Iterable[Entry]) -> Spending:
    """Return what all of `entries` cost together."""
    total = Spending()
    for entry in entries:
        total = total.with_body(entry.body)
    return total
