"""What a session has learned about how one model counts."""

from msgspec import Struct


class Calibration(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line through what the provider counted: `overhead + rate * units` tokens.

    The slope comes from how the count grew with the conversation, the height from the last
    count. `clew.context.calibration` learns it; this is only its data.
    """

    slope: float = 1.0
    """Tokens that one more estimated unit adds."""
    weight: float = 0.0
    """Units of growth that stand behind the slope."""
    units: int = 0
    """The estimate of the last request that was counted; zero before the first."""
    tokens: int = 0
    """What the provider counted for that request."""
    doubted: bool = False
    """True after a count that did not fit and was left out; a second one is believed."""

    @property
    def rate(self) -> float:
        """Tokens per unit: the slope, or less where the last count leaves no room for it."""
        if self.units and self.slope * self.units > self.tokens:
            return self.tokens / self.units
        return self.slope

    @property
    def overhead(self) -> float:
        """Tokens of every request that no estimate sees, such as a provider's own preamble."""
        return max(0.0, self.tokens - self.slope * self.units)
