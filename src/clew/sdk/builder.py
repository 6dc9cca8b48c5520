"""Builds an interactive session: from a folder, a provider and options to connected parts."""

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path

import anyio
from anyio import to_thread
from msgspec import Struct

from clew.config.providers import ResolvedProvider, current_type, find_keys, resolve_provider
from clew.config.session_options import build_session_options
from clew.config.settings import LoadedSettings, Settings
from clew.core.errors import ConfigError
from clew.core.ids import SessionId
from clew.core.permissions import PermissionMode
from clew.extensions.commands.registry import CommandRegistry
from clew.extensions.commands.sources import BuiltinCommandSource
from clew.extensions.memory import MemoryEvent, ProjectMemory
from clew.extensions.user_tools import shorten_origins
from clew.providers.registry import FAMILIES, find_family, split_options
from clew.sdk.agent_setup import AgentSetup, connect_parent
from clew.sdk.agents import Agents
from clew.sdk.command_host import SessionCommandHost
from clew.sdk.model_choice import ModelChooser
from clew.sdk.model_switcher import ModelSwitcher
from clew.sdk.options import NOT_SHARED, InteractiveOptions, OwnOptions
from clew.sdk.path_completion import PathCompleter
from clew.sdk.permissions import (
    can_save_rules,
    connect_gate,
    drop_denied,
    list_allowed,
    list_denied,
    list_guards,
)
from clew.sdk.project_scan import ProjectScan, choose_sandbox, memory_folder, scan_project
from clew.sdk.session_hooks import add_transcripts, make_hooks
from clew.sdk.session_mcp import add_servers, add_source, connect_servers
from clew.sdk.session_parts import (
    RESERVED_TOOLS,
    Blueprint,
    SessionParts,
    select_agent_tools,
    write_prompt,
)
from clew.sdk.session_plugins import warn_conflicts
from clew.sdk.session_tasks import join_facts
from clew.sdk.session_tools import make_own_tools
from clew.sdk.task_runners import make_process_tool, make_tasks
from clew.sdk.telemetry import find_telemetry
from clew.session.calibrations import CalibrationFile
from clew.session.config import CALLBACKS, SessionOptions
from clew.session.gate import Gate, adapt_handler
from clew.session.session import Session
from clew.stores.protocol import Store
from clew.tools.builtin import builtin_tools
from clew.tools.builtin.websearch import BRAVE_VARIABLE, search_backend
from clew.tools.protocol import Tool
from clew.tools.sandbox import Sandbox


class BuiltSession(Struct, frozen=True, kw_only=True):
    """A session that is open, and what its commands act on."""

    parts: SessionParts
    commands: SessionCommandHost


async def build_session(blueprint: Blueprint) -> BuiltSession:
    """Read the project, connect the parts, and open the session.

    Raises:
        ConfigError: A settings file is wrong, or no model is known.
        StoreError: The session cannot be read or written.
    """
    options = blueprint.options
    scan = await to_thread.run_sync(
        partial(
            scan_project,
            blueprint.cwd,
            blueprint.homes,
            blueprint.environ,
            accepted=options.get("accepted"),
            load_tools=not options.keys() & {"tools", "session"},
            plugin_folders=options.get("plugin_folders", ()),
        )
    )
    blueprint = add_transcripts(blueprint, scan)
    store = _find_store(blueprint)
    built: BuiltSession | None = None
    mcp = connect_servers(blueprint, scan)
    try:
        session_id = await _session_id(options, store)
        builder = _Builder(add_source(blueprint, mcp), scan, store, session_id)
        built = await to_thread.run_sync(builder.build)
        parts = built.parts
        add_servers(parts, mcp)
        _check_mode(options, scan)
        await parts.session.open()
        await parts.tasks.restore()
        parts.name = parts.name or parts.session.journal.record.name
        if (mode := options.get("permission_mode")) is not None:
            await parts.session.set_permission_mode(mode)
    except BaseException:
        with anyio.CancelScope(shield=True):
            if mcp is not None:
                mcp.unsubscribe()
            if built is not None:
                await built.parts.session.shutdown()
            blueprint.remove_transcripts()
            if blueprint.owns_store:
                await store.aclose()
        raise
    return built


def _find_store(blueprint: Blueprint) -> Store:
    options = blueprint.options
    if (session := options.get("session")) is not None:
        return session.state.options["store"]
    if (store := options.get("store")) is not None:
        return store
    # Programs with a store of their own need no SQLite.
    from clew.stores.sqlite import SqliteStore  # noqa: PLC0415

    return SqliteStore(blueprint.homes.project(blueprint.cwd) / "sessions.db")


def _check_mode(options: InteractiveOptions, scan: ProjectScan) -> None:
    """Reject a mode that the settings forbid, before anything is opened."""
    mode = options.get("permission_mode")
    if mode == PermissionMode.BYPASS and scan.loaded.settings.permissions.bypass_disabled:
        raise ConfigError("the settings forbid the permission mode bypassPermissions")


