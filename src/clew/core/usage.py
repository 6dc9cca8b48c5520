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
