"""`SessionClient` as JSON: the parameters and results of each method, and errors.

Every way to reach a session from outside its process uses this table, so that a method is
described once. Values are encoded by msgspec.
"""

from collections.abc import Awaitable
from typing import Annotated, Any

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


class Method(Struct, frozen=True):
    """One method of `SessionClient`, or of its `tasks` or `context`."""

    name: str
    """Such as `submit` or `tasks.cancel`."""
    params: type[Struct]
    """Its fields are the arguments of the method."""
    result: Any
    """The type of the result."""

    async def call(self, client: SessionClient, params: Struct) -> object:
        """Call the method, and wait for its result."""
        part, _, name = self.name.rpartition(".")
        method = getattr(getattr(client, part) if part else client, name)
        if isinstance(params, PromptInput):
            return await method(params)
        result = method(**{field: getattr(params, field) for field in params.__struct_fields__})
        return await result if isinstance(result, Awaitable) else result


_METHODS = (
    Method("snapshot", NoParams, SessionSnapshot),
    Method("submit", PromptInput, str),
    Method("execute", ExecuteParams, CommandOutcome),
    Method("answer", AnswerParams, None),
    Method("set_model", NameParams, None),
    Method("set_mode", ModeParams, None),
    Method("set_name", NameParams, None),
    Method("set_language", LanguageParams, None),
    Method("history", HistoryParams, list[HistoryEntry]),
    Method("commands", NoParams, list[CommandInfo]),
    Method("complete_path", CompletePathParams, list[PathMatch]),
    Method("abort", NoParams, None),
    Method("cancel_queue", NoParams, bool),
    Method("tasks.list", NoParams, tuple[TaskState, ...]),
    Method("tasks.get", TaskParams, TaskState),
    Method("tasks.cancel", CancelTaskParams, TaskState),
    Method("tasks.close", TaskParams, TaskState),
    Method("tasks.send", SendParams, None),
    Method("tasks.read_log", LogParams, LogPage),
    Method("tasks.create_group", CreateGroupParams, JobGroupState),
    Method("tasks.list_groups", NoParams, tuple[JobGroupState, ...]),
    Method("tasks.get_group", GroupParams, JobGroupState),
    Method("tasks.wait_group", GroupParams, JobGroupState),
    Method("tasks.summarize_group", GroupParams, JobGroupSummary),
    Method("context.state", NoParams, ContextState),
    Method("context.timeline", TimelineParams, ContextTimeline),
    Method("context.entries", EntriesParams, list[JournalEntry]),
    Method("context.compaction", EntryParams, CompactionDetail),
    Method("context.preview", PreviewParams, CompactionPreview),
    Method("context.compact", CompactParams, CompactionOutcome),
    Method("context.undo", UndoParams, UndoneChange),
    Method("context.pin", EntryParams, None),
    Method("context.unpin", EntryParams, None),
    Method("context.recall", RecallParams, RecallResult),
    Method("context.simulate", SimulateParams, ContextSimulation),
)
METHODS: dict[str, Method] = {method.name: method for method in _METHODS}
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
