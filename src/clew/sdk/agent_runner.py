"""`AgentRunner`: runs subagents in this process, each as a stored session of its own."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import anyio
from msgspec.structs import replace

from clew.core.errors import (
    BackgroundTaskError,
    BudgetReached,
    ClewError,
    ContextError,
    ProviderError,
    TurnLimitReached,
)
from clew.core.events import (
    EntryAdded,
    Envelope,
    PermissionDenied,
    TodosChanged,
)
from clew.core.permissions import Access, Decision
from clew.core.tasks import LogPage, TaskErrorCategory, TaskKind
from clew.hooks.protocol import HookEvent
from clew.runtime.protocol import LOG_PAGE_LINES, RunningTask, TaskFacts, TaskResult
from clew.sdk.agent_questions import ask_for_agent
from clew.sdk.agent_session import AgentSession, make_agent_session
from clew.sdk.agent_setup import AgentSetup
from clew.sdk.agent_transcript import describe_partial, find_last_text, read_transcript
from clew.sdk.saved_model import save_model
from clew.session.event_bus import EventBus
from clew.session.gate import Gate
from clew.session.hook_events import fire
from clew.session.session import Session

_STOP_SECONDS = 5.0
"""How long the end of a cancelled agent waits for SubagentStop hooks."""


class AgentRunner:
    """Runs the subagents of one session; a `TaskRunner`. A subagent cannot start another.

    A request with the id of an agent that ended continues its session.
    """

    kind = TaskKind.AGENT

    def __init__(self, setup: AgentSetup) -> None:
        self.setup = setup
        self._running: dict[str, Session] = {}

    async def run(self, task: RunningTask) -> TaskResult:
        """Have an agent do the task, and return its final text.

        Raises:
            BackgroundTaskError: It failed; `partial` has its last words and the changed files.
            ConfigError: There is no such agent.
        """
        with self._derive_gate(task) as gate:
            made = make_agent_session(self.setup, task.request, gate=gate, bus=_make_bus(task))
            task.describe(
                TaskFacts(
                    model=made.session.journal.view.setup.model.name,
                    cwd=str(gate.cwd),
                    log_path=str(made.transcript) if made.transcript else None,
                )
            )
            self._running[task.task_id] = made.session
            try:
                return TaskResult(text=await self._work(made, task))
            finally:
                self._running.pop(task.task_id, None)

    async def send(self, task_id: str, text: str) -> None:
        """Give a running agent a message; the model reads it before its next call.

        Raises:
            BackgroundTaskError: The agent does not run.
        """
        session = self._running.get(task_id)
        if session is None:
            raise BackgroundTaskError(
                f"{task_id} does not run: it has just ended, or is about to start;"
                " send the message again",
                category=TaskErrorCategory.VALIDATION,
                recoverable=True,
            )
        session.state.messages.append(text)

    async def read_log(
        self, task_id: str, *, offset: int = 0, limit: int = LOG_PAGE_LINES
    ) -> LogPage:
        """Return a page of an agent's transcript, which is its journal.

        Raises:
            BackgroundTaskError: The agent has not written anything yet.
        """
        return await read_transcript(self.setup.store, task_id, offset=offset, limit=limit)

    async def _work(self, made: AgentSession, task: RunningTask) -> str:
        session = made.session
        try:
            async with session, self._pay(made):
                await self._save_model(session)
                try:
                    return await _converse(session, task.request.prompt)
                finally:
                    # From here on, messages are not read.
                    self._running.pop(task.task_id, None)
                    await _fire_stop(made)
        except ClewError as error:
            raise BackgroundTaskError(
                str(error), category=categorize(type(error)), partial=describe_partial(session)
            ) from error
        except BaseException:
            task.describe(TaskFacts(result=describe_partial(session)))
            raise

    @contextmanager
    def _derive_gate(self, task: RunningTask) -> Generator[Gate, None, None]:
        """Make a gate that asks and denies in the name of the agent."""
        setup, request = self.setup, task.request

        def publish_denial(access: Access, decision: Decision, remedy: str) -> None:
            task.report(
                PermissionDenied(
                    call_id=access.call_id,
                    tool_name=access.tool,
                    target=access.target,
                    reason=decision.reason,
                    remedy=remedy,
                )
            )

        with setup.gate.derive(
            cwd=Path(request.cwd) if request.cwd else setup.cwd,
            ask=partial(ask_for_agent, setup, task),
            on_denied=publish_denial,
        ) as gate:
            yield gate

    async def _save_model(self, session: Session) -> None:
        """Store how to reach the model with the session, so that people can resume it."""
        saved = self.setup.find_saved_model()
        if saved is not None:
            model = session.journal.view.setup.model.name
            window = saved.window if model == saved.model else None
            await save_model(session, replace(saved, model=model, window=window))

    @asynccontextmanager
    async def _pay(self, made: AgentSession) -> AsyncGenerator[None, None]:
        """Count the cost of an agent while it runs, and charge its parent at the end."""
        setup, session = self.setup, made.session
        name, before = session.session_id, session.get_cost()

        def count() -> float:
            return session.get_cost().usd - before.usd + session.state.reserved_usd

        if setup.budget is not None:
            setup.budget.join(name, count)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                if setup.charge is not None:
                    await setup.charge(made.definition.name, session.get_cost() - before)
            if setup.budget is not None:
                setup.budget.leave(name)


def _make_bus(task: RunningTask) -> EventBus:
    """Return a bus whose events reach the clients of the parent, except the agent's own state."""
    bus = EventBus(capacity=1)
    cost = 0.0

    def forward(envelope: Envelope) -> None:
        nonlocal cost
        match envelope.event:
            case EntryAdded(entry=entry):
                if added := getattr(entry.body, "cost", None):
                    cost += added
                    task.describe(TaskFacts(cost_usd=cost))
            case TodosChanged():
                pass
            case event:
                task.report(event)

    bus.on_any(forward)
    return bus


async def _converse(session: Session, prompt: str) -> str:
    """Run the prompt, and then what came too late for the run."""
    text = await session.run(prompt)
    while session.state.messages:
        text = await session.run(session.state.messages.pop(0))
    return text


async def _fire_stop(made: AgentSession) -> None:
    """Fire SubagentStop for an agent that failed or was cancelled."""
    if not made.hooks.is_started:
        return
    with anyio.move_on_after(_STOP_SECONDS, shield=True):
        await fire(
            made.session.state,
            HookEvent.STOP,
            stop_hook_active=True,
            last_assistant_message=find_last_text(made.session.journal.entries),
        )


_CATEGORIES: tuple[tuple[type[ClewError], TaskErrorCategory], ...] = (
    (ProviderError, TaskErrorCategory.PROVIDER),
    (BudgetReached, TaskErrorCategory.CAPACITY),
    (TurnLimitReached, TaskErrorCategory.CAPACITY),
    (ContextError, TaskErrorCategory.CAPACITY),
)


def categorize(kind: type[ClewError]) -> TaskErrorCategory:
    """Return why an agent failed, by the class of its error."""
    found = (category for known, category in _CATEGORIES if issubclass(kind, known))
    return next(found, TaskErrorCategory.RUNNER)
