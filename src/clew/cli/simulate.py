"""`clew simulate`: what each context strategy would have cost and kept on recorded sessions."""

from argparse import Namespace
from collections import Counter
from collections.abc import Sequence

from clew.cli.blind_test import check_chart, run_ask
from clew.cli.paint import ProgressBar, align_columns
from clew.cli.streams import print_json, print_line, write_err
from clew.core.errors import ConfigError
from clew.sdk.simulation import (
    SCENARIOS,
    SimulatedSession,
    SimulationOptions,
    SimulationReport,
    SimulationRun,
    compare_cost,
    draw_longest,
    find_recordings,
    simulate_file,
)

_MAX_NOTES = 12
_COLUMNS = (
    *("strategy", "calls", "input", "cached", "uncached", "cost", "of none", "compactions"),
    *("clearings", "look-ups", "peak", "invalid", "too long", "recall"),
)
_LEGEND = """\
cost      input tokens at the plain price; cached ones count {read:g}, others {write:g}
look-ups  calls that retrieve what left the view
too long  requests over the window, which a session would not send
recall    share of the names needed after a compaction that stayed in view"""


def run_simulate(arguments: Namespace) -> int:
    """Simulate the recordings and print the results; returns 1 when none could be read.

    Raises:
        ConfigError: A strategy, model or file name is wrong; nothing was simulated.
    """
    if arguments.ask is not None:
        return run_ask(arguments)
    _check_unused(arguments)
    options = SimulationOptions.of(
        arguments.strategy or SCENARIOS,
        model=arguments.model or "",
        window=arguments.window,
        max_tokens=arguments.max_tokens,
        lookups=arguments.lookups,
    )
    chart = check_chart(arguments.chart)
    report = _simulate(options, arguments.files)
    _write_notes(report)
    if not report.sessions:
        return 1
    if chart is not None:
        drawn = draw_longest(report, chart)
        write_err(f"wrote the chart of {drawn} to {chart}")
    if arguments.json:
        print_json(report.to_data())
    else:
        _print_tables(report, verbose=arguments.verbose)
    return 0


def _simulate(options: SimulationOptions, names: Sequence[str]) -> SimulationReport:
    files, skipped = find_recordings(names)
    done: list[SimulatedSession] = []
    with ProgressBar() as bar:
        progress = _Progress(bar, total=len(files) * len(options.scenarios))
        for path in files:
            progress.name = path.name
            try:
                done.append(simulate_file(path, options, on_scenario=progress.advance))
            except ConfigError as error:
                skipped[str(path)] = str(error)
                progress.skip(len(options.scenarios))
    return SimulationReport(options=options, sessions=tuple(done), skipped=skipped)


def _check_unused(arguments: Namespace) -> None:
    for name in ("questions", "points", "views", "ask_window", "out", "yes"):
        if getattr(arguments, name):
            raise ConfigError(f"--{name.replace('_', '-')} needs --ask MODEL")


def _write_notes(report: SimulationReport) -> None:
    for why in report.skipped.values():
        write_err(f"skipped: {why}")
    for one in report.sessions:
        if not one.model.known:
            model = f"unknown model {one.model.name!r}" if one.model.name else "no model recorded"
            write_err(
                f"{one.file}: {model}; assuming a window of {one.model.window:,} tokens "
                "(change it with --model or --window)"
            )
    notes = Counter(problem for one in report.sessions for problem in one.session.problems)
    for note, count in notes.most_common(_MAX_NOTES):
        times = f" (in {count} files)" if count > 1 else ""
        write_err(f"note: {note}{times}")
    if len(notes) > _MAX_NOTES:
        more = len(notes) - _MAX_NOTES
        write_err(f"{more} more notes; --json shows all of them")


def _print_tables(report: SimulationReport, *, verbose: bool) -> None:
    sessions, options = report.sessions, report.options
    if verbose or len(sessions) == 1:
        for one in sessions:
            model = f"{one.model.name or 'unknown model'}, window {one.model.window:,}"
            print_line(f"{one.file} ({one.session.source}, {model})", "bold")
            print_line("\n".join([*_format_table(one.runs, options), ""]))
    if len(sessions) > 1:
        print_line(f"all {len(sessions)} sessions", "bold")
        print_line("\n".join([*_format_table(report.totals(), options), ""]))
    read, write = options.prices
    print_line(_LEGEND.format(read=read, write=write), "dim")


def _format_table(runs: Sequence[SimulationRun], options: SimulationOptions) -> list[str]:
    return align_columns([_COLUMNS, *(_cells(run, runs[0]) for run in options.select(runs))])


def _cells(run: SimulationRun, none: SimulationRun) -> tuple[str, ...]:
    share = compare_cost(run, none)
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


class _Progress:
    """Counts sessions under strategies, and shows how many are done."""

    def __init__(self, bar: ProgressBar, *, total: int) -> None:
        self.name = ""
        self._bar, self._total = bar, total
        self._done = 0

    def advance(self, strategy: str) -> None:
        """Count one session under one strategy."""
        self._done += 1
        self._bar.show(self._done, self._total, f"{self.name[:40]} {strategy}")

    def skip(self, count: int) -> None:
        """Count scenarios that are skipped."""
        self._done += count
