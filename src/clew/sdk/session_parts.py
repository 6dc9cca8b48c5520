"""The parts of an interactive session, and what they are built from."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

from msgspec import Struct

from clew.core.errors import ConfigError
from clew.core.tasks import TaskKind
from clew.extensions.agent_definitions import AgentDefinition
from clew.extensions.agent_discovery import assemble_prompt, filter_tools
from clew.extensions.agent_discovery import find_agent as find_definition
from clew.extensions.commands.protocol import AGENT_RUNTIME
from clew.extensions.commands.registry import CommandRegistry
from clew.extensions.memory import MemoryEvent, ProjectMemory
from clew.providers.protocol import Provider
from clew.sdk.agents import Agents
from clew.sdk.folders import Homes
from clew.sdk.host import Host
from clew.sdk.model_switcher import ModelSwitcher
from clew.sdk.options import InteractiveOptions
from clew.sdk.path_completion import PathCompleter
from clew.sdk.permission_requests import PermissionRequests
from clew.sdk.project_scan import ProjectScan, build_prompt
from clew.sdk.session_tasks import SessionTasks
from clew.session.event_bus import EventBus
from clew.session.gate import Gate
from clew.session.session import Session
from clew.stores.protocol import Store
from clew.tools.mcp.names import OWN_TOOLS
from clew.tools.protocol import Tool

if TYPE_CHECKING:
    # Loaded only when a server is configured.
    from clew.tools.mcp.source import McpToolSource

RESERVED_TOOLS = frozenset(
    {"Agent", "BackgroundProcess", "ExecuteCommand", "ExitPlanMode", "Recall", *OWN_TOOLS}
)
"""Tools that a session makes itself."""


class Blueprint(Struct, frozen=True, kw_only=True):
    """What a session is built from."""

    cwd: Path
    homes: Homes
    environ: Mapping[str, str]
    provider: Provider
    options: InteractiveOptions
    host: Host
    bus: EventBus
    requests: PermissionRequests
    transcripts: Path | None = None
    """A temporary folder for logs that hooks read; None where the session needs none."""

    @property
    def owns_store(self) -> bool:
        """True when the store was opened for this session, and is closed with it."""
        return "store" not in self.options and "session" not in self.options

    def remove_transcripts(self) -> None:
        """Remove what was written for hooks; called when the session has ended."""
        if self.transcripts is not None:
            rmtree(self.transcripts, ignore_errors=True)


class McpAccess(Struct, frozen=True, kw_only=True):
    """The servers as one session uses them."""

    source: "McpToolSource"
    problems: tuple[str, ...]
    secrets: tuple[str, ...]
    """Values of headers and variables, which must not appear in output."""
    unsubscribe: Callable[[], None]


class SessionParts(Struct, kw_only=True):
    """The connected parts of an interactive session."""

    blueprint: Blueprint
    scan: ProjectScan
    store: Store
    session: Session
    registry: CommandRegistry
    gate: Gate
    memory: ProjectMemory
    memory_events: list[MemoryEvent]
    """Memory events that are not in the journal yet."""
    agents: Agents
    tasks: SessionTasks
    models: ModelSwitcher
    name: str
    language: str
    completer: PathCompleter
    warnings: tuple[str, ...] = ()
    """What the user should know about the project when the session opens."""
    tool_origins: Mapping[str, str] = {}
    """Where tools come from that are not built in, by name."""
    mcp: McpAccess | None = None
    """The MCP servers; None when none is configured."""

    def system_prompt(self, language: str) -> str:
        """Return the system prompt as it would be now, in that language."""
        return write_prompt(self.blueprint, self.scan, self.memory, language)

    async def aclose(self) -> None:
        """Close what was opened for the session."""
        if self.mcp is not None:
            self.mcp.unsubscribe()
        self.blueprint.remove_transcripts()
        await self.models.aclose()
        if self.blueprint.owns_store:
            await self.store.aclose()


def write_prompt(
    blueprint: Blueprint, scan: ProjectScan, memory: ProjectMemory, language: str
) -> str:
    """Return the system prompt of a session."""
    if (agent := find_agent(blueprint, scan)) is not None:
        project = scan.project
        return assemble_prompt(agent, claude_md=project.claude_md, agents_md=project.agents_md)
    prompt = build_prompt(
        blueprint.cwd,
        scan,
        identity=blueprint.options.get("identity"),
        language=language,
        memory=memory.startup(),
        agents=scan.agents if offers_agents(blueprint.options) else {},
    )
    more = blueprint.options.get("append_system_prompt", "").strip()
    return f"{prompt}\n\n{more}" if more else prompt


def find_agent(blueprint: Blueprint, scan: ProjectScan) -> AgentDefinition | None:
    """Return the agent that the session is; None for the usual assistant.

    Raises:
        ConfigError: There is no agent of that name.
    """
    name = blueprint.options.get("agent", "")
    if not name:
        return None
    if (found := find_definition(scan.agents, name)) is None:
        raise ConfigError(
            f"there is no agent {name!r}; there are: {', '.join(sorted(scan.agents))}"
        )
    return found


def select_agent_tools(
    tools: Sequence[Tool], blueprint: Blueprint, scan: ProjectScan
) -> list[Tool]:
    """Return the tools that the session may use: of an agent, those of its definition."""
    agent = find_agent(blueprint, scan)
    if agent is None:
        return list(tools)
    names = [tool.spec.name for tool in tools]
    kept = filter_tools(names, agent, allowed=blueprint.options.get("agent_tools") or None)
    return [tool for tool in tools if tool.spec.name in kept]


def offers_processes(options: InteractiveOptions) -> bool:
    """Return True when the model gets the `BackgroundProcess` tool."""
    runners = options.get("background_task_runners", ())
    has_runner = any(runner.kind is TaskKind.PROCESS for runner in runners)
    is_usual = offers_agents(options) and not options.keys() & {"tools", "session"}
    return options.get("background_processes", has_runner or is_usual)


def offers_agents(options: InteractiveOptions) -> bool:
    """Return True when the model gets the `Agent` tool."""
    modules = options.get("command_modules", ())
    return options.get("agents", False) or any(AGENT_RUNTIME in m.requirements for m in modules)
