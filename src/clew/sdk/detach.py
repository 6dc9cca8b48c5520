"""Gives a task to the workers of a store, without a session that waits for it."""

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import to_builtins

from clew.core.tasks import TaskKind, TaskState
from clew.runtime.durable_tasks import make_spec
from clew.runtime.protocol import TaskRequest
from clew.sdk.durable_store import count_workers, open_durable
from clew.sdk.session_spec import SessionSpec
from clew.sdk.session_store import project_store


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
