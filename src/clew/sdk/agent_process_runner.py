"""`ProcessAgentRunner`: runs each subagent in a process of its own.

A crash or a leak of an agent then harms only the agent. The process opens its session from plain
data, as any `clew` does; questions are asked through the parent.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import anyio
from msgspec.structs import replace

from clew.core import errors
from clew.core.entries import spending_of
from clew.core.errors import BackgroundTaskError, ClewError, ConfigError, SessionNotFound
from clew.core.events import (
    ContextUpdated,
    EntryAdded,
    Envelope,
    PermissionRequest,
    PermissionResolved,
    RunCompleted,
    RunFailed,
    TodosChanged,
    UserMessage,
)
from clew.core.ids import SessionId
from clew.core.permissions import (
    Access,
    Approval,
    Decision,
    PermissionAnswer,
    PermissionMode,
    Verdict,
)
from clew.core.tasks import LogPage, TaskErrorCategory, TaskKind
from clew.core.usage import Spending
from clew.extensions.agent_discovery import resolve_model
from clew.hooks.protocol import HookEvent, HookInput
from clew.runtime.protocol import LOG_PAGE_LINES, RunningTask, TaskFacts, TaskResult
from clew.sdk.agent_pipe import (
    AnswerQuestion,
    ChangeBudget,
    ChangeMode,
    FinishAgent,
    SendText,
    StartAgent,
)
from clew.sdk.agent_process import AgentProcess
from clew.sdk.agent_questions import ask_for_agent
from clew.sdk.agent_runner import AgentRunner, categorize
from clew.sdk.agent_setup import AgentSetup
from clew.sdk.agent_transcript import describe_entries, read_transcript
from clew.sdk.session_spec import SessionSpec
from clew.sdk.session_store import project_address
from clew.stores.memory import MemoryStore
from clew.stores.record import AGENT_KIND

logger = logging.getLogger(__name__)

_NOT_FORWARDED = EntryAdded | TodosChanged | PermissionResolved


class ProcessAgentRunner:
    """Runs subagents in processes; a `TaskRunner` for `subagent_runner_factory`.

    Agents that hooks and forked skills start run in this process, because they are short.

    Args:
        setup: The services of the parent.
        spec: How a process opens the session of an agent: folder, provider, model, store. The
            parent's model and permission mode count before those in it.
        environ: Environment variables of the processes; by default those of this process.
    """

    kind = TaskKind.AGENT

    def __init__(
        self, setup: AgentSetup, spec: SessionSpec, environ: Mapping[str, str] | None = None
    ) -> None:
        if isinstance(setup.store, MemoryStore):
            raise ConfigError(
                "agents in processes need a store that other processes can open: use SQLite"
            )
        self._setup = setup
        self._spec = spec
        self._environ = os.environ if environ is None else environ
        self._inside = AgentRunner(setup)
        self._running: dict[str, _RemoteAgent] = {}

    async def run(self, task: RunningTask) -> TaskResult:
        """Have an agent do the task, and return its final text.

        Raises:
            BackgroundTaskError: It failed, or its process died; `partial` has what its journal
                tells about its work.
            ConfigError: There is no such agent.
        """
        request = task.request
        if request.fork_worker or not request.fires_hooks:
            return await self._inside.run(task)
        start = describe_agent(self._setup, self._spec, task, self._environ)
        task.describe(TaskFacts(model=start.spec.model, cwd=start.spec.cwd))
        agent = self._running[task.task_id] = _RemoteAgent(self._setup, task)
        try:
            await agent.run(start, self._environ)
        except BaseException:
            with anyio.CancelScope(shield=True):
                task.describe(TaskFacts(result=await self._find_partial(task.task_id)))
            raise
        finally:
            del self._running[task.task_id]
        if agent.problem is not None:
            raise BackgroundTaskError(
                agent.problem,
                category=agent.category,
                partial=await self._find_partial(task.task_id),
            )
        return TaskResult(text=agent.text)

    async def send(self, task_id: str, text: str) -> None:
        """Give a running agent a message; the model reads it before its next call.

        Raises:
            BackgroundTaskError: The agent does not run.
        """
        agent = self._running.get(task_id)
        if agent is None:
            await self._inside.send(task_id, text)
        else:
            agent.send(text)

    async def read_log(
        self, task_id: str, *, offset: int = 0, limit: int = LOG_PAGE_LINES
    ) -> LogPage:
        """Return a page of an agent's transcript, which is its journal.

        Raises:
            BackgroundTaskError: The agent has not written anything yet.
        """
        return await read_transcript(self._setup.store, task_id, offset=offset, limit=limit)

    async def _find_partial(self, task_id: str) -> str:
        try:
            _, entries = await self._setup.store.load(SessionId(task_id))
        except SessionNotFound:
            return ""
        return describe_entries(entries)


class _RemoteAgent:
    """An agent in another process, as its parent sees it."""

    def __init__(self, setup: AgentSetup, task: RunningTask) -> None:
        self._setup = setup
        self._task = task
        self._process = AgentProcess(lambda pid: task.describe(TaskFacts(pid=pid)))
        self._spent = Spending()
        self._budget: float | None = None
        self._is_ending = False
        self.text = ""
        self.problem: str | None = None
        """Why it failed; None if it did its task."""
        self.category = TaskErrorCategory.CRASH

    async def run(self, start: StartAgent, environ: Mapping[str, str]) -> None:
        """Run the agent to the end of its process."""
        self._budget = start.budget
        name = self._setup.find_definition(start.request.agent).name
        try:
            with self._follow_parent():
                await self._process.run(start, environ, self._take)
        except OSError as error:
            self.problem = f"the process of the agent cannot be started: {error}"
            return
        finally:
            with anyio.CancelScope(shield=True):
                if self._setup.charge is not None:
                    await self._setup.charge(name, self._spent)
            if self._setup.budget is not None:
                self._setup.budget.leave(self._task.task_id)
        if self._process.exit_code and self.problem is None:
            self.problem = self._process.describe_end()
            await self._fire_stop(name)

    async def _fire_stop(self, name: str) -> None:
        """Fire SubagentStop for an agent whose process died before it could."""
        task = self._task
        payload = HookInput(
            session_id=task.task_id, cwd=task.request.cwd, agent_id=task.task_id, agent_type=name
        )
        await self._setup.hooks.fire(HookEvent.SUBAGENT_STOP, payload)

    def send(self, text: str) -> None:
        """Give the agent a message.

        Raises:
            BackgroundTaskError: It has just ended.
        """
        if self._is_ending:
            raise BackgroundTaskError(
                f"{self._task.task_id} has just ended; send the message again to continue it",
                category=TaskErrorCategory.VALIDATION,
                recoverable=True,
            )
        self._process.send(SendText(text=text))

    def _take(self, envelope: Envelope) -> None:
        """Follow an event of the agent."""
        match envelope.event:
            case EntryAdded(entry=entry):
                self._spent += spending_of(entry.body)
                self._task.describe(TaskFacts(cost_usd=self._spent.usd))
            case PermissionRequest() as request:
                assert self._process.tasks is not None  # noqa: S101 - it runs
                self._process.tasks.start_soon(self._ask, request)
            case UserMessage():
                # It works on a message that came before it could end.
                self._is_ending = False
            case RunCompleted(result=result):
                self.text, self._is_ending = result.response, True
                self._process.send(FinishAgent())
            case RunFailed(message=message, error_type=name):
                kind = getattr(errors, name, ClewError)
                self.problem, self.category = message, categorize(kind)
            case _:
                pass
        if not isinstance(envelope.event, _NOT_FORWARDED | PermissionRequest):
            self._task.report(envelope.event)

    async def _ask(self, request: PermissionRequest) -> None:
        """Have the parent's user answer a question of the agent."""
        access = Access(
            tool=request.tool_name,
            risk=request.risk,
            target=request.target,
            call_id=request.call_id,
            arguments=request.arguments,
        )
        decision = Decision(
            Verdict.ASK,
            request.reason,
            session_scope=request.session_scope,
            project_rules=request.project_rules,
        )
        answer: PermissionAnswer | None = None
        try:
            answer = await ask_for_agent(self._setup, self._task, access, decision)
        except Exception:
            logger.exception("asking for %s failed", self._task.task_id)
        answer = answer or PermissionAnswer(approval=Approval.NO, reply="there is no user to ask")
        self._process.send(AnswerQuestion(request_id=request.request_id, answer=answer))

    @contextmanager
    def _follow_parent(self) -> Iterator[None]:
        """Tell the agent when the permission mode or what is left of the budget changes."""
        setup, session = self._setup, self._setup.session

        def change_mode(mode: PermissionMode) -> None:
            self._process.send(ChangeMode(mode=mode))

        def change_budget(envelope: Envelope) -> None:
            if isinstance(envelope.event, ContextUpdated) and setup.budget is not None:
                limit, spent = setup.budget.limit, setup.budget.spent - self._spent.usd
                budget = None if limit is None else limit - spent
                if budget != self._budget:
                    self._budget = budget
                    self._process.send(ChangeBudget(budget=budget))

        if setup.budget is not None:
            setup.budget.join(self._task.task_id, lambda: self._spent.usd)
        setup.gate.followers.append(change_mode)
        unsubscribe = session.bus.on_any(change_budget) if session is not None else None
        try:
            yield
        finally:
            setup.gate.followers.remove(change_mode)
            if unsubscribe is not None:
                unsubscribe()


