"""Agents within a session: each a conversation of its own, with its own window and transcript."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from clew.core.access import Access
from clew.core.entries import Charged
from clew.core.errors import ClewError, ConfigError
from clew.core.events import Event, TextDelta, ToolEnded, ToolStarted, Warned
from clew.core.usage import Usage
from clew.extensions.agent_definitions import AgentDefinition
from clew.extensions.agents import assemble_prompt, filter_tools, resolve_model
from clew.extensions.project import ProjectContext
from clew.hooks.protocol import HookEvent, HookInput, Hooks, HookVerdict, NoHooks
from clew.log.protocol import SessionLogger
from clew.sdk.tracking import ToolTracker
from clew.sdk.values import TaskEvent, TaskStage
from clew.session.config import SessionOptions
from clew.session.gate import Gate
from clew.session.session import Session
from clew.stores.memory import MemoryStore
from clew.tools.protocol import Tool, ToolContext, ToolOutput

GENERAL_PURPOSE = "general-purpose"


class AgentRequest(Struct, frozen=True, kw_only=True):
    """What an agent shall do."""

    prompt: str
    agent: str = GENERAL_PURPOSE
    model: str = ""
    """Another model than the agent's own; also `sonnet`, `opus`, `haiku`."""
    allowed_tools: tuple[str, ...] | None = None
    """The tools it may use, of those that its definition leaves it."""
    fork_worker: bool = False
    """True for a skill that runs apart: its answer is to be short."""
    max_turns: int | None = None
    fires_hooks: bool = True
    """False for an agent that a hook runs: it would start itself again and again."""


class AgentResult(Struct, frozen=True, kw_only=True):
    """What an agent came back with."""

    agent_id: str
    text: str
    transcript: Path | None = None


class AgentRuntime(Struct, kw_only=True):
    """Runs agents for one session. An agent cannot start another."""

    definitions: Mapping[str, AgentDefinition]
    tools: Sequence[Tool]
    gate: Gate
    project: ProjectContext
    emit: Callable[[TaskEvent], None]
    warn: Callable[[str], None]
    parent: Callable[[], Session]
    provider_name: str
    """Whose options those below are."""
    options: SessionOptions
    """What the parent was made with, as far as it holds for an agent too."""
    hooks: Hooks = field(default_factory=NoHooks)
    transcripts: Path | None = None
    running: dict[str, Session] = field(default_factory=dict)

    async def run(self, task: AgentRequest) -> AgentResult:
        """Have an agent do a task and return its last words.

        Raises:
            ConfigError: There is no such agent.
            AbortError: `abort` was called.
            ClewError: It failed as a session may.
        """
        definition = self.definition(task.agent)
        agent_id = f"agent-{os.urandom(4).hex()}"
        log, transcript = self._log(agent_id)
        told = _Teller(self, agent_id, definition.name, transcript)
        child = self._session(definition, task, log=log, told=told, agent_id=agent_id)
        told(TaskStage.STARTED, text=task.prompt)
        try:
            async with child:
                self.running[agent_id] = child
                try:
                    text = await child.run(task.prompt)
                finally:
                    del self.running[agent_id]
                    await self._charge(child, definition.name)
        except ClewError as error:
            told(TaskStage.FAILED, text=str(error))
            raise
        except BaseException:
            told(TaskStage.FAILED, text="aborted")
            raise
        told(TaskStage.COMPLETED, text=text)
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
        """End every agent that runs."""
        for session in tuple(self.running.values()):
            session.abort()

    def _session(
        self,
        definition: AgentDefinition,
        task: AgentRequest,
        *,
        log: SessionLogger | None,
        told: "_Teller",
        agent_id: str,
    ) -> Session:
        names = [tool.spec.name for tool in self.tools]
        kept = set(filter_tools(names, definition, allowed=task.allowed_tools))
        parent = self.parent()
        facts = parent.journal.view.setup.model
        before_change = parent.place.before_change
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
            "hooks": (
                _AgentHooks(self.hooks, agent_id, definition.name, told.transcript)
                if task.fires_hooks
                else NoHooks()
            ),
            "max_turns": task.max_turns or definition.max_turns,
            "log": log,
            "checkpoints": None,
            "budget_usd": parent.get_budget_left(),
        }
        if parent.provider.name != self.provider_name:
            options.pop("request_options", None)
            options.pop("summary_model", None)
        options["max_context_tokens"] = facts.window if model == facts.name else None
        return Session(parent.provider, model=model, on_event=told.listen, **options)

    def _log(self, agent_id: str) -> tuple[SessionLogger | None, Path | None]:
        if self.transcripts is None:
            return None, None
        from clew.log.writer import SessionLog  # noqa: PLC0415 - seldom needed

        folder = self.transcripts / self.parent().session_id / "subagents"
        return SessionLog(folder), folder / f"{agent_id}.jsonl"

    async def _charge(self, child: Session, name: str) -> None:
        """Let the parent's budget know what its agent has cost."""
        spent, journal = child.get_cost(), self.parent().journal
        if not spent.calls:
            return
        is_priced = spent.unpriced < spent.calls
        with anyio.CancelScope(shield=True):
            why, usd = f"agent {name}", spent.usd if is_priced else None
            await journal.append(Charged(why=why, usage=spent.usage, cost=usd))
            if is_priced and spent.unpriced:
                await journal.append(Charged(why=f"{why}, at an unknown price", usage=Usage()))


