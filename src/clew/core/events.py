"""What a client sees while a session works: one union of events, in one stream.

Events report; they decide nothing. Each is a msgspec Struct that encodes to JSON, and its tag
is the public name of the event. An `Envelope` gives an event its place in the stream. Durable
facts are in the journal: a client that missed events rebuilds what it shows from the entries.
"""

from enum import StrEnum
from typing import Any, TypeAlias, get_args

import msgspec
from msgspec import Struct

from clew.core.context_state import ContextState, LossReport, SummaryAttempt
from clew.core.entries import Entry, Trigger
from clew.core.ids import CallId, RunId, SessionId
from clew.core.json_text import JsonDecoder
from clew.core.permissions import Risk
from clew.core.results import ExecutionResult
from clew.core.task_events import (
    BackgroundJobGroupEvent as BackgroundJobGroupEvent,  # noqa: PLC0414 - a part of the union
)
from clew.core.task_events import (
    BackgroundTaskEvent as BackgroundTaskEvent,  # noqa: PLC0414
)
from clew.core.task_events import JobGroupStage as JobGroupStage  # noqa: PLC0414
from clew.core.task_events import TaskStage as TaskStage  # noqa: PLC0414
from clew.core.todos import TodoItem


class UserMessage(Struct, frozen=True, kw_only=True, tag_field="event", tag="user_message"):
    """A run started. Exactly one of `complete`, `interrupted` and `error` follows."""

    text: str
    """The prompt as people see it."""
    run_id: RunId = RunId("")


class Thinking(Struct, frozen=True, tag_field="event", tag="thinking"):
    """The session started working, or stopped."""

    active: bool


class TextDelta(Struct, frozen=True, gc=False, tag_field="event", tag="text_delta"):
    """A piece of the answer arrived."""

    text: str


class ReasoningDelta(Struct, frozen=True, gc=False, tag_field="event", tag="reasoning_delta"):
    """A piece of the model's reasoning arrived."""

    text: str


class ToolStarted(Struct, frozen=True, gc=False, kw_only=True, tag_field="event", tag="tool_start"):
    """A tool call started; it may still be denied."""

    call_id: CallId
    name: str
    arguments: str
    by_user: bool = False
    """True if the user started it, with `!` and a command."""


class ToolProgress(
    Struct, frozen=True, gc=False, kw_only=True, tag_field="event", tag="tool_progress"
):
    """A running tool call has new output: its newest line, at most ten times per second."""

    call_id: CallId
    name: str
    line: str


class ToolEnded(Struct, frozen=True, gc=False, kw_only=True, tag_field="event", tag="tool_end"):
    """A tool call has its result; every `ToolStarted` is followed by exactly one."""

    call_id: CallId
    name: str
    failed: bool
    denied: bool = False
    error_code: str = ""
    """Why it failed: `denied`, `hook_blocked`, `unknown_tool`, `crashed`, `timed_out` …"""
    display: str = ""
    """The result for display; may differ from what the model reads."""
    data: dict[str, Any] = {}
    """Facts for clients and logs, such as a structured diff."""


class ServerToolStarted(
    Struct, frozen=True, kw_only=True, tag_field="event", tag="server_tool_start"
):
    """The provider started a tool of its own, such as a web search."""

    call_id: str
    name: str
    arguments: str = ""


class ServerToolEnded(Struct, frozen=True, kw_only=True, tag_field="event", tag="server_tool_end"):
    """A tool of the provider's own has answered."""

    call_id: str
    name: str
    text: str = ""
    failed: bool = False


class ModelRetry(Struct, frozen=True, gc=False, kw_only=True, tag_field="event", tag="model_retry"):
    """The provider is busy, so the request is sent again after a pause."""

    reason: str
    """Why, such as `rate limited` or `the server is overloaded`."""
    delay: float
    """Seconds until the request is sent again."""
    attempt: int
    """The number of the next attempt; the first request was attempt 1."""
    attempts: int
    """How many attempts are made in all."""


class ContextUpdated(Struct, frozen=True, gc=False, tag_field="event", tag="context_update"):
    """A new reading of the window: before each model call, and again after it."""

    state: ContextState


class CompactionStarted(
    Struct, frozen=True, kw_only=True, tag_field="event", tag="compaction_start"
):
    """A compaction started."""

    trigger: Trigger
    before: ContextState


class CompactionProgress(
    Struct, frozen=True, kw_only=True, tag_field="event", tag="compaction_progress"
):
    """How far the summary is: `reading` counts chunks, `writing` counts characters."""

    stage: str
    done: int
    total: int
    """0 where the total is unknown."""
    background: bool = False
    """True for a summary that is prepared while the session continues."""


class CompactionEnded(Struct, frozen=True, kw_only=True, tag_field="event", tag="compaction"):
    """A compaction is done; the report says what happened to each entry of the view."""

    trigger: Trigger
    before: ContextState
    after: ContextState
    report: LossReport
    summary: str


class CompactionFailed(
    Struct, frozen=True, kw_only=True, tag_field="event", tag="compaction_failed"
):
    """A compaction failed and the view is unchanged.

    Every `CompactionStarted` is followed by this event or by `CompactionEnded`.
    """

    why: str
    attempts: tuple[SummaryAttempt, ...] = ()
    """What was tried and what it cost; what was paid counts for the session's cost."""


class SummaryStage(StrEnum):
    """Where a summary stands that is prepared in the background."""

    PREPARING = "preparing"
    PREPARED = "prepared"
    """It waits for the compaction that will use it."""
    DISCARDED = "discarded"
    FAILED = "failed"


