"""Strategies: how to choose what leaves a view that is too large.

`make_strategy` returns one by name, for settings and flags. `Custom` takes a function and has
no name here.
"""

from clew.context.plan import Strategy
from clew.context.strategies.tiered import Summarize, Tiered
from clew.core.errors import ConfigError

STRATEGIES = ("tiered", "sliding_window", "summarize", "compact")


def make_strategy(name: str, *, max_tokens: int | None = None) -> Strategy:
    """Return the strategy `name`, such as `sliding_window`, with its default options.

    Raises:
        ConfigError: There is no strategy of that name.
    """
    # Tiered is the default; a session loads another one only where it was chosen.
    match name.replace("-", "_"):
        case "tiered":
            return Tiered(max_tokens=max_tokens)
        case "sliding_window":
            from clew.context.strategies.sliding_window import SlidingWindow  # noqa: PLC0415

            return SlidingWindow()
        case "summarize":
            return Summarize(max_tokens=max_tokens)
        case "compact":
            from clew.context.strategies.compact import Compact  # noqa: PLC0415

            return Compact(max_tokens=max_tokens)
        case _:
            known = ", ".join(STRATEGIES)
            raise ConfigError(f"there is no context strategy {name!r}; use one of {known}")
