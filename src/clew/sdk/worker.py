"""`clew worker`: runs the durable agents of a store."""

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
from msgspec import Struct

from clew.runtime.claimed_task import ClaimedTask
from clew.runtime.protocol import TaskResult
from clew.runtime.schedule_zone import find_next_run
from clew.runtime.task_takeover import WorkerTimes
from clew.runtime.worker import Worker, new_worker_name
from clew.sdk.durable_agent import DurableAgent
from clew.sdk.durable_store import find_tasks, require_durable
from clew.sdk.session_store import ProjectStore, project_store

_BEATS = 5
"""Heartbeats in the time after which a worker counts as dead."""
_SLOWEST_BEAT = 10.0


class WorkerSpec(Struct, frozen=True, kw_only=True):
    """What a worker serves."""

    cwd: str
    """The folder whose store it serves, unless `store` names one."""
    store: str = ""
    name: str = ""
    """Shown in lists; empty for the name of the machine."""
    concurrency: int = 8
    """How many agents each worker of the store runs at once: it belongs to the queue, and the
    worker that starts last decides for all."""
    silent_after: float = 5.0
    """Seconds without a heartbeat after which other workers take over. The leases of its agents'
    sessions promise the same, so that any other process can open one after that time."""
    park_after: float = 10.0
    """Seconds that an agent waits for an answer before it leaves its worker."""


async def serve_store(
    spec: WorkerSpec,
    *,
    environ: Mapping[str, str] | None = None,
    on_start: Callable[[str], None] | None = None,
) -> None:
    """Serve the queue of a store until the process gets SIGTERM or SIGINT.

    Agents that run then are handed back to the queue, and another worker continues them.

    Args:
        spec: What to serve.
        environ: Environment variables; by default those of the process.
        on_start: Called with the name of the worker when it takes tasks.

    Raises:
        MissingExtra: The engine is not installed.
        ConfigError: The store keeps no tasks.
        StoreError: The store or the queue cannot be used.
    """
    require_durable()
    environ = os.environ if environ is None else environ
    async with AsyncExitStack() as closing:
        place = project_store(Path(spec.cwd), environ, spec.store, silent_after=spec.silent_after)
        closing.push_async_callback(place.store.aclose)
        await _serve(spec, place, environ, on_start or _ignore)


async def _serve(
    spec: WorkerSpec,
    place: ProjectStore,
    environ: Mapping[str, str],
    on_start: Callable[[str], None],
) -> None:
    # Takes a second to import.
    from clew.runtime.dbos import DbosScheduler, queue_address, serve_queue  # noqa: PLC0415

    tasks, address = find_tasks(place), queue_address(place.address)

    async def run_agent(task: ClaimedTask) -> TaskResult:
        agent = DurableAgent(task, tasks, place, environ=environ, park_after=spec.park_after)
        return await agent.start()

    queue = DbosScheduler(tasks, address)
    name = new_worker_name(spec.name)
    beat = min(_SLOWEST_BEAT, spec.silent_after / _BEATS)
    times = WorkerTimes(silent_after=spec.silent_after, heartbeat=beat)
    worker = Worker(tasks, queue, run_agent, name=name, times=times, next_time=find_next_run)
    try:
        async with anyio.create_task_group() as group:
            await group.start(worker.serve)
            async with serve_queue(address, worker.run, worker=name, concurrency=spec.concurrency):
                on_start(name)
                await _wait_for_signal()
                worker.stop()
                await worker.stopped.wait()
    finally:
        await queue.aclose()


def _ignore(_: str) -> None:
    pass


async def _wait_for_signal() -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            return
