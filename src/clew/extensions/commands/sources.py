"""Sources of commands: built-in, skills of the user and the project, plugins."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from clew.extensions.commands.agents import AGENT_COMMANDS
from clew.extensions.commands.background import BACKGROUND_COMMANDS
from clew.extensions.commands.context import WINDOW_COMMANDS
from clew.extensions.commands.diff import DIFF_COMMANDS
from clew.extensions.commands.help import HELP_COMMANDS
from clew.extensions.commands.mcp import MCP_COMMANDS
from clew.extensions.commands.memory import MEMORY_COMMANDS
from clew.extensions.commands.plugin import PLUGIN_COMMANDS
from clew.extensions.commands.protocol import Command, SystemCommand
from clew.extensions.commands.roster import ROSTER_COMMANDS
from clew.extensions.commands.session import SESSION_COMMANDS
from clew.extensions.commands.session_settings import SETTINGS_COMMANDS
from clew.extensions.commands.transcript import TRANSCRIPT_COMMANDS
from clew.extensions.skills import FoundSkills, Skill, discover_skills

BUILTINS: tuple[SystemCommand, ...] = (
    *HELP_COMMANDS,
    *WINDOW_COMMANDS,
    *SESSION_COMMANDS,
    *SETTINGS_COMMANDS,
    *DIFF_COMMANDS,
    *TRANSCRIPT_COMMANDS,
    *MEMORY_COMMANDS,
    *AGENT_COMMANDS,
    *ROSTER_COMMANDS,
    *BACKGROUND_COMMANDS,
    *MCP_COMMANDS,
    *PLUGIN_COMMANDS,
)


class BuiltinCommandSource:
    """The built-in commands."""

    name = "builtin"

    def __init__(self) -> None:
        self._commands = tuple(system.command for system in BUILTINS)

    def commands(self) -> Sequence[Command]:
        """Return the commands for listing."""
        return self._commands

    def system_commands(self) -> Sequence[SystemCommand]:
        """Return the commands with their code."""
        return BUILTINS


class SkillCommandSource:
    """Skills of the project and the user as commands; discovered at the first lookup."""

    name = "skill"

    def __init__(self, cwd: Path, *, user_home: Path, clew_home: Path) -> None:
        self._cwd = cwd
        self._user_home = user_home
        self._clew_home = clew_home
        self._found: FoundSkills | None = None
        self._commands: tuple[Command, ...] = ()

    def find_skills(self) -> FoundSkills:
        """Return the skills, and refused files with the reason."""
        if self._found is None:
            self._found = discover_skills(
                self._cwd, user_home=self._user_home, clew_home=self._clew_home
            )
            self._commands = tuple(
                _skill_command(skill, name=skill.name, source=self.name)
                for skill in self._found.skills
            )
        return self._found

    def commands(self) -> Sequence[Command]:
        """Return the skills as commands."""
        self.find_skills()
        return self._commands

    def refresh(self) -> None:
        """Discover skills again at the next lookup."""
        self._found = None


class PluginCommand(Struct, frozen=True, kw_only=True):
    """A command of a plugin, which is a skill."""

    plugin: str
    skill: Skill


class PluginCommandSource:
    """The commands of plugins, with the name of the plugin: `my-plugin:audit`."""

    name = "plugin"

    def __init__(self, commands: Iterable[PluginCommand]) -> None:
        self._commands = tuple(
            _skill_command(one.skill, name=_qualify(one), source=one.plugin) for one in commands
        )

    def commands(self) -> Sequence[Command]:
        """Return the commands with their qualified names."""
        return self._commands


def _qualify(one: PluginCommand) -> str:
    return f"{one.plugin}:{one.skill.name.removeprefix(f'{one.plugin}:')}"


def _skill_command(skill: Skill, *, name: str, source: str) -> Command:
    return Command(
        name=name,
        description=skill.description,
        argument_hint=skill.argument_hint,
        when_to_use=skill.when_to_use,
        model_invocable=skill.model_invocable,
        user_invocable=skill.user_invocable,
        safety="changes-session",
        source=source,
        skill=skill,
    )
