"""`clew simulate`: what each context strategy would have cost and kept on recorded sessions."""

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.cli.paint import painter
from clew.core.errors import ConfigError, UnknownModel
from clew.core.models import ModelFacts
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
from clew.simulation.simulator import simulate

_SUFFIXES = (".jsonl", ".jsonl.gz")
_CELLS = 30
_MOST_NOTES = 12
_COLUMNS = (
    *("strategy", "calls", "input", "cached", "uncached", "cost", "of none", "compactions"),
    *("clearings", "look-ups", "peak", "invalid", "too long", "recall"),
)
_LEGEND = (
    "cost: input tokens at the plain price, with cached ones at {read:g} and others at {write:g}; "
    "look-ups: calls to see again what had left the view; too long: requests that a session would "
    "not send; recall: names needed after a compaction that it left in view"
)


class Simulated(Struct, frozen=True, kw_only=True):
    """One file and what came of it."""

    file: str
    session: RecordedSession
    model: ModelFacts
    runs: tuple[SimulationRun, ...]
    """The first is always `none`."""


def run_simulate(arguments: Namespace) -> int:
    """Replay the recordings and print what came of it; 1 when none could be read.

    Raises:
        ConfigError: A strategy, model or file name cannot be used; nothing was simulated.
    """
    chosen = tuple(dict.fromkeys(arguments.strategy or SCENARIOS))
    task = _task(arguments, chosen)
    picture = _picture(arguments.chart)
    done: list[Simulated] = []
    skipped: dict[str, str] = {}
    files = list(_files(arguments.files, skipped))
    with _Progress(total=len(files) * len(task.scenarios)) as progress:
        for path in files:
            try:
                done.append(_simulated(path, task, progress))
            except ConfigError as error:
                skipped[str(path)] = str(error)
                progress.pass_over(len(task.scenarios))
    _complain(done, skipped)
    if not done:
        return 1
    if picture is not None:
        _draw(picture, done, chosen)
    if arguments.json:
        print(msgspec.json.encode(_as_data(done, skipped, chosen)).decode())
    else:
        _print_tables(done, chosen, task.scenarios[0], verbose=arguments.verbose)
    return 0


class _Task(Struct, frozen=True, kw_only=True):
    """What to do with every file."""

    scenarios: tuple[Scenario, ...]
    model: ModelFacts | None
    """None for the one that was recorded."""
    window: int | None
    lookups: bool


def _task(arguments: Namespace, chosen: Sequence[str]) -> _Task:
    return _Task(
        scenarios=make_scenarios((NONE, *chosen), max_tokens=arguments.max_tokens),
        model=_facts(arguments.model, arguments.window) if arguments.model else None,
        window=arguments.window,
        lookups=arguments.lookups,
    )


def _simulated(path: Path, task: _Task, progress: "_Progress") -> Simulated:
    session = read_session(path)
    progress.name = path.name
    model = task.model or _facts(session.model, task.window, must_be_known=False)
    runs = simulate(session, task.scenarios, model, lookups=task.lookups, report=progress.advance)
    return Simulated(file=str(path), session=session, model=model, runs=runs)


def _facts(name: str, window: int | None, *, must_be_known: bool = True) -> ModelFacts:
    facts = lookup(name)
    if window is not None:
        return replace(facts, window=window, known=True)
    if must_be_known and not facts.known:
        raise UnknownModel(f"Clew does not know the model {name!r}; say its window with --window")
    return facts


def _picture(name: str | None) -> Path | None:
    if name is None:
        return None
    if not name.lower().endswith(".svg"):
        raise ConfigError(f"the chart is drawn as SVG only: {name!r} should end in .svg")
    return Path(name)


def _files(names: Iterable[str], skipped: dict[str, str]) -> Iterator[Path]:
    """Yield each file once; of a folder, the recordings in it and below."""
    seen: set[Path] = set()
    for name in names:
        path = Path(name)
        inside = [path]
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.name.endswith(_SUFFIXES))
            if not inside:
                skipped[name] = f"{name} has no {' or '.join(_SUFFIXES)} files in it"
        for found in inside:
            if found.resolve() not in seen:
                seen.add(found.resolve())
                yield found


