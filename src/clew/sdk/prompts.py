"""Prompts and skills: one at a time, each from its first event to its last."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Self

import anyio

from clew.core.errors import AbortError, AlreadyRunning, ClewError, ConfigError, SessionClosed
from clew.core.events import Warned
from clew.extensions.skill_template import render_skill
from clew.extensions.skills import Skill
from clew.sdk.history import SKILL_INVOCATION
from clew.sdk.hosting import Hosting
from clew.sdk.hub import Hub
from clew.sdk.running import Foreground, Work
from clew.sdk.subagents import GENERAL_PURPOSE, AgentRequest
from clew.sdk.values import ExecutionResult

_INSIDE: ContextVar[object] = ContextVar("clew_inside", default=None)
"""The session whose work a task is part of."""


class Prompts(Hosting):
    """The part of an interactive session that has the model work."""

    _hub: Hub
    _foreground: Foreground
    _closed: bool
    _aborted = False
    """True when what is inside the turnstile was aborted before it began to run."""

    async def open(self) -> Self:
        """Open the session, if it is not open."""
        raise NotImplementedError

    async def _farewell(self) -> None:
        raise NotImplementedError

    async def submit(
        self, text: str, display_input: str | None = None, raw_input: str | None = None
    ) -> ExecutionResult:
        """Send a prompt and wait until it is answered; while another one runs, wait for its end.

        Args:
            text: What the model is sent.
            display_input: What people are shown in its place.
            raw_input: What hooks judge in its place.

        Returns:
            The result; `interrupted` is set on one that was aborted.

        Raises:
            QueueFull: A prompt waits already.
            PromptCancelled: It was taken back while it waited.
            SessionClosed: The session was shut down.
            ClewError: The run failed; the session stays usable.
        """
        async with self._turn(display_input or text):
            return await self._run(
                lambda: self.session.run(text, display_input=display_input, raw_input=raw_input),
                display_input or text,
            )

    async def execute_skill_command(
        self,
        skill: Skill,
        arguments: str = "",
        display_input: str | None = None,
        raw_input: str | None = None,
    ) -> ExecutionResult:
        """Carry out a skill: in this conversation, or by an agent where it says `context: fork`.

        Raises:
            ConfigError: Its file cannot be read, or it names an agent that there is not.
            ClewError: As `submit` does.
        """
        await self.open()
        typed = display_input or f"/{skill.name} {arguments}".rstrip()
        text = self._words(skill, arguments)
        async with self._turn(typed):
            await self.session.add_history_entry(
                SKILL_INVOCATION, "", skill_name=skill.name, display_input=typed
            )
            if skill.fork:
                return await self._run(
                    lambda: self.session.delegate(typed, lambda: self._apart(skill, text)), typed
                )
            return await self._run(
                lambda: self.session.run(text, display_input=typed, raw_input=raw_input or typed),
                typed,
            )

    async def run_skill(self, skill: Skill, arguments: str) -> str:
        """Carry a skill out and return what came of it.

        While a run is under way it was the model that asked: it gets the skill's own words,
        or the answer of an agent where the skill wants one.
        """
        if not self.session.is_running:
            result = await self.execute_skill_command(skill, arguments)
            if result.interrupted:
                raise AbortError("the skill was aborted")
            return result.response
        text = self._words(skill, arguments)
        return await self._apart(skill, text) if skill.fork else text

    @asynccontextmanager
    async def _turn(self, label: str) -> AsyncIterator[None]:
        if self._is_inside():
            raise AlreadyRunning("a command, a tool or a handler cannot send a prompt of its own")
        await self.open()
        try:
            async with self._turnstile.turn(label):
                self._refuse_if_closed()
                mark = _INSIDE.set(self)
                try:
                    yield
                finally:
                    _INSIDE.reset(mark)
                    self._aborted = False
        finally:
            if self._closed:
                await self._farewell()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise SessionClosed("the session was shut down; open another one")

    def _is_inside(self) -> bool:
        """Say whether the caller is part of what is under way, such as a command or a tool."""
        return _INSIDE.get() is self

    async def _run(self, work: Work, label: str) -> ExecutionResult:
        async def unless_aborted() -> str:
            if self._aborted:
                raise AbortError("it was aborted before it began")
            return await work()

        try:
            return await self._foreground.run(self.session, unless_aborted, label=label)
        finally:
            with anyio.CancelScope(shield=True):
                await self._settle()
            await self._compact_if_asked()

    def _words(self, skill: Skill, arguments: str) -> str:
        """Return the words of a skill; one that has a folder of its own is told where that is."""
        text = render_skill(skill, arguments, session_id=self.session.session_id)
        if skill.path.name != "SKILL.md":
            return text
        return f"{text}\n\n(Files that this skill names are in {skill.folder})"

    async def _apart(self, skill: Skill, text: str) -> str:
        runtime = self._assembly().runtime
        if runtime is None:
            raise ConfigError(
                f"the skill {skill.name} runs in an agent, and this session was made without"
                " agents; make it with agents=True"
            )
        request = AgentRequest(
            prompt=text,
            agent=skill.agent or GENERAL_PURPOSE,
            model=skill.model,
            allowed_tools=skill.allowed_tools or None,
            fork_worker=True,
        )
        return (await runtime.run(request)).text

    async def _compact_if_asked(self) -> None:
        """Do the compaction that the model asked for in the run that is over."""
        asked, self._later = self._later, None
        if asked is None or self._closed:
            return
        instructions, force = asked
        try:
            await self.session.compact(instructions, force=force)
        except ClewError as error:
            text = f"the compaction that was asked for did not happen: {error}"
            self._bridge(Warned(text))
