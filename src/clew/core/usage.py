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
