"""What a session costs beside the model: alone in a long conversation, and among 500.

The model is a fake on loopback in a process of its own. Every participant runs in a process
of its own too, so that none is slowed down by what another has imported, and they take
turns, so that a busy moment of the machine falls on all of them.
"""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median
from typing import IO, TypeAlias

import msgspec

from benchmarks.fake_model import FakeModel, fake_model
from benchmarks.overhead_runs import Done, Job
from benchmarks.results import Section, judge, publish
from benchmarks.spread import Spread

LENGTHS = (10, 1_000, 10_000)
ROUNDS = 50
FEWER_ROUNDS = {1_000: 10, 10_000: 3}
"""For the peers, whose rounds take seconds where the conversation is long."""
REPEATS, PEER_REPEATS = 5, 3
SESSIONS, SESSION_ROUNDS = 500, 5

EXTRA_LIMIT_MS = 0.4
RATIO_LIMIT = 1.5
LEAST_PER_SECOND = 880
LEAST_SHARE = 0.5
"""Of the requests a second of aiohttp alone."""
TIMES_BEST_PEER = 10

CLEW, AIOHTTP, CLIENT = "clew", "aiohttp", "openai"
NAMES = {
    AIOHTTP: "aiohttp and `json` alone",
    CLEW: "Clew",
    CLIENT: "openai (the client alone)",
    "pydantic_ai": "pydantic-ai",
    "agents": "openai-agents",
    "langchain": "langgraph",
}
"""By the package that each participant needs."""
FRAMEWORKS = ("pydantic_ai", "agents", "langchain")
COMMAND = "python -m benchmarks overhead"