def describe_agent(
    setup: AgentSetup, spec: SessionSpec, task: RunningTask, environ: Mapping[str, str]
) -> StartAgent:
    """Return what a process needs to run an agent as its parent would.

    Raises:
        ConfigError: There is no such agent.
    """
    request, parent = task.request, setup.parent
    definition = setup.find_definition(request.agent)
    model = resolve_model(request.model or definition.model, parent.model)
    is_own = model == parent.model
    if (saved := setup.find_saved_model()) is not None:
        spec = replace(spec, provider=saved.provider, base_url=saved.base_url)
    return StartAgent(
        request=request,
        spec=replace(
            spec,
            cwd=request.cwd or spec.cwd,
            model=model,
            window=parent.window if is_own else None,
            effort=parent.effort if is_own else "",
            agent=definition.name,
            agents=False,
            resume="",
            fork="",
            latest=False,
            name="",
            store=spec.store or project_address(Path(spec.cwd), environ),
            permission_mode=str(setup.gate.mode),
            budget_usd=None,
            max_turns=request.max_turns or definition.max_turns,
            answer_schema={},
            options={
                **spec.options,
                "session_id": task.task_id,
                "parent": parent.session_id,
                "kind": AGENT_KIND,
            },
        ),
        grants=tuple(setup.gate.grants),
        budget=setup.session.state.budget_left if setup.session is not None else None,
    )
