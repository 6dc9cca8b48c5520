"""How long a process takes until Clew is ready, beside bare Python and agent frameworks.

Every case is a new process of the same interpreter. The cases take turns, so that a busy
moment of the machine falls on all of them and not on one.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from benchmarks.results import Section, write

REPEATS = 15
IMPORT_LIMIT_MS = 100.0
VERSION_LIMIT_MS = 150.0
FRAMEWORK_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One process to time."""

    name: str
    command: Sequence[str]
    package: str = ""
    """The package it needs, if it may be absent."""
    framework: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The milliseconds of one case, over all repeats."""

    median: float
    spread: float
    """The interquartile range."""


PYTHON = sys.executable
SCRIPT = str(Path(PYTHON).with_name("clew"))
BARE = Case(name="bare Python", command=(PYTHON, "-c", "pass"))
CLEW = Case(name="`import clew`", command=(PYTHON, "-c", "import clew"))
VERSION = Case(name="`clew --version`", command=(SCRIPT, "--version"))
CASES = (
    BARE,
    CLEW,
    VERSION,
    Case(name="`import aiohttp`", command=(PYTHON, "-c", "import aiohttp"), package="aiohttp"),
    Case(
        name="`from pydantic_ai import Agent`",
        command=(PYTHON, "-c", "from pydantic_ai import Agent"),
        package="pydantic_ai",
        framework=True,
    ),
    Case(
        name="`from agents import Agent` (openai-agents)",
        command=(PYTHON, "-c", "from agents import Agent"),
        package="agents",
        framework=True,
    ),
)


def main() -> None:
    """Measure, print and write the section."""
    present = [case for case in CASES if not case.package or _installed(case.package)]
    timings = measure(present)
    section = Section(
        title="Startup",
        command="python -m benchmarks.startup",
        columns=("process", "median ms", "IQR ms", "ms over bare Python"),
        rows=[_row(case, timings) for case in CASES],
        notes=[*verdicts(timings), *_conditions()],
    )
    write(section)
    print(*(" | ".join(row) for row in section.rows), *section.notes, sep="\n")


def measure(cases: Sequence[Case]) -> dict[str, Timing]:
    """Time the cases in turn, `REPEATS` times each after one round that does not count.

    All of them share a bytecode cache of their own, which that first round fills: so no
    case pays for compiling, however its files were installed.
    """
    times: dict[str, list[float]] = {case.name: [] for case in cases}
    with tempfile.TemporaryDirectory(prefix="clew-bench-") as cache:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for turn in range(REPEATS + 1):
            for case in cases:
                taken = _run(case, environment)
                if turn > 0:
                    times[case.name].append(taken)
    return {name: _timing(values) for name, values in times.items()}


def over_bare(case: Case, timings: Mapping[str, Timing]) -> float:
    """Return how many milliseconds `case` takes more than bare Python."""
    return timings[case.name].median - timings[BARE.name].median


def verdicts(timings: Mapping[str, Timing]) -> list[str]:
    """Hold the measured numbers against the targets, one sentence each."""
    clew, version = over_bare(CLEW, timings), over_bare(VERSION, timings)
    return [
        f"target: `import clew` at most {IMPORT_LIMIT_MS:.0f} ms over bare Python: "
        f"{clew:.1f} ms, {_verdict(clew, IMPORT_LIMIT_MS)}",
        _against_frameworks(clew, timings),
        f"target: `clew --version` within {VERSION_LIMIT_MS:.0f} ms of bare Python: "
        f"{version:.1f} ms, {_verdict(version, VERSION_LIMIT_MS)}",
    ]


def _against_frameworks(clew: float, timings: Mapping[str, Timing]) -> str:
    target = "target: `import clew` at most a tenth of the fastest framework's agent import"
    frameworks = [case for case in CASES if case.framework and case.name in timings]
    if not frameworks:
        return f"{target}: not measured, no framework is installed"
    fastest = min(frameworks, key=lambda case: over_bare(case, timings))
    ratio = clew / over_bare(fastest, timings)
    return (
        f"{target}, both over bare Python: {ratio:.3f} of {fastest.name}, "
        f"{_verdict(ratio, FRAMEWORK_SHARE)}"
    )


def _verdict(measured: float, limit: float) -> str:
    return "met" if measured <= limit else "**missed**"


def _conditions() -> list[str]:
    load = f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "unknown"
    return [
        f"{REPEATS} repeats each after one warm-up, taking turns; one new process per repeat",
        "bytecode is cached for all cases alike: the warm-up compiles, the repeats do not",
        f"one-minute load average at the end of the run: {load}",
    ]


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _run(case: Case, environment: Mapping[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(case.command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - start) * 1_000


def _timing(values: Sequence[float]) -> Timing:
    low, _, high = quantiles(values, n=4, method="inclusive")
    return Timing(median=median(values), spread=high - low)


def _row(case: Case, timings: Mapping[str, Timing]) -> list[str]:
    if case.name not in timings:
        return [case.name, "absent", "", ""]
    timing = timings[case.name]
    extra = "" if case is BARE else f"{over_bare(case, timings):.1f}"
    return [case.name, f"{timing.median:.1f}", f"{timing.spread:.1f}", extra]


if __name__ == "__main__":
    main()
