"""What it costs to store a conversation and to continue it, compared with other stores.

Every participant is a process of its own. They take turns, so that a busy moment of the
machine falls on all of them and not on one.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import IO

import msgspec

from benchmarks.persistence_runs import Done, Job
from benchmarks.results import Section, judge, publish
from benchmarks.spread import Spread

LENGTHS = (10, 1_000, 10_000)
REPEATS = 15
TURNS = 20
FEWER_REPEATS, FEWER_TURNS = 5, 2
"""For who writes the whole conversation at every step."""
TURN_RATIO = 1.2
RESUME_SHARE = 0.5
CLEW, ALONE, SAVER = "clew", "clew.stores", "langgraph.checkpoint.sqlite"
NAMES = {
    CLEW: "Clew, a session",
    ALONE: "Clew, every message read",
    "agents": "openai-agents `SQLiteSession`",
    SAVER: "langgraph `SqliteSaver`",
}
"""By the package that each participant needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was found of one participant at one length."""

    turn_ms: Spread
    turn_bytes: float
    resume_ms: Spread


Table = Mapping[tuple[str, int], Found]


class Worker:
    """A process that runs one participant, as `benchmarks.persistence_runs` describes."""

    def __init__(self, name: str, jobs: IO[bytes], results: IO[bytes]) -> None:
        self.name = name
        self._jobs = jobs
        self._results = results

    def do(self, job: Job) -> Done:
        """Have a job done, and wait for it."""
        self._jobs.write(msgspec.json.encode(job) + b"\n")
        self._jobs.flush()
        return msgspec.json.decode(self._results.readline(), type=Done)


@contextmanager
def worker(name: str) -> Iterator[Worker]:
    """Start the process of a participant, and end it with the block."""
    command = (sys.executable, "-m", "benchmarks.persistence_runs", name)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Worker(name, process.stdin, process.stdout)
        process.stdin.close()


def main() -> None:
    """Measure, print and write the section."""
    present = [name for name in NAMES if _installed(name)]
    found: dict[tuple[str, int], Found] = {}
    with ExitStack() as stack:
        workers = [stack.enter_context(worker(name)) for name in present]
        for length in LENGTHS:
            found |= measure(workers, length)
    section = Section(
        title="Persistence",
        command="python -m benchmarks persistence",
        columns=(
            "",
            *(f"turn, ms at {length:,}" for length in LENGTHS),
            *(f"turn, kB at {length:,}" for length in LENGTHS),
            *(f"resume, ms at {length:,}" for length in LENGTHS),
        ),
        rows=[_row(name, found) for name in NAMES],
        notes=[*verdicts(found), *_conditions()],
    )
    publish(section)


def measure(workers: Sequence[Worker], length: int) -> dict[tuple[str, int], Found]:
    """Let all participants write turns and resume at one length, each `REPEATS` times."""
    turns: dict[str, list[float]] = {one.name: [] for one in workers}
    sizes: dict[str, list[float]] = {one.name: [] for one in workers}
    resumes: dict[str, list[float]] = {one.name: [] for one in workers}
    with tempfile.TemporaryDirectory(prefix="clew-bench-") as place:
        folders = {one.name: Path(place) / one.name for one in workers}
        for one in workers:
            folders[one.name].mkdir()
            one.do(Job(folder=str(folders[one.name]), begin=length))
        for repeat in range(REPEATS + 1):
            for one in workers:
                opened = one.do(Job(folder=str(folders[one.name])))
                if repeat:
                    resumes[one.name].append(opened.seconds[0] * 1_000)
        for repeat in range(REPEATS + 1):
            for one in workers:
                if one.name == SAVER and repeat > FEWER_REPEATS:
                    continue
                count = FEWER_TURNS if one.name == SAVER else TURNS
                # Nobody should wait for what another has left to be written.
                os.sync()
                done = one.do(Job(folder=str(folders[one.name]), turns=count))
                if repeat:
                    turns[one.name].append(median(done.seconds) * 1_000)
                    sizes[one.name].append(done.written / count)
    return {
        (one.name, length): Found(
            turn_ms=Spread.of(turns[one.name]),
            turn_bytes=median(sizes[one.name]),
            resume_ms=Spread.of(resumes[one.name]),
        )
        for one in workers
    }


def verdicts(found: Table) -> list[str]:
    """Hold the measured numbers against the targets, one sentence each."""
    short, long = found[CLEW, LENGTHS[0]], found[CLEW, LENGTHS[-1]]
    times = long.turn_ms.median / short.turn_ms.median
    more = long.turn_bytes / short.turn_bytes if short.turn_bytes else 1.0
    return [
        f"target: a turn at {LENGTHS[-1]:,} messages takes at most {TURN_RATIO} times as long as "
        f"at {LENGTHS[0]}: {times:.2f} times, {judge(met=times <= TURN_RATIO)}",
        f"target: a turn writes the same at every length: {more:.2f} times as much at "
        f"{LENGTHS[-1]:,} messages as at {LENGTHS[0]}, {judge(met=more <= TURN_RATIO)}",
        _resume_verdict(found),
    ]


def _resume_verdict(found: Table) -> str:
    target = (
        f"target: to resume at {LENGTHS[-1]:,} messages takes at most {RESUME_SHARE} of the time "
        "of the fastest other"
    )
    peers = [peer for peer in NAMES if peer not in (CLEW, ALONE) and (peer, LENGTHS[-1]) in found]
    if not peers:
        return f"{target}: not compared, no other is installed"
    fastest = min(peers, key=lambda peer: found[peer, LENGTHS[-1]].resume_ms.median)
    theirs = found[fastest, LENGTHS[-1]].resume_ms.median
    share, whole = (found[name, LENGTHS[-1]].resume_ms.median / theirs for name in (CLEW, ALONE))
    return (
        f"{target}: {share:.2f} of {NAMES[fastest]}, {judge(met=share <= RESUME_SHARE)}; "
        f"{whole:.2f} where every message is read at once"
    )


def _conditions() -> list[str]:
    return [
        "a turn is a request, a call, its result of 1.5 kB and an answer, each on disk before the "
        "next; kB are what was handed to the system for writing, index and log included",
        "a session's turn also advances the view and the bill; it resumes with the view, the gauge "
        "and the lease, from a snapshot, and reads a message when it is first needed. The second "
        "row is the store without a session: it reads all of them at once, as the others do",
        f"median ± interquartile range of {REPEATS} repeats after one that does not count, taking "
        f"turns, each in one process; the turn is the median of {TURNS} in a row. langgraph wrote "
        f"{FEWER_TURNS} in a row, {FEWER_REPEATS} times. The files are in the system's cache, and "
        "each repeat opens them anew",
        "everybody flushes at every commit (`synchronous = FULL`), as SQLite does unless told",
        f"one-minute load average at the end, on {os.cpu_count()} cores: {os.getloadavg()[0]:.1f}",
    ]


def _row(name: str, found: Table) -> list[str]:
    if (name, LENGTHS[0]) not in found:
        return [NAMES[name], "absent", *[""] * (3 * len(LENGTHS) - 1)]
    here = [found[name, length] for length in LENGTHS]
    return [
        NAMES[name],
        *(_cell(one.turn_ms) for one in here),
        *(f"{one.turn_bytes / 1_000:,.1f}" for one in here),
        *(_cell(one.resume_ms) for one in here),
    ]


def _cell(spread: Spread) -> str:
    return f"{spread.median:,.2f} ± {spread.iqr:.2f}"


def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


if __name__ == "__main__":
    main()
