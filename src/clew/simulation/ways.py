"""The ways of treating a context that a simulation compares."""

from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from clew.context.plan import Budget, Plan, Strategy, Stuck
from clew.context.policy import ContextPolicy
from clew.context.strategies import STRATEGIES, make_strategy
from clew.context.view import View
from clew.core.errors import ConfigError

NONE, EAGER = "none", "eager"
WAYS = (NONE, EAGER, *STRATEGIES)
"""Every name that `way_named` knows."""


class Untouched(Struct, frozen=True, kw_only=True):
    """Never makes a view smaller: what the others are measured against."""

    name: str = NONE
    clears_early: bool = False

    def due(self, view: View, *, used: int, threshold: int | None) -> bool:  # noqa: ARG002
        """Never due."""
        return False

    def target(self, window: int) -> int:
        """Return the whole window."""
        return window

    def plan(self, view: View, budget: Budget) -> Plan:  # noqa: ARG002
        """Refuse."""
        return Stuck(why="this strategy keeps everything")


class Way(Struct, frozen=True, kw_only=True):
    """A strategy under a policy, and what to call the two together."""

    name: str
    strategy: Strategy
    policy: ContextPolicy = field(default_factory=ContextPolicy)


def way_named(
    name: str, *, policy: ContextPolicy | None = None, max_tokens: int | None = None
) -> Way:
    """Return the way of that name.

    Besides the strategies there are `none`, which sends everything whatever the window, and
    `eager`, which clears every tool result as soon as it is answered and does nothing else.

    Raises:
        ConfigError: There is no such way.
    """
    policy = policy or ContextPolicy()
    if name == NONE:
        return Way(name=name, strategy=Untouched(), policy=policy)
    if name == EAGER:
        policy = replace(policy, compress_tool_results=True)
        return Way(name=name, strategy=Untouched(name=EAGER), policy=policy)
    if name not in STRATEGIES:
        raise ConfigError(f"there is no strategy {name!r} to simulate; there are {', '.join(WAYS)}")
    return Way(name=name, strategy=make_strategy(name, max_tokens=max_tokens), policy=policy)


def ways_named(names: Iterable[str], *, max_tokens: int | None = None) -> tuple[Way, ...]:
    """Return the ways of these names, each once, in their order.

    Raises:
        ConfigError: One of them is not known.
    """
    return tuple(way_named(name, max_tokens=max_tokens) for name in dict.fromkeys(names))
