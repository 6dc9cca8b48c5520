"""What each context strategy would have cost on recorded sessions, and what it would have kept.

Every session is replayed call by call under each strategy (`clew simulate`), in one window
for all, so that the sessions are comparable.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from benchmarks.recordings import session_files
from benchmarks.results import Section, judge, publish
from clew.context.policy import ContextPolicy
from clew.context.strategies.tiered import Tiered
from clew.importers.reader import read_session
from clew.providers.catalogue import lookup
from clew.simulation.scenario import (
    EAGER,
    NONE,
    SCENARIOS,
    Scenario,
    SimulationRun,
    make_scenarios,
    sum_sessions,
)
from clew.simulation.simulator import simulate

WINDOW = 200_000
LONG = 100_000
"""Sessions whose context reaches this many tokens when nothing is done are long."""
WON_SHARE = 0.80
TIERED = "tiered"
EARLIER = (120_000, 80_000, 60_000, 40_000)
"""Where the default strategy is also tried to compact, in tokens."""


def main() -> None:
    """Measure, print and write the section."""
    files = session_files()
    if not files:
        print("strategies: there are no recordings; nothing was measured")
        return
    section = run(files)
    publish(section)


def run(files: Sequence[Path]) -> Section:
    """Simulate every recording, with and without the price of forgetting."""
    scenarios = list(contenders())
    paid = [runs_of(path, scenarios, lookups=True) for path in files]
    free = [runs_of(path, scenarios, lookups=False) for path in files]
    summed = list(zip(sum_sessions(paid), sum_sessions(free), strict=True))
    return Section(
        title="Strategies",
        command="python -m benchmarks strategies",
        columns=(
            *("strategy", "calls", "input, M", "uncached, M", "cost, M", "of none"),
            *("without look-ups, M", "cheapest of three on", "compactions", "clearings"),
            *("look-ups", "peak, k", "too long", "invalid", "recall, %"),
        ),
        rows=[_row(one, bare, summed[0][0], won(paid, one.strategy)) for one, bare in summed],
        notes=[*verdicts(paid), *_explanations(paid)],
    )


def contenders() -> Iterator[Scenario]:
    """Yield the strategies as they are, and the default one compacting earlier."""
    yield from make_scenarios(SCENARIOS)
    for limit in EARLIER:
        strategy = Tiered(max_tokens=limit)
        yield Scenario(name=f"tiered from {limit // 1_000}k on", strategy=strategy)


def runs_of(
    path: Path, scenarios: Sequence[Scenario], *, lookups: bool
) -> tuple[SimulationRun, ...]:
    """Replay one recording in the common window."""
    session = read_session(path)
    model = replace(lookup(session.model), window=WINDOW)
    return simulate(session, scenarios, model, lookups=lookups)


def won(sessions: Sequence[Sequence[SimulationRun]], strategy: str) -> tuple[int, int]:
    """Return on how many of the long sessions `strategy` costs less than `none` and `eager`."""
    wins = count = 0
    for runs in sessions:
        by_name = {run.strategy: run for run in runs}
        if by_name[NONE].peak_tokens < LONG:
            continue
        count += 1
        others = [by_name[name].cost for name in (NONE, EAGER) if name != strategy]
        wins += by_name[strategy].cost < min(others)
    return wins, count


def verdicts(sessions: Sequence[Sequence[SimulationRun]]) -> list[str]:
    """Hold the totals against the targets, one sentence each."""
    by_name = {run.strategy: run for run in sum_sessions(sessions)}
    tiered = by_name[TIERED].cost
    wins, count = won(sessions, TIERED)
    invalid = sum(run.invalid_requests for run in by_name.values())
    return [
        f"target: tiered costs less than none in all: {tiered / by_name[NONE].cost:.2f} of it, "
        f"{judge(tiered < by_name[NONE].cost)}",
        f"target: tiered costs less than eager in all: {tiered / by_name[EAGER].cost:.2f} of it, "
        f"{judge(tiered < by_name[EAGER].cost)}",
        f"target: tiered costs less than both on at least {WON_SHARE:.0%} of the sessions that "
        f"reach {LONG:,} tokens: {wins} of {count}, {judge(wins >= WON_SHARE * count)}",
        f"target: no invalid request under any strategy: {invalid}, {judge(invalid == 0)}",
    ]


def _explanations(sessions: Sequence[Sequence[SimulationRun]]) -> list[str]:
    prices = ContextPolicy().prices
    return [
        f"{len(sessions)} sessions, each in a window of {WINDOW:,} tokens; the recorded system "
        "prompts and tools are counted where the files have them, which most do not",
        f"cost: tokens at the plain input price, cached ones at {prices.read_price:g}, others at "
        f"{prices.write_price:g}; any beginning equal to the last request's is cached for "
        f"{prices.cold_after:.0f} s; compactions are by rules and cost no call",
        "look-ups: where the recorded agent's next calls name a file, hash or identifier that had "
        "come up and has left the view, one more call fetches it back; that is part of the cost",
        "eager clears each tool result right after the answer to it, so it rewrites only the "
        "newest step and breaks little of the cache; what it loses is what the agent still reads",
    ]


def _row(
    run: SimulationRun, free: SimulationRun, none: SimulationRun, wins: tuple[int, int]
) -> list[str]:
    return [
        run.strategy,
        f"{run.calls:,}",
        f"{run.input_tokens / 1e6:.1f}",
        f"{run.uncached_tokens / 1e6:.1f}",
        f"{run.cost / 1e6:.1f}",
        f"{run.cost / none.cost:.2f}",
        f"{free.cost / 1e6:.1f}",
        f"{wins[0]} of {wins[1]}",
        f"{run.compactions:,}",
        f"{run.clearings:,}",
        f"{run.lookups:,}",
        f"{run.peak_tokens / 1e3:.0f}",
        f"{run.oversized_requests:,}",
        f"{run.invalid_requests:,}",
        "–" if run.recall is None else f"{run.recall * 100:.0f}",
    ]


if __name__ == "__main__":
    main()
