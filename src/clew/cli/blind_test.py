"""`clew simulate --ask`: what a model can still answer from compacted views of a session."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import anyio

from clew.cli.environment import own_environment
from clew.cli.paint import ProgressBar, align_columns, make_painter
from clew.cli.streams import print_json, write_err, write_out
from clew.core.errors import BudgetReached, ConfigError, ProviderError
from clew.core.sanitize import sanitize, sanitize_line
from clew.core.text import pluralize
from clew.sdk.blind_test import (
    KINDS,
    POINTS,
    QUESTIONS,
    VIEWS,
    BlindReport,
    BlindScores,
    BlindTest,
    BlindTestOptions,
    CostEstimate,
    TestProgress,
    ViewScore,
    draw_report,
    open_blind_test,
)
from clew.sdk.folders import working_folder
from clew.sdk.session_spec import SessionSpec
from clew.sdk.simulation import SimulationOptions, write_chart
from clew.tui.signals import ending_signals, exit_code

_MAX_NOTES = 12
_WORTH_SAYING = 0.95
"""A smaller share of the price than this is worth a second number."""
_MAX_NOTE = 300
_LEGEND = """\
score       mean grade: 1 right, 0.5 right in part, 0 wrong or not in the view; then by kind of
            question, with the number of questions of that kind
