"""`Agents`: the subagents of one session, for its tools, commands, skills and hooks."""

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from clew.core.errors import AbortError, BackgroundTaskError
from clew.core.tasks import (
    JobWaitPolicy,
    LogPage,
    TaskErrorCategory,
    TaskKind,
    TaskMode,
    TaskState,
    TaskStatus,
)
from clew.extensions.agent_definitions import AgentDefinition
from clew.extensions.skills import Skill
from clew.runtime.protocol import LOG_PAGE_LINES, TaskRequest
from clew.sdk.agent_setup import AgentSetup
from clew.sdk.session_tasks import SessionTasks

if TYPE_CHECKING:
    from clew.runtime.subagents import SubagentManager


class Agents:
    """Starts subagents, waits for them, and talks to them.

    Args:
        setup: What the agents have in common.
        tasks: The background tasks of the session, and their groups.
    """

    def __init__(self, setup: AgentSetup, tasks: SessionTasks) -> None:
        self.setup = setup
        self._tasks = tasks

    @cached_property
    def manager(self) -> "SubagentManager":
        """The agents among the background tasks of the session."""
        # Most sessions never start an agent.
        from clew.runtime.subagents import SubagentManager  # noqa: PLC0415

        return SubagentManager(self._tasks.manager)

    def find_definition(self, name: str) -> AgentDefinition:
        """Return an agent's definition.

        Raises:
            ConfigError: There is none of that name.
        """
        return self.setup.find_definition(name)

    async def run(self, request: TaskRequest) -> TaskState:
        """Have an agent do a task, and return its last state, even if it failed.

        A caller that is cancelled cancels the agent.

        Raises:
            ConfigError: There is no such agent.
        """
        return await self.manager.run(self._complete(request, "foreground"))

    async def ask(self, request: TaskRequest) -> str:
        """Have an agent do a task, and return its answer.

        Raises:
            BackgroundTaskError: It failed; `partial` has what there was of the answer.
            ConfigError: There is no such agent.
            AbortError: It was cancelled.
        """
        state = await self.run(request)
        if state.status is TaskStatus.COMPLETED:
            return state.result
        if state.status is TaskStatus.CANCELLED:
            raise AbortError(f"the agent was aborted: {state.error}")
        raise BackgroundTaskError(
            state.error,
            category=state.error_category or TaskErrorCategory.RUNNER,
            timeout_reason=state.timeout_reason,
            partial=state.result,
        )

    async def run_skill(self, skill: Skill, text: str) -> str:
        """Have an agent carry out a skill with `context: fork`; raises as `ask` does."""
        request = TaskRequest(
            kind=TaskKind.AGENT,
            prompt=text,
            label=f"/{skill.name}",
            agent=skill.agent,
            model=skill.model,
            allowed_tools=skill.allowed_tools or None,
            fork_worker=True,
        )
        return await self.ask(request)

    async def start(self, request: TaskRequest) -> TaskState:
        """Start an agent in the background.

        Raises:
            ConfigError: There is no such agent.
            BackgroundTaskError: Too many agents wait already.
        """
        return await self.manager.spawn(self._complete(request, "background"))

    async def start_all(
        self, requests: Sequence[TaskRequest], *, mode: TaskMode
    ) -> tuple[str, list[TaskState]]:
        """Start several agents before waiting for any; returns their group and states.

        Raises:
            ConfigError: One of them does not exist; then none is started.
            BackgroundTaskError: Too many agents wait already; then none is left running.
        """
        group_id = f"group-{os.urandom(4).hex()}"
        complete = [replace(self._complete(one, mode), group_id=group_id) for one in requests]
        started: list[TaskState] = []
        try:
            for request in complete:
                started.append(await self.manager.spawn(request))  # noqa: PERF401 - cancelled below
            if started:
                policy = JobWaitPolicy.WAIT_ALL if mode == "foreground" else JobWaitPolicy.DETACHED
                ids = [state.task_id for state in started]
                self._tasks.groups.create(ids, policy=policy, group_id=group_id)
        except BaseException:
            await self._cancel_all(started)
            raise
        return group_id, started

    async def wait_all(self, states: Sequence[TaskState]) -> list[TaskState]:
        """Wait until all have ended. A caller that is cancelled cancels them."""
        try:
            return list(await self.manager.wait_all([state.task_id for state in states]))
        except BaseException:
            await self._cancel_all(states)
            raise

    async def send(self, agent_id: str, text: str) -> TaskState:
        """Give an agent a message; one that has ended continues in the background."""
        return await self.manager.send(agent_id, text, limits=self._tasks.agent_limits)

    async def read(self, agent_id: str, *, offset: int = 0, limit: int = LOG_PAGE_LINES) -> LogPage:
        """Return a page of an agent's transcript."""
        return await self.manager.read_log(agent_id, offset=offset, limit=limit)

    async def stop(self, agent_id: str) -> TaskState:
        """Cancel an agent."""
        return await self.manager.cancel(agent_id, "stopped")

    def list(self) -> tuple[TaskState, ...]:
        """Return the agents of the session, oldest first."""
        return self.manager.list()

    def _complete(self, request: TaskRequest, mode: TaskMode) -> TaskRequest:
        definition = self.find_definition(request.agent)
        return replace(
            request,
            kind=TaskKind.AGENT,
            agent=definition.name,
            session_id=self.setup.parent.session_id,
            cwd=request.cwd or str(self.setup.cwd),
            mode=mode,
            isolation=request.isolation if definition.isolation == "none" else definition.isolation,
            limits=request.limits or self._tasks.agent_limits,
        )

    async def _cancel_all(self, states: Sequence[TaskState]) -> None:
        with anyio.CancelScope(shield=True):
            for state in states:
                # One that has ended, or was closed since, must not keep the others running.
                with suppress(BackgroundTaskError):
                    await self.manager.cancel(state.task_id, "its caller was cancelled")
