"""The durable tasks of a session store; the engine is imported with the first one."""

import importlib.util
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from anyio import to_thread

from clew.core.errors import ConfigError, MissingExtra
from clew.core.tasks import TaskStatus
from clew.runtime.durable_tasks import DurableTasks
from clew.runtime.task_takeover import find_workers
from clew.sdk.session_store import ProjectStore
from clew.stores.task_protocol import TaskStore

if TYPE_CHECKING:
    from clew.runtime.dbos import DbosScheduler

_LONG_SILENCE = 60.0


def is_durable_installed() -> bool:
    """Return True if the engine for durable tasks is installed."""
    return importlib.util.find_spec("dbos") is not None


def require_durable() -> None:
    """Check that the engine for durable tasks is installed.

    Raises:
        MissingExtra: It is not.
    """
    if not is_durable_installed():
        raise MissingExtra("Durable tasks need a package that is not installed.", extra="durable")


def find_tasks(place: ProjectStore) -> TaskStore:
    """Return the task store of a store.

    Raises:
        ConfigError: The store keeps no tasks.
    """
    tasks = place.tasks
    if tasks is None or not place.address:
        raise ConfigError(
            "this session store keeps no tasks; durable agents need a store in SQLite or PostgreSQL"
        )
    return tasks


async def count_workers(tasks: TaskStore) -> int:
    """Return how many workers of a store are alive."""
    known = await find_workers(tasks)
    return sum(not one.has_ended and one.silent < _LONG_SILENCE for one in known)


class QueueOfStore:
    """The queue of a store; a `Scheduler` whose engine is imported with the first task."""

    def __init__(self, tasks: TaskStore, address: str) -> None:
        self._tasks = tasks
        self._address = address
        self._opened: DbosScheduler | None = None

    async def submit(self, task_id: str) -> None:
        """Put a stored task into the queue."""
        await (await self._open()).submit(task_id)

    async def cancel(self, task_id: str) -> None:
        """End a task."""
        await (await self._open()).cancel(task_id)

    async def status(self, task_id: str) -> TaskStatus:
        """Return where the task stands."""
        return await (await self._open()).status(task_id)

    async def aclose(self) -> None:
        """Close the connections; the tasks stay in the queue."""
        if self._opened is not None:
            await self._opened.aclose()

    async def _open(self) -> "DbosScheduler":
        if self._opened is None:
            require_durable()
            # Takes a second: not in the event loop.
            make = await to_thread.run_sync(_import_engine)
            self._opened = self._opened or make(self._tasks, self._address)
        return self._opened


def _import_engine() -> "Callable[[TaskStore, str], DbosScheduler]":
    from clew.runtime.dbos import DbosScheduler, queue_address  # noqa: PLC0415 - see above

    return lambda tasks, store: DbosScheduler(tasks, queue_address(store))


@asynccontextmanager
async def open_durable(place: ProjectStore) -> AsyncGenerator[DurableTasks, None]:
    """Open the durable tasks of a store; the caller closes the store.

    Raises:
        MissingExtra: The engine is not installed.
        ConfigError: The store keeps no tasks.
    """
    require_durable()
    tasks = find_tasks(place)
    queue = QueueOfStore(tasks, place.address)
    try:
        yield DurableTasks(tasks, queue)
    finally:
        await queue.aclose()