tokens      mean size of the view
unanswered  replies without an answer, and answers without a grade, that are not in the score"""


def run_ask(arguments: Namespace) -> int:
    """Test the sessions with a model; returns 1 when the test was not completed.

    Raises:
        ConfigError: An option is wrong, or the model cannot be used; nothing was asked.
    """
    _check_unused(arguments)
    chart = check_chart(arguments.chart)
    options = BlindTestOptions(
        questions=arguments.questions or QUESTIONS,
        points=arguments.points or POINTS,
        views=tuple(_split(arguments.views)) if arguments.views is not None else VIEWS,
        simulation=SimulationOptions.of(
            model=arguments.model or "", window=arguments.window, lookups=False
        ),
        model_window=arguments.ask_window,
        out=Path(arguments.out) if arguments.out else None,
        budget_usd=arguments.budget,
    )
    return anyio.run(_ask, arguments, options, chart)


def check_chart(name: str | None) -> Path | None:
    """Return the path of a chart.

    Raises:
        ConfigError: It is not an SVG file.
    """
    if name is not None and not name.lower().endswith(".svg"):
        raise ConfigError(f"--chart writes SVG only: {name!r} must end in .svg")
    return None if name is None else Path(name)


async def _ask(arguments: Namespace, options: BlindTestOptions, chart: Path | None) -> int:
    spec = SessionSpec(
        cwd=str(working_folder()),
        provider=arguments.provider or "",
        base_url=arguments.base_url or "",
        model=arguments.ask,
        port=arguments.port,
    )
    async with open_blind_test(
        arguments.files, spec, options, environ=own_environment(arguments)
    ) as test:
        report = test.report()
        for why in report.skipped.values():
            write_err(f"skipped: {why}")
        if not report.sessions:
            return 1
        cost = test.estimate_cost()
        _show_cost(test, report, cost)
        known = frozenset(report.scores.problems)
        _write_problems(report.scores.problems)
        if cost.calls and not arguments.yes and not await _is_confirmed():
            return 1
        code = await _run(test)
        if code > 1:
            return code
        is_complete, report = code == 0, test.report()
        if is_complete and not report.scores.questions:
            write_err(f"{report.model} wrote no question that can be used; try a larger model")
        if chart is not None:
            write_chart(draw_report(report), chart)
            write_err(f"wrote the chart to {chart}")
        if arguments.json:
            print_json(report.to_data())
        else:
            _print_report(report, verbose=arguments.verbose)
            _write_problems([one for one in report.scores.problems if one not in known])
        return 0 if is_complete and report.scores.views else 1


def _check_unused(arguments: Namespace) -> None:
    given = {
        "--strategy": arguments.strategy,
        "--max-tokens": arguments.max_tokens,
        "--no-lookups": not arguments.lookups,
    }
    for name, value in given.items():
        if value:
            raise ConfigError(f"{name} has no effect with --ask; leave it out")


def _split(names: str) -> Sequence[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _show_cost(test: BlindTest, report: BlindReport, cost: CostEstimate) -> None:
    cases = sum(len(one.cases) for one in report.sessions)
    sessions = pluralize(len(report.sessions), "session")
    model = sanitize_line(report.model, 80)
    assumed = "" if test.model.known else " (assumed; change it with --ask-window)"
    write_err(
        f"{model} on {report.provider}, window {test.model.window:,}{assumed}: "
        f"{pluralize(cases, 'compaction')} of {sessions}"
    )
    if report.done:
        write_err(f"{report.done:,} of {report.total:,} replies are kept from an earlier run")
    if cost.calls:
        write_err(
            f"about {pluralize(cost.calls, 'call')}, {cost.input_tokens:,} tokens in,"
            f" {cost.output_tokens:,} out; cost: {_format_cost(cost)}"
        )


def _format_cost(cost: CostEstimate) -> str:
    if cost.usd is None:
        return "unknown (Clew has no price for this model)"
    text = f"${cost.usd:,.2f}"
    if cost.cached_usd is not None and cost.cached_usd < cost.usd * _WORTH_SAYING:
        text += f", or ${cost.cached_usd:,.2f} if the provider caches prompts"
    return text


async def _is_confirmed() -> bool:
    if not sys.stdin.isatty():
        write_err("nothing was asked; add --yes to begin without a question")
        return False
    print("Begin? [y/N] ", end="", file=sys.stderr, flush=True)
    # Unlike a blocking read, this wait can be interrupted.
    await anyio.wait_readable(sys.stdin)
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    write_err("nothing was asked")
    return False


async def _run(test: BlindTest) -> int:
    """Run the test and return the exit code; if it stops early, say how to continue."""
    stopped, code = "", 1
    with ProgressBar() as bar:

        def show(progress: TestProgress) -> None:
            bar.show(progress.done, progress.total, progress.doing)

        async with anyio.create_task_group() as tasks:
            received: list[int] = []
            tasks.start_soon(_stop_on_signal, tasks.cancel_scope, received)
            try:
                await test.run(show)
                code = 0
            except (ProviderError, BudgetReached) as error:
                stopped = str(error)
            except anyio.get_cancelled_exc_class():
                _explain_stop(test, "ended by a signal" if received else "interrupted")
                raise
            finally:
                tasks.cancel_scope.cancel()
    if stopped:
        _explain_stop(test, stopped)
    return exit_code(received[0]) if received else code


async def _stop_on_signal(scope: anyio.CancelScope, received: list[int]) -> None:
    """Cancel the test on a signal that ends the program."""
    with anyio.open_signal_receiver(*ending_signals()) as signals:
        async for number in signals:
            received.append(number)
            scope.cancel()


def _explain_stop(test: BlindTest, why: str) -> None:
    progress = test.count_progress()
    files = ", ".join(map(str, test.files))
    write_err(why)
    write_err(
        f"{progress.done:,} of {progress.total:,} replies are kept in {files};"
        " continue with the same command"
    )


def _print_report(report: BlindReport, *, verbose: bool) -> None:
    paint = make_painter()
    for one in report.sessions:
        if verbose or len(report.sessions) == 1:
            places = ", ".join(f"{case.at:,}" for case in one.cases)
            kind = "recorded" if one.cases[0].is_recorded else "simulated"
            heading = f"{one.name} ({one.source}, {kind} compactions after message {places})"
            write_out(paint(sanitize(heading), "bold") + "\n")
            write_out("".join(f"{line}\n" for line in [*_format_table(one.scores), ""]))
        if one.damaged_lines:
            lines = pluralize(one.damaged_lines, "damaged line")
            write_err(f"ignored {lines} of {one.replies}")
    if len(report.sessions) > 1:
        write_out(paint(f"all {len(report.sessions)} sessions", "bold") + "\n")
        write_out("".join(f"{line}\n" for line in [*_format_table(report.scores), ""]))
    write_out(paint(_LEGEND, "dim") + "\n")
    write_out(_format_spending(report) + "\n")


def _format_table(scores: BlindScores) -> list[str]:
    if not scores.views:
        return ["no answers yet" if scores.questions else "no questions yet"]
    counts = {
        kind: max(view.kinds[kind].questions if kind in view.kinds else 0 for view in scores.views)
        for kind in KINDS
    }
    kinds = [f"{kind} ({count})" for kind, count in counts.items()]
    columns = ("view", "tokens", "questions", "score", *kinds, "look-ups", "unanswered", "ungraded")
    return align_columns([columns, *map(_cells, scores.views)])


def _cells(view: ViewScore) -> tuple[str, ...]:
    by_kind = (view.kinds.get(kind) for kind in KINDS)
    return (
        view.view,
        f"{view.tokens:,}",
        f"{view.questions:,}",
        _format_score(view.score),
        *(_format_score(one.score if one else None) for one in by_kind),
        f"{view.lookups_per_question:.1f}" if view.lookups_per_question else "–",
        f"{view.unanswered:,}",
        f"{view.ungraded:,}",
    )


def _format_score(score: float | None) -> str:
    return "–" if score is None else f"{score:.2f}"


def _format_spending(report: BlindReport) -> str:
    spent = report.scores.spent
    cost = "cost unknown" if spent.unpriced else f"${spent.usd:,.2f}"
    usage = spent.usage
    return (
        f"spent       {pluralize(spent.calls, 'call')}, {usage.input_tokens:,} tokens in"
        f" ({usage.cache_read_tokens:,} cached), {usage.output_tokens:,} out, {cost}"
    )


def _write_problems(problems: Sequence[str]) -> None:
    for problem in problems[:_MAX_NOTES]:
        write_err(f"note: {sanitize_line(problem, _MAX_NOTE)}")
    if len(problems) > _MAX_NOTES:
        write_err(f"{len(problems) - _MAX_NOTES} more notes; --json shows all of them")
