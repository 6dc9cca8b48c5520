"""Simulate context strategies on recorded sessions: what each would have cost and kept.

No model is called; `clew.sdk.blind_test` asks one what it still knows. Recordings are sessions of
Clew, Claude Code, Codex, Gemini CLI or pi.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.core.entries import Entry
from clew.core.errors import ConfigError, UnknownModel
from clew.core.models import ModelFacts
from clew.importers.clew_jsonl import record_entries
from clew.importers.reader import read_session
from clew.importers.recorded_session import RecordedSession
from clew.providers.catalogue import lookup
from clew.simulation.chart import draw_chart
from clew.simulation.scenario import (
    NONE,
    SCENARIOS,
    Scenario,
    SimulationRun,
    make_scenarios,
    sum_sessions,
)
from clew.simulation.simulator import Observer, simulate

__all__ = [
    "SCENARIOS",
    "SimulatedSession",
    "SimulationOptions",
    "SimulationReport",
    "SimulationRun",
    "compare_cost",
    "draw_longest",
    "find_recordings",
    "simulate_file",
    "simulate_journal",
    "write_chart",
]

_SUFFIXES = (".jsonl", ".jsonl.gz")


class SimulatedSession(Struct, frozen=True, kw_only=True):
    """A recording, and its run under each scenario."""

    file: str
    session: RecordedSession
    model: ModelFacts
    runs: tuple[SimulationRun, ...]
    """The first is always `none`."""


class SimulationOptions(Struct, frozen=True, kw_only=True):
    """What to simulate with every recording."""

    strategies: tuple[str, ...]
    """The scenarios to report, in this order."""
    scenarios: tuple[Scenario, ...]
    """The scenarios to run: `none`, then `strategies`."""
    model: ModelFacts | None
    """None for the recorded model."""
    window: int | None
    lookups: bool

    @classmethod
    def of(
        cls,
        strategies: Iterable[str] = SCENARIOS,
        *,
        model: str = "",
        window: int | None = None,
        max_tokens: int | None = None,
        lookups: bool = True,
    ) -> "SimulationOptions":
        """Return the options for these arguments.

        Args:
            strategies: Names of scenarios.
            model: Use the limits of this model; the recorded one by default.
            window: Use this context window in tokens.
            max_tokens: Compact at this many tokens, if that is below the threshold.
            lookups: Charge for the calls that look up what left the view.

        Raises:
            ConfigError: A strategy or the model is unknown.
        """
        names = tuple(dict.fromkeys(strategies))
        return cls(
            strategies=names,
            scenarios=make_scenarios((NONE, *names), max_tokens=max_tokens),
            model=_model_facts(model, window) if model else None,
            window=window,
            lookups=lookups,
        )

    @property
    def prices(self) -> tuple[float, float]:
        """The prices of cached and of other input tokens, relative to the plain price."""
        prices = self.scenarios[0].policy.prices
        return prices.read_price, prices.write_price

    def find_model(self, session: RecordedSession) -> ModelFacts:
        """Return the model whose limits apply to a recording."""
        return self.model or _model_facts(session.model, self.window, must_be_known=False)

    def select(self, runs: Sequence[SimulationRun]) -> list[SimulationRun]:
        """Return the runs of `strategies`, in their order."""
        by_name = {run.strategy: run for run in runs}
        return [by_name[name] for name in self.strategies]


class SimulationReport(Struct, frozen=True, kw_only=True):
    """The results for all recordings."""

    options: SimulationOptions
    sessions: tuple[SimulatedSession, ...]
    skipped: dict[str, str]
    """Recordings that could not be read, with the reason."""

    def totals(self) -> tuple[SimulationRun, ...]:
        """Return the sum of all sessions for each scenario; the first is `none`."""
        return sum_sessions(one.runs for one in self.sessions)

    def to_data(self) -> dict[str, Any]:
        """Return the report as data for JSON."""
        return {
            "sessions": [
                {
                    "file": one.file,
                    "source": one.session.source,
                    "model": one.model.name,
                    "window": one.model.window,
                    "problems": one.session.problems,
                    "runs": self._run_data(one.runs),
                }
                for one in self.sessions
            ],
            "totals": self._run_data(self.totals()),
            "skipped": [{"file": file, "why": why} for file, why in self.skipped.items()],
        }

    def _run_data(self, runs: Sequence[SimulationRun]) -> list[dict[str, Any]]:
        return [
            {
                **msgspec.structs.asdict(run),
                "recall": run.recall,
                "cost_of_none": compare_cost(run, runs[0]),
            }
            for run in self.options.select(runs)
        ]


def find_recordings(names: Iterable[str]) -> tuple[list[Path], dict[str, str]]:
    """Return each file once, and the reasons why names were skipped.

    The recordings of a folder are all `.jsonl` and `.jsonl.gz` files in it and below.
    """
    found: dict[str, Path] = {}
    skipped: dict[str, str] = {}
    for name in names:
        path = Path(name)
        inside = [path]
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.name.endswith(_SUFFIXES))
            if not inside:
                skipped[name] = f"{name} contains no {' or '.join(_SUFFIXES)} files"
        for file in inside:
            found.setdefault(os.path.realpath(file), file)
    return list(found.values()), skipped


def simulate_file(
    path: Path, options: SimulationOptions, *, on_scenario: Callable[[str], None] | None = None
) -> SimulatedSession:
    """Run one recording under each scenario.

    Args:
        path: The recording.
        options: What to simulate.
        on_scenario: Called with the name of each scenario that is done.

    Raises:
        ConfigError: The file cannot be read, or has no session.
    """
    session = read_session(path)
    model = options.find_model(session)
    runs = simulate(session, options.scenarios, model, lookups=options.lookups, report=on_scenario)
    return SimulatedSession(file=str(path), session=session, model=model, runs=runs)


def simulate_journal(
    entries: Sequence[Entry],
    model: ModelFacts,
    options: SimulationOptions,
    *,
    observe: Observer | None = None,
) -> SimulatedSession:
    """Run the conversation of a journal under each scenario, with the limits of `model`.

    Args:
        entries: The journal.
        model: The model of the session; `options.window` replaces its window.
        options: What to simulate.
        observe: Called before each recorded call.
    """
    session = record_entries(entries)
    facts = model if options.window is None else replace(model, window=options.window)
    runs = simulate(session, options.scenarios, facts, lookups=options.lookups, observe=observe)
    return SimulatedSession(file="", session=session, model=facts, runs=runs)


def compare_cost(run: SimulationRun, none: SimulationRun) -> float | None:
    """Return the cost of a run relative to that of `none`; None if that one cost nothing."""
    return run.cost / none.cost if none.cost else None


def draw_longest(report: SimulationReport, path: Path) -> str:
    """Draw the session with the most calls as SVG; returns the name of its file.

    Raises:
        ConfigError: The chart cannot be written.
    """
    longest = max(report.sessions, key=lambda one: one.runs[0].calls)
    title = f"{Path(longest.file).name}: context under each strategy"
    if len(report.sessions) > 1:
        title += f" (the longest of {len(report.sessions)} sessions)"
    runs = report.options.select(longest.runs)
    write_chart(draw_chart(runs, title=title, window=longest.model.window), path)
    return longest.file


def write_chart(text: str, path: Path) -> None:
    """Write an SVG.

    Raises:
        ConfigError: The file cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write the chart to {path}: {error.strerror}") from error


def _model_facts(name: str, window: int | None, *, must_be_known: bool = True) -> ModelFacts:
    facts = lookup(name)
    if window is not None:
        return replace(facts, window=window, known=True)
    if must_be_known and not facts.known:
        raise UnknownModel(f"unknown model {name!r}; set its context window with --window")
    return facts
