"""What durable tasks cost beside the work that they do: 10,000 rows, 100 of them running.

The tasks do nothing, so that only the queue, the rows and the claims are measured, next to plain
DBOS workflows that do nothing on the same kind of database. Each participant is a process.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import anyio
import msgspec
from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer

from benchmarks.durable import open_address
from benchmarks.results import Section, judge, publish
from clew.core.tasks import TaskKind
from clew.runtime.claimed_task import ClaimedTask
from clew.runtime.dbos import DbosScheduler, queue_address, serve_queue
from clew.runtime.durable_tasks import DurableTasks, make_spec
from clew.runtime.protocol import TaskRequest, TaskResult
from clew.runtime.worker import Worker
from clew.stores import open_store

STORES = ("sqlite", "postgres")
ROWS, RUNNING, BATCH = 10_000, 100, 500
IDLE_SECONDS = 10.0
LEAST_FLATNESS = 0.8
_PATIENCE = 3_600.0


class Costs(msgspec.Struct, kw_only=True):
    """What one participant needed."""

    spawns: float = 0.0
    """Per second, into an empty store."""
    completions: float = 0.0
    """Per second, of a batch in an empty store."""
    completions_later: float = 0.0
    """Per second, of a batch when all rows have ended."""
    memory: float = 0.0
    """Megabytes that the process grew by with all rows stored and some running."""
    idle_cpu: float = 0.0
    """Share of a core, with all rows stored and some running, which wait."""
    idle_cpu_empty: float = 0.0
    """The same with an empty queue."""


class Tasks:
    """Tasks that do nothing, or wait until they may end."""

    def __init__(self) -> None:
        self.may_end = anyio.Event()
        self.running = 0
        self.ended = 0

    async def run(self) -> None:
        """Do nothing, as soon as that is allowed."""
        self.running += 1
        await self.may_end.wait()
        self.running -= 1
        self.ended += 1

    async def wait(self, *, running: int | None = None, ended: int | None = None) -> None:
        """Wait until that many run or have ended."""
        with anyio.fail_after(_PATIENCE):
            while (running is not None and self.running < running) or (  # noqa: ASYNC110
                ended is not None and self.ended < ended
            ):
                await anyio.sleep(0.01)


class Participant:
    """Stores tasks and runs them."""

    def __init__(self) -> None:
        self.tasks = Tasks()

    async def spawn(self) -> None:
        """Store one task."""
        raise NotImplementedError

    async def measure(self, rows: int) -> Costs:
        """Measure everything, while the queue is served."""
        costs, tasks = Costs(), self.tasks
        costs.idle_cpu_empty = await _measure_cpu()
        costs.spawns = await self._fill(BATCH)
        await tasks.wait(running=RUNNING)
        at = time.monotonic()
        tasks.may_end.set()
        await tasks.wait(ended=BATCH)
        costs.completions = BATCH / (time.monotonic() - at)
        before = _memory()
        tasks.may_end = anyio.Event()
        await self._fill(rows)
        await tasks.wait(running=RUNNING)
        costs.memory = _memory() - before
        costs.idle_cpu = await _measure_cpu()
        tasks.may_end.set()
        await tasks.wait(ended=BATCH + rows)
        tasks.may_end = anyio.Event()
        await self._fill(BATCH)
        await tasks.wait(running=RUNNING)
        at = time.monotonic()
        tasks.may_end.set()
        await tasks.wait(ended=2 * BATCH + rows)
        costs.completions_later = BATCH / (time.monotonic() - at)
        return costs

    async def _fill(self, count: int) -> float:
        at = time.monotonic()
        for _ in range(count):
            await self.spawn()
        return count / (time.monotonic() - at)


class Clew(Participant):
    """Durable tasks: a row, a claim and a last state for each."""

    def __init__(self, durable: DurableTasks) -> None:
        super().__init__()
        self._durable = durable
        request = TaskRequest(kind=TaskKind.AGENT, prompt="nothing", durable=True)
        self._spec = make_spec(request, {"cwd": "/"})

    async def spawn(self) -> None:
        """Store a row and enqueue its id."""
        await self._durable.spawn(self._spec)


class Plain(Participant):
    """Workflows of DBOS."""

    def __init__(self, client: DBOSClient) -> None:
        super().__init__()
        self._client = client

    async def spawn(self) -> None:
        """Enqueue a workflow."""
        await self._client.enqueue_async({"workflow_name": "nothing", "queue_name": "plain"}, "id")


async def measure_clew(address: str, rows: int) -> Costs:
    """Measure durable tasks."""
    store = open_store(address)
    tasks, queue_url = store.tasks, queue_address(address)  # type: ignore[attr-defined]
    queue = DbosScheduler(tasks, queue_url)
    measured = Clew(DurableTasks(tasks, queue))

    async def run_agent(_: ClaimedTask) -> TaskResult:
        await measured.tasks.run()
        return TaskResult(text="done")

    worker = Worker(tasks, queue, run_agent)
    async with anyio.create_task_group() as group:
        await group.start(worker.serve)
        async with serve_queue(queue_url, worker.run, worker=worker.name, concurrency=RUNNING):
            costs = await measured.measure(rows)
            worker.stop()
            await worker.stopped.wait()
    await queue.aclose()
    await store.aclose()
    return costs


async def measure_plain(address: str, rows: int) -> Costs:
    """Measure plain workflows, on a database that is set up like the queue of Clew."""
    url = queue_address(address)
    serializer = DBOSPortableJSONSerializer()
    scheduler = DbosScheduler(open_store(address).tasks, url)  # type: ignore[attr-defined]
    await scheduler.find_runs()
    await scheduler.aclose()
    DBOS(
        config={
            "name": "plain",
            "system_database_url": url,
            "dbos_system_schema": "clew_queue",
            "executor_id": "plain",
            "application_version": "1",
            "serializer": serializer,
            "enable_otlp": False,
            "log_level": "ERROR",
            "run_migrations": False,
        }
    )
    client = DBOSClient(
        system_database_url=url,
        dbos_system_schema="clew_queue",
        application_name="plain",
        serializer=serializer,
    )
    measured = Plain(client)

    async def nothing(_: str) -> None:
        await measured.tasks.run()

    DBOS.workflow(name="nothing")(nothing)
    DBOS.launch()
    await DBOS.register_queue_async("plain", worker_concurrency=RUNNING, polling_interval_sec=0.1)
    costs = await measured.measure(rows)
    client.destroy()
    await anyio.to_thread.run_sync(DBOS.destroy)
    return costs


async def _measure_cpu() -> float:
    await anyio.sleep(1.0)
    cpu, at = time.process_time(), time.monotonic()
    await anyio.sleep(IDLE_SECONDS)
    return (time.process_time() - cpu) / (time.monotonic() - at)


def _memory() -> float:
    """Return the megabytes that this process uses now; the peak where that is not known."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return pages * resource.getpagesize() / 2**20


