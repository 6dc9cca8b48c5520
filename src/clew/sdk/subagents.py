"""Subagents: each runs in a session of its own, with its own window and transcript."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from clew.core.entries import Charged
from clew.core.errors import AbortError, ClewError, ConfigError
from clew.core.events import EntryAdded, Envelope, TodosChanged
from clew.core.models import ToolSpec
from clew.core.permissions import Access, Risk
from clew.core.task_events import BackgroundTaskEvent, TaskStage
from clew.core.usage import Usage
from clew.extensions.agent_definitions import AgentDefinition
from clew.extensions.agent_discovery import assemble_prompt, filter_tools, resolve_model
from clew.extensions.project import ProjectContext
from clew.hooks.protocol import HookEvent, HookInput, Hooks, HookVerdict, NoHooks
from clew.log.protocol import SessionLogger
from clew.session.config import SessionOptions
from clew.session.event_bus import EventBus
from clew.session.gate import Gate
from clew.session.session import Session
from clew.stores.memory import MemoryStore
from clew.tools.protocol import Tool, ToolContext, ToolOutput

GENERAL_PURPOSE = "general-purpose"


class AgentRequest(Struct, frozen=True, kw_only=True):
    """A task for a subagent."""

    prompt: str
    agent: str = GENERAL_PURPOSE
    model: str = ""
    """The model; empty for the one in the agent's definition. Also `sonnet`, `opus`, `haiku`."""
    allowed_tools: tuple[str, ...] | None = None
    """The tools it may use; None for all that its definition allows."""
    fork_worker: bool = False
    """True for a skill with `context: fork`: asks for a short answer."""
    max_turns: int | None = None
    fires_hooks: bool = True
    """False for an agent that a hook runs, so that it does not trigger itself."""


class AgentResult(Struct, frozen=True, kw_only=True):
    """The result of a subagent."""

    agent_id: str
    text: str
    transcript: Path | None = None


