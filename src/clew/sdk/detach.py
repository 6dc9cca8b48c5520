"""Gives a task to the workers of a store, without a session that waits for it."""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import to_builtins

from clew.core.tasks import TaskKind, TaskState
from clew.runtime.durable_tasks import DurableTasks, make_spec
from clew.runtime.protocol import TaskRequest
from clew.sdk.session_store import ProjectStore, project_store
from clew.sdk.spec import SessionSpec
from clew.sdk.worker import count_workers, find_tasks, require_durable


@asynccontextmanager
async def open_durable(place: ProjectStore) -> AsyncGenerator[DurableTasks, None]:
    """Open the durable tasks of a store; the caller closes the store.

    Raises:
        MissingExtra: The engine is not installed.
        ConfigError: The store keeps no tasks.
    """
    require_durable()
    # Takes a second to import.
    from clew.runtime.dbos import DbosScheduler, queue_address  # noqa: PLC0415

    tasks = find_tasks(place)
    scheduler = DbosScheduler(tasks, queue_address(place.address))
    try:
        yield DurableTasks(tasks, scheduler)
    finally:
        await scheduler.aclose()


async def spawn_detached(
    spec: SessionSpec, prompt: str, *, environ: Mapping[str, str] | None = None
) -> tuple[TaskState, int]:
    """Store a task for an agent; returns its state, and how many workers are there to run it.

    Raises:
        MissingExtra: The engine is not installed.
        ConfigError: The store keeps no tasks.
        StoreError: The store or the queue cannot be written to.
    """
    environ = os.environ if environ is None else environ
    place = project_store(Path(spec.cwd), environ, spec.store)
    request = TaskRequest(
        kind=TaskKind.AGENT, prompt=prompt, cwd=spec.cwd, durable=True, agent=spec.agent
    )
    try:
        async with open_durable(place) as durable:
            state = await durable.spawn(make_spec(request, to_builtins(spec)))
            return state, await count_workers(durable.tasks)
    finally:
        await place.store.aclose()
