"""Opening and shutting down an interactive session."""

import os
from pathlib import Path

import anyio

from clew.core.errors import ConfigError, SessionError
from clew.core.events import Warned
from clew.extensions.skills import Skill
from clew.providers.protocol import Provider
from clew.sdk.builder import BuiltSession, build_session
from clew.sdk.folders import Homes
from clew.sdk.host import Host
from clew.sdk.options import SESSION_ONLY, InteractiveOptions
from clew.sdk.permission_requests import PermissionRequests
from clew.sdk.prompt_runner import PromptRunner
from clew.sdk.session_parts import Blueprint
from clew.sdk.session_tasks import SessionTasks
from clew.session.event_bus import EventBus
from clew.session.option_types import check_provider

_SHUTDOWN_SECONDS = 30.0
"""How long a shutdown waits for work that does not react to its abort."""


class Lifecycle:
    """Builds the session once and ends it once, from any task."""

    def __init__(self, provider: Provider | None, options: InteractiveOptions) -> None:
        given = options.get("session")
        self.cwd = Path(
            options.get("cwd", given.state.tool_context.cwd if given else ".")
        ).resolve()
        self.bus = given.bus if given is not None else EventBus()
        self.requests = PermissionRequests(self.bus, wait=options.get("wait_for_answers", False))
        self.host = options.get("host") or Host()
        self.runner = PromptRunner(self.bus, self.host, self._end_if_closed)
        self._provider = _check_provider(provider, options)
        self._options = options
        self._opening, self._ending = anyio.Lock(), anyio.Lock()
        self._ended = False
        self._reason, self._message = "other", ""

    @property
    def built(self) -> BuiltSession:
        """The open session.

        Raises:
            SessionError: The session is not open.
        """
        if self.runner.built is None:
            raise SessionError("the session is not open: use `async with`, or await `open` first")
        return self.runner.built

    async def open(self) -> BuiltSession:
        """Build the session, if that has not been done; raises as `InteractiveSession.open`."""
        async with self._opening:
            self.runner.check_open()
            if self.runner.built is None:
                if not self.cwd.is_dir():
                    raise ConfigError(f"there is no folder {self.cwd} to work in")
                await self.host.start()
                built = self.runner.built = await build_session(self._blueprint())
                built.commands.run_skill_as_prompt = self._run_skill
                for text in built.parts.warnings:
                    self.bus.publish(Warned(text))
            return self.runner.built

    async def open_runner(self) -> PromptRunner:
        """Return what runs the prompts of the session, which is opened if need be."""
        await self.open()
        return self.runner

    async def open_tasks(self) -> SessionTasks:
        """Return the background tasks of the session, which is opened if need be."""
        return (await self.open()).parts.tasks

    async def shutdown(self, reason: str, message: str) -> None:
        """Accept no more prompts, abort what runs, and end the session."""
        if not self.runner.closed:
            self.runner.closed, self._reason, self._message = True, reason, message
        self.runner.abort()
        if self.runner.queue.is_inside:
            return
        with anyio.CancelScope(shield=True):
            async with self._opening:
                pass
            with anyio.move_on_after(_SHUTDOWN_SECONDS):
                await self.runner.queue.idle()
            await self._end()
            if "host" not in self._options:
                await self.host.aclose()

    async def _end_if_closed(self) -> None:
        if self.runner.closed:
            await self._end()

    async def _end(self) -> None:
        """End the session once; later callers wait until that is done."""
        with anyio.CancelScope(shield=True):
            async with self._ending:
                if self._ended:
                    return
                self._ended = True
                try:
                    if self.runner.built is not None:
                        await self._close(self.runner.built)
                finally:
                    self.bus.close()
                    if "host" not in self._options:
                        # Not awaited: this may be running in one of the host's own tasks.
                        self.host.stop()

    async def _close(self, built: BuiltSession) -> None:
        session = built.parts.session
        try:
            await built.parts.tasks.aclose()
            if self._message:
                await session.add_history_entry("shutdown", self._message, reason=self._reason)
        finally:
            try:
                if "session" not in self._options:
                    await session.shutdown(self._reason)
            finally:
                await built.parts.aclose()

    async def _run_skill(self, skill: Skill, arguments: str) -> str:
        result = await self.runner.run_skill(skill, arguments)
        return result.response

    def _blueprint(self) -> Blueprint:
        environ = self._options.get("environ", os.environ)
        return Blueprint(
            cwd=self.cwd,
            homes=Homes.of(
                environ,
                user_home=self._options.get("user_home"),
                clew_home=self._options.get("clew_home"),
            ),
            environ=environ,
            provider=self._provider,
            options=self._options,
            host=self.host,
            bus=self.bus,
            requests=self.requests,
        )


def _check_provider(provider: Provider | None, options: InteractiveOptions) -> Provider:
    """Return the provider: the one that was given, or that of the session that was given."""
    given = options.get("session")
    if given is None:
        if provider is None:
            raise TypeError("InteractiveSession needs a provider, or a session")
        check_provider(provider)
        return provider
    own = {"provider"} if provider is not None else set()
    if clash := own | (options.keys() & SESSION_ONLY):
        raise TypeError(f"{', '.join(sorted(clash))}: the session that was given has its own")
    return given.state.provider
