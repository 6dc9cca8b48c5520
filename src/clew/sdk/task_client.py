"""`TaskClient`: the background tasks and job groups of a session, as clients use them."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from clew.core.tasks import JobGroupState, JobGroupSummary, JobWaitPolicy, LogPage, TaskState
from clew.sdk.session_tasks import SessionTasks

LOG_LINES = 200


class TaskClient(Protocol):
    """The background tasks of a session: subagents and processes, and groups of them.

    The model, commands and programs start tasks; their events are `background_task_event` and
    `background_job_group_event`. Methods raise `BackgroundTaskError` for a task or a group that
    does not exist, or that cannot do what is asked.
    """

    async def list(self) -> tuple[TaskState, ...]:
        """Return all tasks that are not closed, oldest first."""
        ...

    async def get(self, task_id: str) -> TaskState:
        """Return a task."""
        ...

    async def cancel(self, task_id: str, *, reason: str = "") -> TaskState:
        """Cancel a task and return its last state, once nothing of it runs any more."""
        ...

    async def close(self, task_id: str) -> TaskState:
        """Remove a task that has ended from the list, and return its last state."""
        ...

    async def send(self, task_id: str, text: str) -> None:
        """Pass a message to a task: a prompt to an agent, input to a process."""
        ...

    async def read_log(self, task_id: str, *, offset: int = 0, limit: int = LOG_LINES) -> LogPage:
        """Return a page of the output of a process, or of the transcript of an agent."""
        ...

    async def create_group(
        self,
        task_ids: Sequence[str],
        *,
        policy: JobWaitPolicy = JobWaitPolicy.WAIT_ALL,
        label: str = "",
    ) -> JobGroupState:
        """Group tasks that exist, to wait for them together."""
        ...

    async def list_groups(self) -> tuple[JobGroupState, ...]:
        """Return all groups, oldest first."""
        ...

    async def get_group(self, group_id: str) -> JobGroupState:
        """Return a group."""
        ...

    async def wait_group(self, group_id: str) -> JobGroupState:
        """Wait until a group is complete, as its policy says."""
        ...

    async def summarize_group(self, group_id: str) -> JobGroupSummary:
        """Return how many tasks of a group have ended and how, with one line for each."""
        ...


class LocalTasks:
    """Implements `TaskClient` for a session in this process."""

    def __init__(self, tasks: Callable[[], Awaitable[SessionTasks]]) -> None:
        self._tasks = tasks

    async def list(self) -> tuple[TaskState, ...]:
        """Return all tasks that are not closed."""
        return (await self._tasks()).list_tasks()

    async def get(self, task_id: str) -> TaskState:
        """Return a task."""
        return (await self._tasks()).manager.get(task_id)

    async def cancel(self, task_id: str, *, reason: str = "") -> TaskState:
        """Cancel a task and wait for its end."""
        return await (await self._tasks()).manager.cancel(task_id, reason)

    async def close(self, task_id: str) -> TaskState:
        """Remove a task that has ended from the list."""
        return (await self._tasks()).manager.close(task_id)

    async def send(self, task_id: str, text: str) -> None:
        """Pass a message to a task."""
        await (await self._tasks()).manager.send(task_id, text)

    async def read_log(self, task_id: str, *, offset: int = 0, limit: int = LOG_LINES) -> LogPage:
        """Return a page of a task's log."""
        manager = (await self._tasks()).manager
        return await manager.read_log(task_id, offset=offset, limit=limit)

    async def create_group(
        self,
        task_ids: Sequence[str],
        *,
        policy: JobWaitPolicy = JobWaitPolicy.WAIT_ALL,
        label: str = "",
    ) -> JobGroupState:
        """Group tasks that exist."""
        return (await self._tasks()).groups.create(task_ids, policy=policy, label=label)

    async def list_groups(self) -> tuple[JobGroupState, ...]:
        """Return all groups."""
        return (await self._tasks()).list_groups()

    async def get_group(self, group_id: str) -> JobGroupState:
        """Return a group."""
        return (await self._tasks()).groups.get(group_id)

    async def wait_group(self, group_id: str) -> JobGroupState:
        """Wait until a group is complete."""
        return await (await self._tasks()).groups.wait(group_id)

    async def summarize_group(self, group_id: str) -> JobGroupSummary:
        """Return how the tasks of a group stand."""
        return (await self._tasks()).groups.summarize(group_id)
