"""What tracing costs a turn: OpenTelemetry not installed, installed, imported, and in use.

Every round runs all cases, so each has as many pairs with the first case as there are rounds. What
counts is the middle of the ratios of the pairs, with an interval that resampling gives: a case is
cheap if the whole interval is. The number of function calls has no noise; it shows where code runs.
"""

import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from statistics import median, quantiles

import msgspec

from benchmarks.results import Section, judge, publish

TOOLS = ("Read", "Bash")
"""One that runs in the process, and one that starts a program, which gets `TRACEPARENT`."""
ROUNDS = 500
LIMIT = 1.05
MORE_CALLS = 10
ABSENT, UNUSED = "not installed", "installed"
IDLE, MEMORY = "imported by the program, not set up", "spans and metrics in memory"
CASES = (ABSENT, UNUSED, IDLE, MEMORY)
_RESAMPLES = 2_000


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What one process has measured, by case."""

    times: dict[str, list[float]]
    """Milliseconds of processor time of a turn, one number for each round."""
    calls: dict[str, int]
    """Function calls of a turn."""


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """How much longer a case takes, and between which numbers that lies with 95 %."""

    middle: float
    low: float
    high: float


def main() -> None:
    """Measure, print and write the section."""
    publish(make_section({tool: _measure(tool) for tool in TOOLS}))


def compare(times: Sequence[float], base: Sequence[float]) -> Ratio:
    """Return the ratio of two cases whose times were taken in the same rounds."""
    ratios = [one / other for one, other in zip(times, base, strict=True)]
    chance = random.Random(1)
    middles = [median(chance.choices(ratios, k=len(ratios))) for _ in range(_RESAMPLES)]
    edges = quantiles(middles, n=40, method="inclusive")
    return Ratio(middle=median(ratios), low=edges[0], high=edges[-1])


def make_section(found: Mapping[str, Measured]) -> Section:
    """Return the table of all cases."""
    ratios = {
        (case, tool): compare(one.times[case], one.times[ABSENT])
        for tool, one in found.items()
        for case in CASES
    }
    untraced = [ratios[case, tool] for case in (UNUSED, IDLE) for tool in found]
    most = max(one.high for one in untraced)
    more = max(
        one.calls[case] - one.calls[ABSENT] for case in (UNUSED, IDLE) for one in found.values()
    )
    return Section(
        title="Telemetry",
        command="python -m benchmarks telemetry",
        columns=(
            "OpenTelemetry",
            *(text for tool in found for text in (f"ms, {tool}", "ratio", "95 %", "calls")),
        ),
        rows=[
            (case, *(cell for tool in found for cell in _write_cells(case, tool, found, ratios)))
            for case in CASES
        ],
        notes=[
            f"target: at most {LIMIT:g} of the time where it is not set up, with 95 % certainty: "
            f"at most {most:.3f}, {judge(most <= LIMIT)}",
            f"target: at most {MORE_CALLS} calls more there: "
            f"{more} more, {judge(more <= MORE_CALLS)}",
            f"{ROUNDS} rounds in one process, each with one turn of every case in random order; a"
            " turn calls the model twice and one tool; processor time of the process itself,"
            " without garbage collection; the ratio is the median over the rounds",
            "calls: functions of Clew and OpenTelemetry that a turn calls in the thread of the"
            " event loop, and those that they call",
        ],
    )


def _write_cells(
    case: str,
    tool: str,
    found: Mapping[str, Measured],
    ratios: Mapping[tuple[str, str], Ratio],
) -> tuple[str, str, str, str]:
    one, ratio = found[tool], ratios[case, tool]
    return (
        f"{median(one.times[case]):.2f}",
        f"{ratio.middle:.3f}",
        f"{ratio.low:.3f}-{ratio.high:.3f}",
        f"{one.calls[case]:,}",
    )


def _measure(tool: str) -> Measured:
    command = [sys.executable, "-m", "benchmarks.telemetry_runs", tool, str(ROUNDS)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    return msgspec.json.decode(done.stdout, type=Measured)
