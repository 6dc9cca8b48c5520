"""From a `SessionSpec` to an open session: settings, model, store, log and sandbox."""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from anyio import to_thread

from clew.config.settings import LoadedSettings, Settings
from clew.core.errors import SessionBusy
from clew.core.events import Warned
from clew.core.ids import SessionId
from clew.core.permissions import PermissionMode
from clew.log.protocol import SessionLogger
from clew.sdk.folders import Homes
from clew.sdk.host import Host
from clew.sdk.local_servers import find_local_server
from clew.sdk.model_choice import ModelChoice, ModelChooser
from clew.sdk.model_switcher import ModelSwitcher
from clew.sdk.notices import take_notice
from clew.sdk.options import InteractiveOptions
from clew.sdk.project_scan import choose_sandbox
from clew.sdk.resume import choose_model, find_record
from clew.sdk.saved_model import save_model
from clew.sdk.session import InteractiveSession
from clew.sdk.session_spec import SessionSpec
from clew.sdk.session_store import ProjectStore, project_store
from clew.sdk.settings import load_project_settings
from clew.session.event_bus import EnvelopeListener
from clew.stores.record import StoredSession
from clew.tools.sandbox import Sandbox, SandboxMode


@dataclass(frozen=True, slots=True)
class LaunchedSession:
    """An open session, and how it was chosen."""

    session: InteractiveSession
    choice: ModelChoice
    resumed: bool
    sandbox: str
    """What commands can do, in a sentence."""
    place: ProjectStore
    """The store of the session."""
    home: Path
    """The user's own folder."""

    def list_secrets(self) -> tuple[str, ...]:
        """Return the secrets that the session knows: the keys of providers, and what you named."""
        return self.session.session.state.tool_context.redact_values or ()

    async def save(self) -> None:
        """Store a new session before its first message, for clients that return to it by its id.

        Raises:
            StoreError: The store failed.
        """
        await self.session.session.journal.save()
        await self.session.set_name(self.session.get_name())

    def take_sandbox_notice(self) -> str:
        """Return what commands can do, unless this user was told so before."""
        return take_notice(self.home, "sandbox", self.sandbox)

    async def other_sessions(self, limit: int = 200) -> list[StoredSession]:
        """Return the other sessions of the folder, the newest first."""
        found = await self.place.store.sessions(cwd=self.place.folder, kind="", limit=limit)
        return [one for one in found if one.id != self.session.get_session_id()]


@asynccontextmanager
async def launch(
    spec: SessionSpec,
    *,
    on_envelope: EnvelopeListener | None = None,
    host: Host | None = None,
    environ: Mapping[str, str] | None = None,
    place: ProjectStore | None = None,
    services: InteractiveOptions | None = None,
) -> AsyncGenerator[LaunchedSession, None]:
    """Open the session that a spec describes; everything is closed at the end.

    Args:
        spec: Which session.
        on_envelope: Called with every event, including those of the opening.
        host: Owns background work; by default a host of the session's own.
        environ: Environment variables; by default those of the process.
        place: The store, which the caller closes; by default the one that the spec names.
        services: Options that a spec cannot have, such as `permission_handler`.
    """
    environ = os.environ if environ is None else environ
    homes, cwd = Homes.of(environ), Path(spec.cwd)
    async with AsyncExitStack() as closing:
        if place is None:
            place = project_store(cwd, environ, spec.store)
            closing.push_async_callback(place.store.aclose)
        loaded = await to_thread.run_sync(partial(load_project_settings, cwd, homes, environ))
        record = await find_record(spec, place)
        choice, models = await _choose(spec, record, loaded)
        closing.push_async_callback(models.aclose)
        session_id = await _session_id(spec, record, place)
        options: InteractiveOptions = {
            **_options(spec, choice, homes),
            **({"host": host} if host is not None else {}),
            "store": place.store,
            "resume_session_id": session_id,
            "sandbox": (sandbox := _sandbox(spec, loaded.settings)),
            "models": models,
            "environ": environ,
            "spec": spec,
            "store_address": place.address,
            **(services or {}),
        }
        session = InteractiveSession(provider=choice.provider, **options)
        if on_envelope is not None:
            session.on_any(on_envelope)
        await closing.enter_async_context(_open(session, session_id, choice))
        is_resumed, words = session_id is not None, sandbox.describe()
        yield LaunchedSession(session, choice, is_resumed, words, place, homes.clew)


