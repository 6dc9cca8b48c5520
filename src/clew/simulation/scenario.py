"""The scenarios that a simulation compares, and what it measures for each."""

from collections.abc import Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from clew.context.economy import Economy
from clew.context.plan import Budget, Plan, Strategy, Stuck
from clew.context.policy import ContextPolicy
from clew.context.strategies import STRATEGIES, make_strategy
from clew.context.view import View
from clew.core.errors import ConfigError

NONE, EAGER = "none", "eager"
TIERED = "tiered"
SCENARIOS = (NONE, EAGER, *map(str, Economy), *(name for name in STRATEGIES if name != TIERED))
"""The names of all scenarios; `tiered` is another name of `balanced`."""


class KeepEverything(Struct, frozen=True, kw_only=True):
    """A strategy that never reduces a view: the baseline for the others."""

    name: str = NONE
    clears_early: bool = False

    def due(self, view: View, *, used: int, threshold: int | None) -> bool:  # noqa: ARG002
        """Return False."""
        return False

    def target(self, window: int) -> int:
        """Return the whole window."""
        return window

    def plan(self, view: View, budget: Budget) -> Plan:  # noqa: ARG002
        """Return `Stuck`."""
        return Stuck(why="this strategy keeps everything")


class Scenario(Struct, frozen=True, kw_only=True):
    """A strategy with a policy, and a name for both."""

    name: str
    strategy: Strategy
    policy: ContextPolicy = field(default_factory=ContextPolicy)


def make_scenario(
    name: str, *, policy: ContextPolicy | None = None, max_tokens: int | None = None
) -> Scenario:
    """Return the scenario with that name.

    Besides the strategies there are the levels of `Economy` with the default strategy, `none`,
    which always sends everything, and `eager`, which clears every tool result after the next
    response and does nothing else.

    Raises:
        ConfigError: The name is unknown.
    """
    policy = policy or ContextPolicy()
    if name == NONE:
        return Scenario(name=name, strategy=KeepEverything(), policy=policy)
    if name == EAGER:
        policy = replace(policy, compress_tool_results=True)
        return Scenario(name=name, strategy=KeepEverything(name=EAGER), policy=policy)
    if name in tuple(Economy):
        tiered = make_strategy(TIERED, max_tokens=max_tokens)
        return Scenario(name=name, strategy=tiered, policy=replace(policy, economy=name))
    if name not in STRATEGIES:
        raise ConfigError(f"unknown strategy {name!r}; choose one of {', '.join(SCENARIOS)}")
    return Scenario(name=name, strategy=make_strategy(name, max_tokens=max_tokens), policy=policy)


def make_scenarios(names: Iterable[str], *, max_tokens: int | None = None) -> tuple[Scenario, ...]:
    """Return the scenarios with these names, without duplicates.

    Raises:
        ConfigError: A name is unknown.
    """
    return tuple(make_scenario(name, max_tokens=max_tokens) for name in dict.fromkeys(names))


class SimulationPoint(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request of a simulated session."""

    call: int
    """Counted from 1."""
    tokens: int
    compacted: bool = False
    """True when a compaction came directly before it."""
    cleared: bool = False
    """True when tool results were cleared directly before it."""


class SimulationRun(Struct, frozen=True, kw_only=True):
    """The result of one scenario on one session, or on several."""

    strategy: str
    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    """The input tokens that the provider reads from its cache."""
    uncached_tokens: int = 0
    cost: float = 0.0
    """Of the input, in tokens at the plain input price; the output is always the same."""
    compactions: int = 0
    clearings: int = 0
    peak_tokens: int = 0
    invalid_requests: int = 0
    """Requests that are invalid without a repair."""
    oversized_requests: int = 0
    """Requests that a session would refuse to send."""
    lookups: int = 0
    """Calls that only retrieved content that had left the view."""
    needed_names: int = 0
    """Names that the recorded agent used again after a compaction."""
    found_names: int = 0
    """Needed names that the compacted view still contained."""
    lost_names: tuple[str, ...] = ()
    """The other needed names, each once, in the order in which compactions lost them."""
    timeline: tuple[SimulationPoint, ...] = ()

    @property
    def recall(self) -> float | None:
        """The share of needed names that compactions kept; None when no name was needed."""
        return self.found_names / self.needed_names if self.needed_names else None


def sum_runs(runs: Iterable[SimulationRun]) -> SimulationRun:
    """Add up the runs of one scenario over several sessions; the peak is their maximum.

    Raises:
        ValueError: There are no runs, or they belong to different scenarios.
    """
    runs = list(runs)
    names = {run.strategy for run in runs}
    if len(names) != 1:
        raise ValueError(f"only runs of one strategy can be added up, not of {sorted(names)}")
    return SimulationRun(
        strategy=names.pop(),
        calls=sum(run.calls for run in runs),
        input_tokens=sum(run.input_tokens for run in runs),
        cached_tokens=sum(run.cached_tokens for run in runs),
        uncached_tokens=sum(run.uncached_tokens for run in runs),
        cost=sum(run.cost for run in runs),
        compactions=sum(run.compactions for run in runs),
        clearings=sum(run.clearings for run in runs),
        peak_tokens=max(run.peak_tokens for run in runs),
        invalid_requests=sum(run.invalid_requests for run in runs),
        oversized_requests=sum(run.oversized_requests for run in runs),
        lookups=sum(run.lookups for run in runs),
        needed_names=sum(run.needed_names for run in runs),
        found_names=sum(run.found_names for run in runs),
        lost_names=tuple(dict.fromkeys(name for run in runs for name in run.lost_names)),
    )


def sum_sessions(sessions: Iterable[Sequence[SimulationRun]]) -> tuple[SimulationRun, ...]:
    """Add up sessions that were simulated with the same scenarios in the same order."""
    return tuple(sum_runs(runs) for runs in zip(*sessions, strict=True))
