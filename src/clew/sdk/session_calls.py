"""`SessionCalls`: implements `SessionClient` for a session elsewhere, on any transport."""

from collections.abc import AsyncGenerator
from typing import Protocol, TypeVar

from msgspec import Struct

from clew.core.events import Envelope
from clew.core.ids import EntryId, RunId
from clew.core.permissions import Approval, PermissionMode
from clew.sdk.client import (
    CommandInfo,
    CommandOutcome,
    HistoryEntry,
    PathMatch,
    Prompt,
    SessionSnapshot,
    as_prompt,
)
from clew.sdk.client_calls import ContextCalls, TaskCalls
from clew.sdk.client_json import (
    AnswerParams,
    CompletePathParams,
    ExecuteParams,
    HistoryParams,
    LanguageParams,
    ModeParams,
    NameParams,
    NoParams,
)
from clew.sdk.context_client import ContextClient
from clew.sdk.task_client import TaskClient

_T = TypeVar("_T")


class SessionTransport(Protocol):
    """Brings calls to a session elsewhere, and its results and events back."""

    async def call(self, method: str, params: Struct, result: type[_T]) -> _T:
        """Call a method by its name in `client_json.METHODS` and return its decoded result.

        Raises:
            ClewError: What the method raised, or the session cannot be reached.
        """
        ...

    def send(self, method: str, params: Struct) -> None:
        """Call a method without waiting for it."""
        ...

    def events(self, *, after: int | None, answering: bool) -> AsyncGenerator[Envelope, None]:
        """Yield the events of the session, as `SessionClient.events` does."""
        ...


class SessionCalls:
    """A session elsewhere: every method is one call. Implements `SessionClient`."""

    def __init__(self, transport: SessionTransport) -> None:
        self._transport = transport
        self._call = transport.call
        self.tasks: TaskClient = TaskCalls(transport.call)
        self.context: ContextClient = ContextCalls(transport.call)

    async def snapshot(self) -> SessionSnapshot:
        """Return the state of the session now."""
        return await self._call("snapshot", NoParams(), SessionSnapshot)

    def events(
        self, *, after: int | None = None, answering: bool = True
    ) -> AsyncGenerator[Envelope, None]:
        """Yield every event after that sequence number, or from now on."""
        return self._transport.events(after=after, answering=answering)

    async def submit(self, prompt: Prompt) -> RunId:
        """Accept a prompt and return at once."""
        return RunId(await self._call("submit", as_prompt(prompt), str))

    async def execute(self, line: str) -> CommandOutcome:
        """Carry out a line as typed."""
        return await self._call("execute", ExecuteParams(line=line), CommandOutcome)

    async def answer(self, request_id: str, approval: Approval, *, reply: str = "") -> None:
        """Answer a permission request; the first answer counts."""
        params = AnswerParams(request_id=request_id, approval=approval, reply=reply)
        await self._call("answer", params, type(None))

    async def set_model(self, name: str) -> None:
        """Continue with another model."""
        await self._call("set_model", NameParams(name=name), type(None))

    async def set_mode(self, mode: PermissionMode) -> None:
        """Change the permission mode."""
        await self._call("set_mode", ModeParams(mode=mode), type(None))

    async def set_name(self, name: str) -> None:
        """Name the session."""
        await self._call("set_name", NameParams(name=name), type(None))

    async def set_language(self, language: str) -> None:
        """Have the model answer in another language."""
        await self._call("set_language", LanguageParams(language=language), type(None))

    async def history(self, *, after: EntryId, limit: int) -> list[HistoryEntry]:
        """Return a page of the history."""
        params = HistoryParams(after=after, limit=limit)
        return await self._call("history", params, list[HistoryEntry])

    async def commands(self) -> list[CommandInfo]:
        """Return the commands that a user can type."""
        return await self._call("commands", NoParams(), list[CommandInfo])

    async def complete_path(self, fragment: str, *, limit: int = 20) -> list[PathMatch]:
        """Complete what was typed after an `@`."""
        params = CompletePathParams(fragment=fragment, limit=limit)
        return await self._call("complete_path", params, list[PathMatch])

    def abort(self) -> None:
        """Abort what runs; the `interrupted` event says that it happened."""
        self._transport.send("abort", NoParams())

    async def cancel_queue(self) -> bool:
        """Cancel the prompt that waits; returns whether there was one."""
        return await self._call("cancel_queue", NoParams(), bool)
