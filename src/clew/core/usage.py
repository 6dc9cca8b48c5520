"""What a provider says a call consumed."""

from msgspec import Struct


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of one call.

    `input_tokens` is the whole prompt; the cache counts are parts of it, not additions
    to it. Adapters translate providers that count otherwise.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def context_tokens(self) -> int:
        """What the conversation occupies once the answer is part of it."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        """Return what two calls consumed together."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
        )


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
