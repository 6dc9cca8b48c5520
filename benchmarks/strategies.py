"""What each context strategy would have cost on recorded sessions, and what it would have kept.

Every session is replayed call by call under each strategy (`clew simulate`), in one window
for all, so that the sessions are comparable.
"""

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from benchmarks.cost_chart import Point, draw_points
from benchmarks.recordings import session_files
from benchmarks.results import Section, judge, publish
from benchmarks.view_quality import EVERY, ViewQuality, sum_qualities
from clew.context.economy import Economy
from clew.context.policy import ContextPolicy
from clew.importers.reader import read_session
from clew.providers.catalogue import lookup
from clew.simulation.recall import ANSWERS_AHEAD
from clew.simulation.scenario import (
    EAGER,
    NONE,
    SCENARIOS,
    Scenario,
    SimulationRun,
    make_scenarios,
    sum_sessions,
)
from clew.simulation.simulator import replayable_steps, simulate

WINDOW = 200_000
LONG = 100_000
"""Sessions whose context reaches this many tokens when nothing is done are long."""
WON_SHARE = 0.80
QUALITY_EVERY = 4
"""One in this many sessions is replayed again to measure what stays in view."""
CHART = Path(__file__).parents[1] / "docs" / "economy.svg"


def main() -> None:
    """Measure, print and write the section and the chart."""
    files = session_files()
    if not files:
        print("strategies: there are no recordings; nothing was measured")
        return
    section, points = run(files)
    publish(section)
    CHART.write_text(draw_points(points), encoding="utf-8")


def run(files: Sequence[Path]) -> tuple[Section, list[Point]]:
    """Simulate every recording, and measure on some of them what the model still sees."""
    scenarios = make_scenarios(SCENARIOS)
    paid = [runs_of(path, scenarios) for path in files]
    sampled = files[::QUALITY_EVERY]
    seen = sum_qualities([quality_of(path, scenarios) for path in sampled])
    summed = sum_sessions(paid)
    none = summed[0]
    points = [
        Point(name=one.strategy, cost=one.cost / none.cost, quality=seen[one.strategy][0])
        for one in summed
        if one.strategy in (NONE, EAGER, *Economy)
    ]
    section = Section(
        title="Strategies",
        command="python -m benchmarks strategies",
        columns=(
            *("strategy", "calls", "input, M", "uncached, M", "cost, M", "of none"),
            *("cheapest of three on", "identifiers", "lines", "compactions", "clearings"),
            *("look-ups", "peak, k", "too long", "invalid", "recall, %"),
        ),
        rows=[_row(one, none, won(paid, one.strategy), seen[one.strategy]) for one in summed],
        notes=[*verdicts(paid), *_explanations(paid, len(sampled))],
    )
    return section, points


def runs_of(path: Path, scenarios: Sequence[Scenario]) -> tuple[SimulationRun, ...]:
    """Replay one recording in the common window, with the price of forgetting."""
    session = read_session(path)
    return simulate(session, scenarios, replace(lookup(session.model), window=WINDOW))


def quality_of(path: Path, scenarios: Sequence[Scenario]) -> ViewQuality:
    """Replay one recording without look-ups and score the views before its calls."""
    session = read_session(path)
    quality = ViewQuality([step.message for step in replayable_steps(session)])
    model = replace(lookup(session.model), window=WINDOW)
    simulate(session, scenarios, model, lookups=False, observe=quality)
    return quality


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
    none, eager = by_name[NONE].cost, by_name[EAGER].cost
    balanced, lean = by_name[Economy.BALANCED].cost, by_name[Economy.LEAN].cost
    wins, count = won(sessions, Economy.LEAN)
    invalid = sum(run.invalid_requests for run in by_name.values())
    return [
        f"target: lean costs less than none and eager on at least {WON_SHARE:.0%} of the sessions "
        f"that reach {LONG:,} tokens: {wins} of {count}, {judge(wins >= WON_SHARE * count)}",
        f"target: lean costs less than eager in all: {lean / eager:.2f} of it, "
        f"{judge(lean < eager)}",
        f"target: balanced costs less than none in all: {balanced / none:.2f} of it, "
        f"{judge(balanced < none)}",
        f"target: no invalid request under any strategy: {invalid}, {judge(invalid == 0)}",
    ]


def _explanations(sessions: Sequence[Sequence[SimulationRun]], sampled: int) -> list[str]:
    prices = ContextPolicy().prices
    return [
        f"{len(sessions)} sessions, each in a window of {WINDOW:,} tokens; the recorded system "
        "prompts and tools are counted where the files have them, which most do not",
        f"cost: tokens at the plain input price, cached ones at {prices.read_price:g}, others at "
        f"{prices.write_price:g}; any beginning equal to the last request's is cached for "
        f"{prices.cold_after:.0f} s; compactions are by rules and cost no call",
        "look-ups: if the recorded agent's next calls use a file, hash or identifier that has left "
        "the view, one more call fetches it back; that is part of the cost",
        "identifiers and lines: the share that the view contains of the earlier content that the "
        f"tool calls of the next {ANSWERS_AHEAD} answers use again; measured before one in {EVERY} "
        f"calls of {sampled} sessions",
        "eager clears each tool result right after the answer to it, so it rewrites only the "
        "newest step and breaks little of the cache; what it loses is what the agent still reads",
    ]


def _row(
    run: SimulationRun, none: SimulationRun, wins: tuple[int, int], seen: tuple[float, float]
) -> list[str]:
    return [
        run.strategy,
        f"{run.calls:,}",
        f"{run.input_tokens / 1e6:.1f}",
        f"{run.uncached_tokens / 1e6:.1f}",
        f"{run.cost / 1e6:.1f}",
        f"{run.cost / none.cost:.2f}",
        f"{wins[0]} of {wins[1]}",
        f"{seen[0]:.2f}",
        f"{seen[1]:.2f}",
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