def _complain(done: Sequence[Simulated], skipped: dict[str, str]) -> None:
    for why in skipped.values():
        print(f"clew: skipped: {why}", file=sys.stderr)
    for one in done:
        if not one.model.known:
            what = f"the model {one.model.name!r}" if one.model.name else "a model without a name"
            print(
                f"clew: {one.file}: {what} is not known; its window is taken as "
                f"{one.model.window:,} tokens (--model or --window say otherwise)",
                file=sys.stderr,
            )
    notes = Counter(problem for one in done for problem in one.session.problems)
    for note, count in notes.most_common(_MOST_NOTES):
        times = f" (in {count} files)" if count > 1 else ""
        print(f"clew: note: {note}{times}", file=sys.stderr)
    if len(notes) > _MOST_NOTES:
        more = len(notes) - _MOST_NOTES
        print(f"clew: and {more} more notes on the files; --json has them all", file=sys.stderr)


def _draw(path: Path, done: Sequence[Simulated], chosen: Sequence[str]) -> None:
    """Draw the session with the most calls."""
    longest = max(done, key=lambda one: one.runs[0].calls)
    title = f"{Path(longest.file).name}: context under each strategy"
    if len(done) > 1:
        title += f" (the longest of {len(done)} sessions)"
    text = draw_chart(_shown(longest.runs, chosen), title=title, window=longest.model.window)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"the chart cannot be written to {path}: {error.strerror}") from error
    print(f"clew: the chart of {longest.file} is in {path}", file=sys.stderr)


def _print_tables(
    done: Sequence[Simulated], chosen: Sequence[str], way: Scenario, *, verbose: bool
) -> None:
    paint = painter()
    if verbose or len(done) == 1:
        for one in done:
            model = f"{one.model.name or 'unknown model'}, window {one.model.window:,}"
            print(paint(f"{one.file} ({one.session.source}, {model})", "bold"))
            print(*_table(one.runs, chosen), "", sep="\n")
    if len(done) > 1:
        print(paint(f"all {len(done)} sessions", "bold"))
        print(*_table(sum_sessions(one.runs for one in done), chosen), "", sep="\n")
    economy = way.policy.economy
    print(paint(_LEGEND.format(read=economy.read_price, write=economy.write_price), "dim"))


def _table(runs: Sequence[SimulationRun], chosen: Sequence[str]) -> list[str]:
    rows = [_COLUMNS, *(_cells(run, runs[0]) for run in _shown(runs, chosen))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def _cells(run: SimulationRun, none: SimulationRun) -> tuple[str, ...]:
    share = _share(run, none)
    counts = (run.calls, run.input_tokens, run.cached_tokens, run.uncached_tokens, round(run.cost))
    events = (run.compactions, run.clearings, run.lookups, run.peak_tokens)
    faults = (run.invalid_requests, run.oversized_requests)
    return (
        run.strategy,
        *(f"{count:,}" for count in counts),
        "–" if share is None else f"{share:.1%}",
        *(f"{count:,}" for count in (*events, *faults)),
        "–" if run.recall is None else f"{run.recall:.1%}",
    )


def _shown(runs: Sequence[SimulationRun], chosen: Sequence[str]) -> list[SimulationRun]:
    by_name = {run.strategy: run for run in runs}
    return [by_name[name] for name in chosen]


def _share(run: SimulationRun, none: SimulationRun) -> float | None:
    return run.cost / none.cost if none.cost else None


def _as_data(
    done: Sequence[Simulated], skipped: dict[str, str], chosen: Sequence[str]
) -> dict[str, object]:
    return {
        "sessions": [
            {
                "file": one.file,
                "source": one.session.source,
                "model": one.model.name,
                "window": one.model.window,
                "problems": one.session.problems,
                "runs": _runs_data(one.runs, chosen),
            }
            for one in done
        ],
        "totals": _runs_data(sum_sessions(one.runs for one in done), chosen),
        "skipped": [{"file": file, "why": why} for file, why in skipped.items()],
    }


def _runs_data(runs: Sequence[SimulationRun], chosen: Sequence[str]) -> list[dict[str, object]]:
    return [
        {
            **msgspec.structs.asdict(run),
            "recall": run.recall,
            "cost_of_none": _share(run, runs[0]),
        }
        for run in _shown(runs, chosen)
    ]


class _Progress:
    """A bar on standard error, if that is a terminal; gone when the work is done."""

    def __init__(self, *, total: int) -> None:
        self.name = ""
        self._total = max(1, total)
        self._done = 0
        self._live = sys.stderr.isatty()

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def advance(self, strategy: str) -> None:
        """Count one session under one strategy."""
        self._done += 1
        if self._live:
            filled = self._done * _CELLS // self._total
            bar = "█" * filled + "░" * (_CELLS - filled)
            text = f"[{bar}] {self._done}/{self._total} {self.name[:40]} {strategy}"
            print(f"\r\x1b[K{text[:100]}", end="", file=sys.stderr, flush=True)

    def pass_over(self, count: int) -> None:
        """Count what will not be done."""
        self._done += count
