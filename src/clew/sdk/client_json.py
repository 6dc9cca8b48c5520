"""`SessionClient` as JSON: the parameters and results of each method, and errors.

Every way to reach a session from outside its process uses this table, so that a method is
described once. Values are encoded by msgspec.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from clew.core import errors
from clew.core.errors import ClewError, RunError, SessionError
from clew.core.ids import EntryId
from clew.core.json_text import decode_json
from clew.core.permissions import Approval, PermissionMode
from clew.sdk.client import (
    CommandInfo,
    CommandOutcome,
    HistoryEntry,
    PathMatch,
    PromptInput,
    SessionClient,
    SessionSnapshot,
)


class NoParams(Struct, frozen=True):
    """For methods without parameters."""


class ExecuteParams(Struct, frozen=True, kw_only=True):
    """Parameters of `execute`."""

    line: str


class AnswerParams(Struct, frozen=True, kw_only=True):
    """Parameters of `answer`."""

    request_id: str
    approval: Approval
    reply: str = ""


class NameParams(Struct, frozen=True, kw_only=True):
    """Parameters of `set_model` and `set_name`."""

    name: str


class ModeParams(Struct, frozen=True, kw_only=True):
    """Parameters of `set_mode`."""

    mode: PermissionMode


class LanguageParams(Struct, frozen=True, kw_only=True):
    """Parameters of `set_language`."""

    language: str


class CompletePathParams(Struct, frozen=True, kw_only=True):
    """Parameters of `complete_path`."""

    fragment: str
    limit: int = 20


class HistoryParams(Struct, frozen=True, kw_only=True):
    """Parameters of `history`."""

    after: EntryId = EntryId(0)
    limit: int = 100


class ErrorBody(Struct, frozen=True, kw_only=True):
    """An error on the wire."""

    type: str
    """The class in `clew.core.errors`."""
    message: str


Call: TypeAlias = Callable[[SessionClient, Any], Awaitable[object]]


class Method(Struct, frozen=True):
    """One method of `SessionClient`."""

    params: type[Struct]
    result: Any
    """The type of the result."""
    call: Call


async def _abort(client: SessionClient, _: NoParams) -> None:
    client.abort()


async def _answer(client: SessionClient, params: AnswerParams) -> None:
    await client.answer(params.request_id, params.approval, reply=params.reply)


METHODS: dict[str, Method] = {
    "snapshot": Method(NoParams, SessionSnapshot, lambda client, _: client.snapshot()),
    "submit": Method(PromptInput, str, lambda client, params: client.submit(params)),
    "execute": Method(
        ExecuteParams, CommandOutcome, lambda client, params: client.execute(params.line)
    ),
    "answer": Method(AnswerParams, None, _answer),
    "set_model": Method(NameParams, None, lambda client, params: client.set_model(params.name)),
    "set_mode": Method(ModeParams, None, lambda client, params: client.set_mode(params.mode)),
    "set_name": Method(NameParams, None, lambda client, params: client.set_name(params.name)),
    "set_language": Method(
        LanguageParams, None, lambda client, params: client.set_language(params.language)
    ),
    "history": Method(
        HistoryParams,
        list[HistoryEntry],
        lambda client, params: client.history(after=params.after, limit=params.limit),
    ),
    "commands": Method(NoParams, list[CommandInfo], lambda client, _: client.commands()),
    "complete_path": Method(
        CompletePathParams,
        list[PathMatch],
        lambda client, params: client.complete_path(params.fragment, limit=params.limit),
    ),
    "abort": Method(NoParams, None, _abort),
    "cancel_queue": Method(NoParams, bool, lambda client, _: client.cancel_queue()),
}
"""Every method but `events`, which is a stream."""


async def call_method(client: SessionClient, name: str, params: bytes) -> bytes:
    """Call a method with encoded parameters; returns the encoded result.

    Raises:
        SessionError: There is no such method, or the parameters do not fit it.
        ClewError: As the method does.
    """
    method = METHODS.get(name)
    if method is None:
        raise SessionError(f"there is no method {name!r}; the methods are: {', '.join(METHODS)}")
    try:
        decoded = decode_json(params or b"{}", type=method.params)
    except msgspec.DecodeError as error:
        raise SessionError(f"the parameters of {name} are wrong: {error}") from error
    return msgspec.json.encode(await method.call(client, decoded))


def encode_error(error: ClewError) -> ErrorBody:
    """Return an error as it goes over the wire."""
    name = error.error_type if isinstance(error, RunError) else type(error).__name__
    return ErrorBody(type=name, message=str(error))


def decode_error(body: ErrorBody) -> ClewError:
    """Return the exception for an error from the wire: the same class where that is possible."""
    found = getattr(errors, body.type, None)
    if isinstance(found, type) and issubclass(found, ClewError):
        try:
            return found(body.message)
        except TypeError:
            # The class needs more than a message, such as the provider's name.
            return RunError(body.message, error_type=body.type)
    return SessionError(body.message)
