"""The background tasks of a session, as commands see them."""

from collections.abc import Sequence
from typing import Protocol

from clew.core.tasks import JobGroupState, LogPage, TaskState


class BackgroundTasks(Protocol):
    """The background tasks of a session, as commands use them; a part of `TaskClient`."""

    async def list(self) -> Sequence[TaskState]:
        """Return all tasks that are not closed, oldest first."""
        ...

    async def list_groups(self) -> Sequence[JobGroupState]:
        """Return all job groups, oldest first."""
        ...

    async def cancel(self, task_id: str, *, reason: str = "") -> TaskState:
        """Cancel a task and wait for its end."""
        ...

    async def close(self, task_id: str) -> TaskState:
        """Remove a task that has ended from the list."""
        ...

    async def send(self, task_id: str, text: str) -> None:
        """Pass a message to a task."""
        ...

    async def read_log(self, task_id: str, *, offset: int = 0) -> LogPage:
        """Return a page of the output of a process, or of the transcript of an agent."""
        ...
