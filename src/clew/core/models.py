"""What Clew knows of a model, as data: no provider is asked and no name is special-cased."""

from msgspec import Struct

DEFAULT_WINDOW = 32_768
"""Assumed where a window is unknown: small enough that most models can hold it."""


class ModelFacts(Struct, frozen=True, kw_only=True):
    """The properties of one model that change how a session treats it."""

    name: str
    window: int = DEFAULT_WINDOW
    """Tokens that prompt and answer may fill together."""
    max_output: int = 4_096
    calls_tools: bool = True
    """False: tool schemas are not sent."""
    summarises: bool = True
    """False: its summaries are not to be trusted, so compaction goes by rules."""
    sees: bool = True
    """False: pictures are not sent; a note says that there was one."""
    known: bool = True
    """False: these are defaults for a name nobody told us about."""


class ToolSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool as a model sees it."""

    name: str
    description: str
    schema: dict[str, object]
    extra: dict[str, object] = {}
    """Fields that only some providers know, such as `strict`; sent as they are."""


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
