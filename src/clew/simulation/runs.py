"""What a simulation finds out, as values."""

from collections.abc import Iterable, Sequence

from msgspec import Struct


class Point(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request of a simulated session."""

    call: int
    """Counted from 1."""
    tokens: int
    compacted: bool = False
    """True when a compaction came just before it."""


class Run(Struct, frozen=True, kw_only=True):
    """A recorded session, or several, under one strategy."""

    strategy: str
    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    """The part of the input that the provider still had from the request before."""
    uncached_tokens: int = 0
    cost: float = 0.0
    """Of the input, in tokens at the plain input price; the output is the same for all."""
    compactions: int = 0
    clearings: int = 0
    peak_tokens: int = 0
    invalid_requests: int = 0
    """Requests that a provider would reject, or that only a repair kept valid."""
    oversized_requests: int = 0
    """Requests above the share of the window from which a session sends nothing."""
    lookups: int = 0
    """Calls that only looked up again what had left the view."""
    needed_names: int = 0
    """Identifiers that the recorded agent used again after a compaction."""
    found_names: int = 0
    """Those of them that the compacted view still held."""
    timeline: tuple[Point, ...] = ()

    @property
    def recall(self) -> float | None:
        """Share of the needed names that compactions left in view; None where none was needed."""
        return self.found_names / self.needed_names if self.needed_names else None


def total(runs: Iterable[Run]) -> Run:
    """Add up the runs of one strategy over several sessions; the peak is the highest of them.

    Raises:
        ValueError: There are no runs, or they are of different strategies.
    """
    runs = list(runs)
    names = {run.strategy for run in runs}
    if len(names) != 1:
        raise ValueError(f"runs of one strategy can be added up, not of {sorted(names)}")
    return Run(
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
    )


def totals(sessions: Iterable[Sequence[Run]]) -> tuple[Run, ...]:
    """Add up sessions that were each simulated under the same strategies, in the same order."""
    return tuple(total(runs) for runs in zip(*sessions, strict=True))
