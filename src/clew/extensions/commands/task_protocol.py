"""The background tasks of a session, as commands see them."""

from collections.abc import Sequence
from typing import Protocol

from clew.core.tasks import JobGroupState, LogPage, TaskMode, TaskState
from clew.runtime.protocol import LOG_PAGE_LINES, TaskRequest


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


class AgentControl(Protocol):
    """Starts the subagents of a session, and talks to them.

    Every method raises `BackgroundTaskError` for an id that is not the id of an agent.
    """

    async def run(self, request: TaskRequest) -> TaskState:
        """Have an agent do a task, and return its last state."""
        ...

    async def start(self, request: TaskRequest) -> TaskState:
        """Start an agent in the background."""
        ...

    async def start_all(
        self, requests: Sequence[TaskRequest], *, mode: TaskMode
    ) -> tuple[str, list[TaskState]]:
        """Start agents before waiting for any; returns the id of their group and their states."""
        ...

    async def wait_all(self, states: Sequence[TaskState]) -> list[TaskState]:
        """Wait until all have ended."""
        ...

    async def send(self, agent_id: str, text: str) -> TaskState:
        """Give an agent a message; one that has ended continues."""
        ...

    async def read(self, agent_id: str, *, offset: int = 0, limit: int = LOG_PAGE_LINES) -> LogPage:
        """Return a page of an agent's transcript."""
        ...

    async def stop(self, agent_id: str) -> TaskState:
        """Cancel an agent, and wait until it has ended."""
        ...

    def list(self) -> tuple[TaskState, ...]:
        """Return the agents of the session, oldest first."""
        ...
