"""`SessionClient`: the one protocol of every client, local or remote.

A terminal, a web page, an editor and a program on another machine all use these methods and
nothing else. Every value here is a msgspec Struct that encodes to JSON.
"""

from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from clew.core.context_state import ContextState
from clew.core.errors import RunError
from clew.core.events import Envelope, PermissionRequest, RunCompleted, RunFailed, RunInterrupted
from clew.core.ids import EntryId, RunId, SessionId
from clew.core.messages import Image
from clew.core.permissions import Approval, PermissionMode
from clew.core.results import ExecutionResult
from clew.core.task_events import BackgroundTaskEvent
from clew.core.todos import TodoItem
from clew.core.tool_states import ToolState
from clew.extensions.commands.protocol import (
    CopyText,
    Effect,
    NewSession,
    OpenSession,
    PickSession,
    Safety,
    SetTheme,
    ShowEntry,
)
from clew.sdk.context_client import ContextClient
from clew.sdk.task_client import TaskClient
from clew.session.history import HistoryEntry

__all__ = [
    "CommandInfo",
    "CommandOutcome",
    "ContextClient",
    "CopyText",
    "HistoryEntry",
    "NewSession",
    "OpenSession",
    "PathMatch",
    "PickSession",
    "PromptInput",
    "SessionClient",
    "SessionSnapshot",
    "SetTheme",
    "ShowEntry",
    "TaskClient",
    "run_line",
    "wait_for_run",
]