class AgentRunner(Struct, kw_only=True):
    """Runs the subagents of one session. A subagent cannot start another.

    The events of a subagent are published on the session's bus with the subagent's `task_id`.
    """

    definitions: Mapping[str, AgentDefinition]
    tools: Sequence[Tool]
    gate: Gate
    project: ProjectContext
    bus: EventBus
    provider_name: str
    """The provider that `options` were made for."""
    options: SessionOptions
    """The options of the parent that hold for its subagents too."""
    hooks: Hooks = field(default_factory=NoHooks)
    transcripts: Path | None = None
    parent: Session | None = None
    """Set when the session is built."""
    running: dict[str, Session] = field(default_factory=dict)
    tasks: dict[str, BackgroundTaskEvent] = field(default_factory=dict)
    """How each running subagent started."""

    async def run(self, task: AgentRequest) -> AgentResult:
        """Have a subagent do a task and return its final text.

        Raises:
            ConfigError: There is no such agent.
            AbortError: `abort` was called.
            ClewError: It failed as a session may.
        """
        definition = self.definition(task.agent)
        agent_id = f"agent-{os.urandom(4).hex()}"
        log, transcript = self._log(agent_id)
        started = BackgroundTaskEvent(
            task_id=agent_id,
            agent=definition.name,
            stage=TaskStage.STARTED,
            text=task.prompt,
            transcript_path=str(transcript or ""),
        )
        child = self._session(definition, task, log=log, started=started)
        self.tasks[agent_id] = started
        self.bus.publish(started)
        ended = replace(started, stage=TaskStage.FAILED, text="aborted")
        try:
            async with child:
                self.running[agent_id] = child
                try:
                    text = await child.run(task.prompt)
                finally:
                    del self.running[agent_id]
                    await self._charge(child, definition.name)
            ended = replace(started, stage=TaskStage.COMPLETED, text=text)
        except ClewError as error:
            ended = replace(ended, text=str(error))
            raise
        finally:
            del self.tasks[agent_id]
            self.bus.publish(ended)
        return AgentResult(agent_id=agent_id, text=text, transcript=transcript)

    def definition(self, name: str) -> AgentDefinition:
        """Return an agent's definition.

        Raises:
            ConfigError: There is none of that name.
        """
        found = self.definitions.get(name or GENERAL_PURPOSE)
        if found is None:
            known = ", ".join(sorted(self.definitions))
            raise ConfigError(f"there is no agent {name!r}; there are: {known}")
        return found

    def abort(self) -> None:
        """Abort every subagent that is running."""
        for session in tuple(self.running.values()):
            session.abort()

    def _session(
        self,
        definition: AgentDefinition,
        task: AgentRequest,
        *,
        log: SessionLogger | None,
        started: BackgroundTaskEvent,
    ) -> Session:
        names = [tool.spec.name for tool in self.tools]
        kept = set(filter_tools(names, definition, allowed=task.allowed_tools))
        parent, agent_id = self._parent(), started.task_id
        facts = parent.journal.view.setup.model
        before_change = parent.state.tool_context.before_change
        model = resolve_model(task.model or definition.model, facts.name)
        options: SessionOptions = {
            **self.options,
            "system_message": assemble_prompt(
                definition,
                claude_md=self.project.claude_md,
                agents_md=self.project.agents_md,
                fork_worker=task.fork_worker,
            ),
            "tools": [
                _Placed(tool, before_change) for tool in self.tools if tool.spec.name in kept
            ],
            "store": MemoryStore(),
            "session_id": agent_id,
            "gate": self.gate,
            "hooks": (_AgentHooks(self.hooks, started) if task.fires_hooks else NoHooks()),
            "max_turns": task.max_turns or definition.max_turns,
            "session_log": log,
            "checkpoints": None,
            "event_bus": self._child_bus(agent_id),
            "budget_usd": parent.state.budget_left,
        }
        if (source := self.options.get("tool_source")) is not None:
            options["tool_source"] = source.restrict(
                lambda name: bool(filter_tools([name], definition, allowed=task.allowed_tools))
            )
        if parent.state.provider.name != self.provider_name:
            options.pop("request_options", None)
            options.pop("summary_model", None)
        setup = parent.journal.view.setup
        options["effort"] = setup.effort if model == facts.name else ""
        options["max_context_tokens"] = facts.window if model == facts.name else None
        return Session(parent.state.provider, model=model, **options)

    def _child_bus(self, agent_id: str) -> EventBus:
        """Return a bus whose events reach the clients of the parent, except its own state."""
        bus = EventBus(capacity=1)

        def forward(envelope: Envelope) -> None:
            if not isinstance(envelope.event, EntryAdded | TodosChanged):
                self.bus.publish(envelope.event, task_id=agent_id)

        bus.on_any(forward)
        return bus

    def _parent(self) -> Session:
        assert self.parent is not None  # noqa: S101 - the builder sets it
        return self.parent

    def _log(self, agent_id: str) -> tuple[SessionLogger | None, Path | None]:
        if self.transcripts is None:
            return None, None
        from clew.log.writer import SessionLog  # noqa: PLC0415 - seldom needed

        folder = self.transcripts / self._parent().session_id / "subagents"
        return SessionLog(folder), folder / f"{agent_id}.jsonl"

    async def _charge(self, child: Session, name: str) -> None:
        """Charge the cost of the subagent to the parent's budget."""
        spent, journal = child.get_cost(), self._parent().journal
        if not spent.calls:
            return
        is_priced = spent.unpriced < spent.calls
        with anyio.CancelScope(shield=True):
            why, usd = f"agent {name}", spent.usd if is_priced else None
            await journal.append(Charged(why=why, usage=spent.usage, cost=usd))
            if is_priced and spent.unpriced:
                await journal.append(Charged(why=f"{why}, at an unknown price", usage=Usage()))


class _Placed:
    """A tool as a subagent uses it: file changes belong to the checkpoint of the parent's turn."""

    def __init__(self, inner: Tool, before_change: Callable[[Path], None] | None) -> None:
        self._inner = inner
        self._before_change = before_change
        self.spec = inner.spec
        self.max_output_chars = inner.max_output_chars

    def access(self, arguments: dict[str, Any], context: ToolContext) -> Access:
        """Return the access of a call."""
        return self._inner.access(arguments, context)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        """Run the tool."""
        kept = replace(context, before_change=self._before_change)
        return await self._inner.run(arguments, kept)


