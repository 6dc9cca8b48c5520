"""The system prompt of an interactive session."""

from collections.abc import Mapping
from pathlib import Path

from clew.extensions.agent_definitions import AgentDefinition
from clew.extensions.agents import format_agent_list as agent_catalogue
from clew.extensions.project import PromptParts, build_system_prompt
from clew.extensions.project.prompt import IDENTITY
from clew.extensions.skills import format_skill_list
from clew.sdk.finding import Found


def system_prompt(
    cwd: Path,
    found: Found,
    *,
    identity: str | None,
    language: str,
    memory: str,
    agents: Mapping[str, AgentDefinition],
) -> str:
    """Return the words that every request begins with; the same parts give the same words."""
    project = found.project
    return build_system_prompt(
        PromptParts(
            identity=IDENTITY if identity is None else identity,
            cwd=cwd,
            facts=project.facts,
            agents_md=project.agents_md,
            claude_md=project.claude_md,
            memory=memory,
            tasks=project.tasks,
            skills=format_skill_list(found.skills.found().skills),
            agents=agent_catalogue(agents),
            language=language,
        )
    )
