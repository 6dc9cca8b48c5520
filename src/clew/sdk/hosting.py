"""What commands act on: an interactive session as their host."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from clew.context.policy import Thresholds
from clew.core.errors import ConfigError, SessionNotFound, StoreError
from clew.core.events import Warned
from clew.extensions.agent_definitions import AgentDefinition
from clew.extensions.commands.registry import CommandRegistry
from clew.extensions.memory import ProjectMemory
from clew.sdk.history import MEMORY
from clew.sdk.queries import Queries
from clew.sdk.recollecting import used_before
from clew.sdk.subagents import AgentRequest
from clew.session.gate import Gate
from clew.session.rewind import Rewind
from clew.session.session import Session
from clew.stores.protocol import Store


class Hosting(Queries):
    """The parts of an open session, by the names that commands know."""

    _later: tuple[str, bool] | None = None
    """Instructions for a compaction that waits for the end of the run."""

    @property
    def session(self) -> Session:
        """The conversation."""
        return self._assembly().session

    @property
    def registry(self) -> CommandRegistry:
        """All commands there are."""
        return self._assembly().registry

    @property
    def cwd(self) -> Path:
        """The project's folder."""
        return self._cwd

    @property
    def memory(self) -> ProjectMemory | None:
        """What is remembered of the project."""
        made = self._assembly()
        if not made.recollected:
            # Not when the session is opened: that would read the whole journal.
            made.recollected = True
            made.memory.restore_used(used_before(made.session.journal.entries))
        return made.memory

    @property
    def store(self) -> Store:
        """Where sessions are kept."""
        return self._assembly().store

    @property
    def gate(self) -> Gate:
        """Permissions of the session."""
        return self._assembly().gate

    @property
    def thresholds(self) -> Thresholds:
        """Shares of the window at which something happens, as they are now."""
        return self.session.policy.thresholds

    @property
    def language(self) -> str:
        """The language to answer in; empty for any."""
        return self._assembly().language

    @property
    def name(self) -> str:
        """What the user calls the session."""
        return self.get_name()

    @property
    def agents(self) -> Mapping[str, AgentDefinition]:
        """Agents by name; empty when the session was made without them."""
        runtime = self._assembly().runtime
        return runtime.definitions if runtime else {}

    async def compact_later(self, instructions: str, *, force: bool = False) -> bool:
        """Compact at the end of the run that is under way; False when none is."""
        if not self.session.is_running:
            return False
        self._later = (instructions, force)
        return True

    async def run_agent(self, name: str, prompt: str) -> str:
        """Have an agent do a task and return its answer.

        Raises:
            ConfigError: The session was made without agents, or there is no such agent.
        """
        runtime = self._assembly().runtime
        if runtime is None:
            raise ConfigError("this session was made without agents; make it with agents=True")
        return (await runtime.run(AgentRequest(agent=name, prompt=prompt))).text

    async def set_name(self, name: str) -> None:
        """Call the session something; kept with it from its first word on."""
        self._assembly().name = name
        await self._keep_name()

    async def set_language(self, language: str) -> None:
        """Have the model answer in another language from here on."""
        made = self._assembly()
        made.language = language
        await self.session.set_system_message(made.system_message())

    async def restore_edit_checkpoint(self, entry_id: int) -> Rewind:
        """Make files what they were before the prompt at that entry; the conversation stays.

        Raises:
            AlreadyRunning: A prompt is under way.
            SessionError: There is no such checkpoint.
        """
        return await self.session.rewind(entry_id, conversation=False)

    async def _settle(self) -> None:
        """Keep what is beside the conversation; that it cannot be kept fails no prompt."""
        try:
            await self._keep_name()
            await self._note_memory()
        except StoreError as error:
            self._bridge(Warned(f"the session's name or memory trail was not kept: {error}"))

    async def _note_memory(self) -> None:
        """Write down in the journal what happened to the memory."""
        events = self._assembly().memory_events
        while events:
            event = events.pop(0)
            await self.session.add_history_entry(MEMORY, "", **msgspec.to_builtins(event))

    async def _keep_name(self) -> None:
        made = self._assembly()
        record = made.session.journal.record
        if made.name and made.name != record.name:
            try:
                await made.store.rename(record.id, made.name)
            except SessionNotFound:
                # Nothing was said yet, so nothing is stored yet.
                return
            made.session.journal.record = replace(record, name=made.name)
