"""`InteractiveSession`: a whole agent for one project; the local `SessionClient`."""

from collections.abc import AsyncGenerator, Awaitable
from typing import Self, Unpack

from clew.checkpoints.values import CheckpointSummary
from clew.core.context_state import ContextState
from clew.core.errors import SessionError
from clew.core.events import Envelope
from clew.core.ids import EntryId, RunId, SessionId
from clew.core.messages import Message
from clew.core.permissions import Approval, PermissionAnswer, PermissionMode
from clew.core.results import ExecutionResult
from clew.core.tool_states import ToolState
from clew.core.usage import Spending
from clew.extensions.commands.protocol import Command, CommandResult
from clew.extensions.skills import Skill
from clew.providers.protocol import Provider
from clew.sdk.client import (
    CommandInfo,
    CommandOutcome,
    PathMatch,
    Prompt,
    SessionSnapshot,
    as_prompt,
)
from clew.sdk.context_client import ContextClient
from clew.sdk.input_line import describe_commands, execute_line, list_typed_commands
from clew.sdk.lifecycle import Lifecycle
from clew.sdk.local_context import LocalContext
from clew.sdk.options import InteractiveOptions, check_options
from clew.sdk.session_parts import SessionParts
from clew.sdk.snapshot import page_history, take_snapshot
from clew.sdk.task_client import LocalTasks, TaskClient
from clew.session.conversation_edits import MessageOrRole
from clew.session.event_bus import EnvelopeListener, Listener, Unsubscribe
from clew.session.history import HistoryEntry, project_history
from clew.session.rewind import Rewind
from clew.session.session import Session


