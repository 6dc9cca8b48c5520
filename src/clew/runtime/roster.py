"""`Roster`: the agents of all sessions and machines that share a store, in one list.

Each process writes the rows of its tasks, workers those of durable ones. The list shows a task
whose process is gone as failed, even when that process could not report it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from clew.core.errors import SessionError
from clew.core.events import PermissionRequest
from clew.core.permissions import Approval, PermissionAnswer
from clew.core.tasks import LogPage, TaskKind, TaskState, TaskStatus
from clew.core.text import one_line
from clew.runtime.protocol import LOG_PAGE_LINES
from clew.runtime.states import fail_stale
from clew.stores.leases import LEASE_TIMEOUT
from clew.stores.task_protocol import TaskRow, TaskStore, WorkerRow

SHOWN_ENDED = 20
"""How many of the tasks that have ended a list shows."""
_SEARCHED = 1_000
_LEAST_PREFIX = 3
_SHOWN = 60

_ENDED = frozenset(status for status in TaskStatus if status.is_terminal)
_OPEN = frozenset(TaskStatus) - _ENDED


class RosterGroup(StrEnum):
    """What a task needs from its user; the order is that of the list."""

    NEEDS_INPUT = "needs input"
    WORKING = "working"
    DONE = "done"
    FAILED = "failed"


class RosterEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task in the list; encodes to JSON."""

    task: TaskState
    """As it is, or as failed if its process is gone."""
    group: RosterGroup
    question: PermissionRequest | None = None
    """What it asks, until it is answered."""
    worker: str = ""
    host: str = ""
    """The machine that runs it; empty when no process does."""
    project: str = ""
    """The project whose store it is in, in a list of several projects."""
    is_gone: bool = False
    """True for a task that had not ended when its process did, and is not stored as failed yet."""


class TaskActions(Protocol):
    """What others can do to a durable task; `DurableTasks` does it."""

    async def answer(self, task_id: str, request_id: str, answer: PermissionAnswer) -> None:
        """Answer a question, and wake the task."""
        ...

    async def send(self, task_id: str, text: str) -> None:
        """Send a message, and wake the task."""
        ...

    async def cancel(self, task_id: str) -> None:
        """End the task."""
        ...


class ReadLog(Protocol):
    """Returns a page of the log of a task."""

    async def __call__(self, task: TaskState, *, offset: int, limit: int) -> LogPage:
        """Return a page; raises `BackgroundTaskError` when there is none."""
        ...


OpenActions: TypeAlias = Callable[[], AbstractAsyncContextManager[TaskActions]]


