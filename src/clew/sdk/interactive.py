"""`InteractiveSession`: a whole agent for one project, for any client that can listen."""

import os
from pathlib import Path
from typing import Protocol, Self, Unpack

import anyio

from clew.core.access import Approval
from clew.core.errors import ConfigError
from clew.core.events import Warned
from clew.extensions.commands.protocol import Command, CommandResult
from clew.providers.protocol import Provider
from clew.sdk.assembly import Assembly, Wiring, assemble
from clew.sdk.bridge import Bridge
from clew.sdk.hub import AnyListener, EventName, Hub, Listener, Unsubscribe
from clew.sdk.options import InteractiveOptions
from clew.sdk.places import Homes
from clew.sdk.prompts import Prompts
from clew.sdk.questions import Questions
from clew.sdk.running import Foreground
from clew.sdk.turnstile import Turnstile
from clew.sdk.values import ExecutionResult

_OWNED = frozenset({"cwd", "gate", "hooks", "log", "session_id", "store", "tools"})
"""What is not taken from `session_options`."""
_PATIENCE = 30.0
"""Seconds that a shutdown waits for work that does not heed its abort."""


class Transport(Protocol):
    """How a server, a socket or a window joins a session."""

    @property
    def name(self) -> str:
        """What to call it, such as `http` or `ws`."""
        ...

    def attach(self, session: "InteractiveSession") -> None:
        """Join a session: subscribe to its events."""
        ...

    async def start(self) -> None:
        """Begin to serve."""
        ...

    async def stop(self) -> None:
        """Stop serving, and let go of what was taken."""
        ...


class InteractiveSession(Prompts):
    """Takes prompts and commands, one at a time, and tells all that happens as events.

    Knows its project: rules, memory, skills, agents and settings are read from `cwd` when it
    is opened. Use as `async with`, or call `open` and `shutdown`. The provider, and a store
    that was given, stay the caller's to close.
    """

    def __init__(
        self, *, cwd: Path | str = ".", provider: Provider, **options: Unpack[InteractiveOptions]
    ) -> None:
        unknown = options.keys() - InteractiveOptions.__annotations__.keys()
        if unknown:
            raise TypeError(f"InteractiveSession has no option {', '.join(sorted(unknown))}")
        owned = _OWNED & options.get("session_options", {}).keys()
        if owned:
            raise TypeError(f"{', '.join(sorted(owned))}: an option of InteractiveSession itself")
        self._cwd = Path(cwd).resolve()
        self._provider = provider
        self._options = options
        self._hub = Hub()
        self._bridge = Bridge(self._hub, options.get("on_event"))
        self._foreground = Foreground(self._hub, self._bridge)
        self._questions = Questions(self._hub)
        self._turnstile = Turnstile(lambda label: self._hub.emit("queue", label))
        self._opening = anyio.Lock()
        self._made: Assembly | None = None
        self._closed = self._ended = False
        self._ending = anyio.Lock()
        self._last_words = ("other", "")

    async def open(self) -> Self:
        """Read the project and begin or reopen the session; harmless when called again.

        Raises:
            ConfigError: There is no such folder, a settings file is wrong, or no model is known.
            StoreError: The session cannot be read or written.
            SessionClosed: The session was shut down.
        """
        async with self._opening:
            self._refuse_if_closed()
            if self._made is None:
                if not self._cwd.is_dir():
                    raise ConfigError(f"there is no folder {self._cwd} to work in")
                self._made = await assemble(self._wiring())
                for text in self._made.found.warnings:
                    self._bridge(Warned(text))
        return self

    def on(self, name: EventName, listener: Listener) -> Unsubscribe:
        """Listen to one kind of event; returns how to stop.

        Raises:
            SessionError: There is no such event, or the listener would have to be awaited.
        """
        stop = self._hub.on(name, listener)

        def stopped() -> None:
            stop()
            if not self._hub.hears("permission_request"):
                self._questions.dismiss()

        return stopped if name == "permission_request" else stop

    def on_any(self, listener: AnyListener) -> Unsubscribe:
        """Listen to everything, as name and payload; returns how to stop."""
        return self._hub.on_any(listener)

    async def execute_command(self, name: str, arguments: str = "") -> CommandResult | None:
        """Carry out a command by its name, without the slash; None when there is none.

        What the command cannot do itself comes back as `effect`, and the caller applies it.
        """
        await self.open()
        command = self.registry.find(name)
        if command is None:
            return None
        if command.skill is not None:
            return _told(await self.execute_skill_command(command.skill, arguments))
        is_light = command.safety == "read-only" or self._is_inside()
        try:
            if is_light or self.session.is_running:
                return await self.registry.execute(self, name, arguments)
            async with self._turn(f"/{name} {arguments}".rstrip()):
                return await self.registry.execute(self, name, arguments)
        finally:
            with anyio.CancelScope(shield=True):
                await self._settle()

    def list_commands(self) -> list[Command]:
        """Return all commands that a person can use."""
        return [command for command in self.registry.get_commands() if command.user_invocable]

    def abort(self) -> None:
        """End what is under way, and send away what waits."""
        self._turnstile.cancel()
        self._aborted = self._turnstile.busy
        if self._made is not None:
            self._made.session.abort()
            if self._made.runtime is not None:
                self._made.runtime.abort()

    def cancel_queue(self) -> bool:
        """Take back the prompt that waits; returns whether there was one."""
        return self._turnstile.cancel()

    def answer_permission(self, request_id: str, approval: Approval) -> None:
        """Answer a `permission_request`; the first answer counts."""
        self._questions.answer(request_id, approval)

    def attach_transport(self, transport: Transport) -> None:
        """Let a transport join; starting and stopping it is the caller's."""
        transport.attach(self)

    async def shutdown(self, *, reason: str = "other", message: str = "") -> None:
        """Take no more prompts, abort what is under way, tell the hooks why; once is enough.

        Called from within a command, a tool or a permission handler, it returns at once: the
        session is over when what is under way has ended.
        """
        if not self._closed:
            self._closed, self._last_words = True, (reason, message)
        self.abort()
        if self._is_inside():
            return
        with anyio.CancelScope(shield=True):
            async with self._opening:
                pass
            with anyio.move_on_after(_PATIENCE):
                await self._turnstile.idle()
            await self._farewell()

    async def _farewell(self) -> None:
        """End the session, once; whoever comes meanwhile waits until that is done."""
        with anyio.CancelScope(shield=True):
            async with self._ending:
                if self._made is None or self._ended:
                    return
                self._ended = True
                reason, message = self._last_words
                try:
                    if message:
                        await self.session.add_history_entry("shutdown", message, reason=reason)
                finally:
                    try:
                        await self.session.shutdown(reason)
                    finally:
                        await self._made.aclose()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    def _wiring(self) -> Wiring:
        environ = self._options.get("environ", os.environ)
        return Wiring(
            host=self,
            hub=self._hub,
            bridge=self._bridge,
            questions=self._questions,
            cwd=self._cwd,
            homes=Homes.of(
                environ,
                user_home=self._options.get("user_home"),
                clew_home=self._options.get("clew_home"),
            ),
            environ=environ,
            provider=self._provider,
            options=self._options,
        )


def _told(result: ExecutionResult) -> CommandResult:
    if result.interrupted:
        return CommandResult("aborted", success=False, data={"interrupted": True})
    return CommandResult(result.response)