class BackgroundSummary(
    Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag_field="event",
    tag="background_summary",
):
    """A summary is prepared while the session continues, or no longer.

    `preparing` is followed by exactly one of the other stages, and `prepared` by `discarded` or
    by the `CompactionEnded` that uses it, unless the session ends before.
    """

    stage: SummaryStage
    messages: int
    """How many messages it covers."""
    why: str = ""
    """Why it was discarded or failed."""
    cost: float | None = 0.0
    """US dollars that it has cost so far; None if the price is unknown."""


class ToolResultsCleared(
    Struct, frozen=True, kw_only=True, tag_field="event", tag="results_cleared"
):
    """Tool results left the context; their markers say where the full text is."""

    trigger: str
    """`economy`: to save cost. `option`: `compress_tool_results` asks for it. `limit`: the request
    was too long to send, so the largest results were shortened."""
    before: ContextState
    after: ContextState
    report: LossReport


class EntryAdded(Struct, frozen=True, gc=False, tag_field="event", tag="entry"):
    """An entry is on disk. Its id is the durable cursor of the session's history."""

    entry: Entry


class QueueChanged(Struct, frozen=True, tag_field="event", tag="queue"):
    """The queue of prompts changed."""

    prompt: str | None
    """The prompt that is waiting; None when the queue is empty."""


class PermissionRequest(
    Struct, frozen=True, kw_only=True, tag_field="event", tag="permission_request"
):
    """A tool call waits for permission; answer with `SessionClient.answer`."""

    request_id: str
    tool_name: str
    target: str
    risk: Risk
    reason: str
    call_id: str = ""
    arguments: dict[str, Any] = {}
    """The arguments the call would run with."""
    session_scope: str = ""
    """Which calls `Approval.SESSION` would allow, such as `Write in this folder`."""
    project_rules: tuple[str, ...] = ()
    """The rules that `Approval.PROJECT` would add to the project's settings; empty when that
    answer is not available."""
    asker: str = ""
    """The subagent that asks, such as `explorer (agent-1a2b3c4d)`; empty for the session itself."""
    is_question: bool = False
    """True when the tool asks for an answer: yes, no, or a reply with `Approval.ONCE`. The reason
    is the question, and the arguments are what it is about."""


class PermissionResolved(
    Struct, frozen=True, kw_only=True, tag_field="event", tag="permission_resolved"
):
    """A permission request was answered, or is no longer needed."""

    request_id: str
    approved: bool


class PermissionDenied(
    Struct, frozen=True, kw_only=True, tag_field="event", tag="permission_denied"
):
    """A tool call was denied."""

    call_id: str
    tool_name: str
    target: str
    reason: str
    remedy: str
    """What would allow it; empty when the user said no."""


class Warned(Struct, frozen=True, tag_field="event", tag="warning"):
    """Something you should know that stopped nothing."""

    text: str


class SessionUpdated(Struct, frozen=True, kw_only=True, tag_field="event", tag="session_update"):
    """The name, model, permission mode or language of the session changed."""

    name: str
    model: str
    mode: str
    language: str


class TodosChanged(Struct, frozen=True, tag_field="event", tag="todos"):
    """The todo list changed: the model wrote it, or an undo, a clear or a rewind changed it."""

    items: tuple[TodoItem, ...]


class RunCompleted(Struct, frozen=True, tag_field="event", tag="complete"):
    """A run ended with an answer."""

    result: ExecutionResult


class RunInterrupted(Struct, frozen=True, tag_field="event", tag="interrupted"):
    """A run was aborted; the response is the text that arrived before."""

    result: ExecutionResult


class RunFailed(Struct, frozen=True, kw_only=True, tag_field="event", tag="error"):
    """A run failed; the session stays usable."""

    message: str
    error_type: str = ""
    """The class of the error, such as `ProviderBusy`."""
    run_id: RunId = RunId("")


Event: TypeAlias = (
    UserMessage
    | Thinking
    | TextDelta
    | ReasoningDelta
    | ToolStarted
    | ToolProgress
    | ToolEnded
    | ServerToolStarted
    | ServerToolEnded
    | ModelRetry
    | ContextUpdated
    | CompactionStarted
    | CompactionProgress
    | CompactionEnded
    | CompactionFailed
    | BackgroundSummary
    | ToolResultsCleared
    | EntryAdded
    | QueueChanged
    | PermissionRequest
    | PermissionResolved
    | PermissionDenied
    | Warned
    | SessionUpdated
    | TodosChanged
    | RunCompleted
    | RunInterrupted
    | RunFailed
    | BackgroundTaskEvent
    | BackgroundJobGroupEvent
)

EVENT_TYPES: dict[str, type[Event]] = {
    str(kind.__struct_config__.tag): kind for kind in get_args(Event)
}
"""Every event class by its public name."""


class Envelope(Struct, frozen=True, gc=False, kw_only=True):
    """An event and its place in the stream of one session."""

    seq: int
    """Grows with each event; `events(after=seq)` continues after this one."""
    session_id: SessionId
    task_id: str = ""
    """The subagent the event comes from; empty for the session itself."""
    at: float
    """Seconds since the epoch."""
    event: Event

    @property
    def name(self) -> str:
        """The public name of the event."""
        return event_name(self.event)


def event_name(event: Event | type[Event]) -> str:
    """Return the public name of an event, or of a class of events."""
    return str(event.__struct_config__.tag)


encode_envelope = msgspec.json.Encoder().encode
"""Return the one-line JSON of an envelope."""
decode_envelope = JsonDecoder(Envelope).decode
"""Read an envelope back from its JSON."""
