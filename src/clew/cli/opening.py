"""From flags and settings to an open session."""

import os
from argparse import Namespace
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from anyio import to_thread

from clew.cli.choose import Choice, Chooser
from clew.cli.local import find_local
from clew.cli.log_option import session_log
from clew.cli.places import working_folder
from clew.cli.stores import ProjectStore, find_session, project_store
from clew.cli.switching import Switchboard
from clew.config.settings import LoadedSettings
from clew.config.updates import find_target
from clew.core.access import PermissionMode
from clew.core.errors import ConfigError, SessionNotFound
from clew.core.events import Event
from clew.core.ids import SessionId
from clew.sdk.finding import load
from clew.sdk.interactive import InteractiveSession
from clew.sdk.options import InteractiveOptions, OnDenied
from clew.sdk.places import Homes
from clew.sdk.sandboxing import sandbox_for
from clew.sdk.values import TaskEvent
from clew.session.config import SessionOptions
from clew.session.gate import Ask
from clew.tools.sandbox import SandboxMode


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """An open session, and how it came to be."""

    session: InteractiveSession
    choice: Choice
    resumed: bool
    board: Switchboard
    sandbox: str
    """What commands can do, in a sentence."""
    keeps_rules: bool
    """True where a call can be allowed for the project, and not only for the session."""

    @property
    def mode(self) -> PermissionMode:
        """How much runs without asking."""
        return self.session.gate.mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """What a client of the command line brings."""

    on_event: Callable[[Event], None]
    ask: Ask | None = None
    on_denied: OnDenied | None = None
    on_task: Callable[[TaskEvent], None] | None = None
    """Hears what agents do."""
    resume: str | None = None
    """A session to go on with, in place of what the flags say."""


@asynccontextmanager
async def opened(arguments: Namespace, desired: Desired) -> AsyncIterator[Opened]:
    """Open the session that the flags describe; closes all it opened."""
    cwd = working_folder()
    homes = Homes.of(os.environ)
    place = project_store(cwd)
    board: Switchboard | None = None
    try:
        loaded = await to_thread.run_sync(partial(load, cwd, homes, os.environ))
        chooser = Chooser(loaded.settings, loaded.environ)
        choice = await chooser.first(arguments, partial(find_local, environ=loaded.environ))
        board = Switchboard(choice, chooser)
        mode = SandboxMode(arguments.sandbox) if arguments.sandbox else None
        sandbox = sandbox_for(loaded.settings, mode=mode, network=arguments.network)
        session_id = await _session_id(arguments, place, desired.resume)
        options: InteractiveOptions = {
            "model": choice.model,
            "store": place.store,
            "resume_session_id": session_id,
            "permission_handler": desired.ask,
            "on_denied": desired.on_denied,
            "on_event": desired.on_event,
            "agents": True,
            "sandbox": sandbox,
            "log": session_log(arguments, cwd),
            "session_options": _session_options(arguments, choice),
        }
        if arguments.permission_mode:
            options["permission_mode"] = PermissionMode(arguments.permission_mode)
        session = InteractiveSession(cwd=cwd, provider=choice.provider, **options)
        if desired.on_task is not None:
            session.on("background_task_event", desired.on_task)
        async with session:
            yield Opened(
                session=session,
                choice=choice,
                resumed=session_id is not None,
                board=board,
                sandbox=sandbox.describe(),
                keeps_rules=_keeps_rules(loaded),
            )
    finally:
        if board is not None:
            await board.aclose()
        await place.store.aclose()


def _session_options(arguments: Namespace, choice: Choice) -> SessionOptions:
    options: SessionOptions = {}
    if window := arguments.window or choice.window:
        options["max_context_tokens"] = window
    if arguments.budget is not None:
        options["budget_usd"] = arguments.budget
    return options


def _keeps_rules(loaded: LoadedSettings) -> bool:
    """Are there settings of the project that a rule may be added to?"""
    try:
        return bool(find_target(loaded, "local")) and not loaded.withheld
    except ConfigError:
        return False


async def _session_id(
    arguments: Namespace, place: ProjectStore, resume: str | None
) -> SessionId | None:
    store = place.store
    if wanted := resume or arguments.resume:
        return (await find_session(place, wanted)).id
    if arguments.fork:
        return (await store.fork((await find_session(place, arguments.fork)).id)).id
    if arguments.latest:
        known = await store.sessions(cwd=place.folder)
        if not known:
            raise SessionNotFound("there is no session in this folder to go on with")
        return known[0].id
    return None
