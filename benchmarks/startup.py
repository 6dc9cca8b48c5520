"""How long a process takes until Clew is ready, beside bare Python and agent frameworks.

Every case is a new process of the same interpreter, in an empty folder and with an empty home.
The cases take turns, so that a busy moment of the machine falls on all of them and not on one.
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

from benchmarks.fake_model import fake_model
from benchmarks.results import Section, judge, publish

REPEATS = 15
IMPORT_LIMIT_MS = 100.0
VERSION_LIMIT_MS = 150.0
EDITOR_LIMIT_MS = 300.0
FRAMEWORK_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One process to time."""

    name: str
    command: Sequence[str]
    typed: bytes = b""
    """Standard input."""
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
SESSION = Case(
    name="`from clew import Session`", command=(PYTHON, "-c", "from clew import Session")
)
VERSION = Case(name="`clew --version`", command=(SCRIPT, "--version"))
EDITOR = Case(
    name="`clew acp`, one answer to `initialize`",
    command=(SCRIPT, "acp"),
    typed=b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n',
)
ADDRESS = "{address}"
"""Stands in a command for where the model answers."""
CASES = (
    BARE,
    CLEW,
    SESSION,
    Case(
        name="`from clew import InteractiveSession`",
        command=(PYTHON, "-c", "from clew import InteractiveSession"),
    ),
    VERSION,
    EDITOR,
    Case(name="`clew sessions list`", command=(SCRIPT, "sessions", "list")),
    Case(name="`clew config show`", command=(SCRIPT, "config", "show")),
    Case(
        name="`clew -p`, one answer of a model on loopback",
        command=(SCRIPT, "-p", "hello", "--base-url", ADDRESS),
    ),
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
        command="python -m benchmarks startup",
        columns=("process", "median ms", "IQR ms", "ms over bare Python"),
        rows=[_row(case, timings) for case in CASES],
        notes=[*verdicts(timings), *_conditions()],
    )
    publish(section)


def measure(cases: Sequence[Case]) -> dict[str, Timing]:
    """Time the cases in turn, `REPEATS` times each after one round that does not count.

    All of them share a bytecode cache of their own, which that first round fills: so no
    case pays for compiling, however its files were installed.
    """
    times: dict[str, list[float]] = {case.name: [] for case in cases}
    with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder, fake_model() as model:
        place = _Place(Path(folder), model.url(streaming=True, rounds=0))
        for turn in range(REPEATS + 1):
            for case in cases:
                taken = place.run(case)
                if turn > 0:
                    times[case.name].append(taken)
    return {name: _timing(values) for name, values in times.items()}


class _Place:
    """Where the processes run: nothing of the user's is seen or changed."""

    def __init__(self, folder: Path, address: str) -> None:
        self._address = address
        self._cwd, home = folder / "work", folder / "home"
        for made in (self._cwd, home):
            made.mkdir()
        self._environ = {
            **os.environ,
            "HOME": str(home),
            "CLEW_HOME": str(home / ".clew"),
            "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        }
        self._environ.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(self, case: Case) -> float:
        """Run a case to its end; returns the milliseconds it took."""
        command = [word.replace(ADDRESS, self._address) for word in case.command]
        start = time.perf_counter()
        subprocess.run(
            command,
            cwd=self._cwd,
            env=self._environ,
            input=case.typed,
            capture_output=True,
            check=True,
        )
        return (time.perf_counter() - start) * 1_000


def over_bare(case: Case, timings: Mapping[str, Timing]) -> float:
    """Return how many milliseconds `case` takes more than bare Python."""
    return timings[case.name].median - timings[BARE.name].median


def verdicts(timings: Mapping[str, Timing]) -> list[str]:
    """Hold the measured numbers against the targets, one sentence each."""
    clew, version = over_bare(CLEW, timings), over_bare(VERSION, timings)
    editor = timings[EDITOR.name].median
    return [
        f"target: `import clew` at most {IMPORT_LIMIT_MS:.0f} ms over bare Python: "
        f"{clew:.1f} ms, {judge(clew <= IMPORT_LIMIT_MS)}",
        *_against_frameworks(timings),
        f"target: `clew --version` within {VERSION_LIMIT_MS:.0f} ms of bare Python: "
        f"{version:.1f} ms, {judge(version <= VERSION_LIMIT_MS)}",
        f"target: `clew acp` answers an editor within {EDITOR_LIMIT_MS:.0f} ms; starting, answering"
        f" and exiting took {editor:.1f} ms, {judge(editor <= EDITOR_LIMIT_MS)}",
    ]


def _against_frameworks(timings: Mapping[str, Timing]) -> list[str]:
    target = "target: `import clew` at most a tenth of the fastest framework's agent import"
    frameworks = [case for case in CASES if case.framework and case.name in timings]
    if not frameworks:
        return [f"{target}: not measured, no framework is installed"]
    fastest = min(frameworks, key=lambda case: over_bare(case, timings))
    whole = over_bare(fastest, timings)
    clew, session = (over_bare(case, timings) / whole for case in (CLEW, SESSION))
    return [
        f"{target}, both over bare Python: {clew:.3f} of {fastest.name}, "
        f"{judge(clew <= FRAMEWORK_SHARE)}",
        "`import clew` imports each name when it is first asked for; all that a session needs "
        f"is {SESSION.name}: {session:.3f} of {fastest.name}",
    ]


def _conditions() -> list[str]:
    load = f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "unknown"
    return [
        f"{REPEATS} repeats each after one warm-up, taking turns; one new process per repeat",
        "bytecode is cached for all cases alike: the warm-up compiles, the repeats do not",
        f"one-minute load average at the end of the run: {load}",
    ]


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


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
