"""From flags to an open session."""

import os
from argparse import Namespace
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from clew.cli.choose import Choice, choose
from clew.cli.guards import Guards, load_guards
from clew.cli.log_option import session_log
from clew.cli.places import store_path, user_folder
from clew.cli.stores import ProjectStore, project_store
from clew.cli.switching import Switchboard
from clew.core.access import Access, Decision, PermissionMode, Verdict
from clew.core.errors import ConfigError, SessionNotFound
from clew.core.events import Event
from clew.core.ids import SessionId
from clew.core.redaction import redact
from clew.hooks.means import Means
from clew.hooks.protocol import Hooks, NoHooks
from clew.hooks.runner import HookRunner
from clew.hooks.settings import HookTable
from clew.session.asking import ask_model
from clew.session.calibrations import CalibrationFile
from clew.session.gate import Ask, Gate
from clew.session.session import Session
from clew.tools.builtin import builtin_tools
from clew.tools.sandbox import Sandbox, SandboxMode, SandboxPolicy
from clew.tools.web.configured import search_backend

SYSTEM_PROMPT = """\
You are Clew, an assistant that works in the user's project folder. Be brief and exact.
Use the tools to look at files before you speak about them. Say so when you do not know."""


OnDenied = Callable[[Access, Decision, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """An open session, and how it came to be."""

    session: Session
    choice: Choice
    mode: PermissionMode
    resumed: bool
    board: Switchboard
    sandbox: str
    """What commands can do, in a sentence."""


class _TellingGate(Gate, kw_only=True):
    """A gate that also tells what it denied, and which flag would have allowed it."""

    on_denied: OnDenied | None = None

    async def judge(self, access: Access, *, wish: Decision | None = None) -> Decision:
        """Return a final decision, and tell of a no."""
        decision = await Gate.judge(self, access, wish=wish)
        if decision.verdict is Verdict.DENY and self.on_denied is not None:
            self.on_denied(access, decision, self._remedy(access))
        return decision

    def _remedy(self, access: Access) -> str:
        for mode in (PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS, PermissionMode.BYPASS):
            decision = self.decide(access, mode=mode)
            if decision.verdict is Verdict.ALLOW:
                return f"--permission-mode {mode} would allow it"
        return "no permission mode allows it"


@asynccontextmanager
async def opened(
    arguments: Namespace,
    *,
    on_event: Callable[[Event], None],
    ask: Ask | None = None,
    on_denied: OnDenied | None = None,
) -> AsyncIterator[Opened]:
    """Open the session that the flags describe; closes all it opened."""
    cwd = working_folder()
    place = project_store(cwd)
    store = place.store
    choice = choose(arguments, os.environ)
    board = Switchboard(choice, os.environ)
    try:
        session_id = await _session_id(arguments, place)
        guards = load_guards()
        sandbox = _sandbox(arguments)
        gate = _gate(guards, cwd, ask=ask, on_denied=on_denied)
        session = Session(
            choice.provider,
            model=choice.model,
            system_message=SYSTEM_PROMPT,
            tools=builtin_tools(sandbox=sandbox, search=search_backend(os.environ)),
            store=store,
            session_id=session_id,
            cwd=cwd,
            gate=gate,
            hooks=_hooks(guards.hooks, choice, cwd),
            max_context_tokens=arguments.window,
            budget_usd=arguments.budget,
            calibrations=CalibrationFile(user_folder() / "calibration.json"),
            log=session_log(arguments, cwd),
            checkpoints=store_path(cwd).parent / "checkpoints",
            on_event=on_event,
        )
        async with session:
            if arguments.permission_mode:
                await session.set_permission_mode(PermissionMode(arguments.permission_mode))
            yield Opened(
                session=session,
                choice=choice,
                mode=gate.mode,
                resumed=session_id is not None,
                board=board,
                sandbox=sandbox.describe(),
            )
    finally:
        await board.aclose()
        await store.aclose()


def _gate(
    guards: Guards, cwd: Path, *, ask: Ask | None, on_denied: OnDenied | None
) -> _TellingGate:
    return _TellingGate(
        cwd=cwd,
        ask=ask,
        on_denied=on_denied,
        allow=guards.allow,
        ask_rules=guards.ask,
        deny=guards.deny,
    )


def _sandbox(arguments: Namespace) -> Sandbox:
    if not arguments.network and arguments.sandbox == "off":
        raise ConfigError("--no-network needs the sandbox; leave --sandbox off out")
    mode = SandboxMode("on" if not arguments.network else arguments.sandbox)
    return Sandbox(SandboxPolicy(mode=mode, network=arguments.network))


def _hooks(table: HookTable, choice: Choice, cwd: Path) -> Hooks:
    if not table.hooks:
        return NoHooks()

    async def ask(prompt: str, model: str) -> str:
        return await ask_model(choice.provider, model or choice.model, prompt)

    return HookRunner(table, Means(project=cwd, ask=ask, redact=redact))


def working_folder() -> Path:
    """Return the folder that Clew works in.

    Raises:
        ConfigError: It was deleted, or may not be seen.
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise ConfigError(
            f"the working folder cannot be used ({error.strerror}); go to another one and try again"
        ) from error


async def _session_id(arguments: Namespace, place: ProjectStore) -> str | None:
    store = place.store
    if arguments.resume:
        return (await store.record(SessionId(arguments.resume))).id
    if arguments.fork:
        return (await store.fork(SessionId(arguments.fork))).id
    if arguments.latest:
        known = await store.sessions(cwd=place.folder)
        if not known:
            raise SessionNotFound("there is no session in this folder to go on with")
        return known[0].id
    return None
