"""Agents: kinds of workers that a session can hand a task to."""

from collections.abc import Mapping

from clew.extensions.agents.definition import AgentDefinition
from clew.extensions.agents.finding import FoundAgents, discover_agents, scan_agents
from clew.extensions.agents.models import resolve_model
from clew.extensions.agents.prompt import assemble_prompt
from clew.extensions.agents.tools import filter_tools
from clew.extensions.listing import listing
from clew.extensions.reading import Refused

__all__ = [
    "AgentDefinition",
    "FoundAgents",
    "Refused",
    "assemble_prompt",
    "catalogue",
    "discover_agents",
    "filter_tools",
    "resolve_model",
    "scan_agents",
]


def catalogue(agents: Mapping[str, AgentDefinition], *, max_chars: int = 8_000) -> str:
    """Return what a model is told about the agents: names and descriptions."""
    entries = [(agent.name, agent.description) for agent in agents.values()]
    return listing(entries, max_chars=max_chars, things="agents")
