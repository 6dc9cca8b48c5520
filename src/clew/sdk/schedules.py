"""Schedules: prompts that the workers of a store run again and again."""

import os
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import to_builtins

from clew.core.errors import ConfigError
from clew.core.tasks import Isolation, TaskKind
from clew.runtime.cron import next_time
from clew.runtime.durable_tasks import make_spec
from clew.runtime.protocol import TaskRequest
from clew.runtime.schedule_text import parse_schedule
from clew.runtime.schedule_zone import ZONE_FIELD, describe_next, find_local_zone, open_zone
from clew.sdk.durable_store import count_workers, find_tasks
from clew.sdk.session_spec import SessionSpec
from clew.sdk.session_store import ProjectStore, project_store
from clew.stores.task_protocol import ScheduleRow, TaskStore

__all__ = [
    "ScheduleRow",
    "add_schedule",
    "describe_next",
    "list_schedules",
    "remove_schedule",
]


async def add_schedule(
    text: str,
    prompt: str,
    spec: SessionSpec,
    *,
    zone: str = "",
    isolation: Isolation = "none",
    environ: Mapping[str, str] | None = None,
) -> tuple[ScheduleRow, int]:
    """Store a prompt that an agent gets again and again.

    Args:
        text: When, such as `every weekday 9:00`, or a cron line.
        prompt: What the agent is to do.
        spec: The session of the agent.
        zone: The time zone, such as `Europe/Berlin`; empty for that of this machine.
        isolation: `worktree` for a git worktree for each run.
        environ: Environment variables; by default those of the process.

    Returns:
        The schedule, and how many workers are there to run it.

    Raises:
        ConfigError: The text or the zone is not understood, or the store keeps no tasks.
    """
    environ = os.environ if environ is None else environ
    cron, now = parse_schedule(text), time.time()
    zone = zone or find_local_zone(environ)
    request = TaskRequest(
        kind=TaskKind.AGENT,
        prompt=prompt,
        cwd=spec.cwd,
        durable=True,
        agent=spec.agent,
        isolation=isolation,
    )
    row = ScheduleRow(
        schedule_id=f"schedule-{os.urandom(3).hex()}",
        text=text,
        cron=cron,
        spec={**make_spec(request, to_builtins(spec)), ZONE_FIELD: zone},
        next_at=next_time(cron, now, open_zone(zone)),
        created_at=now,
    )
    async with _open_tasks(spec.cwd, spec.store, environ) as (tasks, _):
        await tasks.save_schedule(row)
        return row, await count_workers(tasks)


async def list_schedules(
    cwd: str, *, store: str = "", everywhere: bool = False, environ: Mapping[str, str] | None = None
) -> list[ScheduleRow]:
    """Return the schedules of a folder, the next one first.

    Args:
        cwd: The folder.
        store: The address of the store; empty for the store of the folder.
        everywhere: Whether to return those of other folders in the store too.
        environ: Environment variables; by default those of the process.

    Raises:
        ConfigError: The store keeps no tasks.
    """
    async with _open_tasks(cwd, store, environ) as (tasks, place):
        if place.is_empty:
            return []
        rows = await tasks.schedules()
    return [row for row in rows if everywhere or row.spec["request"].get("cwd") == cwd]


async def remove_schedule(
    schedule_id: str, cwd: str, *, store: str = "", environ: Mapping[str, str] | None = None
) -> None:
    """Delete a schedule; agents that it started go on.

    Raises:
        ConfigError: There is no such schedule.
    """
    async with _open_tasks(cwd, store, environ) as (tasks, _):
        if not await tasks.delete_schedule(schedule_id):
            raise ConfigError(f"there is no schedule {schedule_id}; `clew schedule list` has them")


@asynccontextmanager
async def _open_tasks(
    cwd: str, store: str, environ: Mapping[str, str] | None
) -> AsyncGenerator[tuple[TaskStore, ProjectStore], None]:
    place = project_store(Path(cwd), environ, store)
    try:
        yield find_tasks(place), place
    finally:
        await place.store.aclose()
