"""The project of a session: its instructions, facts and tasks, and the system prompt."""

from clew.extensions.project.context import ProjectContext, load_project
from clew.extensions.project.facts import ProjectFacts
from clew.extensions.project.system_prompt import PromptParts, PromptSection, build_system_prompt

__all__ = [
    "ProjectContext",
    "ProjectFacts",
    "PromptParts",
    "PromptSection",
    "build_system_prompt",
    "load_project",
]
