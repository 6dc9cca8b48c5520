"""`SessionClient` as JSON: the parameters and results of each method, and errors.

Every way to reach a session from outside its process uses this table, so that a method is
described once. Values are encoded by msgspec.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Struct

from clew.core import errors
from clew.core.context_state import ContextState
from clew.core.errors import (
    BackgroundTaskError,
    ClewError,
    ContextError,
    RunError,
    SessionError,
    TaskNotFound,
)
from clew.core.ids import EntryId
from clew.core.json_text import decode_json
from clew.core.permissions import Approval, PermissionMode
from clew.core.tasks import (
    JobGroupState,
    JobGroupSummary,
    JobWaitPolicy,
    LogPage,
    TaskErrorCategory,
    TaskState,
)
from clew.sdk.client import (
    CommandInfo,
    CommandOutcome,
    HistoryEntry,
    PathMatch,
    PromptInput,
    SessionClient,
    SessionSnapshot,
)
from clew.sdk.context_client import (
    CompactionDetail,
    CompactionOutcome,
    CompactionPreview,
    ContextSimulation,
    ContextTimeline,
    JournalEntry,
    RecallResult,
    UndoneChange,
)
from clew.sdk.context_params import (
    CompactParams,
    EntriesParams,
    EntryParams,
    Limit,
    Position,
    PreviewParams,
    RecallParams,
    SimulateParams,
    TimelineParams,
    UndoParams,
)
from clew.sdk.task_client import LOG_LINES


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
    limit: Limit = 20


class HistoryParams(Struct, frozen=True, kw_only=True):
    """Parameters of `history`."""

    after: Position = EntryId(0)
    limit: Limit = 100


class TaskParams(Struct, frozen=True, kw_only=True):
    """Parameters of `tasks.get` and `tasks.close`."""

    task_id: str


class CancelTaskParams(Struct, frozen=True, kw_only=True):
    """Parameters of `tasks.cancel`."""

    task_id: str
    reason: str = ""


class SendParams(Struct, frozen=True, kw_only=True):
    """Parameters of `tasks.send`."""

    task_id: str
    text: str


class LogParams(Struct, frozen=True, kw_only=True):
    """Parameters of `tasks.read_log`."""

    task_id: str
    offset: Annotated[int, msgspec.Meta(ge=0)] = 0
    limit: Limit = LOG_LINES


class CreateGroupParams(Struct, frozen=True, kw_only=True):
    """Parameters of `tasks.create_group`."""

    task_ids: tuple[str, ...]
    policy: JobWaitPolicy = JobWaitPolicy.WAIT_ALL
    label: str = ""


class GroupParams(Struct, frozen=True, kw_only=True):
    """Parameters of the other methods of job groups."""

    group_id: str


class ErrorBody(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error on the wire."""

    type: str
    """The class in `clew.core.errors`."""
    message: str
    category: TaskErrorCategory | None = None
    """Of a `BackgroundTaskError`."""
    recoverable: bool = False
    context: ContextState | None = None
    """How full the window is, of a `ContextError`."""


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
    "tasks.list": Method(NoParams, tuple[TaskState, ...], lambda client, _: client.tasks.list()),
    "tasks.get": Method(TaskParams, TaskState, lambda client, p: client.tasks.get(p.task_id)),
    "tasks.cancel": Method(
        CancelTaskParams,
        TaskState,
        lambda client, p: client.tasks.cancel(p.task_id, reason=p.reason),
    ),
    "tasks.close": Method(TaskParams, TaskState, lambda client, p: client.tasks.close(p.task_id)),
    "tasks.send": Method(SendParams, None, lambda client, p: client.tasks.send(p.task_id, p.text)),
    "tasks.read_log": Method(
        LogParams,
        LogPage,
        lambda client, p: client.tasks.read_log(p.task_id, offset=p.offset, limit=p.limit),
    ),
    "tasks.create_group": Method(
        CreateGroupParams,
        JobGroupState,
        lambda client, p: client.tasks.create_group(p.task_ids, policy=p.policy, label=p.label),
    ),
    "tasks.list_groups": Method(
        NoParams, tuple[JobGroupState, ...], lambda client, _: client.tasks.list_groups()
    ),
    "tasks.get_group": Method(
        GroupParams, JobGroupState, lambda client, p: client.tasks.get_group(p.group_id)
    ),
    "tasks.wait_group": Method(
        GroupParams, JobGroupState, lambda client, p: client.tasks.wait_group(p.group_id)
    ),
    "tasks.summarize_group": Method(
        GroupParams, JobGroupSummary, lambda client, p: client.tasks.summarize_group(p.group_id)
    ),
    "context.state": Method(NoParams, ContextState, lambda client, _: client.context.state()),
    "context.timeline": Method(
        TimelineParams,
        ContextTimeline,
        lambda client, p: client.context.timeline(after=p.after, limit=p.limit),
    ),
    "context.entries": Method(
        EntriesParams,
        list[JournalEntry],
        lambda client, p: client.context.entries(after=p.after, limit=p.limit),
    ),
    "context.compaction": Method(
        EntryParams, CompactionDetail, lambda client, p: client.context.compaction(p.entry_id)
    ),
    "context.preview": Method(
        PreviewParams,
        CompactionPreview,
        lambda client, p: client.context.preview(strategy=p.strategy),
    ),
    "context.compact": Method(
        CompactParams,
        CompactionOutcome,
        lambda client, p: client.context.compact(instructions=p.instructions, force=p.force),
    ),
    "context.undo": Method(
        UndoParams, UndoneChange, lambda client, p: client.context.undo(p.entry_id)
    ),
    "context.pin": Method(EntryParams, None, lambda client, p: client.context.pin(p.entry_id)),
    "context.unpin": Method(EntryParams, None, lambda client, p: client.context.unpin(p.entry_id)),
    "context.recall": Method(
        RecallParams,
        RecallResult,
        lambda client, p: client.context.recall(p.query, limit=p.limit),
    ),
    "context.simulate": Method(
        SimulateParams,
        ContextSimulation,
        lambda client, p: client.context.simulate(
            p.strategies, window=p.window, max_tokens=p.max_tokens, lookups=p.lookups
        ),
    ),
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
    if isinstance(error, BackgroundTaskError):
        kind, again = error.category, error.recoverable
        return ErrorBody(type=name, message=str(error), category=kind, recoverable=again)
    state = error.state if isinstance(error, ContextError) else None
    return ErrorBody(type=name, message=str(error), context=state)


def decode_error(body: ErrorBody) -> ClewError:
    """Return the exception for an error from the wire: the same class where that is possible."""
    if body.type == TaskNotFound.__name__:
        return TaskNotFound(body.message)
    if body.category is not None:
        return BackgroundTaskError(
            body.message, category=body.category, recoverable=body.recoverable
        )
    found = getattr(errors, body.type, None)
    if body.context is not None and isinstance(found, type) and issubclass(found, ContextError):
        return found(body.message, state=body.context)
    if isinstance(found, type) and issubclass(found, ClewError):
        try:
            return found(body.message)
        except TypeError:
            # The class needs more than a message, such as the provider's name.
            return RunError(body.message, error_type=body.type)
    return SessionError(body.message)
