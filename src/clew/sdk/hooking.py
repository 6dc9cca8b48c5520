"""The user's hooks, with all that they may need of a session."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from clew.core.access import PermissionMode, Verdict
from clew.core.redaction import redact
from clew.hooks.context import AgentTask, HookContext, RuleMatcher
from clew.hooks.protocol import HookInput, Hooks, NoHooks
from clew.hooks.runner import HookRunner
from clew.hooks.settings import HookTable
from clew.permissions.policy import Policy
from clew.permissions.rules import parse_rule
from clew.sdk.subagents import GENERAL_PURPOSE, AgentRequest, AgentRuntime
from clew.session.session import Session
from clew.tools.protocol import Tool, ToolContext


def hooks_for(
    table: HookTable,
    means: HookContext,
    *,
    session: Callable[[], Session],
    tools: Sequence[Tool],
    runtime: AgentRuntime | None,
) -> Hooks:
    """Return who runs the hooks of a table, with `means` and what the session adds to them."""
    if not table.hooks:
        return NoHooks()

    async def ask(prompt: str, model: str) -> str:
        return await session().ask_aside(prompt, model=model, why="a hook")

    async def run_agent(task: AgentTask) -> str:
        assert runtime is not None  # noqa: S101 - given only where there is one
        request = AgentRequest(
            agent=task.agent or GENERAL_PURPOSE,
            prompt=task.prompt,
            model=task.model,
            max_turns=task.max_turns,
            fires_hooks=False,
        )
        return (await runtime.run(request)).text

    return HookRunner(
        table,
        replace(
            means,
            ask=ask,
            run_agent=run_agent if runtime is not None else None,
            holds=_holds({tool.spec.name: tool for tool in tools}, means.project),
            redact=redact,
        ),
    )


def _holds(tools: Mapping[str, Tool], cwd: Path) -> RuleMatcher:
    """Return who says whether a permission rule concerns a call: as a rule that denies would."""

    def holds(text: str, payload: HookInput) -> bool:
        from clew.permissions.decide import decide  # noqa: PLC0415 - loads a grammar

        name, arguments = payload.tool_name, payload.tool_input
        if not isinstance(name, str) or not isinstance(arguments, dict) or name not in tools:
            return True
        access = tools[name].access(arguments, ToolContext(cwd=cwd))
        policy = Policy(cwd=cwd, mode=PermissionMode.BYPASS, deny=(parse_rule(text),))
        return decide(access, policy).verdict is Verdict.DENY

    return holds