Place: TypeAlias = tuple[str, int, bool]
"""Who, how many messages, and whether answers are streamed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """How one participant fared with many sessions at once."""

    per_second: Spread
    peak_bytes: float
    cpu_ms: float


class Worker:
    """A process that runs one participant, as `benchmarks.overhead_runs` describes."""

    def __init__(self, jobs: IO[bytes], results: IO[bytes]) -> None:
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
    command = (sys.executable, "-m", "benchmarks.overhead_runs", name)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Worker(process.stdin, process.stdout)
        process.stdin.close()


def main() -> None:
    """Measure, print and write both sections."""
    present = [name for name in NAMES if importlib.util.find_spec(name) is not None]
    with fake_model() as model:
        for section in (rounds_section(model, present), crowd_section(model, present)):
            publish(section)


def rounds_section(model: FakeModel, present: Sequence[str]) -> Section:
    """Time the rounds of one session in conversations of several lengths."""
    times: dict[Place, Spread] = {}
    sizes: dict[int, list[float]] = {length: [] for length in LENGTHS}
    with ExitStack() as stack:
        workers = {name: stack.enter_context(worker(name)) for name in present}
        for length in LENGTHS:
            for streaming in (True, False):
                found = _take_turns(model, workers, length, streaming=streaming, sizes=sizes)
                times |= {(name, length, streaming): ms for name, ms in found.items()}
    columns = [(length, streaming) for length in LENGTHS for streaming in (True, False)]
    return Section(
        title="Overhead of a round",
        command=COMMAND,
        columns=("ms per round", *(f"{n:,} {'streamed' if s else 'whole'}" for n, s in columns)),
        rows=[
            [NAMES[name], *(_cell(times, (name, *column)) for column in columns)] for name in NAMES
        ],
        notes=[*round_verdicts(times), *_round_notes(sizes)],
    )


def _take_turns(
    model: FakeModel,
    workers: Mapping[str, Worker],
    length: int,
    *,
    streaming: bool,
    sizes: Mapping[int, list[float]],
) -> dict[str, Spread]:
    """Return the milliseconds per round of each participant, after a turn that does not count."""
    times: dict[str, list[float]] = {name: [] for name in workers}
    for turn in range(REPEATS + 1):
        for name, process in workers.items():
            peer = name not in {CLEW, AIOHTTP}
            if peer and turn > PEER_REPEATS:
                continue
            rounds = FEWER_ROUNDS.get(length, ROUNDS) if peer else ROUNDS
            url = model.url(streaming=streaming, rounds=rounds if turn else 1)
            done = process.do(Job(url=url, streaming=streaming, messages=length))
            tally = model.tally()
            if turn:
                times[name].append(done.seconds * 1_000 / tally.requests)
                sizes[length].append(tally.bytes / tally.requests)
    return {name: Spread.of(values) for name, values in times.items()}


def round_verdicts(times: Mapping[Place, Spread]) -> list[str]:
    """Hold the measured rounds against the targets, one sentence each."""
    extra = max(
        times[CLEW, 10, streaming].median - times[AIOHTTP, 10, streaming].median
        for streaming in (True, False)
    )
    found = [
        f"target: at 10 messages at most {EXTRA_LIMIT_MS} ms more than aiohttp alone: "
        f"{extra:.2f} ms, {judge(met=extra <= EXTRA_LIMIT_MS)}"
    ]
    for length in LENGTHS[1:]:
        ratio = max(
            times[CLEW, length, streaming].median / times[AIOHTTP, length, streaming].median
            for streaming in (True, False)
        )
        found.append(
            f"target: at {length:,} messages at most {RATIO_LIMIT} times aiohttp alone: "
            f"{ratio:.2f}, {judge(met=ratio <= RATIO_LIMIT)}"
        )
    return found


def _round_notes(sizes: Mapping[int, Sequence[float]]) -> list[str]:
    bodies = "; ".join(
        f"{min(found) / 1_000:,.0f} to {max(found) / 1_000:,.0f} kB at {length:,}"
        for length, found in sizes.items()
    )
    fewer = " and ".join(f"{rounds} at {length:,}" for length, rounds in FEWER_ROUNDS.items())
    return [
        "median ± interquartile range; in brackets, how many times aiohttp alone",
        f"a round is a request, its answer and the call of a tool that does nothing; {ROUNDS} "
        f"rounds and the words that end them, {REPEATS} repeats; for the peers {fewer}, and "
        f"{PEER_REPEATS} repeats; one warm-up each",
        f"average size of a request, over all participants: {bodies}",
        "a run begins with the conversation in memory as the participant's own objects, and "
        "with no connection and nothing encoded yet",
        "aiohttp alone keeps a list, encodes it with `json` and reads the answer; it checks, "
        "measures and records nothing",
        _load(),
    ]


def crowd_section(model: FakeModel, present: Sequence[str]) -> Section:
    """Count the requests a second of many sessions in one process."""
    crowds = _crowds(model, present)
    bare = crowds[AIOHTTP].per_second.median
    return Section(
        title="Many sessions at once",
        command=COMMAND,
        columns=(
            *("participant", "requests a second", "of aiohttp alone"),
            *("ms of CPU a request", "peak memory, MB more"),
        ),
        rows=[_crowd_row(NAMES[name], crowds.get(name), bare) for name in NAMES],
        notes=[
            *crowd_verdicts(crowds),
            f"{SESSIONS} sessions of {SESSION_ROUNDS} streamed rounds and the words that end "
            f"them, begun at once with a prompt and no history, sharing one provider or client",
            f"median ± interquartile range of {PEER_REPEATS} runs, each in a new process after "
            "a run of one session; making the sessions counts",
            _load(),
        ],
    )


def _crowds(model: FakeModel, present: Sequence[str]) -> dict[str, Crowd]:
    found: dict[str, list[tuple[Done, int]]] = {name: [] for name in present}
    url = model.url(streaming=True, rounds=SESSION_ROUNDS)
    for _ in range(PEER_REPEATS):
        for name in present:
            with worker(name) as process:
                process.do(Job(url=url, streaming=True))
                model.tally()
                done = process.do(Job(url=url, streaming=True, sessions=SESSIONS))
                found[name].append((done, model.tally().requests))
    return {name: _crowd(runs) for name, runs in found.items()}


def _crowd(runs: Sequence[tuple[Done, int]]) -> Crowd:
    return Crowd(
        per_second=Spread.of([requests / done.seconds for done, requests in runs]),
        peak_bytes=median(done.peak_growth for done, _ in runs),
        cpu_ms=median(done.cpu_seconds * 1_000 / requests for done, requests in runs),
    )


def crowd_verdicts(crowds: Mapping[str, Crowd]) -> list[str]:
    """Hold the requests a second against the targets and the peers, one sentence each."""
    clew = crowds[CLEW].per_second.median
    found = [
        f"target: at least {LEAST_PER_SECOND} requests a second: {clew:,.0f}, "
        f"{judge(met=clew >= LEAST_PER_SECOND)}"
    ]
    share = clew / crowds[AIOHTTP].per_second.median
    found.append(
        f"target: at least {LEAST_SHARE} of aiohttp alone: {share:.3f}, "
        f"{judge(met=share >= LEAST_SHARE)}"
    )
    peers = [name for name in FRAMEWORKS if name in crowds]
    if peers:
        best = max(peers, key=lambda name: crowds[name].per_second.median)
        times = clew / crowds[best].per_second.median
        found.append(
            f"target: {TIMES_BEST_PEER} times the best framework ({NAMES[best]}): {times:.1f} "
            f"times, {judge(met=times >= TIMES_BEST_PEER)}"
        )
    if CLIENT in crowds:
        times = clew / crowds[CLIENT].per_second.median
        found.append(f"beside {NAMES[CLIENT]}, in a loop by hand: {times:.1f} times")
    return found


def _crowd_row(name: str, crowd: Crowd | None, bare: float) -> list[str]:
    if crowd is None:
        return [name, "absent", "", "", ""]
    rate = crowd.per_second
    return [
        name,
        f"{rate.median:,.0f} ± {rate.iqr:,.0f}",
        f"{rate.median / bare:.3f}",
        f"{crowd.cpu_ms:.2f}",
        f"{crowd.peak_bytes / 1e6:.0f}",
    ]


def _cell(times: Mapping[Place, Spread], place: Place) -> str:
    if place not in times:
        return "absent"
    found, bare = times[place], times[AIOHTTP, place[1], place[2]]
    ratio = _short(found.median / bare.median)
    return f"{_short(found.median)} ± {_short(found.iqr)} ({ratio})"


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.2f}"


def _load() -> str:
    return (
        f"one-minute load average at the end, on {os.cpu_count()} cores: {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
