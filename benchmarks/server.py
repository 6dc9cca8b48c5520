"""Clew's server beside FastAPI on uvicorn: memory of streams, delay of events, requests, stopping.

The servers are processes of their own, the clients are in this one, over loopback. They take turns,
so that a busy moment of the machine falls on both.
"""

import argparse
import importlib.util
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

import anyio

from benchmarks.results import Section, judge, publish, render
from benchmarks.server_load import count_requests, open_streams, read_received
from benchmarks.server_processes import (
    Place,
    ServerProcess,
    Stop,
    ask,
    run_clew,
    run_peer,
    run_serve,
)
from clew.server.access.connections import raise_file_limit

PEERS = ("fastapi", "uvicorn", "httptools")
MOST_MEMORY_MB = 40.0
MOST_DELAY_MS = 100.0
MOST_STOP_SECONDS = 0.5
CONNECTIONS = 16
WARM_STREAMS = 20
_SETTLE = 1.0
_QUIET = 1.5
"""Seconds without an event at any client after which all events count as sent."""
_PATIENCE = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is measured."""

    idle: int = 1_000
    clients: int = 100
    rate: int = 1_000
    """Events per second."""
    seconds: float = 3.0
    """How long events are sent, and requests in all rounds together."""
    rounds: int = 3

    @property
    def events(self) -> int:
        """How many events each client gets."""
        return int(self.rate * self.seconds)


@dataclass(slots=True)
class Figures:
    """What was measured of one server."""

    empty_mb: float = 0.0
    idle_mb: float = 0.0
    """Memory of the idle streams."""
    delays: Sequence[float] = ()
    """Milliseconds of each event of each client."""
    last_delay: float = 0.0
    """Milliseconds of the last event, of the client that got it last."""
    faults: int = 0
    load: float = 0.0
    """Share of a core while events are sent."""
    requests: dict[str, list[float]] = field(default_factory=dict)
    """Requests per second of each route, in each round."""
    cost: dict[str, list[float]] = field(default_factory=dict)
    """Processor time of a request in microseconds, likewise."""
    stops: list[Stop] = field(default_factory=list)

    @property
    def delay_99(self) -> float:
        """Milliseconds within which 99 % of the events arrived."""
        return quantiles(self.delays, n=100)[-1]


def main() -> None:
    """Measure all, print, and write the section if there was something to compare with."""
    run(Sizes())


def run(sizes: Sizes) -> None:
    """Measure with these sizes; other sizes than the usual ones are printed and not written."""
    absent = [name for name in PEERS if importlib.util.find_spec(name) is None]
    if absent:
        print(f"server: nothing was compared, {', '.join(absent)} is not installed (make bench)")
        return
    raise_file_limit(sizes.idle + sizes.clients)
    with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder:
        place = Place(Path(folder))
        place.work.mkdir()
        clew, peer = anyio.run(measure, place, sizes)
    section = make_section(clew, peer, sizes)
    if sizes == Sizes():
        publish(section)
    else:
        print(render(section))


async def measure(place: Place, sizes: Sizes) -> tuple[Figures, Figures]:
    """Measure both servers in turn."""
    ours, theirs = Figures(), Figures()
    async with run_clew(place) as clew:
        target = clew.target
        snapshot = await ask(target.port, target.write_request(target.snapshot_path))
        async with run_peer(place, snapshot) as peer:
            pairs = ((clew, ours), (peer, theirs))
            for server, figures in pairs:
                await _measure_idle(server, figures, sizes)
            for server, figures in pairs:
                await _measure_events(server, figures, sizes)
            for _ in range(sizes.rounds):
                for server, figures in pairs:
                    await _measure_requests(server, figures, sizes)
    for _ in range(sizes.rounds):
        async with run_serve(place) as clew:
            ours.stops.append(await _stop(clew, sizes))
        async with run_peer(place, snapshot) as peer:
            theirs.stops.append(await _stop(peer, sizes))
    return ours, theirs


async def _measure_idle(server: ServerProcess, figures: Figures, sizes: Sizes) -> None:
    target = server.target
    async with open_streams(target, WARM_STREAMS):
        await count_requests(target, target.snapshot_path, connections=CONNECTIONS, seconds=0.5)
    await anyio.sleep(_SETTLE)
    figures.empty_mb = server.read_memory()
    async with open_streams(target, sizes.idle):
        await anyio.sleep(_SETTLE)
        figures.idle_mb = server.read_memory() - figures.empty_mb
    await anyio.sleep(_SETTLE)


async def _measure_events(server: ServerProcess, figures: Figures, sizes: Sizes) -> None:
    async with open_streams(server.target, sizes.clients) as streams:
        start, used = time.time(), server.read_processor_time()
        await server.publish(rate=sizes.rate, count=sizes.events)
        end = start + sizes.seconds
        while time.time() < end + _PATIENCE:
            await anyio.sleep(0.1)
            last = max(stream.times[-1] for stream in streams)
            if time.time() > max(last, end) + _QUIET:
                break
        figures.load = (server.read_processor_time() - used) / (last - start)
        received = [read_received(stream) for stream in streams]
    figures.faults = sum(one.count_faults(sizes.events) for one in received)
    figures.delays = [delay * 1_000 for one in received for delay in one.delays]
    figures.last_delay = max(one.delays[-1] for one in received) * 1_000


async def _measure_requests(server: ServerProcess, figures: Figures, sizes: Sizes) -> None:
    seconds = sizes.seconds / sizes.rounds
    for name, path in (("health", "/api/v1/health"), ("snapshot", server.target.snapshot_path)):
        used = server.read_processor_time()
        per_second = await count_requests(
            server.target, path, connections=CONNECTIONS, seconds=seconds
        )
        cost = (server.read_processor_time() - used) / (per_second * seconds)
        figures.requests.setdefault(name, []).append(per_second)
        figures.cost.setdefault(name, []).append(cost * 1e6)


async def _stop(server: ServerProcess, sizes: Sizes) -> Stop:
    async with open_streams(server.target, sizes.clients):
        return await server.terminate()


def make_section(clew: Figures, peer: Figures, sizes: Sizes) -> Section:
    """Return what the results file says."""
    return Section(
        title="Server",
        command="python -m benchmarks server",
        columns=("", "Clew", "FastAPI + uvicorn", "ratio"),
        rows=_make_rows(clew, peer, sizes),
        notes=[*judge_targets(clew, sizes), *_conditions(sizes)],
    )


def _make_rows(clew: Figures, peer: Figures, sizes: Sizes) -> list[list[str]]:
    both = (clew, peer)
    sent = f"{sizes.rate:,} events/s to {sizes.clients} clients"
    rows = [
        _row("memory without streams, MB", [one.empty_mb for one in both], 1),
        _row(f"memory of {sizes.idle:,} idle streams, MB", [one.idle_mb for one in both], 1),
        _row("memory of one, kB", [one.idle_mb * 1_000 / sizes.idle for one in both], 1),
        _row(f"{sent}: median delay, ms", [median(one.delays) for one in both], 1),
        _row("99 % of them, ms", [one.delay_99 for one in both], 1),
        _row("last event, ms", [one.last_delay for one in both], 1),
        _row("share of a core", [one.load for one in both], 2),
        ["lost, repeated or out of order", str(clew.faults), str(peer.faults), ""],
    ]
    for name in clew.requests:
        rates = [median(one.requests[name]) for one in both]
        costs = [median(one.cost[name]) for one in both]
        rows.append(_row(f"{name}: requests per second", rates, 0))
        rows.append(_row(f"{name}: processor time of a request, µs", costs, 0))
    stop = f"SIGTERM with {sizes.clients} streams"
    seconds = [[end.seconds for end in one.stops] for one in both]
    rows.append(_row(f"{stop}: seconds to the end", [median(some) for some in seconds], 2))
    rows.append(_row("slowest, seconds", [max(some) for some in seconds], 2))
    codes = [", ".join(sorted({str(end.code) for end in one.stops})) for one in both]
    rows.append(["exit code", *codes, ""])
    return rows


def _row(name: str, values: Sequence[float], digits: int) -> list[str]:
    ours, theirs = values
    ratio = f"{ours / theirs:.2f}" if theirs else "–"
    return [name, *(f"{value:,.{digits}f}" for value in values), ratio]


def judge_targets(clew: Figures, sizes: Sizes) -> list[str]:
    """Hold Clew's figures against the targets, one sentence each."""
    slow = max(clew.last_delay, clew.delay_99)
    no_lag = slow <= MOST_DELAY_MS and not clew.faults
    slowest = max(end.seconds for end in clew.stops)
    stops = slowest < MOST_STOP_SECONDS and not any(end.code for end in clew.stops)
    return [
        f"target: {sizes.idle:,} idle streams in under {MOST_MEMORY_MB:.0f} MB: "
        f"{clew.idle_mb:.1f} MB, {judge(clew.idle_mb < MOST_MEMORY_MB)}",
        f"target: {sizes.rate:,} events/s to {sizes.clients} clients without lag, so 99 % of them "
        f"and the last one within {MOST_DELAY_MS:.0f} ms and none lost: {slow:.1f} ms, "
        f"{clew.faults} lost, {judge(no_lag)}",
        f"target: SIGTERM with {sizes.clients} open streams exits 0 in under "
        f"{MOST_STOP_SECONDS} s: the slowest of {len(clew.stops)} took {slowest:.2f} s, "
        f"{judge(stops)}",
    ]


