"""Starts the tasks of schedules that are due."""

import logging
import time
from collections.abc import Callable
from hashlib import sha256
from typing import TypeAlias

from clew.core.errors import StoreUnavailable
from clew.runtime.durable_tasks import DurableTasks, make_row
from clew.stores.task_protocol import ScheduleRow

logger = logging.getLogger(__name__)

NextTime: TypeAlias = Callable[[ScheduleRow, float], float]
"""Returns when a schedule is due after that time."""


class DueSchedules:
    """Fires schedules, each once for each time, whichever worker is first.

    Args:
        durable: Where the tasks are started.
        next_time: Returns when a schedule is due next.
    """

    def __init__(self, durable: DurableTasks, next_time: NextTime) -> None:
        self._durable = durable
        self._next_time = next_time
        self._broken: set[tuple[str, float]] = set()

    async def fire(self) -> None:
        """Start the tasks that are due. A schedule that cannot be read does not stop the others.

        Raises:
            StoreUnavailable: The store or the queue cannot be used; a later call does the rest.
        """
        now = time.time()
        for row in await self._durable.tasks.schedules():
            if row.next_at > now:
                return
            try:
                await self._fire(row, now)
            except StoreUnavailable:
                raise
            except Exception:
                if (key := (row.schedule_id, row.next_at)) not in self._broken:
                    self._broken.add(key)
                    logger.exception("schedule %s cannot be run", row.schedule_id)

    async def _fire(self, row: ScheduleRow, now: float) -> None:
        """Store the task, move the schedule on, and submit the task.

        A worker may die between any two of these steps. The id is the same for each that tries,
        so the next one goes on with the same task.
        """
        tasks, task_id = self._durable.tasks, _make_id(row)
        next_at = self._next_time(row, now)
        if await tasks.task(task_id) is None:
            await tasks.save_task(make_row(task_id, row.spec, now=now))
        if await tasks.claim_schedule(row, next_at=next_at, task_id=task_id):
            logger.info("schedule %s starts task %s", row.schedule_id, task_id)
            await self._durable.scheduler.submit(task_id)


def _make_id(row: ScheduleRow) -> str:
    """Return the id of the task for the time at which a schedule is due."""
    name = f"{row.schedule_id} {row.created_at!r} {row.next_at!r}"
    return f"agent-{sha256(name.encode()).hexdigest()[:12]}"
