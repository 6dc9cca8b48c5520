"""What tracing costs a turn: OpenTelemetry not installed, installed, imported, and in use.

Each case runs in processes of its own; they take turns, so that a busy moment of the machine falls
on all of them. What counts is the processor's time, because the model is scripted.
"""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks.results import Section, judge, publish

TURNS = 60
TOOLS = ("Read", "Glob")
"""One that runs in the process, and one that starts a program, which gets `TRACEPARENT`."""
REPEATS = 7
LIMIT = 1.05
ABSENT, UNUSED = "not installed", "installed"
IDLE, MEMORY = "imported by the program, not set up", "spans and metrics in memory"
CASES = (ABSENT, UNUSED, IDLE, MEMORY)


def main() -> None:
    """Measure, print and write the section."""
    times: dict[tuple[str, str], list[float]] = {
        (case, tool): [] for tool in TOOLS for case in CASES
    }
    for turn in range(REPEATS + 1):
        for (case, tool), found in times.items():
            taken = _time_process(case, tool)
            if turn > 0:
                found.append(taken)
    publish(make_section(times))


def make_section(times: Mapping[tuple[str, str], Sequence[float]]) -> Section:
    """Return the table of the milliseconds of each case."""
    middle = {place: median(found) for place, found in times.items()}
    ratios = {(case, tool): middle[case, tool] / middle[ABSENT, tool] for case, tool in times}
    idle = [ratios[case, tool] for case in (UNUSED, IDLE) for tool in TOOLS]
    spread = max((max(found) - min(found)) / median(found) for found in times.values())
    return Section(
        title="Telemetry",
        command="python -m benchmarks telemetry",
        columns=("OpenTelemetry", *(text for tool in TOOLS for text in (f"ms, {tool}", "ratio"))),
        rows=[
            (
                case,
                *(
                    text
                    for tool in TOOLS
                    for text in (f"{middle[case, tool]:.2f}", f"{ratios[case, tool]:.3f}")
                ),
            )
            for case in CASES
        ],
        notes=[
            f"target: at most {LIMIT:g} of the time where it is not set up: "
            f"{max(idle):.3f} at most, {judge(max(idle) <= LIMIT)}",
            f"repeats of one case differ by up to {spread:.0%}: smaller differences say nothing",
            f"{REPEATS} processes of {TURNS} turns each after one that does not count; a turn calls"
            " the model twice and one tool; processor time of the process itself",
        ],
    )


def _time_process(case: str, tool: str) -> float:
    command = [sys.executable, "-m", "benchmarks.telemetry_runs", case, tool, str(TURNS)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    return float(done.stdout)
