"""Makes the session of a subagent: its prompt, model, tools, hooks, budget and transcript."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
from msgspec import UNSET, Struct
from msgspec.structs import replace

from clew.core.permissions import Access
from clew.extensions.agent_definitions import AgentDefinition
from clew.extensions.agent_discovery import assemble_prompt, filter_tools, resolve_model
from clew.hooks.protocol import HookEvent, HookInput, Hooks, HookVerdict, NoHooks
from clew.log.protocol import SessionLogger
from clew.runtime.protocol import TaskRequest
from clew.sdk.agent_setup import AgentSetup, ParentState
from clew.session.config import SessionOptions
from clew.session.event_bus import EventBus
from clew.session.gate import Gate
from clew.session.session import Session
from clew.stores.record import AGENT_KIND
from clew.tools.protocol import Tool, ToolContext, ToolOutput


class AgentSession(Struct, frozen=True, kw_only=True):
    """The session of a subagent that is about to run."""

    session: Session
    definition: AgentDefinition
    hooks: "AgentHooks"
    transcript: Path | None


def make_agent_session(
    setup: AgentSetup, request: TaskRequest, *, gate: Gate, bus: EventBus
) -> AgentSession:
    """Return the session for a task; the id of the task is the id of the session.

    Raises:
        ConfigError: There is no agent of that name.
    """
    definition, parent = setup.find_definition(request.agent), setup.parent
    log, transcript = _open_log(setup, parent, request.task_id)
    hooks = AgentHooks(setup.hooks, request.task_id, definition.name, transcript=transcript)
    model = resolve_model(request.model or definition.model, parent.model)
    is_own_model = model == parent.model
    options: SessionOptions = {
        **setup.options,
        "system_message": assemble_prompt(
            definition,
            claude_md=setup.project.claude_md,
            agents_md=setup.project.agents_md,
            fork_worker=request.fork_worker,
        ),
        "tools": _choose_tools(setup, request, definition, parent),
        "store": setup.store,
        "session_id": request.task_id,
        "parent": parent.session_id,
        "kind": AGENT_KIND,
        "cwd": gate.cwd,
        "gate": gate,
        "permission_mode": gate.mode,
        "hooks": hooks if request.fires_hooks else NoHooks(),
        "max_turns": request.max_turns or definition.max_turns,
        "session_log": log,
        "checkpoints": None,
        "event_bus": bus,
        "effort": parent.effort if is_own_model else "",
        "max_context_tokens": parent.window if is_own_model else None,
    }
    if (source := setup.options.get("tool_source")) is not None:
        options["tool_source"] = source.restrict(
            lambda name: bool(filter_tools([name], definition, allowed=request.allowed_tools))
        )
    if parent.provider.name != setup.provider_name:
        options.pop("request_options", None)
        options.pop("summary_model", None)
    session = Session(parent.provider, model=model, **options)
    session.state.shared_budget = setup.budget
    return AgentSession(session=session, definition=definition, hooks=hooks, transcript=transcript)


def _choose_tools(
    setup: AgentSetup, request: TaskRequest, definition: AgentDefinition, parent: ParentState
) -> list[Tool]:
    names = [tool.spec.name for tool in setup.tools]
    kept = set(filter_tools(names, definition, allowed=request.allowed_tools))
    tools = [tool for tool in setup.tools if tool.spec.name in kept]
    is_elsewhere = bool(request.cwd) and Path(request.cwd) != setup.cwd
    if is_elsewhere or parent.before_change is None:
        return tools
    return [_Placed(tool, parent.before_change) for tool in tools]


def _open_log(
    setup: AgentSetup, parent: ParentState, agent_id: str
) -> tuple[SessionLogger | None, Path | None]:
    if setup.transcripts is None:
        return None, None
    from clew.log.writer import SessionLog  # noqa: PLC0415 - most sessions have no log

    folder = setup.transcripts / parent.session_id / "subagents"
    return SessionLog(folder), folder / f"{agent_id}.jsonl"


class _Placed:
    """A tool as a subagent uses it: file changes belong to the checkpoint of the parent's turn."""

    def __init__(self, inner: Tool, before_change: Callable[[Path], None]) -> None:
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


class AgentHooks:
    """The hooks of the parent, with `SubagentStart` and `SubagentStop` for the subagent."""

    def __init__(
        self, inner: Hooks, agent_id: str, agent_type: str, *, transcript: Path | None = None
    ) -> None:
        self._inner = inner
        self._agent_id = agent_id
        self._agent_type = agent_type
        self._transcript = transcript
        self.is_started = False
        """True between `SubagentStart` and `SubagentStop`."""

    async def fire(self, event: HookEvent, payload: HookInput) -> HookVerdict:
        """Run the hooks for an event of the subagent.

        A session that ends before its agent has stopped, because it failed or was cancelled,
        counts as the stop.
        """
        if event is HookEvent.SESSION_END and self.is_started:
            with anyio.move_on_after(_STOP_SECONDS):
                await self._fire(HookEvent.STOP, replace(payload, reason=UNSET))
            return HookVerdict()
        again = event is HookEvent.SESSION_START and payload.source == "compact"
        if event in _NOT_OF_AGENTS or again:
            return HookVerdict()
        return await self._fire(event, payload)

    async def _fire(self, event: HookEvent, payload: HookInput) -> HookVerdict:
        payload = replace(payload, agent_id=self._agent_id, agent_type=self._agent_type)
        if event is HookEvent.SESSION_START:
            self.is_started = True
        elif event is HookEvent.STOP:
            self.is_started = False
            if self._transcript is not None:
                payload = replace(payload, agent_transcript_path=str(self._transcript))
        verdict = await self._inner.fire(_OF_AGENTS.get(event, event), payload)
        if event is HookEvent.STOP and (verdict.block or verdict.context):
            self.is_started = True
        return verdict


_STOP_SECONDS = 5.0
"""How long the end of an agent that did not stop by itself waits for SubagentStop hooks."""
_OF_AGENTS = {
    HookEvent.SESSION_START: HookEvent.SUBAGENT_START,
    HookEvent.STOP: HookEvent.SUBAGENT_STOP,
}
_NOT_OF_AGENTS = frozenset({HookEvent.SESSION_END, HookEvent.USER_PROMPT_SUBMIT})