def _conditions(sizes: Sizes) -> list[str]:
    loop = "uvloop" if importlib.util.find_spec("uvloop") else "asyncio's own loop"
    return [
        "Clew checks the token, Host and Origin, counts, and writes an audit log; its limits on "
        "rates and streams of one user are raised; it is `clew serve` where it is stopped",
        "the other is a minimal program: one queue per client, each event encoded once, all that "
        "waits in one piece, a token; its streams end at SIGTERM, and uvicorn parses with "
        f"httptools; both on {loop}. uvicorn ends with the signal itself, so its code is -15",
        f"memory: resident memory of the process, more than before; delay: from the making of an "
        f"event to its arrival, {sizes.events:,} events for each client; requests: {CONNECTIONS} "
        f"connections, median of {sizes.rounds} rounds in turn, as for stopping",
        f"one-minute load average at the end, with clients and servers on "
        f"{os.cpu_count()} cores: {os.getloadavg()[0]:.1f}",
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server", description=__doc__)
    parser.add_argument("--idle", type=int, default=1_000, help="idle streams")
    parser.add_argument("--clients", type=int, default=100, help="clients that get events")
    parser.add_argument("--rate", type=int, default=1_000, help="events per second")
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds of each measurement")
    given = parser.parse_args()
    run(Sizes(idle=given.idle, clients=given.clients, rate=given.rate, seconds=given.seconds))
