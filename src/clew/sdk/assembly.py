"""From a folder and a provider to a session that knows its project."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread
from msgspec import Struct

from clew.config.context import context_options
from clew.config.providers import ResolvedProvider, current_type, resolve_provider
from clew.core.access import PermissionMode
from clew.core.errors import ConfigError
from clew.core.events import Warned
from clew.core.ids import SessionId
from clew.extensions.commands.protocol import AGENT_RUNTIME, CommandHost
from clew.extensions.commands.registry import CommandRegistry
from clew.extensions.commands.sources import BuiltinCommandSource
from clew.extensions.commands.tool import ExecuteCommand
from clew.extensions.memory import MemoryEvent, ProjectMemory
from clew.hooks.context import HookContext
from clew.hooks.protocol import Hooks
from clew.providers.protocol import Provider
from clew.providers.registry import FAMILIES
from clew.sdk.agent_tool import AgentTool
from clew.sdk.behind import Behind
from clew.sdk.bridge import Bridge
from clew.sdk.finding import Found, find, memory_folder
from clew.sdk.gatekeeping import ProjectGate
from clew.sdk.hooking import hooks_for
from clew.sdk.hub import Hub
from clew.sdk.options import InteractiveOptions
from clew.sdk.places import Homes
from clew.sdk.prompting import system_prompt
from clew.sdk.questions import Questions
from clew.sdk.remembering import remembering
from clew.sdk.sandboxing import sandbox_for
from clew.sdk.subagents import AgentRuntime
from clew.session.calibrations import CalibrationFile
from clew.session.config import SessionOptions
from clew.session.session import Session
from clew.stores.protocol import Store
from clew.stores.sqlite import SqliteStore
from clew.tools.builtin import builtin_tools
from clew.tools.builtin.websearch import search_backend
from clew.tools.protocol import Tool


class Wiring(Struct, frozen=True, kw_only=True):
    """What an assembly is made for."""

    host: CommandHost
    hub: Hub
    bridge: Bridge
    questions: Questions
    cwd: Path
    homes: Homes
    environ: Mapping[str, str]
    provider: Provider
    options: InteractiveOptions


class Assembly(Struct, kw_only=True):
    """The parts of an interactive session."""

    wiring: Wiring
    found: Found
    store: Store
    session: Session
    registry: CommandRegistry
    gate: ProjectGate
    memory: ProjectMemory
    memory_events: list[MemoryEvent]
    """What happened to the memory and is not in the journal yet."""
    recollected: bool = False
    """True once it knows what the session used of it before."""
    runtime: AgentRuntime | None
    behind: Behind
    """Hooks that nobody waits for."""
    name: str
    language: str

    def system_message(self) -> str:
        """Return the words that every request begins with, as they would be now."""
        return _first_words(
            self.wiring, self.found, self.memory, language=self.language, runtime=self.runtime
        )

    async def aclose(self) -> None:
        """Close what was opened for the session."""
        await self.behind.aclose()
        if "store" not in self.wiring.options:
            await self.store.aclose()


async def assemble(wiring: Wiring) -> Assembly:
    """Read the project, put the parts together, and open the session.

    Raises:
        ConfigError: A settings file is wrong, or no model is known.
        StoreError: The session cannot be read or written.
    """
    options = wiring.options
    found = await to_thread.run_sync(
        partial(find, wiring.cwd, wiring.homes, wiring.environ, accepted=options.get("accepted"))
    )
    store = options.get("store") or SqliteStore(wiring.homes.project(wiring.cwd) / "sessions.db")
    made: Assembly | None = None
    try:
        session_id = await _session_id(options, store)
        made = await to_thread.run_sync(_Builder(wiring, found, store, session_id).build)
        _check_mode(options, found)
        await made.session.open()
        made.name = made.name or made.session.journal.record.name
        if (mode := options.get("permission_mode")) is not None:
            await made.session.set_permission_mode(mode)
    except BaseException:
        with anyio.CancelScope(shield=True):
            if made is not None:
                await made.session.shutdown()
            if "store" not in options:
                await store.aclose()
        raise
    return made


def _first_words(
    wiring: Wiring,
    found: Found,
    memory: ProjectMemory,
    *,
    language: str,
    runtime: AgentRuntime | None,
) -> str:
    return system_prompt(
        wiring.cwd,
        found,
        identity=wiring.options.get("identity"),
        language=language,
        memory=memory.startup(),
        agents=runtime.definitions if runtime else {},
    )


def _check_mode(options: InteractiveOptions, found: Found) -> None:
    """Refuse a mode that the settings forbid, before anything is opened."""
    asked = options.get("permission_mode")
    if asked is PermissionMode.BYPASS and found.loaded.settings.permissions.bypass_disabled:
        raise ConfigError("the settings do not allow the mode bypassPermissions")


async def _session_id(options: InteractiveOptions, store: Store) -> SessionId | None:
    asked = options.get("resume_session_id")
    if asked is None:
        return None
    if options.get("fork_session"):
        return (await store.fork(SessionId(asked))).id
    return (await store.record(SessionId(asked))).id


class _Builder:
    """Puts one assembly together; blocks."""

    def __init__(
        self, wiring: Wiring, found: Found, store: Store, session_id: SessionId | None
    ) -> None:
        self._wiring = wiring
        self._options = wiring.options
        self._found = found
        self._settings = found.loaded.settings
        self._store = store
        self._session_id = session_id
        self._behind = Behind()
        self._provider = None if self._options.get("model") else self._profile()

    def build(self) -> Assembly:
        """Make the parts in the order in which they need each other."""
        options, wiring = self._options, self._wiring
        registry, gate = self._registry(), self._gate()
        events: list[MemoryEvent] = []
        memory = ProjectMemory(memory_folder(wiring.cwd), on_event=events.append)
        language = options.get("language") or self._settings.language
        tools, shared = self._tools(), self._shared_options()
        runtime = self._runtime(registry, tools=tools, gate=gate, shared=shared)
        hooks = self._hooks(tools, runtime)
        own: list[Tool] = [ExecuteCommand(registry, lambda: wiring.host, skills=False)]
        if runtime is not None:
            runtime.hooks = hooks
            own.append(AgentTool(runtime))
        session_options: SessionOptions = {
            **shared,
            "system_message": _first_words(
                wiring, self._found, memory, language=language, runtime=runtime
            ),
            "tools": [*tools, *own],
            "store": self._store,
            "session_id": self._session_id,
            "gate": gate,
            "hooks": hooks,
            "log": options.get("log"),
            **options.get("session_options", {}),
        }
        session = Session(
            wiring.provider, model=self._model(), on_event=wiring.bridge, **session_options
        )
        return Assembly(
            wiring=wiring,
            found=self._found,
            store=self._store,
            session=session,
            registry=registry,
            gate=gate,
            memory=memory,
            memory_events=events,
            runtime=runtime,
            behind=self._behind,
            name=options.get("name", ""),
            language=language,
        )

    def _hooks(self, tools: Sequence[Tool], runtime: AgentRuntime | None) -> Hooks:
        return hooks_for(
            self._settings.hooks,
            HookContext(
                project=self._wiring.cwd,
                environ=self._found.loaded.environ,
                background=self._behind,
            ),
            session=lambda: self._wiring.host.session,
            tools=tools,
            runtime=runtime,
        )

    def _registry(self) -> CommandRegistry:
        registry = CommandRegistry()
        registry.add_source(BuiltinCommandSource())
        for module in self._options.get("command_modules", ()):
            registry.add_module(module)
        registry.add_source(self._found.skills)
        return registry

    def _gate(self) -> ProjectGate:
        permissions = self._settings.permissions
        handler = self._options.get("permission_handler")
        return ProjectGate(
            cwd=self._wiring.cwd,
            mode=permissions.default_mode,
            allow=permissions.allow,
            ask_rules=permissions.ask,
            deny=permissions.deny,
            bypass_disabled=permissions.bypass_disabled,
            ask=handler,
            whom=None if handler else self._wiring.questions.whom,
            on_denied=self._options.get("on_denied"),
            remember=remembering(
                self._wiring.cwd,
                self._wiring.homes,
                self._wiring.environ,
                lambda text: self._wiring.bridge(Warned(text)),
            ),
        )

    def _tools(self) -> list[Tool]:
        given = self._options.get("tools")
        if given is None:
            given = builtin_tools(
                sandbox=self._options.get("sandbox") or sandbox_for(self._settings),
                search=search_backend(self._wiring.environ),
            )
        return [*given, *self._options.get("extra_tools", ())]

    def _runtime(
        self,
        registry: CommandRegistry,
        *,
        tools: Sequence[Tool],
        gate: ProjectGate,
        shared: SessionOptions,
    ) -> AgentRuntime | None:
        wiring = self._wiring
        if not self._options.get("agents") and AGENT_RUNTIME not in registry.requirements:
            return None
        return AgentRuntime(
            definitions=self._found.agents,
            tools=tools,
            gate=gate,
            project=self._found.project,
            emit=lambda event: wiring.hub.emit("background_task_event", event),
            warn=lambda text: wiring.bridge(Warned(text)),
            parent=lambda: wiring.host.session,
            provider_name=wiring.provider.name,
            options=shared,
            transcripts=wiring.homes.project(wiring.cwd) / "transcripts",
        )

    def _shared_options(self) -> SessionOptions:
        """Return what holds for the session and for its agents alike."""
        wiring, project = self._wiring, self._found.project
        folder = wiring.homes.project(wiring.cwd)
        shared: SessionOptions = {
            "cwd": wiring.cwd,
            "env": self._settings.env,
            "calibrations": CalibrationFile(wiring.homes.clew / "calibration.json"),
        }
        if self._options.get("checkpoints", True):
            shared["checkpoints"] = folder / "checkpoints"
        own = context_options(self._settings, self._provider, model=self._model())
        both = (project.compact_instructions, own.get("compact_instructions", ""))
        shared["compact_instructions"] = "\n".join(filter(None, both))
        return {**own, **shared, **self._options.get("session_options", {})}

    def _profile(self) -> ResolvedProvider | None:
        """Return the profile of the settings, if it is of the provider that was given."""
        environ = self._found.loaded.environ
        named = self._settings.current_provider
        is_there = not named or named in self._settings.providers
        if is_there and current_type(self._settings, environ) != self._wiring.provider.name:
            return None
        return resolve_provider(self._settings, environ)

    def _model(self) -> str:
        """Return the model: as it is asked for, as the settings say, or the provider's usual."""
        name = self._wiring.provider.name
        family = FAMILIES.get(name)
        model = (
            self._options.get("model")
            or (self._provider.model if self._provider is not None else "")
            or self._settings.model
            or (family.default_model if family else "")
        )
        if not model:
            raise ConfigError(f"say which model of {name} shall answer: model=…")
        return model