def _start(kind: str, store: str, rows: int) -> Costs:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="clew-rows-")))
        address = stack.enter_context(open_address(store, folder, stack))
        command = [sys.executable, "-m", "benchmarks.durable_rows", "--child", kind]
        command += ["--address", address, "--rows", str(rows)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        return msgspec.json.decode(done.stdout, type=Costs)


def _describe(store: str, clew: Costs, plain: Costs) -> list[tuple[str, ...]]:
    def compare(name: str, one: float, other: float, form: str = ".0f") -> tuple[str, ...]:
        ratio = f"{one / other:.2f}" if other else "–"
        return (f"{store}: {name}", f"{one:{form}}", f"{other:{form}}", ratio)

    return [
        compare("spawns per second", clew.spawns, plain.spawns),
        compare("completions per second", clew.completions, plain.completions),
        compare(
            "completions per second, all rows ended",
            clew.completions_later,
            plain.completions_later,
        ),
        compare("megabytes for all rows, 100 running", clew.memory, plain.memory, ".1f"),
        compare("idle, 100 running, share of a core", clew.idle_cpu, plain.idle_cpu, ".3f"),
        compare("idle, empty, share of a core", clew.idle_cpu_empty, plain.idle_cpu_empty, ".3f"),
    ]


def main(arguments: list[str] | None = None) -> None:
    """Measure both participants on each store, and write the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.durable_rows", description=__doc__)
    parser.add_argument("--stores", default=",".join(STORES))
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--dry", action="store_true", help="write no results")
    parser.add_argument("--child", choices=("clew", "plain"), help=argparse.SUPPRESS)
    parser.add_argument("--address", default="", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments or [])
    if given.child:
        measure = measure_clew if given.child == "clew" else measure_plain
        costs = anyio.run(measure, given.address, given.rows)
        sys.stdout.buffer.write(msgspec.json.encode(costs))
        return
    load = os.getloadavg()[0]
    rows: list[tuple[str, ...]] = []
    flat: list[float] = []
    for store in given.stores.split(","):
        clew, plain = (_start(kind, store, given.rows) for kind in ("clew", "plain"))
        rows += _describe(store, clew, plain)
        flat.append(clew.completions_later / clew.completions)
        print(*rows, sep="\n", file=sys.stderr)
    if given.dry:
        return
    publish(
        Section(
            title="Durable tasks as rows",
            command="python -m benchmarks.durable_rows",
            columns=("", "Clew", "plain DBOS", "ratio"),
            rows=rows,
            notes=(
                f"{given.rows:,} tasks that do nothing, {RUNNING} of them running and waiting; one"
                " process that stores them one after the other and runs them",
                "Clew stores a row for lists, a claim and a last state for each task, in a second"
                " database on SQLite; plain DBOS stores its own row",
                "completions per second when all rows have ended, compared with an empty store:"
                f" {', '.join(f'{one:.2f}' for one in flat)}; at least {LEAST_FLATNESS}:"
                f" {judge(min(flat) >= LEAST_FLATNESS)}",
                f"one-minute load average at the start: {load:.1f}",
            ),
        )
    )


if __name__ == "__main__":
    main(sys.argv[1:])