async def _session_id(options: InteractiveOptions, store: Store) -> SessionId | None:
    wanted = options.get("resume_session_id")
    if wanted is None:
        return SessionId(own) if (own := options.get("session_id")) else None
    if options.get("fork_session"):
        return (await store.fork(SessionId(wanted))).id
    return (await store.record(SessionId(wanted))).id


class _Builder:
    """Builds the parts of one session; blocks."""

    def __init__(
        self,
        blueprint: Blueprint,
        scan: ProjectScan,
        store: Store,
        session_id: SessionId | None,
    ) -> None:
        self._blueprint = blueprint
        self._options = blueprint.options
        self._scan = scan
        self._settings = scan.loaded.settings
        self._store = store
        self._session_id = session_id
        self._origins: Mapping[str, str] = {}
        self._tool_warnings: list[str] = []
        self._profile = None if "models" in self._options else self._find_profile()

    def build(self) -> "BuiltSession":
        """Build the parts in the order in which they need each other."""
        options, blueprint = self._options, self._blueprint
        blueprint.requests.can_remember = can_save_rules(self._scan.loaded)
        registry, gate, tools = self._registry(), self._gate(), self._tools()
        events: list[MemoryEvent] = []
        memory = ProjectMemory(memory_folder(blueprint.cwd), on_event=events.append)
        language = options.get("language") or self._settings.language
        shared = self._build_shared_options()
        setup = self._make_agent_setup(tools, gate, shared)
        commands = SessionCommandHost(blueprint.cwd, blueprint.bus)
        tasks = make_tasks(blueprint, commands, setup, sandbox=lambda: self._sandbox)
        agents = Agents(setup, tasks)
        setup.hooks = hooks = make_hooks(blueprint, self._scan, tools, agents)
        own = make_own_tools(options, registry, commands, agents)
        own += make_process_tool(blueprint, self._scan, commands, tasks)
        session = options.get("session") or self._session(
            {
                **shared,
                **_select_callbacks(options),
                "system_message": write_prompt(blueprint, self._scan, memory, language),
                "tools": [*tools, *drop_denied(own, blueprint)],
                "gate": gate,
                "hooks": hooks,
                "extra_facts": join_facts(shared.get("extra_facts"), tasks.find_facts),
            }
        )
        connect_parent(setup, session)
        parts = SessionParts(
            blueprint=blueprint,
            scan=self._scan,
            store=self._store,
            session=session,
            registry=registry,
            gate=gate,
            memory=memory,
            memory_events=events,
            agents=agents,
            tasks=tasks,
            models=self._models(),
            name=options.get("name", ""),
            language=language,
            completer=PathCompleter(blueprint.cwd, self._store, gate),
            tool_origins=self._origins,
            warnings=self._list_warnings(registry),
        )
        commands.bind(parts)
        return BuiltSession(parts=parts, commands=commands)

    def _list_warnings(self, registry: CommandRegistry) -> tuple[str, ...]:
        scan = self._scan
        conflicts = warn_conflicts(registry, scan.agents, scan.plugins)
        return (*scan.warnings, *self._tool_warnings, *conflicts)

    def _make_agent_setup(
        self, tools: Sequence[Tool], gate: Gate, shared: SessionOptions
    ) -> AgentSetup:
        return AgentSetup(
            definitions=self._scan.agents,
            tools=tools,
            gate=gate,
            requests=self._blueprint.requests,
            project=self._scan.project,
            cwd=self._blueprint.cwd,
            store=self._store,
            provider_name=self._blueprint.provider.name,
            options=shared,
            transcripts=_find_transcripts(self._blueprint),
        )

    def _session(self, options: SessionOptions) -> Session:
        options["store"] = self._store
        options["session_id"] = self._session_id
        options["event_bus"] = self._blueprint.bus
        return Session(self._blueprint.provider, model=self._model(), **options)

    def _registry(self) -> CommandRegistry:
        registry = CommandRegistry()
        registry.add_source(BuiltinCommandSource())
        for module in self._options.get("command_modules", ()):
            registry.add_module(module)
        registry.add_source(self._scan.skills)
        registry.add_source(self._scan.plugins.make_source())
        return registry

    def _gate(self) -> Gate:
        given, permissions = self._options.get("session"), self._settings.permissions
        handler = self._options.get("permission_handler")
        gate = (
            given.gate
            if given is not None
            else Gate(
                cwd=self._blueprint.cwd,
                mode=permissions.default_mode,
                allow=(*permissions.allow, *list_allowed(self._blueprint)),
                ask_rules=list_guards(permissions.ask, self._blueprint),
                deny=list_guards(
                    (*permissions.deny, *list_denied(self._blueprint)), self._blueprint
                ),
                bypass_disabled=permissions.bypass_disabled,
                ask=adapt_handler(handler) if handler is not None else None,
            )
        )
        connect_gate(gate, self._blueprint)
        return gate

    @cached_property
    def _sandbox(self) -> Sandbox:
        return self._options.get("sandbox") or choose_sandbox(self._settings)

    def _tools(self) -> list[Tool]:
        if (session := self._options.get("session")) is not None:
            return list(session.state.tools.values())
        given, extra = self._options.get("tools"), self._options.get("extra_tools", ())
        if given is None:
            given = builtin_tools(
                sandbox=self._sandbox,
                search=search_backend(self._blueprint.environ),
            )
            extra = [*extra, *self._add_user_tools([*given, *extra])]
        offered = drop_denied([*given, *extra], self._blueprint)
        return select_agent_tools(offered, self._blueprint, self._scan)

    def _add_user_tools(self, known: Sequence[Tool]) -> list[Tool]:
        taken = {*(tool.spec.name for tool in known), *RESERVED_TOOLS}
        found, self._tool_warnings = self._scan.user_tools.merge(taken)
        self._origins = shorten_origins(found, self._blueprint.homes.user)
        return [one.tool for one in found]

    def _models(self) -> ModelSwitcher:
        given = self._options.get("models")
        if given is not None:
            return given
        chooser = ModelChooser(self._settings, self._scan.loaded.environ)
        return ModelSwitcher(chooser, current=self._blueprint.provider)

    def _build_shared_options(self) -> SessionOptions:
        """Return the options that hold for the session and for its subagents alike."""
        blueprint, project = self._blueprint, self._scan.project
        found: SessionOptions = {
            "cwd": blueprint.cwd,
            "env": self._settings.env,
            "redact_values": _find_keys(self._options, self._scan.loaded),
            "calibrations": CalibrationFile(blueprint.homes.clew / "calibration.json"),
            "telemetry": find_telemetry(self._settings, self._scan.loaded.environ),
        }
        if self._options.get("keep_checkpoints", True):
            found["checkpoints"] = blueprint.homes.project(blueprint.cwd) / "checkpoints"
        settings = build_session_options(self._settings, self._profile, model=self._model())
        both = (project.compact_instructions, settings.get("compact_instructions", ""))
        found["compact_instructions"] = "\n".join(filter(None, both))
        if self._profile is not None:
            found["request_options"], _ = split_options(self._profile)
            if self._profile.timeout is not None:
                found["provider_timeout"] = self._profile.timeout
        given = {
            key: value
            for key, value in self._options.items()
            if key not in OwnOptions.__annotations__ and key not in NOT_SHARED
        }
        given.pop("redact_values", None)
        return {**settings, **found, **given}  # type: ignore[typeddict-item]

    def _find_profile(self) -> ResolvedProvider | None:
        """Return the profile of the settings, if it belongs to the provider that was given."""
        environ = self._scan.loaded.environ
        named = self._settings.current_provider
        is_there = not named or named in self._settings.providers
        if is_there and current_type(self._settings, environ) != self._blueprint.provider.name:
            return None
        try:
            return resolve_provider(self._settings, environ)
        except ConfigError:
            # A caller that brings provider and model may do without the profile.
            if self._options.get("model"):
                return None
            raise

    def _model(self) -> str:
        return _choose_model(self._blueprint, self._settings, self._profile)


