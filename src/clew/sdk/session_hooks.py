"""Connects the hooks of the settings with the session: its model, its agents and its rules."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp

from msgspec.structs import replace

from clew.core.permissions import Access, PermissionMode, Risk, Verdict
from clew.core.redaction import redact
from clew.core.tasks import TaskKind
from clew.hooks.context import AgentTask, HookContext, RuleMatcher
from clew.hooks.handlers import CommandHook
from clew.hooks.protocol import HookInput, Hooks, NoHooks
from clew.hooks.runner import HookRunner
from clew.permissions.policy import Policy
from clew.permissions.rules import parse_rule
from clew.runtime.protocol import TaskRequest
from clew.sdk.agent_session import AgentHooks
from clew.sdk.agents import Agents
from clew.sdk.options import InteractiveOptions
from clew.sdk.project_scan import ProjectScan
from clew.sdk.session_parts import Blueprint
from clew.session.model_call import ask_aside
from clew.stores.record import AGENT_KIND
from clew.tools.mcp.names import is_mcp_tool
from clew.tools.protocol import Tool, ToolContext


def make_hooks(
    blueprint: Blueprint, scan: ProjectScan, tools: Sequence[Tool], agents: Agents
) -> Hooks:
    """Return the runner for the hooks of settings and plugins, with the context that they need."""
    table = scan.hooks
    if not table.hooks:
        return NoHooks()

    async def ask(prompt: str, model: str) -> str:
        session = agents.setup.session
        assert session is not None  # noqa: S101 - hooks fire in an open session
        return await ask_aside(session.state, prompt, model=model, why="a hook")

    async def run_agent(task: AgentTask) -> str:
        request = TaskRequest(
            kind=TaskKind.AGENT,
            agent=task.agent,
            prompt=task.prompt,
            model=task.model,
            max_turns=task.max_turns,
            fires_hooks=False,
        )
        return await agents.ask(request)

    def redact_output(text: str) -> str:
        values = tuple(agents.setup.options.get("redact_values", ()))
        if agents.setup.session is not None:
            # With another model, the session may know another key.
            values += agents.setup.session.state.tool_context.redact_values or ()
        return redact(text, extra_values=values)

    context = HookContext(
        project=blueprint.cwd,
        environ=scan.loaded.environ,
        background=blueprint.host,
        ask=ask,
        run_agent=run_agent,
        holds=_rule_matcher({tool.spec.name: tool for tool in tools}, blueprint.cwd),
        redact=redact_output,
    )
    hooks, options = HookRunner(table, context), blueprint.options
    if options.get("kind") != AGENT_KIND:
        return hooks
    return AgentHooks(hooks, options.get("session_id") or "", options.get("agent", ""))


def add_transcripts(blueprint: Blueprint, scan: ProjectScan) -> Blueprint:
    """Have the session write a log for as long as it is open, if hooks may read one.

    Commands may open `transcript_path`. A session with a log of its own has one already.
    """
    options = blueprint.options
    has_commands = any(isinstance(hook.handler, CommandHook) for hook in scan.hooks.hooks)
    if not has_commands or "session" in options or options.get("session_log") is not None:
        return blueprint
    from clew.log.events import LogLevel  # noqa: PLC0415 - most sessions have no log
    from clew.log.writer import SessionLog  # noqa: PLC0415

    folder = Path(mkdtemp(prefix="clew-transcripts-"))
    log = SessionLog(folder, level=LogLevel.EVENTS, inline_limit=sys.maxsize)
    own: InteractiveOptions = {**options, "session_log": log}
    return replace(blueprint, options=own, transcripts=folder)


def _rule_matcher(tools: Mapping[str, Tool], cwd: Path) -> RuleMatcher:
    """Return a function that says whether a permission rule matches a call."""

    def holds(text: str, payload: HookInput) -> bool:
        from clew.permissions.decide import decide  # noqa: PLC0415 - loads a grammar

        name, arguments = payload.tool_name, payload.tool_input
        if not isinstance(name, str) or not isinstance(arguments, dict):
            return True
        if name in tools:
            access = tools[name].access(arguments, ToolContext(cwd=cwd))
        elif is_mcp_tool(name):
            access = Access(tool=name, risk=Risk.EXECUTE)
        else:
            return True
        policy = Policy(cwd=cwd, mode=PermissionMode.BYPASS, deny=(parse_rule(text),))
        return decide(access, policy).verdict is Verdict.DENY

    return holds
