"""Strategies by name, for settings and flags."""

from clew.context.plan import Strategy
from clew.context.strategies.compact import Compact
from clew.context.strategies.sliding_window import SlidingWindow
from clew.context.strategies.tiered import Summarize, Tiered
from clew.core.errors import ConfigError

STRATEGIES = ("tiered", "sliding_window", "summarize", "compact")


def make_strategy(name: str, *, max_tokens: int | None = None) -> Strategy:
    """Return the strategy of that name, with its defaults.

    Raises:
        ConfigError: There is no such strategy.
    """
    match name:
        case "tiered":
            return Tiered(max_tokens=max_tokens)
        case "sliding_window":
            return SlidingWindow()
        case "summarize":
            return Summarize(max_tokens=max_tokens)
        case "compact":
            return Compact(max_tokens=max_tokens)
        case _:
            known = ", ".join(STRATEGIES)
            raise ConfigError(f"there is no context strategy {name!r}; there are {known}")
