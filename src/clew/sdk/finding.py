"""What a project's folder and the user's own say, read once when a session is opened."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from clew.config.settings import LoadedSettings, load_settings, load_trusted
from clew.config.trust import Trust
from clew.core.text import one_line
from clew.extensions.agent_definitions import AgentDefinition
from clew.extensions.agents import FoundAgents, discover_agents
from clew.extensions.commands.sources import SkillCommandSource
from clew.extensions.discovery import Refused
from clew.extensions.listing import summarize_warnings
from clew.extensions.memory import ProjectMemory
from clew.extensions.project import ProjectContext, load_project
from clew.extensions.skills import FoundSkills as SkillsFound
from clew.extensions.skills import Skill, format_skill_list
from clew.sdk.places import Homes

_MOST_NAMED = 3
_MOST_REASONS = 6


class Found(Struct, frozen=True, kw_only=True):
    """What was found."""

    loaded: LoadedSettings
    project: ProjectContext
    skills: SkillCommandSource
    agents: Mapping[str, AgentDefinition]
    warnings: tuple[str, ...]


def memory_folder(cwd: Path) -> Path:
    """Return where the memory of a project is kept."""
    return cwd / ".clew" / "memory"


def trust_of(homes: Homes) -> Trust:
    """Return who remembers the folders that the user has accepted."""
    return Trust(homes.clew / "trust.json")


def find(
    cwd: Path, homes: Homes, environ: Mapping[str, str], *, accepted: bool | None = None
) -> Found:
    """Read settings, rules, skills and agents; blocks.

    Raises:
        ConfigError: A settings file is wrong.
    """
    loaded = load(cwd, homes, environ, accepted=accepted)
    project = load_project(cwd, user_home=homes.user, clew_home=homes.clew)
    skills = SkillCommandSource(cwd, user_home=homes.user, clew_home=homes.clew)
    agents = discover_agents(cwd, user_home=homes.user, clew_home=homes.clew)
    warnings = (
        *_withheld(loaded),
        *project.warnings,
        *ProjectMemory(memory_folder(cwd)).problems(),
        *_refused((*skills.found().refused, *agents.refused)),
        *_replaced(skills.found(), agents),
        *_untold(skills.found().skills),
    )
    return Found(
        loaded=loaded,
        project=project,
        skills=skills,
        agents=agents.agents,
        # Names of files may hold line ends, orders to a terminal, and what is no text.
        warnings=tuple(map(one_line, warnings)),
    )


def load(
    cwd: Path, homes: Homes, environ: Mapping[str, str], *, accepted: bool | None = None
) -> LoadedSettings:
    """Read the settings of a folder, its own as far as they may count.

    Args:
        cwd: The project's folder.
        homes: The user's folders.
        environ: The variables of the process.
        accepted: Whether the folder is accepted; None for what the user once decided.

    Raises:
        ConfigError: A settings file is wrong.
    """
    user, clew = homes.user, homes.clew
    if accepted is None:
        return load_trusted(
            cwd, user_home=user, clew_home=clew, environ=environ, trust=trust_of(homes)
        )
    return load_settings(cwd, user_home=user, clew_home=clew, environ=environ, accepted=accepted)


def _withheld(loaded: LoadedSettings) -> list[str]:
    if not loaded.withheld:
        return []
    asked = _first([f"{one.key} in {one.path.name}" for one in loaded.withheld])
    return [
        f"this folder's own settings do not count in full until you accept them: {asked}."
        " `clew config show` lists them, `clew config accept` accepts them"
    ]


def _refused(refused: Iterable[Refused]) -> tuple[str, ...]:
    """Say what was left out, once for each reason."""
    reasons: dict[str, list[Path]] = {}
    for one in refused:
        reasons.setdefault(one.why, []).append(one.path)
    said = [
        f"{path} was left out: {why}{f' (and so were {len(others):,} others)' if others else ''}"
        for why, (path, *others) in reasons.items()
    ]
    return summarize_warnings(said, _MOST_REASONS, "reasons for leaving skills or agents out")


def _replaced(skills: SkillsFound, agents: FoundAgents) -> list[str]:
    """Say which of the user's things a project puts its own in the place of."""
    winners = {skill.name: skill for skill in skills.skills}
    names = [
        f"the skill {one.name}"
        for one in skills.shadowed
        if one.source == "user" and winners[one.name].source == "project"
    ]
    names += (
        f"the agent {one.name}"
        for one in agents.shadowed
        if one.source != "project" and agents.agents[one.name].source == "project"
    )
    if not names:
        return []
    return [f"this folder has its own in place of {_first(list(dict.fromkeys(names)))}"]


def _untold(skills: Sequence[Skill]) -> list[str]:
    offered = sum(skill.model_invocable for skill in skills)
    told = sum(line.startswith("- ") for line in format_skill_list(skills).splitlines())
    if told == offered:
        return []
    return [f"{offered:,} skills were found; the model is told of {told:,}"]


def _first(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return "; ".join(names[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
