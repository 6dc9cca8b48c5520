"""The queue of durable tasks, on DBOS.

DBOS keeps the queue in a database of its own: a file beside a store in SQLite, a schema in the
database of a store in PostgreSQL. It stores ids only; a task is a row of the `TaskStore`.

One workflow is one run of a task, and its id is the id of the task with the epoch that the run
began at. So submitting a task twice starts it once, and a task that waited can run again.

Importing this module takes a second: import it when a durable task is spawned, or in a worker.
"""

import logging
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import sqlalchemy
from anyio import to_thread
from dbos import DBOS, DBOSClient, DBOSConfig, DBOSPortableJSONSerializer, EnqueueOptions
from dbos import error as dbos_error
from msgspec.structs import replace

from clew.core.errors import BackgroundTaskError, StoreError, StoreUnavailable
from clew.core.tasks import TaskErrorCategory, TaskStatus
from clew.files.locks import folder_lock
from clew.runtime.task_takeover import QueuedRun
from clew.stores.task_protocol import TaskStore

logger = logging.getLogger(__name__)

APPLICATION = "clew"
QUEUE = "clew"
SCHEMA = "clew_queue"
VERSION = "1"
"""Changes only when workers of different versions cannot serve the same queue."""
_WORKFLOW = "run_task"
_POLL = 0.1
"""Seconds between two looks of a worker at the queue, if it is the only one."""
_SLOWEST_POLL = 10.0
_MIGRATION_SECONDS = 60.0
_SHUTDOWN_SECONDS = 5.0
_PRUNE_BATCH = 500

RunTask = Callable[[str], Awaitable[None]]
"""Runs the task of that id; never raises."""


def queue_address(store: str | Path) -> str:
    """Return the address of the queue that belongs to the store at that address.

    Raises:
        StoreError: Durable tasks need a store in SQLite or PostgreSQL.
    """
    place = str(store)
    if place.startswith(("postgresql://", "postgres://")):
        url = sqlalchemy.make_url(place.replace("postgres://", "postgresql://", 1))
        return url.render_as_string(hide_password=False)
    if "://" in place:
        raise StoreError("durable tasks need a session store in a file or in PostgreSQL")
    path = Path(place).expanduser().resolve()
    file = path.with_name(f"{path.name}.queue")
    return sqlalchemy.URL.create("sqlite", database=str(file)).render_as_string()


