"""`TaskList`: the tasks of a manager by their ids, and which requests it accepts."""

import os
from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias

from clew.core.errors import BackgroundTaskError, TaskNotFound
from clew.core.tasks import TaskErrorCategory, TaskKind, TaskState, TaskStatus
from clew.runtime.protocol import TaskRequest, TaskRunner
from clew.runtime.task import ManagedTask

TaskIdFactory: TypeAlias = Callable[[TaskRequest], str]

MAX_DEPTH = 1


def make_task_id(request: TaskRequest) -> str:
    """Return a new id: `agent-<8 hex>` for an agent, `task-<8 hex>` for a process."""
    prefix = "agent" if request.kind is TaskKind.AGENT else "task"
    return f"{prefix}-{os.urandom(4).hex()}"


class Runners:
    """What runs tasks: one runner for each kind, and one for durable tasks."""

    def __init__(self, runners: Iterable[TaskRunner], *, durable: TaskRunner | None) -> None:
        self._by_kind = {runner.kind: runner for runner in runners}
        self._durable = durable

    def find(self, task: TaskRequest | TaskState) -> TaskRunner | None:
        """Return what runs a task, if there is anything."""
        return self._durable if task.durable else self._by_kind.get(task.kind)

    def check(self, request: TaskRequest) -> TaskRunner:
        """Return what runs a request.

        Raises:
            BackgroundTaskError: The request is not valid here.
        """
        if not 1 <= request.depth <= MAX_DEPTH:
            raise invalid("a task cannot start tasks of its own")
        if not request.prompt.strip():
            raise invalid("the prompt is empty; say what the task is to do")
        runner = self.find(request)
        if runner is None:
            what = "durable" if request.durable else str(request.kind)
            raise invalid(f"this session cannot run {what} tasks")
        return runner


class TaskList:
    """Tasks by id, oldest first."""

    def __init__(self, make_id: TaskIdFactory) -> None:
        self._make_id = make_id
        self._tasks: dict[str, ManagedTask] = {}

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._tasks

    def add(self, task: ManagedTask) -> None:
        """Add a task, as the newest; it replaces one with the same id."""
        self._tasks.pop(task.task_id, None)
        self._tasks[task.task_id] = task

    def remove(self, task_id: str) -> ManagedTask:
        """Remove a task that has ended.

        Raises:
            BackgroundTaskError: There is no such task, or it has not ended.
        """
        task = self.find(task_id)
        if not task.state.status.is_terminal:
            raise invalid(f"{task_id} is {task.state.status}; cancel it before you close it")
        return self._tasks.pop(task_id)

    def find(self, task_id: str) -> ManagedTask:
        """Return a task.

        Raises:
            BackgroundTaskError: There is no such task.
        """
        task = self._tasks.get(task_id)
        if task is None:
            raise TaskNotFound(f"there is no task {task_id}")
        return task

    def find_open(self, task_id: str) -> ManagedTask:
        """Return a task that has not ended.

        Raises:
            BackgroundTaskError: There is no such task, it has ended, or it is not followed here.
        """
        task = self.find(task_id)
        if task.state.status.is_terminal:
            raise invalid(f"{task_id} has already ended: it is {task.state.status}")
        if task.is_left:
            raise invalid(f"{task_id} runs in `clew worker`, and this session cannot reach it")
        return task

    def list_open(self) -> list[ManagedTask]:
        """Return the tasks that have not ended and are followed here."""
        return [task for task in self._tasks.values() if not task.ended.is_set()]

    def select(
        self,
        *,
        kind: TaskKind | None,
        statuses: Collection[TaskStatus] | None,
        group_id: str | None,
    ) -> tuple[TaskState, ...]:
        """Return the states of the tasks that match; None matches all."""
        return tuple(
            task.state
            for task in self._tasks.values()
            if (kind is None or task.state.kind is kind)
            and (statuses is None or task.state.status in statuses)
            and (group_id is None or task.state.group_id == group_id)
        )

    def choose_id(self, request: TaskRequest) -> str:
        """Return the id for a new task.

        Raises:
            BackgroundTaskError: A task of that id has not ended.
        """
        if not request.task_id:
            task_id = self._make_id(request)
            while task_id in self._tasks:
                task_id = self._make_id(request)
            return task_id
        known = self._tasks.get(request.task_id)
        if known is not None and not known.state.status.is_terminal:
            raise invalid(f"{request.task_id} is {known.state.status} already")
        return request.task_id


def invalid(message: str, *, recoverable: bool = False) -> BackgroundTaskError:
    """Return the error for a request that cannot be carried out."""
    return BackgroundTaskError(
        message, category=TaskErrorCategory.VALIDATION, recoverable=recoverable
    )
