"""`SubagentManager`: the agents among the background tasks of a session."""

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from clew.core.errors import BackgroundTaskError
from clew.core.tasks import LogPage, TaskErrorCategory, TaskKind, TaskMode, TaskState, TaskStatus
from clew.runtime.manager import BackgroundTaskManager
from clew.runtime.protocol import LOG_PAGE_LINES, TaskLimits, TaskRequest


class SubagentManager:
    """Starts agents and talks to them; the `BackgroundTaskManager` does the work.

    Every method raises `BackgroundTaskError` for an id that is not the id of an agent.
    """

    def __init__(self, manager: BackgroundTaskManager) -> None:
        self.background_task_manager = manager
        """Has the tasks of all kinds."""

    async def spawn(self, request: TaskRequest) -> TaskState:
        """Accept an agent and return at once; see `BackgroundTaskManager.spawn`."""
        return await self.background_task_manager.spawn(_check(request))

    async def run(self, request: TaskRequest) -> TaskState:
        """Run an agent to its end. A caller that is cancelled cancels the agent."""
        return await self.background_task_manager.run(_check(request))

    async def wait(self, agent_id: str) -> TaskState:
        """Return the last state of an agent once it has ended."""
        return await self.background_task_manager.wait(self.get(agent_id).task_id)

    async def wait_all(self, agent_ids: Sequence[str]) -> tuple[TaskState, ...]:
        """Return the last states of agents once all have ended, also of those closed meanwhile."""
        ids = [self.get(agent_id).task_id for agent_id in agent_ids]
        tasks = [self.background_task_manager.find(agent_id) for agent_id in ids]
        return tuple([await task.wait() for task in tasks])

    def list(self, *, statuses: Collection[TaskStatus] | None = None) -> tuple[TaskState, ...]:
        """Return the agents, oldest first, or those in one of the `statuses`."""
        return self.background_task_manager.list(kind=TaskKind.AGENT, statuses=statuses)

    def get(self, agent_id: str) -> TaskState:
        """Return an agent."""
        state = self.background_task_manager.get(agent_id)
        if state.kind is not TaskKind.AGENT:
            raise _invalid(f"{agent_id} is not an agent")
        return state

    async def cancel(self, agent_id: str, reason: str = "") -> TaskState:
        """Cancel an agent, and wait until nothing of it runs any more."""
        return await self.background_task_manager.cancel(self.get(agent_id).task_id, reason)

    def close(self, agent_id: str) -> TaskState:
        """Remove an agent that has ended from the list. Its session stays in the store."""
        return self.background_task_manager.close(self.get(agent_id).task_id)

    async def send(
        self,
        agent_id: str,
        text: str,
        *,
        mode: TaskMode = "background",
        limits: TaskLimits | None = None,
    ) -> TaskState:
        """Give an agent a message: one that runs reads it before its next model call.

        An agent that has ended continues its session with the message, in the given mode, with the
        tools and turns of its request. `limits` are for one whose request has none, or is not known
        any more because another process had it.
        """
        state = self.get(agent_id)
        if not state.status.is_terminal:
            await self.background_task_manager.send(agent_id, text)
            return self.get(agent_id)
        request = self.background_task_manager.find(agent_id).request
        again = replace(
            request,
            prompt=text,
            label=state.label,
            model=state.model,
            mode=mode,
            group_id="",
            limits=request.limits or limits,
        )
        return await self.background_task_manager.spawn(again)

    async def read_log(
        self, agent_id: str, *, offset: int = 0, limit: int = LOG_PAGE_LINES
    ) -> LogPage:
        """Return a page of an agent's transcript."""
        agent = self.get(agent_id)
        return await self.background_task_manager.read_log(
            agent.task_id, offset=offset, limit=limit
        )


def _check(request: TaskRequest) -> TaskRequest:
    if request.kind is not TaskKind.AGENT:
        raise _invalid(f"a {request.kind} is not an agent")
    return request


def _invalid(message: str) -> BackgroundTaskError:
    return BackgroundTaskError(message, category=TaskErrorCategory.VALIDATION)
