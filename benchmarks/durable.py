"""Durable agents while workers are killed: does all work finish, once, and how fast is a takeover?

Three `clew worker` processes run agents with tools against a model over HTTP. In each round, one
worker, chosen by the seed, is killed at a moment chosen by the seed. Then every journal and every
file is checked.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from benchmarks.durable_harness import (
    OPEN,
    Agents,
    Cluster,
    WorkerProcess,
    open_agents,
    run_cluster,
)
from benchmarks.durable_witness import read_requests
from benchmarks.results import Section, judge, publish
from benchmarks.spread import Spread
from clew.core.tasks import TaskStatus

STORES = ("sqlite", "postgres")
ROUNDS, AGENTS, WORKERS = 20, 200, 3
CONCURRENCY = 16
CANCELS = 10
SILENT = 5.0
MOST_CANCEL_SECONDS = 1.0
_POLL = 0.02
_LEAST = 2
"""Takeovers without which there is no median; in a short run there may be none."""
_PATIENCE = 600.0


@dataclass(slots=True)
class Outcome:
    """What was found in all rounds on one store."""

    rounds: int = 0
    agents: int = 0
    completed: int = 0
    interrupted: int = 0
    """Agents that ran on a worker when it was killed."""
    requests: int = 0
    """Requests to the model that were compared with the journals."""
    problems: list[str] = field(default_factory=list)
    takeovers: list[float] = field(default_factory=list)
    """Seconds from a kill until another worker had taken the agent."""
    seconds: list[float] = field(default_factory=list)
    cancels: list[float] = field(default_factory=list)


async def run_round(cluster: Cluster, count: int, chance: random.Random, found: Outcome) -> None:
    """Run agents, kill a worker in the middle, and check what they did."""
    workers = [cluster.start_worker(concurrency=CONCURRENCY) for _ in range(WORKERS)]
    await cluster.wait_ready(workers)
    async with open_agents(cluster) as agents:
        began = time.monotonic()
        for number in range(count):
            await agents.spawn(number, more=f", {chance.choice((0, 0.05, 0.2))} s each")
        done = chance.uniform(0.05, 0.6) * count
        while await _count_ended(agents, count) < done:  # noqa: ASYNC110 - in other processes
            await anyio.sleep(_POLL)
        await _kill(agents, chance.choice(workers), found)
        statuses = await agents.wait(seconds=_PATIENCE)
        found.seconds.append(time.monotonic() - began)
        found.rounds += 1
        found.agents += count
        found.completed += statuses[TaskStatus.COMPLETED]
        found.requests += sum(map(len, read_requests(cluster.witness).values()))
        found.problems += await agents.check()


async def _count_ended(agents: Agents, count: int) -> int:
    ended = [TaskStatus.COMPLETED, TaskStatus.FAILED]
    return len(await agents.durable.tasks.tasks(statuses=ended, limit=count))


async def _kill(agents: Agents, worker: WorkerProcess, found: Outcome) -> None:
    """Kill a worker, and measure when its agents run elsewhere."""
    worker.kill()
    at = time.monotonic()
    rows = await agents.durable.tasks.tasks(worker=worker.name)
    waiting = {row.state.task_id for row in rows}
    found.interrupted += len(waiting)
    with anyio.fail_after(_PATIENCE):
        while waiting:
            for task_id in tuple(waiting):
                row = await agents.durable.get(task_id)
                if row.state.status.is_terminal or row.worker not in ("", worker.name):
                    waiting.remove(task_id)
                    found.takeovers.append(time.monotonic() - at)
            await anyio.sleep(_POLL)


async def measure_cancels(cluster: Cluster, found: Outcome) -> None:
    """Measure how long it takes to cancel agents whose tool runs for a minute."""
    await cluster.wait_ready([cluster.start_worker(concurrency=CONCURRENCY)])
    async with open_agents(cluster) as agents:
        for number in range(CANCELS):
            state = await agents.start(agents.request(number, more=", 60 s each"))
            await agents.wait_for(state.task_id, lambda row: row.state.action.startswith("Bash"))
            at = time.monotonic()
            await agents.durable.cancel(state.task_id)
            with anyio.fail_after(_PATIENCE):
                while (await agents.durable.scheduler.status(state.task_id)) in OPEN:  # noqa: ASYNC110
                    await anyio.sleep(_POLL / 2)
            found.cancels.append(time.monotonic() - at)


@contextmanager
def open_address(
    store: str, folder: Path, servers: ExitStack, *, fsync: bool = False
) -> Iterator[str]:
    """Yield the address of a fresh store.

    Args:
        store: One of `STORES`.
        folder: For a file.
        servers: Ends the server of PostgreSQL.
        fsync: Have PostgreSQL wait for the disk at each commit, as SQLite always does here.
    """
    if store == "sqlite":
        yield str(folder / "sessions.db")
        return
    # Benchmarks on PostgreSQL use the server that tests use.
    from tests.stores.postgres import server  # noqa: PLC0415

    yield servers.enter_context(server(fsync=fsync)).fresh()


def measure(store: str, given: argparse.Namespace) -> Outcome:
    """Run all rounds on one kind of store."""
    found, rounds, count = Outcome(), given.rounds, given.agents
    for number in range(rounds + 1):
        chance = random.Random(f"{given.seed} {store} {number}")
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="clew-durable-")))
            address = stack.enter_context(open_address(store, folder, stack, fsync=given.fsync))
            cluster = stack.enter_context(run_cluster(folder, address, silent_after=SILENT))
            if number < rounds:
                anyio.run(run_round, cluster, count, chance, found)
                line = f"{store} round {number + 1}: {found.completed} of {found.agents} completed"
                print(f"{line}, {len(found.problems)} problems", file=sys.stderr, flush=True)
            else:
                anyio.run(measure_cancels, cluster, found)
    return found


def _describe(store: str, found: Outcome) -> tuple[str, ...]:
    cancel = Spread.of(found.cancels)
    return (
        store,
        str(found.rounds),
        f"{found.completed} of {found.agents}",
        str(found.interrupted),
        str(len(found.problems)),
        *_describe_takeovers(found.takeovers),
        f"{cancel.median:.2f} s",
        f"{max(found.cancels):.2f} s",
    )


def _describe_takeovers(seconds: list[float]) -> tuple[str, str, str]:
    if len(seconds) < _LEAST:
        return "-", "-", "-"
    takeover = Spread.of(seconds)
    return f"{takeover.median:.1f} s", f"{takeover.iqr:.1f} s", f"{max(seconds):.1f} s"


def main(arguments: list[str] | None = None) -> None:
    """Run the rounds, and write the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.durable", description=__doc__)
    parser.add_argument("--stores", default=",".join(STORES))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--agents", type=int, default=AGENTS)
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument(
        "--fsync",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="have PostgreSQL wait for the disk at each commit",
    )
    parser.add_argument("--dry", action="store_true", help="write no results")
    given = parser.parse_args(arguments or [])
    load = os.getloadavg()[0]
    outcomes = {store: measure(store, given) for store in given.stores.split(",")}
    for found in outcomes.values():
        for problem in found.problems:
            print(problem, file=sys.stderr)
    if given.dry:
        for store, found in outcomes.items():
            print(_describe(store, found), f"{found.requests} requests compared")
        return
    is_whole = all(found.completed == found.agents for found in outcomes.values())
    is_clean = not any(found.problems for found in outcomes.values())
    slowest = max(second for found in outcomes.values() for second in found.cancels)
    publish(
        Section(
            title="Durable agents, with workers that are killed",
            command="python -m benchmarks.durable",
            columns=(
                *("store", "kills", "completed", "interrupted", "problems", "takeover", "spread"),
                *("slowest", "cancel", "slowest cancel"),
            ),
            rows=[_describe(store, found) for store, found in outcomes.items()],
            notes=(
                f"each round: {WORKERS} `clew worker` processes of {CONCURRENCY} agents each,"
                f" {given.agents} agents with 4 tool calls (2 read, 2 write), a model over HTTP;"
                " one worker is killed with SIGKILL at a random moment",
                f"all agents complete: {judge(is_whole)}",
                "problems: entries that the model was sent and the journal lost, gaps in journals,"
                " journals that a provider would refuse, lines that were written twice or not at"
                f" all: {judge(is_clean)}",
                f"{sum(found.requests for found in outcomes.values())} requests were compared with"
                " the journals: each is the beginning of what the journal holds at the end, and"
                " the last answer follows",
                "takeover: from the kill until another worker has the agent; median of all"
                " interrupted agents, with the interquartile range. Workers on one machine see that"
                f" a process is gone; on other machines it counts as dead after {SILENT:g} s",
                "an agent waits for a place where all surviving workers are busy, so the slowest"
                " takeover includes the work of others",
                f"cancel of a tool that runs for 60 s, under {MOST_CANCEL_SECONDS:g} s:"
                f" {judge(slowest < MOST_CANCEL_SECONDS)}",
                f"PostgreSQL with fsync {'on' if given.fsync else 'off'}, SQLite with synchronous"
                " = FULL: a commit waits for the disk where fsync is on",
                f"one-minute load average at the start: {load:.1f}",
            ),
        )
    )


if __name__ == "__main__":
    main(sys.argv[1:])
