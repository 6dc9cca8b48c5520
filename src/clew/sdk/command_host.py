"""What commands act on: an open session, by the names that the command protocol uses."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from clew.context.policy import Thresholds
from clew.core.errors import SessionNotFound, StoreError
from clew.core.events import SessionUpdated, Warned
from clew.core.permissions import PermissionMode
from clew.core.tasks import TaskKind
from clew.extensions.agent_definitions import AgentDefinition
from clew.extensions.commands.registry import CommandRegistry
from clew.extensions.memory import ProjectMemory
from clew.extensions.plugins.contribution import estimate_prompt
from clew.extensions.skills import Skill
from clew.runtime.protocol import TaskRequest
from clew.sdk.agents import Agents
from clew.sdk.session_details import memory_references
from clew.sdk.session_parts import SessionParts, offers_agents
from clew.sdk.session_store import ProjectStore
from clew.sdk.session_tasks import SessionTasks
from clew.sdk.skill_text import SkillText, make_skill_text
from clew.sdk.task_client import LocalTasks
from clew.session.event_bus import EventBus
from clew.session.gate import Gate
from clew.session.history import MEMORY
from clew.session.session import Session
from clew.session.state import CompactionRequest
from clew.stores.protocol import Store
from clew.tools.mcp.values import ServerStatus

if TYPE_CHECKING:
    from clew.runtime.roster import Roster
    from clew.sdk.plugin_dialog import PluginDialog

SkillRunner = Callable[[Skill, str], Awaitable[str]]


class SessionCommandHost:
    """Implements `clew.extensions.commands.protocol.CommandHost` for an interactive session."""

    def __init__(self, cwd: Path, bus: EventBus) -> None:
        self._cwd = cwd
        self._bus = bus
        self._parts: SessionParts | None = None
        self._has_read_usage = False
        self.run_skill_as_prompt: SkillRunner | None = None
        """Runs a skill as a prompt of its own; the session sets it."""

    def bind(self, parts: SessionParts) -> None:
        """Connect the host with its session."""
        self._parts = parts

    @property
    def parts(self) -> SessionParts:
        """The parts of the session."""
        assert self._parts is not None  # noqa: S101 - bound when the session is built
        return self._parts

    @property
    def session(self) -> Session:
        """The conversation."""
        return self.parts.session

    @property
    def registry(self) -> CommandRegistry:
        """All commands."""
        return self.parts.registry

    @property
    def cwd(self) -> Path:
        """The project's folder."""
        return self._cwd

    @property
    def memory(self) -> ProjectMemory | None:
        """The project's memory."""
        if not self._has_read_usage:
            # Not when the session is opened: that would read the whole journal.
            self._has_read_usage = True
            self.parts.memory.restore_used(memory_references(self.session.journal.entries))
        return self.parts.memory

    @property
    def store(self) -> Store:
        """Where sessions are stored."""
        return self.parts.store

    @property
    def gate(self) -> Gate:
        """The permissions of the session."""
        return self.parts.gate

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds of the context window."""
        return self.session.state.policy.thresholds

    @property
    def language(self) -> str:
        """The language of answers; empty for any."""
        return self.parts.language

    @property
    def name(self) -> str:
        """The name of the session."""
        return self.parts.name

    @property
    def tool_origins(self) -> Mapping[str, str]:
        """Where tools come from, by name."""
        return self.parts.tool_origins

    @property
    def agents(self) -> Mapping[str, AgentDefinition]:
        """Agents by name."""
        return self.parts.agents.setup.definitions

    @property
    def mcp_servers(self) -> Sequence[ServerStatus]:
        """The MCP servers with their states."""
        mcp = self.parts.mcp
        return mcp.source.pool.list_status() if mcp is not None else ()

    @property
    def plugin_units(self) -> int:
        """About how many tokens plugins add to the system prompt."""
        found = self.parts.scan.plugins
        agents = found.agents if offers_agents(self.parts.blueprint.options) else {}
        return estimate_prompt(found.skills, tuple(agents.values()))

    @property
    def roster(self) -> "Roster":
        """The agents of all sessions that share the store."""
        return _make_roster(self.parts)

    @property
    def tasks(self) -> LocalTasks:
        """The background tasks of the session."""
        return LocalTasks(self._find_tasks)

    async def _find_tasks(self) -> SessionTasks:
        return self.parts.tasks

    async def compact_later(self, instructions: str, *, force: bool = False) -> bool:
        """Compact before the next model call; returns False when no run is in progress."""
        if not self.session.is_running:
            return False
        request = CompactionRequest(instructions=instructions, force=force)
        self.session.state.compaction_request = request
        return True

    async def run_agent(self, name: str, prompt: str) -> str:
        """Have an agent do a task and return its answer.

        Raises:
            ConfigError: There is no such agent.
        """
        request = TaskRequest(kind=TaskKind.AGENT, agent=name, prompt=prompt)
        return await self.parts.agents.ask(request)

    @property
    def subagents(self) -> Agents:
        """The subagents of the session."""
        return self.parts.agents

    @cached_property
    def plugins(self) -> "PluginDialog":
        """What `/plugin` does."""
        from clew.sdk.plugin_dialog import PluginDialog  # noqa: PLC0415 - seldom needed

        blueprint = self.parts.blueprint
        return PluginDialog(blueprint.cwd, blueprint.homes, blueprint.environ)

    async def run_skill(self, skill: Skill, arguments: str) -> str:
        """Run a skill and return the result.

        During a run the model has asked for it: it gets the skill's instructions, or the answer
        of a subagent where the skill says `context: fork`.
        """
        if not self.session.is_running and self.run_skill_as_prompt is not None:
            return await self.run_skill_as_prompt(skill, arguments)
        text = await self.render_skill(skill, arguments).write()
        return await self.parts.agents.run_skill(skill, text) if skill.fork else text

    def render_skill(self, skill: Skill, arguments: str) -> SkillText:
        """Return the instructions of a skill."""
        return make_skill_text(self.session, skill, arguments, cwd=self.cwd)

    async def set_name(self, name: str) -> None:
        """Name the session; the name is stored with its first message."""
        self.parts.name = name
        await _store_name(self.parts)
        self.publish_update()

    async def set_language(self, language: str) -> None:
        """Have the model answer in another language; empty for any."""
        self.parts.language = language
        await self.session.set_system_message(self.parts.system_prompt(language))
        self.publish_update()

    async def set_model(self, name: str) -> str:
        """Continue with another model; returns a sentence that says how it was chosen."""
        chosen = await self.parts.models.switch(self.session, name)
        self.publish_update()
        return chosen

    async def set_mode(self, mode: PermissionMode) -> None:
        """Change the permission mode."""
        await self.session.set_permission_mode(mode)
        self.publish_update()

    def publish_update(self) -> None:
        """Tell clients the name, model, mode and language."""
        self._bus.publish(_describe_session(self.parts))

    async def save_side_data(self) -> None:
        """Store the name and the memory events; a failure is a warning."""
        try:
            await _store_name(self.parts)
            events = self.parts.memory_events
            while events:
                event = events.pop(0)
                await self.session.add_history_entry(MEMORY, "", **msgspec.to_builtins(event))
        except StoreError as error:
            text = f"the session's name or memory events were not stored: {error}"
            self._bus.publish(Warned(text))


async def _store_name(parts: SessionParts) -> None:
    name, journal = parts.name, parts.session.journal
    if name and name != journal.record.name:
        try:
            await parts.store.rename(journal.record.id, name)
        except SessionNotFound:
            # Nothing was said yet, so nothing is stored yet.
            return
        journal.record = replace(journal.record, name=name)


def _make_roster(parts: SessionParts) -> "Roster":
    from clew.sdk.roster import make_roster  # noqa: PLC0415 - seldom needed

    options, folder = parts.blueprint.options, str(parts.blueprint.cwd)
    address = options.get("store_address", "")
    return make_roster(ProjectStore(store=parts.store, folder=folder, address=address))


def _describe_session(parts: SessionParts) -> SessionUpdated:
    return SessionUpdated(
        name=parts.name,
        model=parts.session.journal.view.setup.model.name,
        mode=parts.gate.mode,
        language=parts.language,
    )
