"""What a plugin adds to a session: one record for skills, commands, agents, hooks and servers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from clew.context.estimate import text_units
from clew.extensions.agent_definitions import AgentDefinition
from clew.extensions.agent_discovery import format_agent_list
from clew.extensions.plugins.manifest import PluginManifest, PluginProblem
from clew.extensions.skills import Skill, format_skill_list
from clew.hooks.settings import HookTable


class PluginServer(Struct, frozen=True, kw_only=True):
    """An MCP server of a plugin, as its file describes it."""

    name: str
    """The name in a session: `plugin:<plugin>:<server>`, so that its tools are called
    `mcp__plugin_<plugin>_<server>__…`, as in Claude Code."""
    short_name: str
    """The name in the plugin's file."""
    entry: Mapping[str, Any]
    """The entry of `mcpServers`; its types are checked, its variables are not resolved."""
    variables: Mapping[str, str] = {}
    """Values of `${CLAUDE_PLUGIN_ROOT}` and its like, for `tools.mcp.config.parse_server`."""


class Contribution(Struct, frozen=True, kw_only=True):
    """Everything that a plugin adds. Names are qualified: `plugin:command`."""

    skills: tuple[Skill, ...] = ()
    commands: tuple[Skill, ...] = ()
    agents: tuple[AgentDefinition, ...] = ()
    hooks: HookTable = HookTable()
    servers: tuple[PluginServer, ...] = ()
    warnings: tuple[PluginProblem, ...] = ()
    """What the plugin has and Clew does not use, and why."""

    @property
    def is_empty(self) -> bool:
        """True for a plugin that adds nothing."""
        parts = (self.skills, self.commands, self.agents, self.hooks.hooks, self.servers)
        return not any(parts)

    @property
    def callable_skills(self) -> tuple[Skill, ...]:
        """Skills and commands: both are called with a slash."""
        return (*self.skills, *self.commands)

    @property
    def prompt_tokens(self) -> int:
        """About how many tokens the plugin adds to every request.

        That is its part of the lists of skills and agents. The tools of its servers are known only
        when the servers run; `/context` counts them.
        """
        return estimate_prompt(self.callable_skills, self.agents)


class Plugin(Struct, frozen=True, kw_only=True):
    """A plugin that was read: its manifest, and what it adds. Nothing of it has run."""

    root: Path
    """The folder of the plugin."""
    manifest: PluginManifest
    contribution: Contribution

    @property
    def name(self) -> str:
        """The name of the plugin."""
        return self.manifest.name


def with_data(plugin: Plugin, folder: Path) -> Plugin:
    """Return a plugin whose hooks and servers know the folder for the plugin's own data."""
    parts = plugin.contribution
    hooks = tuple(
        replace(hook, source=replace(hook.source, plugin_data=folder)) for hook in parts.hooks.hooks
    )
    servers = tuple(
        replace(one, variables={**one.variables, "CLAUDE_PLUGIN_DATA": str(folder)})
        for one in parts.servers
    )
    parts = replace(parts, hooks=HookTable(hooks, parts.hooks.problems), servers=servers)
    return replace(plugin, contribution=parts)


def estimate_prompt(skills: Sequence[Skill], agents: Sequence[AgentDefinition]) -> int:
    """Return about how many tokens skills and agents take up in the system prompt."""
    listed = format_skill_list(skills), format_agent_list({one.name: one for one in agents})
    return sum(text_units(text) for text in listed if text)
