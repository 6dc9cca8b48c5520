"""Tokens and money: `Usage` of one call, `Spending` of a session."""

from msgspec import UNSET, Struct, UnsetType


class Usage(Struct, frozen=True, gc=False, kw_only=True):
    """Tokens of one call, as the provider counted them.

    `input_tokens` is the whole prompt and includes the cache counts. Adapters convert the
    numbers of providers that count differently.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int | UnsetType = UNSET
    """Those of `cache_write_tokens` that are kept for an hour, which costs more.

    It is not stored where there are none, so that older journals keep their bytes.
    """

    @property
    def hourly_write_tokens(self) -> int:
        """The cache writes that are kept for an hour."""
        return self.cache_write_1h_tokens or 0

    @property
    def context_tokens(self) -> int:
        """Tokens of the conversation including the answer."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        """Return the sum of two calls."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            cache_write_1h_tokens=(self.hourly_write_tokens + other.hourly_write_tokens) or UNSET,
        )

    def __sub__(self, other: "Usage") -> "Usage":
        """Return what was added since an earlier sum."""
        return Usage(
            input_tokens=self.input_tokens - other.input_tokens,
            output_tokens=self.output_tokens - other.output_tokens,
            cache_read_tokens=self.cache_read_tokens - other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens - other.cache_write_tokens,
            cache_write_1h_tokens=(self.hourly_write_tokens - other.hourly_write_tokens) or UNSET,
        )


class Spending(Struct, frozen=True, gc=False, kw_only=True):
    """Calls, tokens and money spent by a session. An undo does not reduce it."""

    usd: float = 0.0
    """US dollars of all calls with a known price."""
    calls: int = 0
    unpriced: int = 0
    """Calls with an unknown price, which `usd` does not include."""
    uncounted: int = 0
    """Calls without a token count, which `usage` does not include."""
    usage: Usage = Usage()

    def __add__(self, other: "Spending") -> "Spending":
        """Return the sum."""
        return Spending(
            usd=self.usd + other.usd,
            calls=self.calls + other.calls,
            unpriced=self.unpriced + other.unpriced,
            uncounted=self.uncounted + other.uncounted,
            usage=self.usage + other.usage,
        )

    def __sub__(self, other: "Spending") -> "Spending":
        """Return what was spent since an earlier reading."""
        return Spending(
            usd=self.usd - other.usd,
            calls=self.calls - other.calls,
            unpriced=self.unpriced - other.unpriced,
            uncounted=self.uncounted - other.uncounted,
            usage=self.usage - other.usage,
        )