class Roster:
    """Lists the tasks of a store, and talks to them wherever they run.

    A process acts on what it finds in the store within a second.

    Args:
        tasks: The task store.
        read_log: Reads the transcript of an agent or the log of a process.
        durable: Opens what acts on durable tasks; without it they can only be listed and read.
        cwd: Only tasks of this folder; None for all.
        project: Named in the entries, for a list of several projects.
        clock: The current time.
    """

    def __init__(
        self,
        tasks: TaskStore,
        *,
        read_log: ReadLog,
        durable: OpenActions | None = None,
        cwd: str | None = None,
        project: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._tasks = tasks
        self._read_log = read_log
        self._durable = durable
        self._cwd = cwd
        self._project = project
        self._clock = clock

    async def list(
        self, *, kind: TaskKind | None = TaskKind.AGENT, ended: int = SHOWN_ENDED
    ) -> list[RosterEntry]:
        """Return the tasks that have not ended and the last of those that have.

        They are ordered by group, then the last changed first.

        Args:
            kind: Agents or processes; None for both.
            ended: How many of the tasks that have ended.
        """
        rows = await self._tasks.tasks(statuses=_OPEN, cwd=self._cwd, kind=kind)
        if ended:
            rows += await self._tasks.tasks(statuses=_ENDED, cwd=self._cwd, kind=kind, limit=ended)
        workers = {row.worker: row for row in await self._tasks.workers()}
        order = list(RosterGroup)
        entries = [self._make_entry(row, workers) for row in rows]
        return sorted(entries, key=lambda entry: order.index(entry.group))

    async def find(self, wanted: str) -> RosterEntry:
        """Return the task with that id, or whose id begins so; `agent-` may be left out.

        Raises:
            SessionError: There is none, or more than one.
        """
        row = await self._tasks.task(wanted)
        workers = {row.worker: row for row in await self._tasks.workers()}
        if row is not None:
            return self._make_entry(row, workers)
        starts = (wanted, f"agent-{wanted}", f"task-{wanted}")
        found = [
            entry
            for entry in await self.list(kind=None, ended=_SEARCHED)
            if len(wanted) >= _LEAST_PREFIX and entry.task.task_id.startswith(starts)
        ]
        if len(found) != 1:
            which = f"{len(found)} agents match" if found else "no agent matches"
            raise SessionError(f"{which} {one_line(wanted, _SHOWN)!r}; `clew agents` lists them")
        return found[0]

    async def answer(self, wanted: str, answer: PermissionAnswer) -> RosterEntry:
        """Answer the question of a task; the first answer counts. Returns the task before.

        Raises:
            SessionError: It asks nothing, or was answered already.
        """
        entry = await self.find(wanted)
        task_id, question = entry.task.task_id, entry.question
        if question is None:
            raise SessionError(f"{task_id} has no open question; it is {describe_status(entry)}")
        if answer.approval is Approval.PROJECT and not question.project_rules:
            raise SessionError("this call cannot be allowed for the project; answer y, s or n")
        if entry.task.durable:
            async with self._open_actions() as actions:
                await actions.answer(task_id, question.request_id, answer)
        else:
            await self._tasks.answer(task_id, question.request_id, answer)
        return entry

    async def cancel(self, wanted: str) -> RosterEntry:
        """Ask for the end of a task; returns the task before.

        Raises:
            SessionError: It has ended.
        """
        entry = await self.find(wanted)
        task_id = entry.task.task_id
        if entry.is_gone:
            await self._settle(entry)
        elif entry.task.status.is_terminal:
            raise SessionError(f"{task_id} has ended already; it is {describe_status(entry)}")
        elif entry.task.durable:
            async with self._open_actions() as actions:
                await actions.cancel(task_id)
        else:
            await self._tasks.request_cancel(task_id)
        return entry

    async def send(self, wanted: str, text: str) -> RosterEntry:
        """Send a message to a task; a durable agent that has ended continues with it.

        Raises:
            SessionError: It has ended, or its process is gone.
        """
        entry = await self.find(wanted)
        task_id = entry.task.task_id
        if entry.task.durable:
            async with self._open_actions() as actions:
                await actions.send(task_id, text)
        elif entry.task.status.is_terminal:
            how = f"; continue it with: clew --resume {task_id}"
            is_agent = entry.task.kind is TaskKind.AGENT
            raise SessionError(f"{task_id} has ended{how if is_agent else ''}")
        else:
            await self._tasks.send(task_id, text)
        return entry

    async def read(
        self, wanted: str, *, offset: int = 0, limit: int = LOG_PAGE_LINES
    ) -> tuple[RosterEntry, LogPage]:
        """Return a task and a page of its transcript or log.

        Raises:
            SessionError: There is no such task, or it has no log here.
        """
        entry = await self.find(wanted)
        return entry, await self._read_log(entry.task, offset=offset, limit=limit)

    def _make_entry(self, row: TaskRow, workers: Mapping[str, WorkerRow]) -> RosterEntry:
        worker = workers.get(row.worker)
        is_open = not row.state.status.is_terminal
        is_alive = worker is not None and is_worker_alive(worker)
        gone = is_open and not is_alive and not row.state.durable
        task = fail_stale(row.state, at=row.updated_at) if gone else row.state
        asks = None if gone or row.answer is not None or not is_open else row.question
        return RosterEntry(
            task=task,
            group=find_group(task, asks),
            question=asks,
            worker=row.worker,
            host=worker.host if worker is not None and is_alive and is_open else "",
            project=self._project,
            is_gone=gone,
        )

    def _open_actions(self) -> AbstractAsyncContextManager[TaskActions]:
        if self._durable is None:
            raise SessionError(
                "a durable agent needs the address of its store; use `clew agents` in a shell"
            )
        return self._durable()

    async def _settle(self, entry: RosterEntry) -> None:
        """Store that a task ended with its process."""
        row = await self._tasks.task(entry.task.task_id)
        if row is not None and not row.state.status.is_terminal:
            ended = replace(entry.task, ended_at=self._clock())
            await self._tasks.save_task(replace(row, state=ended), epoch=row.epoch)


def is_worker_alive(worker: WorkerRow) -> bool:
    """Return whether a process that runs tasks is alive, as far as this process can tell."""
    return not worker.has_ended and worker.silent <= LEASE_TIMEOUT


def find_group(task: TaskState, question: PermissionRequest | None) -> RosterGroup:
    """Return the group of a task that asks `question`."""
    match task.status:
        case TaskStatus.FAILED:
            return RosterGroup.FAILED
        case TaskStatus.COMPLETED | TaskStatus.CANCELLED:
            return RosterGroup.DONE
        case TaskStatus.QUEUED | TaskStatus.RUNNING | TaskStatus.WAITING_PERMISSION:
            return RosterGroup.WORKING if question is None else RosterGroup.NEEDS_INPUT


def describe_status(entry: RosterEntry) -> str:
    """Return the status of a task in a word or two."""
    if entry.question is not None:
        return "waiting for an answer"
    match entry.task.status:
        case TaskStatus.WAITING_PERMISSION:
            return "answered"
        case TaskStatus.CANCELLED:
            return "stopped"
        case status:
            return str(status)


_ANSWERS: Mapping[str, Approval] = {
    **dict.fromkeys(("y", "yes", "once"), Approval.ONCE),
    **dict.fromkeys(("s", "session"), Approval.SESSION),
    **dict.fromkeys(("p", "project", "always"), Approval.PROJECT),
    **dict.fromkeys(("n", "no"), Approval.NO),
}


def parse_answer(words: Sequence[str]) -> PermissionAnswer:
    """Return the answer in words such as `y`, `session` or `no use the other file`.

    Raises:
        SessionError: The first word is not an answer.
    """
    word = words[0].lower() if words else ""
    if word not in _ANSWERS:
        raise SessionError(
            "answer y (once), s (for this session), p (always in this project) or n; more words"
            " tell the agent what to do instead"
        )
    return PermissionAnswer(approval=_ANSWERS[word], reply=" ".join(words[1:]))
