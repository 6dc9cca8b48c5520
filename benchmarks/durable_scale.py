"""The constants of docs/scaling.md: what one agent, one worker and one model call cost.

Measured on PostgreSQL, with a worker in a process of its own and a model over HTTP.
"""

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import anyio
import psycopg

from benchmarks.durable import open_address
from benchmarks.durable_harness import (
    Cluster,
    WorkerProcess,
    open_agents,
    run_cluster,
    wait_until,
)
from benchmarks.results import Section, publish
from clew.core.entries import Entry, MessageAdded
from clew.core.ids import EntryId, SessionId
from clew.core.messages import assistant
from clew.session.journal import new_record
from clew.stores import open_store

AGENTS, STEPS = 50, 10
CALLS = STEPS + 1
"""Model calls of one agent: one for each step, and the answer."""
WRITERS, APPENDS = 8, 200
IDLE_SECONDS = 10.0


def _measure(worker: WorkerProcess) -> tuple[float, float]:
    """Return the seconds of processor time and the megabytes of a worker."""
    folder = Path(f"/proc/{worker.process.pid}")
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    pages = int((folder / "statm").read_text().split()[1])
    return ticks / os.sysconf("SC_CLK_TCK"), pages * resource.getpagesize() / 2**20


def _ask(address: str, query: str) -> float:
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SELECT pg_stat_force_next_flush()")
        row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return float(row[0])


def _commits(address: str) -> float:
    query = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
    return _ask(address, query)


def _size(address: str) -> float:
    return _ask(address, "SELECT pg_database_size(current_database())")


async def measure_worker(cluster: Cluster) -> dict[str, str]:
    """Measure a worker that is idle, that holds agents which wait, and that works."""
    worker, address = cluster.start_worker(concurrency=AGENTS), cluster.address
    await cluster.wait_ready([worker])
    await anyio.sleep(2.0)
    (cpu, empty), commits = _measure(worker), _commits(address)
    await anyio.sleep(IDLE_SECONDS)
    idle = (_measure(worker)[0] - cpu) / IDLE_SECONDS
    idle_commits = (_commits(address) - commits) / IDLE_SECONDS
    gate = cluster.folder / "gate"
    async with open_agents(cluster) as agents:
        size = _size(address)
        for number in range(AGENTS):
            await agents.spawn(number, steps=STEPS, more=f", step {STEPS - 1} waits for {gate}")
        files = cluster.project
        lines = STEPS // 2 - 1

        def are_waiting() -> bool:
            found = [file.read_text().count("\n") for file in files.glob("agent-*.txt")]
            return len(found) == AGENTS and min(found) >= lines

        before = _measure(worker)[0]
        commits = _commits(address)
        await wait_until(are_waiting)
        full = _measure(worker)[1]
        gate.touch()
        await agents.wait()
        worked, done = _measure(worker)[0] - before, _commits(address) - commits
        grown = _size(address) - size
    calls = AGENTS * CALLS
    return {
        "memory of a worker without agents": f"{empty:.0f} MB",
        "memory of an agent that runs": f"{(full - empty) / AGENTS:.1f} MB",
        "processor time of a worker without agents": f"{idle:.1%} of a core",
        "transactions of a worker without agents": f"{idle_commits:.0f} per second",
        "processor time of a model call with its tool call": f"{worked / calls * 1000:.0f} ms",
        "transactions of a model call with its tool call": f"{done / calls:.1f}",
        "bytes in the database, of an agent with 11 model calls": f"{grown / AGENTS / 1000:.0f} kB",
    }


async def measure_appends(address: str) -> dict[str, str]:
    """Measure how many entries a database takes from several sessions at once."""
    store = open_store(address)
    body = MessageAdded(message=assistant("x" * 1_000))

    async def write(number: int) -> None:
        session = SessionId(f"writer-{number}")
        await store.create(new_record(session, Path("/")))
        await store.lease(session)
        for index in range(APPENDS):
            entry = Entry(id=EntryId(index + 1), at=time.time(), body=body)
            await store.append(session, [entry])

    at = time.monotonic()
    async with anyio.create_task_group() as group:
        for number in range(WRITERS):
            group.start_soon(write, number)
    rate = WRITERS * APPENDS / (time.monotonic() - at)
    await store.aclose()
    return {f"entries of 1 kB, from {WRITERS} sessions of one process": f"{rate:.0f} per second"}


def _publish(found: Mapping[str, str], load: float) -> None:
    publish(
        Section(
            title="Constants for scaling",
            command="python -m benchmarks.durable_scale",
            columns=("on PostgreSQL", "measured"),
            rows=list(found.items()),
            notes=(
                f"one worker, {AGENTS} agents with {STEPS} tool calls each (half of them Bash), a"
                " model over HTTP; model, worker, commands and database share this machine",
                "the server runs with fsync=off, so the figures show the work of the processors;"
                " with fsync, each transaction also waits for the disk",
                f"one-minute load average at the start: {load:.1f}",
            ),
        )
    )


def main(arguments: list[str] | None = None) -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.durable_scale", description=__doc__)
    parser.add_argument("--dry", action="store_true", help="write no results")
    given = parser.parse_args(arguments or [])
    load = os.getloadavg()[0]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="clew-scale-")))
        address = stack.enter_context(open_address("postgres", folder, stack))
        cluster = stack.enter_context(run_cluster(folder, address))
        found = anyio.run(measure_worker, cluster) | anyio.run(measure_appends, address)
    if given.dry:
        print(found)
    else:
        _publish(found, load)


if __name__ == "__main__":
    main(sys.argv[1:])