class PromptInput(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt for the model."""

    text: str
    """The text that the model gets."""
    display_input: str | None = None
    """The text that clients show in its place."""
    raw_input: str | None = None
    """The text that hooks get in its place."""
    images: tuple[Image, ...] = ()
    attach: bool | str = True
    """Attach what `@path`, `@session:ID` and pasted paths of images name. False for a text that
    the user did not type; if it is a part of the text, the part that they typed."""


Prompt: TypeAlias = PromptInput | str
"""A prompt, or its text alone."""


def as_prompt(
    prompt: Prompt, display_input: str | None = None, raw_input: str | None = None
) -> PromptInput:
    """Return a text as a prompt; a prompt stays as it is.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(prompt, PromptInput):
        return prompt
    if isinstance(prompt, str):
        return PromptInput(text=prompt, display_input=display_input, raw_input=raw_input)
    raise TypeError(f"a prompt is a text or a PromptInput, not {prompt!r}")


class PathMatch(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A way to complete what follows an `@` in a prompt."""

    text: str
    """Replaces what was typed after the `@`; quoted if it has blanks, with a slash at the end of
    a folder."""
    is_folder: bool = False
    detail: str = ""
    """More about it, such as the title of a session."""


class CommandInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command that a user can type."""

    name: str
    description: str
    argument_hint: str = ""
    source: str = "builtin"
    safety: Safety = "read-only"
    flags: tuple[str, ...] = ()
    """Flags that it accepts, such as `--force`."""
    subcommands: tuple["CommandInfo", ...] = ()


class CommandOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a line.

    A prompt or a skill is only accepted here: `run_id` names the run, whose events follow.
    """

    kind: Literal["prompt", "skill", "command", "shell"]
    name: str = ""
    """The command or skill."""
    run_id: RunId | None = None
    message: str = ""
    """The message of a command, or the output of a shell command."""
    success: bool = True
    data: dict[str, object] = {}
    """The same as data."""
    effect: Effect | None = None
    """The effect that the client must apply: open another session, copy a text, show an entry,
    change the theme. All others are applied already."""


class SessionSnapshot(Struct, frozen=True, kw_only=True):
    """Everything that a client needs to show a session; continue with `events(after=seq)`."""

    session_id: SessionId
    name: str
    model: str
    mode: PermissionMode
    language: str
    cwd: str
    context: ContextState
    history: tuple[HistoryEntry, ...]
    """The end of the history."""
    executing: bool
    streaming_text: str
    """What the model has written in the current run."""
    active_tools: tuple[ToolState, ...]
    permission_requests: tuple[PermissionRequest, ...]
    """The requests that wait for an answer."""
    queue: str | None
    """The prompt that waits."""
    tasks: tuple[BackgroundTaskEvent, ...]
    """The background tasks that have not ended; `state` has what is known about each."""
    last_entry: EntryId
    """The newest journal entry; `history(after=…)` continues after it."""
    seq: int
    """The newest event that is included here."""
    todos: tuple[TodoItem, ...] = ()
    """The todo list that the model keeps."""
    effort: str = ""
    """How much the model reasons: `low`, `medium` or `high`; empty for the model's default."""


class SessionClient(Protocol):
    """A session, as clients use it.

    Every method raises `ClewError`s as the session does; a remote client raises the same ones.
    """

    @property
    def tasks(self) -> TaskClient:
        """The background tasks of the session."""
        ...

    @property
    def context(self) -> ContextClient:
        """The context window of the session."""
        ...

    async def snapshot(self) -> SessionSnapshot:
        """Return the state of the session now."""
        ...

    def events(
        self, *, after: int | None = None, answering: bool = True
    ) -> AsyncGenerator[Envelope, None]:
        """Yield every event after that sequence number, or from now on.

        Args:
            after: A sequence number.
            answering: This client answers permission requests. False for one that only watches:
                where no client answers, requests are denied.

        Raises:
            EventsExpired: Events are missing; take a new snapshot and continue from its `seq`.
        """
        ...

    async def submit(self, prompt: Prompt) -> RunId:
        """Accept a prompt and return at once; it runs now, or waits for the one that runs.

        Raises:
            QueueFull: A prompt is waiting already.
        """
        ...

    async def execute(self, line: str) -> CommandOutcome:
        """Carry out a line as typed: a prompt, a `/command`, or `!` and a shell command.

        Effects such as another model, name or language are applied here.

        Raises:
            UnknownCommand: There is no such command.
            SessionError: It cannot run now.
        """
        ...

    def answer(self, request_id: str, approval: Approval, *, reply: str = "") -> Awaitable[None]:
        """Answer a `permission_request`; the first answer counts.

        A local session is answered by the call itself, so that a listener can do it; await the
        result to know that a remote one has it.

        Args:
            request_id: Which request.
            approval: The answer.
            reply: A message for the model, such as what to do instead.

        Raises:
            SessionError: The request is not open.
        """
        ...

    async def set_model(self, name: str) -> None:
        """Continue with another model: `NAME`, or `PROVIDER/NAME`."""
        ...

    async def set_mode(self, mode: PermissionMode) -> None:
        """Change the permission mode."""
        ...

    async def set_name(self, name: str) -> None:
        """Name the session."""
        ...

    async def set_language(self, language: str) -> None:
        """Have the model answer in another language; empty for any."""
        ...

    async def history(self, *, after: EntryId, limit: int) -> list[HistoryEntry]:
        """Return at most `limit` items of the history after that entry; 0 is the beginning."""
        ...

    async def commands(self) -> list[CommandInfo]:
        """Return the commands that a user can type."""
        ...

    async def complete_path(self, fragment: str, *, limit: int = 20) -> list[PathMatch]:
        """Complete what was typed after an `@`, the best match first.

        Paths match fuzzily (`sdkcli` finds `sdk/client.py`); files that Git ignores are left out.
        `session:` completes the ids of other sessions.
        """
        ...

    def abort(self) -> None:
        """Abort the run and cancel the prompt that waits; `interrupted` follows."""
        ...

    async def cancel_queue(self) -> bool:
        """Cancel the prompt that waits; returns whether there was one."""
        ...


async def run_line(
    client: SessionClient, line: str
) -> tuple[CommandOutcome, ExecutionResult | None]:
    """Carry out a line and, where it starts a run, wait for its result.

    Raises:
        RunError: The run failed.
        ClewError: As `SessionClient.execute` does.
    """
    position = (await client.snapshot()).seq
    outcome = await client.execute(line)
    if outcome.run_id is None:
        return outcome, None
    return outcome, await wait_for_run(client, outcome.run_id, after=position)


async def wait_for_run(client: SessionClient, run_id: RunId, *, after: int) -> ExecutionResult:
    """Wait until a run ends.

    Args:
        client: The session.
        run_id: What `submit` or `execute` returned.
        after: A sequence number from before the run was accepted.

    Raises:
        RunError: The run failed.
    """
    async with aclosing(client.events(after=after, answering=False)) as events:
        async for envelope in events:
            match envelope.event:
                case RunCompleted(result=result) | RunInterrupted(result=result):
                    if result.run_id == run_id:
                        return result
                case RunFailed(run_id=failed) as failure if failed == run_id:
                    raise RunError(failure.message, error_type=failure.error_type)
                case _:
                    pass
    raise RunError("the session was closed before the run ended", error_type="SessionClosed")
