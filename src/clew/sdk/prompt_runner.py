"""Runs prompts, skills and commands of an interactive session, one at a time."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias, TypeVar

import anyio

from clew.core.errors import ClewError, PromptCancelled, SessionClosed
from clew.core.events import QueueChanged, RunFailed, Warned
from clew.core.ids import RunId, new_run_id
from clew.core.messages import Message, Role, Text
from clew.core.results import ExecutionResult
from clew.extensions.commands.protocol import CommandResult
from clew.extensions.skills import Skill
from clew.sdk.builder import BuiltSession
from clew.sdk.client import PromptInput
from clew.sdk.host import Host
from clew.sdk.permissions import list_skill_rules
from clew.sdk.prompt_queue import PromptQueue, Ticket
from clew.session.event_bus import EventBus
from clew.session.history import SKILL_INVOCATION
from clew.session.session import Session

_T = TypeVar("_T")
Work: TypeAlias = Callable[[RunId], Awaitable[ExecutionResult]]


class PromptRunner:
    """Takes turns from the queue and does the work of each.

    Args:
        bus: Where events are published.
        host: Where submitted prompts run.
        on_idle: Called after each turn.
    """

    def __init__(self, bus: EventBus, host: Host, on_idle: Callable[[], Awaitable[None]]) -> None:
        self._bus = bus
        self._host = host
        self._on_idle = on_idle
        self._aborted = False
        """True when the current turn was aborted before its run started."""
        self.queue = PromptQueue(lambda label: bus.publish(QueueChanged(label)))
        self.built: BuiltSession | None = None
        """Set when the session is open."""
        self.closed = False
        """True when no more prompts are accepted."""

    @property
    def _session(self) -> Session:
        assert self.built is not None  # noqa: S101 - nothing runs before the session is open
        return self.built.parts.session

    async def run(self, prompt: PromptInput) -> ExecutionResult:
        """Run a prompt and wait for its result; an abort is a result, a failure is raised."""
        label = prompt.display_input or prompt.text
        return await self._wait(self._join(label), new_run_id(), self._prompt_work(prompt))

    def submit(self, prompt: PromptInput) -> RunId:
        """Run a prompt in the background; its events report its progress."""
        label = prompt.display_input or prompt.text
        return self._start(label, self._prompt_work(prompt))

    async def run_skill(
        self, skill: Skill, arguments: str, *, display_input: str | None = None
    ) -> ExecutionResult:
        """Run a skill and wait for its result."""
        typed = display_input or f"/{skill.name} {arguments}".rstrip()
        work = self._skill_work(skill, arguments, typed)
        return await self._wait(self._join(typed), new_run_id(), work)

    def submit_skill(self, skill: Skill, arguments: str) -> RunId:
        """Run a skill in the background."""
        typed = f"/{skill.name} {arguments}".rstrip()
        return self._start(typed, self._skill_work(skill, arguments, typed))

    async def continue_run(self) -> ExecutionResult:
        """Resume after the last entry without a new prompt, and wait for the result."""

        async def work(run_id: RunId) -> ExecutionResult:
            return await self._session.continue_run(run_id=run_id)

        return await self._wait(self._join(""), new_run_id(), work)

    async def run_command(self, name: str, arguments: str) -> CommandResult | None:
        """Carry out a command, or a skill; one that changes something waits for its turn."""
        assert self.built is not None  # noqa: S101 - see above
        registry, commands = self.built.parts.registry, self.built.commands
        command = registry.find(name)
        if command is None:
            return None
        if command.skill is not None:
            result = await self.run_skill(command.skill, arguments)
            if result.interrupted:
                return CommandResult("aborted", success=False, data={"interrupted": True})
            return CommandResult(result.response)

        async def execute() -> CommandResult | None:
            return await registry.execute(commands, name, arguments)

        try:
            if command.resolve_subcommand(arguments).safety == "read-only":
                return await execute()
            return await self.change(f"/{name} {arguments}".rstrip(), execute)
        finally:
            with anyio.CancelScope(shield=True):
                await commands.save_side_data()

    async def change(self, label: str, work: Callable[[], Awaitable[_T]]) -> _T:
        """Change the session when its turn comes; at once during a run, or inside a turn.

        Args:
            label: What clients are shown while it waits.
            work: Makes the change.
        """
        if self.queue.is_inside or self._session.is_running:
            return await work()
        async with self._turn(self._join(label)):
            return await work()

    def abort(self) -> None:
        """Cancel the waiting prompt and abort what runs; background tasks continue."""
        self.queue.cancel()
        self._aborted = self.queue.busy
        if self.built is not None:
            self.built.parts.session.abort()
            self.built.parts.tasks.abort()

    def check_open(self) -> None:
        """Raise `SessionClosed` when no more prompts are accepted."""
        if self.closed:
            raise SessionClosed("the session was shut down; open another one")

    def _join(self, label: str, *, detached: bool = False) -> Ticket:
        self.check_open()
        return self.queue.join(label, detached=detached)

    def _start(self, label: str, work: Work) -> RunId:
        run_id, ticket = new_run_id(), self._join(label, detached=True)

        async def run() -> None:
            try:
                await self._wait(ticket, run_id, work)
            except (PromptCancelled, SessionClosed) as error:
                failure = RunFailed(
                    message=str(error), error_type=type(error).__name__, run_id=run_id
                )
                self._bus.publish(failure)
            except ClewError:
                # The run has published its failure.
                pass

        self._host.start_soon(run)
        return run_id

    @asynccontextmanager
    async def _turn(self, ticket: Ticket) -> AsyncGenerator[None, None]:
        try:
            async with ticket:
                self.check_open()
                try:
                    yield
                finally:
                    self._aborted = False
        finally:
            await self._on_idle()

    async def _wait(self, ticket: Ticket, run_id: RunId, work: Work) -> ExecutionResult:
        async with self._turn(ticket):
            assert self.built is not None  # noqa: S101 - see above
            try:
                if self._aborted:
                    return await self._session.runs.interrupt(ticket.label, run_id=run_id)
                return await work(run_id)
            finally:
                with anyio.CancelScope(shield=True):
                    await self.built.commands.save_side_data()
                if not self.closed:
                    await _compact_if_asked(self._session, self._bus)

    def _prompt_work(self, prompt: PromptInput) -> Work:
        message = Message(role=Role.USER, parts=(Text(prompt.text), *prompt.images))

        async def work(run_id: RunId) -> ExecutionResult:
            return await self._session.execute(
                message,
                display_input=prompt.display_input,
                raw_input=prompt.raw_input,
                run_id=run_id,
                attach=prompt.attach,
            )

        return work

    def _skill_work(self, skill: Skill, arguments: str, typed: str) -> Work:
        assert self.built is not None  # noqa: S101 - see above
        commands, session = self.built.commands, self._session
        agents = self.built.parts.agents
        if skill.fork:
            # Before anything is added to the conversation.
            agents.find_definition(skill.agent)
        text, rules = commands.render_skill(skill, arguments), list_skill_rules(skill)

        async def delegate() -> str:
            return await agents.run_skill(skill, await text.write())

        async def work(run_id: RunId) -> ExecutionResult:
            await session.add_history_entry(
                SKILL_INVOCATION, "", skill_name=skill.name, display_input=typed
            )
            if self._aborted:
                return await session.runs.interrupt(typed, run_id=run_id)
            with session.state.gate.allow_during(rules):
                if skill.fork:
                    return await session.runs.delegate(typed, delegate, run_id=run_id)
                return await session.execute(
                    text.plain,
                    display_input=typed,
                    raw_input=typed,
                    run_id=run_id,
                    prepare=text.write,
                )

        return work


async def _compact_if_asked(session: Session, bus: EventBus) -> None:
    """Do the compaction that was asked for after the last model call of the run."""
    request, session.state.compaction_request = session.state.compaction_request, None
    if request is None:
        return
    try:
        await session.compact(request.instructions, force=request.force)
    except ClewError as error:
        bus.publish(Warned(f"the requested compaction failed: {error}"))