class DbosScheduler:
    """Puts tasks into the queue of a store; see `clew.runtime.protocol.Scheduler`.

    Args:
        tasks: The rows of the tasks.
        address: See `queue_address`.
    """

    def __init__(self, tasks: TaskStore, address: str) -> None:
        self._tasks = tasks
        self._address = address
        self._client: DBOSClient | None = None
        self._opening = anyio.Lock()
        # SQLite has one writer; a thread that waits for it is of no use.
        self._limiter = anyio.CapacityLimiter(4)

    async def submit(self, task_id: str) -> None:
        """Put a stored task into the queue; does nothing when it is there, runs or has ended.

        Raises:
            BackgroundTaskError: There is no such task.
            StoreUnavailable: The queue cannot be written to.
        """
        row = await self._tasks.task(task_id)
        if row is None:
            raise BackgroundTaskError(
                f"there is no task {task_id}", category=TaskErrorCategory.VALIDATION
            )
        if not row.worker and not row.state.status.is_terminal:
            await self._enqueue(task_id, row.epoch)

    async def _enqueue(self, task_id: str, epoch: int) -> None:
        options: EnqueueOptions = {
            "workflow_name": _WORKFLOW,
            "queue_name": QUEUE,
            "workflow_id": _run_id(task_id, epoch),
        }
        await self._call(lambda client: client.enqueue(options, task_id))

    async def cancel(self, task_id: str) -> None:
        """End a task: its worker interrupts it at once; without a worker, it ends here."""
        if not await self._tasks.request_cancel(task_id):
            return
        row = await self._tasks.task(task_id)
        if row is None or row.worker:
            return
        taken = await self._tasks.claim(task_id, "", epoch=row.epoch)
        if taken is None:
            # A worker took it at this moment, and sees the request.
            return
        now = taken.updated_at or taken.state.last_activity_at
        state = replace(taken.state, status=TaskStatus.CANCELLED, ended_at=now, question="")
        await self._tasks.save_task(replace(taken, state=state, worker=""), epoch=taken.epoch)
        await self._call(lambda client: client.cancel_workflows([_run_id(task_id, row.epoch)]))

    async def status(self, task_id: str) -> TaskStatus:
        """Return where the task stands.

        Raises:
            BackgroundTaskError: There is no such task.
        """
        row = await self._tasks.task(task_id)
        if row is None:
            raise BackgroundTaskError(
                f"there is no task {task_id}", category=TaskErrorCategory.VALIDATION
            )
        return row.state.status

    async def submit_lost(self, task_ids: Sequence[str]) -> list[str]:
        """Submit the queued tasks among these that no run will come for; returns their ids.

        The process that stored a task may have died before it submitted it, and a run may have
        ended before it could take its task.
        """
        rows = [await self._tasks.task(task_id) for task_id in task_ids]
        waiting = {
            _run_id(row.state.task_id, row.epoch): row
            for row in rows
            if row is not None and not row.worker and row.state.status is TaskStatus.QUEUED
        }
        if not waiting:
            return []
        found = await self._list(workflow_ids=list(waiting))
        known = {one.workflow_id: one.status for one in found}
        lost = []
        for run_id, row in waiting.items():
            task_id = row.state.task_id
            if known.get(run_id) in ("ENQUEUED", "PENDING", "DELAYED"):
                continue
            is_over = run_id in known
            if is_over and await self._tasks.claim(task_id, "", epoch=row.epoch) is None:
                continue
            await self.submit(task_id)
            lost.append(task_id)
        return lost

    async def find_runs(self, worker: str | None = None) -> list[QueuedRun]:
        """Return the runs that were begun and have not ended, of one worker or of all."""
        more = {} if worker is None else {"executor_id": worker}
        return [
            QueuedRun(
                run_id=one.workflow_id,
                task_id=one.workflow_id.rpartition(".")[0],
                worker=one.executor_id or "",
            )
            for one in await self._list(status="PENDING", queue_name=QUEUE, **more)
        ]

    async def resume(self, runs: Sequence[QueuedRun]) -> None:
        """Put runs of a worker that died into the queue again."""
        if ids := [run.run_id for run in runs]:
            await self._call(lambda client: client.resume_workflows(ids, queue_name=QUEUE))

    async def prune(self, *, before: str) -> int:
        """Forget runs that ended before that time (ISO 8601); returns how many.

        The tasks stay in the task store; only the engine's own rows go.
        """
        ended, count = ["SUCCESS", "ERROR", "CANCELLED"], 0
        while True:
            found = await self._list(status=ended, completed_before=before, limit=_PRUNE_BATCH)
            if ids := [one.workflow_id for one in found]:
                await self._call(partial(_delete, ids=ids))
            count += len(ids)
            if len(ids) < _PRUNE_BATCH:
                return count

    async def share(self, workers: int) -> None:
        """Let workers poll in turns: together as often as one alone, each at most every 10 s."""
        wanted = min(_SLOWEST_POLL, _POLL * max(1, workers))

        def set_interval(client: DBOSClient) -> None:
            queue = client.retrieve_queue(QUEUE)
            if queue is not None and queue.polling_interval_sec != wanted:
                queue.set_polling_interval_sec(wanted)

        await self._call(set_interval)

    async def aclose(self) -> None:
        """Close the connections; the tasks stay in the queue."""
        client, self._client = self._client, None
        if client is not None:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(client.destroy)

    async def _list(self, **filters: Any) -> list[Any]:
        found: list[Any] = await self._call(
            lambda client: client.list_workflows(load_input=False, load_output=False, **filters)
        )
        return found

    async def _call(self, work: Callable[[DBOSClient], Any]) -> Any:
        try:
            client = await self._open()
            return await to_thread.run_sync(partial(work, client), limiter=self._limiter)
        except (sqlalchemy.exc.SQLAlchemyError, dbos_error.DBOSException, OSError) as error:
            raise StoreUnavailable(f"the task queue cannot be used: {_reason(error)}") from error

    async def _open(self) -> DBOSClient:
        async with self._opening:
            if self._client is None:
                self._client = await to_thread.run_sync(_connect, self._address)
            return self._client