class _AgentHooks:
    """The hooks of the parent, with `SubagentStart` and `SubagentStop` for the subagent."""

    def __init__(self, inner: Hooks, started: BackgroundTaskEvent) -> None:
        self._inner = inner
        self._started = started

    async def fire(self, event: HookEvent, payload: HookInput) -> HookVerdict:
        """Run the hooks for an event of the subagent."""
        if event in _NOT_OF_AGENTS:
            return HookVerdict()
        task = self._started
        payload = replace(payload, agent_id=task.task_id, agent_type=task.agent)
        if event is HookEvent.STOP and task.transcript_path:
            payload = replace(payload, agent_transcript_path=task.transcript_path)
        return await self._inner.fire(_OF_AGENTS.get(event, event), payload)


_OF_AGENTS = {
    HookEvent.SESSION_START: HookEvent.SUBAGENT_START,
    HookEvent.STOP: HookEvent.SUBAGENT_STOP,
}
_NOT_OF_AGENTS = frozenset({HookEvent.SESSION_END, HookEvent.USER_PROMPT_SUBMIT})


AGENT = "Agent"
_DESCRIPTION = """\
Give a task to a subagent. It works in a conversation of its own, with its own context window, \
and sees nothing of this one: put everything it needs into the prompt. Its final text comes back \
as the result; tell the user what matters. When the user asks for an agent, call this tool at \
once. One call starts one agent."""


class AgentTool:
    """Runs one subagent and waits for its result."""

    def __init__(self, runner: AgentRunner) -> None:
        self._runner = runner
        self.spec = _spec(runner.definitions)
        self.max_output_chars: int | None = None

    def access(self, arguments: dict[str, Any], context: ToolContext) -> Access:  # noqa: ARG002
        """Starting an agent touches nothing; each of its calls is judged on its own."""
        kind = arguments.get("subagent_type")
        return Access(tool=AGENT, risk=Risk.INSPECT, target=str(kind or GENERAL_PURPOSE))

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:  # noqa: ARG002
        """Run the agent; a failure is a result that the model reads."""
        problem = _problem(arguments)
        if problem:
            return ToolOutput(text=problem, failed=True)
        task = AgentRequest(
            prompt=arguments["prompt"],
            agent=arguments.get("subagent_type") or GENERAL_PURPOSE,
            model=arguments.get("model") or "",
        )
        try:
            result = await self._runner.run(task)
        except AbortError:
            return ToolOutput(text="the agent was aborted", failed=True)
        except ClewError as error:
            return ToolOutput(text=f"the agent failed: {error}", failed=True)
        return ToolOutput(
            text=result.text or "[the agent gave no answer]",
            data={"agent_id": result.agent_id, "transcript": str(result.transcript or "")},
        )


def _problem(arguments: Mapping[str, Any]) -> str:
    if arguments.get("jobs"):
        return "several jobs in one call are not supported here; make one call for each"
    if arguments.get("isolation") not in (None, "", "none"):
        return "worktree isolation is not supported here; leave `isolation` out"
    prompt = arguments.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        return "`prompt` is empty: describe the task for the agent"
    for name in ("subagent_type", "model"):
        if not isinstance(arguments.get(name) or "", str):
            return f"`{name}` must be a text"
    return ""


def _spec(definitions: Mapping[str, AgentDefinition]) -> ToolSpec:
    return ToolSpec(
        name=AGENT,
        description=_DESCRIPTION,
        schema={
            "type": "object",
            "properties": {
                "prompt": {"type": "string", "description": "The whole task."},
                "subagent_type": {
                    "type": "string",
                    "enum": sorted(definitions),
                    "description": f"Which agent; default: {GENERAL_PURPOSE}.",
                },
                "model": {
                    "type": "string",
                    "description": "The model; default: the agent's own.",
                },
            },
            "required": ["prompt"],
        },
    )
