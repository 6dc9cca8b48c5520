"""What a project's folder and the user's own say, read once when a session is opened."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from clew.config.loading import Loaded, load_settings, load_trusted
from clew.config.trust import Trust
from clew.extensions.agents import AgentDefinition, discover_agents
from clew.extensions.commands.sources import SkillCommandSource
from clew.extensions.memory import ProjectMemory
from clew.extensions.project import ProjectContext, load_project
from clew.sdk.places import Homes

_MOST_NAMED = 3


class Found(Struct, frozen=True, kw_only=True):
    """What was found."""

    loaded: Loaded
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
    refused = [(one.path, one.why) for one in (*skills.found().refused, *agents.refused)]
    return Found(
        loaded=loaded,
        project=project,
        skills=skills,
        agents=agents.agents,
        warnings=(
            *_withheld(loaded),
            *project.warnings,
            *ProjectMemory(memory_folder(cwd)).problems(),
            *_refused(refused),
        ),
    )


def load(
    cwd: Path, homes: Homes, environ: Mapping[str, str], *, accepted: bool | None = None
) -> Loaded:
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


def _withheld(loaded: Loaded) -> list[str]:
    if not loaded.withheld:
        return []
    asked = "; ".join(f"{one.key} in {one.path.name}" for one in loaded.withheld[:_MOST_NAMED])
    more = len(loaded.withheld) - _MOST_NAMED
    rest = f" and {more} more" if more > 0 else ""
    return [
        f"this folder's own settings do not count in full until you accept them: {asked}{rest}."
        " `clew config show` lists them, `clew config accept` accepts them"
    ]


def _refused(refused: list[tuple[Path, str]]) -> list[str]:
    shown = [f"{path} was left out: {why}" for path, why in refused[:_MOST_NAMED]]
    if len(refused) > _MOST_NAMED:
        shown.append(f"{len(refused) - _MOST_NAMED:,} more skills or agents were left out")
    return shown