@asynccontextmanager
async def serve_queue(
    address: str, run: RunTask, *, worker: str, concurrency: int
) -> AsyncGenerator[None, None]:
    """Take tasks from the queue and run them, in this event loop, until the block ends.

    There is one DBOS in a process, so a process can serve one queue. End all runs before you
    leave the block.

    Args:
        address: See `queue_address`.
        run: Runs one task.
        worker: The name of this worker; no other process may have it.
        concurrency: How many tasks each worker of this queue runs at once. The worker that
            started last decides for all.
    """
    await to_thread.run_sync(_prepare, address)
    config: DBOSConfig = {
        "name": APPLICATION,
        "system_database_url": address,
        "dbos_system_schema": SCHEMA,
        "executor_id": worker,
        "application_version": VERSION,
        "serializer": DBOSPortableJSONSerializer(),
        "enable_otlp": False,
        "log_level": "ERROR",
        "run_migrations": False,
    }
    DBOS(config=config)

    async def run_task(task_id: str) -> None:
        await run(task_id)

    DBOS.workflow(name=_WORKFLOW)(run_task)
    # The event loop of this thread is the one in which DBOS runs the workflows.
    DBOS.launch()
    try:
        await DBOS.register_queue_async(
            QUEUE,
            worker_concurrency=concurrency,
            polling_interval_sec=_POLL,
            on_conflict="always_update",
        )
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await _stop(worker)


async def _stop(worker: str) -> None:
    """Wait until DBOS has recorded the runs that ended, then end its threads."""
    filters: dict[str, Any] = {"status": "PENDING", "executor_id": worker, "load_input": False}
    with anyio.move_on_after(_SHUTDOWN_SECONDS):
        while await DBOS.list_workflows_async(**filters):  # noqa: ASYNC110 - in another thread
            await anyio.sleep(_POLL / 4)
    await to_thread.run_sync(partial(DBOS.destroy, workflow_completion_timeout_sec=0))


def _delete(client: DBOSClient, *, ids: list[str]) -> None:
    client.delete_workflows(ids)


def _run_id(task_id: str, epoch: int) -> str:
    return f"{task_id}.{epoch}"


def _connect(address: str) -> DBOSClient:
    _prepare(address)
    return DBOSClient(
        system_database_url=address,
        dbos_system_schema=SCHEMA,
        application_name=APPLICATION,
        serializer=DBOSPortableJSONSerializer(),
    )


def _prepare(address: str) -> None:
    """Create or update the tables of the queue.

    Raises:
        StoreUnavailable: The database cannot be reached or written to.
    """
    try:
        if not address.startswith("sqlite:"):
            DBOS.migrate(address, schema=SCHEMA)
            return
        path = Path(sqlalchemy.make_url(address).database or "")
        path.parent.mkdir(parents=True, exist_ok=True)
        # The migrations of DBOS for SQLite take no lock of their own.
        with folder_lock(path.parent, timeout=_MIGRATION_SECONDS):
            with closing(sqlite3.connect(path)) as connection:
                # Kept in the file: readers do not wait for a writer.
                connection.execute("PRAGMA journal_mode=WAL")
            DBOS.migrate(address)
    except (sqlalchemy.exc.SQLAlchemyError, sqlite3.Error, OSError) as error:
        raise StoreUnavailable(f"the task queue cannot be used: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    return " ".join(str(getattr(error, "orig", None) or error).split())