class InteractiveSession:
    """Takes prompts and commands, one at a time, and publishes everything that happens as events.

    Reads rules, memory, skills, agents and settings from `cwd` when it is opened, with
    `async with` or `open`. You close the provider, and a store or host that you passed in.
    """

    def __init__(
        self, *, provider: Provider | None = None, **options: Unpack[InteractiveOptions]
    ) -> None:
        check_options(options)
        self._life = Lifecycle(provider, options)
        self._bus, self._runner = self._life.bus, self._life.runner
        self.tasks: TaskClient = LocalTasks(self._life.open_tasks)
        self.context: ContextClient = LocalContext(self._life)

    async def open(self) -> Self:
        """Read the project and start or reopen the session; calling it again does nothing.

        Raises:
            ConfigError: The folder is missing, a settings file is wrong, or no model is known.
            StoreError: The session cannot be read or written.
            SessionClosed: The session was shut down.
        """
        await self._life.open()
        return self

    async def shutdown(self, *, reason: str = "other", message: str = "") -> None:
        """Accept no more prompts, abort what runs, and call the SessionEnd hooks, once.

        Called inside a command, a tool or a handler, it takes effect when that turn has ended.
        """
        await self._life.shutdown(reason, message)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    def on(self, name: str, listener: Listener) -> Unsubscribe:
        """Call `listener` with each event of that name; returns a function that unsubscribes."""
        return self._bus.on(name, listener)

    def on_any(self, listener: EnvelopeListener) -> Unsubscribe:
        """Call `listener` with every envelope; returns a function that unsubscribes."""
        return self._bus.on_any(listener)

    def events(
        self, *, after: int | None = None, answering: bool = True
    ) -> AsyncGenerator[Envelope, None]:
        """Yield every event after that sequence number; see `SessionClient.events`."""
        return self._bus.events(after=after, answering=answering)

    async def snapshot(self) -> SessionSnapshot:
        """Return the state of the session now."""
        built = await self._life.open()
        return take_snapshot(built.parts, self._runner.queue, self._life.requests.pending)

    async def run(
        self, text: Prompt, display_input: str | None = None, raw_input: str | None = None
    ) -> ExecutionResult:
        """Run a prompt after the one that runs; raises `ClewError` unless it has a result."""
        return await (await self._life.open_runner()).run(as_prompt(text, display_input, raw_input))

    async def continue_run(self) -> ExecutionResult:
        """Resume after the last entry without a new prompt; see `Session.continue_run`."""
        return await (await self._life.open_runner()).continue_run()

    async def submit(self, prompt: Prompt) -> RunId:
        """Accept a prompt and return at once; see `SessionClient.submit`."""
        return (await self._life.open_runner()).submit(as_prompt(prompt))

    async def execute(self, line: str) -> CommandOutcome:
        """Carry out a line as typed; see `SessionClient.execute`."""
        return await execute_line(self._runner, await self._life.open(), line)

    async def execute_command(self, name: str, arguments: str = "") -> CommandResult | None:
        """Carry out a command by its name; its effect is returned, and `execute` applies it."""
        return await (await self._life.open_runner()).run_command(name, arguments)

    async def execute_skill_command(
        self, skill: Skill, arguments: str = "", display_input: str | None = None
    ) -> ExecutionResult:
        """Run a skill: in this conversation, or in a subagent where it says `context: fork`."""
        runner = await self._life.open_runner()
        return await runner.run_skill(skill, arguments, display_input=display_input)

    def answer(self, request_id: str, approval: Approval, *, reply: str = "") -> Awaitable[None]:
        """Answer a permission request at once; see `SessionClient.answer`."""
        answer = PermissionAnswer(approval=approval, reply=reply)
        return self._life.requests.answer(request_id, answer)

    def abort(self) -> None:
        """Abort what runs, and cancel the prompt that waits."""
        self._runner.abort()

    async def cancel_queue(self) -> bool:
        """Cancel the prompt that waits; returns whether there was one."""
        return self._runner.queue.cancel()

    async def set_model(self, name: str) -> None:
        """Continue with another model: `NAME`, or `PROVIDER/NAME`."""
        await (await self._life.open()).commands.set_model(name)

    async def set_mode(self, mode: PermissionMode) -> None:
        """Change the permission mode."""
        await (await self._life.open()).commands.set_mode(mode)

    async def set_name(self, name: str) -> None:
        """Name the session."""
        await (await self._life.open()).commands.set_name(name)

    async def set_language(self, language: str) -> None:
        """Have the model answer in another language; empty for any."""
        await (await self._life.open()).commands.set_language(language)

    async def inject_message(self, message: MessageOrRole, text: str = "") -> None:
        """Add a message without a model call; raises `AlreadyRunning` during a run."""
        await (await self._life.open()).parts.session.inject_message(message, text)

    async def history(self, *, after: int = 0, limit: int = 100) -> list[HistoryEntry]:
        """Return at most `limit` items of the history after that entry."""
        await self.open()
        return page_history(self.session.journal.entries, after=EntryId(after), limit=limit)

    async def commands(self) -> list[CommandInfo]:
        """Return the commands that a user can type."""
        return describe_commands((await self._life.open()).parts, self._life.host)

    async def complete_path(self, fragment: str, *, limit: int = 20) -> list[PathMatch]:
        """Complete what was typed after an `@`; see `SessionClient.complete_path`."""
        return await (await self._life.open()).parts.completer.complete(fragment, limit=limit)

    def list_commands(self) -> list[Command]:
        """Return the same commands as the registry describes them."""
        return list_typed_commands(self.parts)

    @property
    def parts(self) -> SessionParts:
        """The connected parts of the open session, for programs that embed it."""
        return self._life.built.parts

    @property
    def session(self) -> Session:
        """The conversation."""
        return self.parts.session

    def is_executing(self) -> bool:
        """Return True while a prompt or a command runs."""
        return self._runner.queue.busy

    def get_pending_prompt(self) -> str | None:
        """Return the prompt that waits, if one does."""
        return self._runner.queue.waiting

    def get_messages(self) -> list[Message]:
        """Return the conversation as the model sees it."""
        return self.session.get_history()

    def get_full_history(self) -> list[HistoryEntry]:
        """Return every message and every event of the session, oldest first."""
        return project_history(self.session.journal.entries)

    def get_context_state(self) -> ContextState:
        """Return how full the context window is."""
        return self.session.get_context_state()

    def get_streaming_text(self) -> str:
        """Return the text that the model has written in the current run."""
        return self.session.runs.tracker.text

    def get_active_tools(self) -> list[ToolState]:
        """Return the tool calls that have no result yet."""
        return self.session.runs.tracker.active_tools()

    @property
    def session_id(self) -> SessionId:
        """The id of the session in its store."""
        return self.session.session_id

    def get_session_id(self) -> SessionId:
        """Return the id of the session; the same as `session_id`."""
        return self.session_id

    def get_cost(self) -> Spending:
        """Return the calls, tokens and US dollars that the session has cost so far."""
        return self.session.get_cost()

    def get_name(self) -> str:
        """Return the name of the session; empty when it has none."""
        return self.parts.name

    async def list_edit_checkpoints(self) -> list[CheckpointSummary]:
        """Return the checkpoints that files can be restored to, oldest first."""
        return await self.session.list_checkpoints()

    async def restore_edit_checkpoint(self, number: int) -> Rewind:
        """Restore the files of the checkpoint with that number; the conversation stays."""
        return await _restore_checkpoint(self.session, number)


async def _restore_checkpoint(session: Session, number: int) -> Rewind:
    for checkpoint in await session.list_checkpoints():
        if checkpoint.number == number:
            return await session.rewind(checkpoint.entry, conversation=False)
    raise SessionError(f"there is no checkpoint {number}; list_edit_checkpoints() has them")
