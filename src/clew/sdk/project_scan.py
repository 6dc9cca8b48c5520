"""Reads a project when a session opens: settings, instructions, skills, agents, system prompt."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from clew.config.settings import LoadedSettings, Settings
from clew.config.trust import read_tool_files
from clew.core.errors import ConfigError
from clew.core.text import one_line
from clew.extensions.agent_definitions import AgentDefinition
from clew.extensions.agent_discovery import FoundAgents, discover_agents, format_agent_list
from clew.extensions.commands.sources import SkillCommandSource
from clew.extensions.discovery import Refused
from clew.extensions.memory import ProjectMemory
from clew.extensions.project import ProjectContext, PromptParts, build_system_prompt, load_project
from clew.extensions.project.system_prompt import IDENTITY
from clew.extensions.skills import FoundSkills, Skill, format_skill_list
from clew.extensions.text_lists import summarize_warnings
from clew.extensions.user_tools import UserTools, load_user_tools
from clew.hooks.settings import HookTable
from clew.sdk.folders import Homes
from clew.sdk.session_plugins import (
    SessionPlugins,
    describe_warnings,
    load_plugins,
    merge_agents,
    merge_hooks,
)
from clew.sdk.settings import load_project_settings
from clew.tools.sandbox import Sandbox, SandboxMode, SandboxPolicy

_MOST_NAMED = 3
_MOST_REASONS = 6


class ProjectScan(Struct, frozen=True, kw_only=True):
    """What a project's folder and the user's own folder contain."""

    loaded: LoadedSettings
    project: ProjectContext
    skills: SkillCommandSource
    agents: Mapping[str, AgentDefinition]
    warnings: tuple[str, ...]
    user_tools: UserTools = UserTools()
    plugins: SessionPlugins = SessionPlugins()

    @property
    def hooks(self) -> HookTable:
        """The hooks of the settings and of the plugins."""
        return merge_hooks(self.loaded, self.plugins)


def memory_folder(cwd: Path) -> Path:
    """Return the folder with the memory of a project."""
    return cwd / ".clew" / "memory"


def scan_project(
    cwd: Path,
    homes: Homes,
    environ: Mapping[str, str],
    *,
    accepted: bool | None = None,
    load_tools: bool = True,
    plugin_folders: Sequence[str | Path] = (),
) -> ProjectScan:
    """Read settings, instructions, skills, agents and plugins, and load the user's own tools.

    It blocks.

    Args:
        cwd: The project's folder.
        homes: The user's folders.
        environ: Environment variables.
        accepted: Whether to trust the folder; None for what the user once decided.
        load_tools: False for a session that has all its tools already.
        plugin_folders: Plugins that the caller brings, beside the installed ones.

    Raises:
        ConfigError: A settings file is wrong.
    """
    loaded = load_project_settings(cwd, homes, environ, accepted=accepted)
    project = load_project(cwd, user_home=homes.user, clew_home=homes.clew)
    skills = SkillCommandSource(cwd, user_home=homes.user, clew_home=homes.clew)
    agents = discover_agents(cwd, user_home=homes.user, clew_home=homes.clew)
    tools = load_extensions(loaded, homes) if load_tools else UserTools()
    plugins = load_plugins(loaded, homes, cwd, plugin_folders)
    warnings = (
        *_withheld_warning(loaded),
        *tools.problems,
        *project.warnings,
        *ProjectMemory(memory_folder(cwd)).problems(),
        *_warn_skipped((*skills.find_skills().refused, *agents.refused)),
        *_warn_replaced(skills.find_skills(), agents),
        *_warn_unlisted((*skills.find_skills().skills, *plugins.skills)),
        *describe_warnings(plugins),
    )
    return ProjectScan(
        loaded=loaded,
        project=project,
        skills=skills,
        agents=merge_agents(agents.agents, plugins),
        # File names can contain line breaks, control characters and invalid text.
        warnings=tuple(map(one_line, warnings)),
        user_tools=tools,
        plugins=plugins,
    )


def load_extensions(loaded: LoadedSettings, homes: Homes) -> UserTools:
    """Load the tools of the user, of a project that the user accepted, and of packages."""
    own = read_tool_files(homes.clew)
    return load_user_tools((*own, *(loaded.tool_files if loaded.accepted else ())))


def _withheld_warning(loaded: LoadedSettings) -> list[str]:
    if not loaded.withheld:
        return []
    asked = _first([f"{one.key} in {one.path.name}" for one in loaded.withheld])
    return [
        f"some settings of this folder have no effect until you accept them: {asked}."
        " `clew config show` lists them, `clew config accept` accepts them"
    ]


def _warn_skipped(refused: Iterable[Refused]) -> tuple[str, ...]:
    """Return one warning for each reason that skills or agents were skipped."""
    reasons: dict[str, list[Path]] = {}
    for one in refused:
        reasons.setdefault(one.why, []).append(one.path)
    said = [
        f"{path} was skipped: {why}{f' (and {len(others):,} more)' if others else ''}"
        for why, (path, *others) in reasons.items()
    ]
    return summarize_warnings(said, _MOST_REASONS, "reasons for skipping skills or agents")


def _warn_replaced(skills: FoundSkills, agents: FoundAgents) -> list[str]:
    """Return a warning about the user's skills and agents that the project replaces."""
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
    return [f"this folder replaces {_first(list(dict.fromkeys(names)))}"]


def _warn_unlisted(skills: Sequence[Skill]) -> list[str]:
    offered = sum(skill.model_invocable for skill in skills)
    listed = sum(line.startswith("- ") for line in format_skill_list(skills).splitlines())
    if listed == offered:
        return []
    return [f"{offered:,} skills were found; the system prompt lists {listed:,}"]


def _first(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return "; ".join(names[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def build_prompt(
    cwd: Path,
    scan: ProjectScan,
    *,
    identity: str | None,
    language: str,
    memory: str,
    agents: Mapping[str, AgentDefinition],
) -> str:
    """Return the system prompt; the same parts give the same text."""
    project = scan.project
    return build_system_prompt(
        PromptParts(
            identity=IDENTITY if identity is None else identity,
            cwd=cwd,
            facts=project.facts,
            agents_md=project.agents_md,
            claude_md=project.claude_md,
            memory=memory,
            tasks=project.tasks,
            skills=format_skill_list((*scan.skills.find_skills().skills, *scan.plugins.skills)),
            agents=format_agent_list(agents),
            language=language,
        )
    )


def choose_sandbox(
    settings: Settings, *, mode: SandboxMode | None = None, network: bool = True
) -> Sandbox:
    """Return the sandbox for commands; the arguments win over the settings.

    Raises:
        ConfigError: Network access is forbidden, and the sandbox that would forbid it is off.
    """
    wanted = mode or SandboxMode(settings.sandbox.mode or SandboxMode.AUTO)
    if network and settings.sandbox.allow_network is not False:
        return Sandbox(SandboxPolicy(mode=wanted, network=True))
    if wanted is SandboxMode.OFF:
        raise ConfigError(
            "commands have network access when the sandbox is off: allow the network, or leave"
            " the sandbox on"
        )
    return Sandbox(SandboxPolicy(mode=SandboxMode.ON, network=False))