async def _choose(
    spec: SessionSpec, record: StoredSession | None, loaded: LoadedSettings
) -> tuple[ModelChoice, ModelSwitcher]:
    chooser = ModelChooser(loaded.settings, loaded.environ)
    search = partial(find_local_server, environ=loaded.environ)
    choice = await choose_model(spec, record, chooser, search)
    return choice, ModelSwitcher(chooser, current=choice.provider, first=choice)


def _sandbox(spec: SessionSpec, settings: Settings) -> Sandbox:
    mode = SandboxMode(spec.sandbox) if spec.sandbox else None
    return choose_sandbox(settings, mode=mode, network=spec.network)


def _options(spec: SessionSpec, choice: ModelChoice, homes: Homes) -> InteractiveOptions:
    """Return the options of a spec; the settings decide about fields that it leaves out."""
    options = cast("InteractiveOptions", dict(spec.options))
    options["cwd"], options["model"], options["agents"] = spec.cwd, choice.model, spec.agents
    options["agent"] = spec.agent
    if spec.permission_mode:
        options["permission_mode"] = PermissionMode(spec.permission_mode)
    if window := choice.window:
        options["max_context_tokens"] = window
    if spec.budget_usd is not None:
        options["budget_usd"] = spec.budget_usd
    if spec.max_turns is not None:
        options["max_turns"] = spec.max_turns
    if spec.name:
        options["name"] = spec.name
    if spec.language:
        options["language"] = spec.language
    if spec.effort:
        options["effort"] = spec.effort
    options["append_system_prompt"] = spec.append_system_prompt
    if spec.answer_schema:
        _require_schema(options, spec.answer_schema, choice.provider.name)
    options["allowed_tools"] = spec.allowed_tools
    options["disallowed_tools"] = spec.disallowed_tools
    options["add_dirs"] = spec.add_dirs
    options["plugin_folders"] = spec.plugin_folders
    if spec.log_level:
        options["session_log"] = _session_log(
            spec.log_level, homes.project(Path(spec.cwd)) / "logs"
        )
    return options


def _require_schema(options: InteractiveOptions, schema: Mapping[str, Any], provider: str) -> None:
    from clew.sdk.structured_answer import (  # noqa: PLC0415 - few sessions need it
        native_options,
        write_instructions,
    )

    texts = (options["append_system_prompt"], write_instructions(schema))
    options["append_system_prompt"] = "\n\n".join(filter(None, texts))
    native = native_options(provider, schema)
    options["request_options"] = {**options.get("request_options", {}), **native}


def _session_log(level: str, folder: Path) -> SessionLogger:
    from clew.log.events import LogLevel  # noqa: PLC0415 - most sessions have no log
    from clew.log.writer import SessionLog  # noqa: PLC0415

    return SessionLog(folder, level=LogLevel(level))


async def _session_id(
    spec: SessionSpec, record: StoredSession | None, place: ProjectStore
) -> SessionId | None:
    if record is None:
        return None
    return (await place.store.fork(record.id)).id if spec.fork else record.id


@asynccontextmanager
async def _open(
    session: InteractiveSession, session_id: SessionId | None, choice: ModelChoice
) -> AsyncGenerator[None, None]:
    """Open the session and record its model.

    Raises:
        SessionBusy: Another process has the session; the message says how to continue a copy.
    """
    try:
        await session.open()
    except SessionBusy as error:
        raise SessionBusy(f"{error}: clew --fork {session_id}") from error
    async with session:
        if choice.saved is not None:
            await save_model(session.session, choice.saved)
        if choice.warning:
            session.session.bus.publish(Warned(choice.warning))
        yield
