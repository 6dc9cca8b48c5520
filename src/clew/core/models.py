"""Facts about a model, as data: window, abilities, tool specs, and how it counts tokens."""

from msgspec import Struct

DEFAULT_WINDOW = 32_768
"""Assumed for an unknown window: small enough for most models."""


class ModelFacts(Struct, frozen=True, kw_only=True):
    """The properties of one model that change how a session treats it."""

    name: str
    window: int = DEFAULT_WINDOW
    """Tokens for prompt and answer together."""
    max_output: int = 4_096
    calls_tools: bool = True
    """False: tool schemas are not sent."""
    summarises: bool = True
    """False: its summaries are unreliable, so compaction uses rules."""
    sees: bool = True
    """False: images are replaced by a note."""
    known: bool = True
    """False: these are defaults for an unknown model name."""


TOOL_SEARCH = "ToolSearch"
"""The tool that finds deferred tools. Some providers have a form of their own for its calls."""


class ToolSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The declaration of a tool, as the model sees it."""

    name: str
    description: str
    schema: dict[str, object]
    extra: dict[str, object] = {}
    """Fields for some providers only, such as `strict`; sent unchanged."""
    deferred: bool = False
    """True for a tool whose schema the model loads when it needs it; see `TOOL_SEARCH`."""


class Calibration(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a model's token count follows from the estimate in units.

    A line through the provider's last count, with the slope by which its counts grew, and through
    the smallest count below. `clew.context.calibration` learns these values and follows the line.
    """

    slope: float = 1.0
    """Tokens per additional estimated unit."""
    weight: float = 0.0
    """Units of growth from which the slope was learned."""
    units: int = 0
    """The estimate of the last counted request; zero before the first."""
    tokens: int = 0
    """The provider's count for that request."""
    doubted: bool = False
    """True after an implausible count was ignored; a second one is accepted."""
    base_units: int = 0
    """The estimate of the smallest counted request; zero if the last one is the smallest."""
    base_tokens: int = 0
    """The provider's count for that request."""

    @property
    def rate(self) -> float:
        """Tokens per unit: the slope, or less if the last count was smaller."""
        if self.units and self.slope * self.units > self.tokens:
            return self.tokens / self.units
        return self.slope

    @property
    def overhead(self) -> float:
        """Tokens of the last counted request that the estimate does not explain."""
        return max(0.0, self.tokens - self.slope * self.units)

    @property
    def smallest(self) -> tuple[int, int]:
        """Units and tokens of the smallest counted request."""
        if self.base_units:
            return self.base_units, self.base_tokens
        return self.units, self.tokens