def _select_callbacks(options: InteractiveOptions) -> SessionOptions:
    return {key: options[key] for key in CALLBACKS & options.keys()}  # type: ignore[literal-required,return-value]


def _find_transcripts(blueprint: Blueprint) -> Path | None:
    """Return where subagents write a log of their own; None if the session writes none."""
    if blueprint.transcripts is not None or blueprint.options.get("session_log") is None:
        return blueprint.transcripts
    return blueprint.homes.project(blueprint.cwd) / "transcripts"


def _choose_model(
    blueprint: Blueprint, settings: Settings, profile: ResolvedProvider | None
) -> str:
    """Return the model: the option, the settings', or the provider's default."""
    if (session := blueprint.options.get("session")) is not None:
        return session.journal.view.setup.model.name
    name = blueprint.provider.name
    family = FAMILIES.get(name) or find_family(name)
    model = (
        blueprint.options.get("model")
        or (profile.model if profile is not None else "")
        or settings.model
        or (family.default_model if family else "")
    )
    if not model:
        raise ConfigError(f"no model is set for the provider {name}: pass model=…")
    return model


def _find_keys(options: InteractiveOptions, loaded: LoadedSettings) -> tuple[str, ...]:
    """Return the texts that the session must never show."""
    search = loaded.environ.get(BRAVE_VARIABLE, "")
    own = options.get("redact_values", ())
    keys = find_keys(loaded.settings, loaded.environ)
    return (*own, *keys, *([search] if search else []))