class _Placed:
    """A tool in an agent's hands: what it changes is kept as part of the parent's turn."""

    def __init__(self, inner: Tool, before_change: Callable[[Path], None] | None) -> None:
        self._inner = inner
        self._before_change = before_change
        self.spec = inner.spec
        self.max_output_chars = inner.max_output_chars

    def access(self, arguments: dict[str, Any], context: ToolContext) -> Access:
        """Say what a call would touch."""
        return self._inner.access(arguments, context)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        """Do the work."""
        kept = replace(context, before_change=self._before_change)
        return await self._inner.run(arguments, kept)


class _Teller:
    """Tells the clients of the parent what an agent does."""

    def __init__(
        self, runtime: AgentRuntime, agent_id: str, name: str, transcript: Path | None
    ) -> None:
        self._emit = runtime.emit
        self._warn = runtime.warn
        self._base = TaskEvent(
            task_id=agent_id,
            agent=name,
            stage=TaskStage.STARTED,
            transcript_path=str(transcript or ""),
        )
        self._tools = ToolTracker()
        self.transcript = transcript

    def __call__(self, stage: TaskStage, *, text: str = "") -> None:
        self._emit(replace(self._base, stage=stage, text=text))

    def listen(self, event: Event) -> None:
        match event:
            case TextDelta(text=text):
                self(TaskStage.TEXT_DELTA, text=text)
            case ToolStarted():
                state = self._tools.started(event)
                self._emit(replace(self._base, stage=TaskStage.TOOL_START, tool=state))
            case ToolEnded():
                state = self._tools.ended(event)
                self._emit(replace(self._base, stage=TaskStage.TOOL_END, tool=state))
            case Warned(text=text):
                self._warn(f"{self._base.agent}: {text}")
            case _:
                pass


class _AgentHooks:
    """The parent's hooks as an agent meets them: its life is `SubagentStart` and `SubagentStop`."""

    def __init__(self, inner: Hooks, agent_id: str, name: str, transcript: Path | None) -> None:
        self._inner = inner
        self._agent_id = agent_id
        self._name = name
        self._transcript = transcript

    async def fire(self, event: HookEvent, payload: HookInput) -> HookVerdict:
        """Fire an event of the agent."""
        if event in _NOT_OF_AGENTS:
            return HookVerdict()
        told = replace(payload, agent_id=self._agent_id, agent_type=self._name)
        if event is HookEvent.STOP and self._transcript is not None:
            told = replace(told, agent_transcript_path=str(self._transcript))
        return await self._inner.fire(_OF_AGENTS.get(event, event), told)


_OF_AGENTS = {
    HookEvent.SESSION_START: HookEvent.SUBAGENT_START,
    HookEvent.STOP: HookEvent.SUBAGENT_STOP,
}
_NOT_OF_AGENTS = frozenset({HookEvent.SESSION_END, HookEvent.USER_PROMPT_SUBMIT})
