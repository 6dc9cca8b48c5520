"""The tools with which a model acts on its own session: commands, plan mode, subagents."""

from clew.extensions.commands.execute_tool import ExecuteCommand
from clew.extensions.commands.registry import CommandRegistry
from clew.sdk.agent_tool import AgentTool
from clew.sdk.agents import Agents
from clew.sdk.command_host import SessionCommandHost
from clew.sdk.options import InteractiveOptions
from clew.sdk.session_parts import offers_agents
from clew.session.plan_mode import ExitPlanMode
from clew.stores.record import AGENT_KIND
from clew.tools.protocol import Tool


def make_own_tools(
    options: InteractiveOptions,
    registry: CommandRegistry,
    commands: SessionCommandHost,
    agents: Agents,
) -> list[Tool]:
    """Return the tools that act on the session itself; a subagent has none of them."""
    if options.get("kind") == AGENT_KIND:
        return []
    return [
        ExecuteCommand(registry, lambda: commands, skills=False),
        ExitPlanMode(agents.setup.gate, commands.set_mode),
        *([AgentTool(agents)] if offers_agents(options) else []),
    ]
