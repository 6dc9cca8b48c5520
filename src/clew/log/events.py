"""The events of a session log.

Each line is a JSON object with `seq`, `timestamp`, `session_id`, `event` and the fields of that
event. Field names and tags are part of the file format. Streamed text and warnings have the same
form as on a screen, so the log writes those events of `clew.core.events` as they are.
"""

from enum import StrEnum
from typing import Any, TypeAlias, get_args

import msgspec
from msgspec import Struct

from clew.core.context_state import ContextState, SummaryAttempt
from clew.core.events import ReasoningDelta, TextDelta, Warned
from clew.core.ids import CallId, EntryId
from clew.core.messages import Message
from clew.core.models import ToolSpec
from clew.core.usage import Usage

FORMAT = 1
"""Version of the file format; increased when an event changes its meaning."""
ENVELOPE = ("seq", "timestamp", "session_id")


class LogLevel(StrEnum):
    """How much the log contains."""

    EVENTS = "events"
    """Session events and every change to the history."""
    REQUESTS = "requests"
    """Also each model call: the request without the history, and the response."""
    RAW = "raw"
    """Also the chunks of each response, and the HTTP bodies where the provider has any."""


class PrefixDelta(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A list of content hashes that shares a prefix with an earlier list."""

    of: str = ""
    """The earlier list: `HISTORY`, or for a list in an HTTP body `execution_id/attempt`. In a log
    of Clew 0.1.0 it may be the `execution_id` of an earlier request."""
    same: int = 0
    """The length of the shared prefix."""
    new: tuple[str, ...] = ()
    """The sha256 of each element after the prefix."""

    @property
    def count(self) -> int:
        """The length of the whole list."""
        return self.same + len(self.new)


HISTORY = "history"
"""The value of `PrefixDelta.of` for a list that begins like the history at its line."""
TURN = "turn"
"""The purpose of a call that continues the conversation."""
ABORTED = "Aborted"
"""The kind of a `ProviderFailed` when the session cancelled the call."""


class _Event(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event"):
    """Settings that all events share."""


class CallEvent(_Event, frozen=True, kw_only=True):
    """A part of a model call."""

    execution_id: str


class _ToolEvent(_Event, frozen=True, kw_only=True):
    run: int
    round: int
    call_id: CallId
    tool: str
    index: int = 0
    """The position of the call in its batch."""


class SessionInit(_Event, frozen=True, kw_only=True, tag="session_init"):
    """The session was opened or resumed."""

    format: int
    clew: str
    level: LogLevel
    cwd: str
    provider: str
    model: str
    system_prompt: str = ""
    tool_schemas: tuple[ToolSpec, ...] = ()
    max_concurrency: int = 1
    resumed: bool = False
    anew: bool = False
    """True when earlier lines belong to another history with the same id; readers ignore those."""


class PreRun(_Event, frozen=True, kw_only=True, tag="pre_run"):
    """A run starts with this input, including text that hooks added."""

    run: int
    provider: str
    web_tools: tuple[str, ...] = ()
    """Web tools that the provider runs itself."""
    input: Message
    messages: int = 0
    """The number of messages in the history before the run."""
    entry_id: EntryId = EntryId(0)
    """The last entry of the history."""


class ProviderRequest(CallEvent, frozen=True, kw_only=True, tag="provider_request"):
    """A model call starts. It refers to the history, and to all other contents by sha256."""

    run: int
    round: int
    """The number of the call within the run."""
    purpose: str
    """`TURN`, or `summary` for the summary of a compaction."""
    provider: str
    model: str
    messages: PrefixDelta
    system: str = ""
    tools: str = ""
    head: dict[str, Any] = {}
    """All other fields of the request that differ from their defaults."""
    content: dict[str, Any] = {}
    """Messages, system prompt and tools that no earlier line contains, by sha256."""
    native: bool = False
    """True when `provider_native_raw_payload` lines follow."""


class NativePayload(CallEvent, frozen=True, kw_only=True, tag="provider_native_raw_payload"):
    """An HTTP body, or a part of one."""

    surface: str
    """The path of the API."""
    payload_kind: str
    """`request`, `response` (a whole document or an error) or `stream_event` (part of a stream)."""
    sequence: int
    attempt: int = 1
    """Counts the retries of the call."""
    payload: Any
    lists: dict[str, PrefixDelta] = {}
    """Top-level lists of a request; `of` has the form `execution_id/attempt`."""
    named: dict[str, str] = {}
    """The sha256 of other large fields of a request."""
    content: dict[str, Any] = {}
    """Parts of the request that no earlier line contains, by sha256."""


class StreamDelta(CallEvent, frozen=True, kw_only=True, tag="provider_stream_raw_delta"):
    """Chunks from the provider's adapter; consecutive chunks of one part are merged."""

    sequence: int
    """The number of the first chunk."""
    chunks: tuple[dict[str, Any], ...]


class ResponseRaw(CallEvent, frozen=True, kw_only=True, tag="provider_response_raw"):
    """The adapter's stream ended."""

    response_kind: str
    """`stream` for a complete response, `broken` otherwise."""
    chunks: int
    finished: dict[str, Any] | None = None


class ResponseNormalized(CallEvent, frozen=True, kw_only=True, tag="provider_response_normalized"):
    """The response as a message, complete or partial."""

    message: Message
    tool_calls: int = 0
    stop_reason: str = ""
    usage: Usage | None = None
    cost: float | None = None


class ProviderFailed(CallEvent, frozen=True, kw_only=True, tag="provider_error"):
    """A model call failed or was cancelled."""

    kind: str
    """The class of the error, or `ABORTED`."""
    text: str = ""
    fields: dict[str, Any] = {}


class ToolBatch(_Event, frozen=True, kw_only=True, tag="tool_batch_started"):
    """The tool calls of one response are about to run."""

    run: int
    round: int
    execution_id: str = ""
    mode: str = "parallel"
    max_concurrency: int = 1
    count: int
    tools: tuple[str, ...]
    call_ids: tuple[CallId, ...]


class ToolRequest(_ToolEvent, frozen=True, kw_only=True, tag="tool_execution_request"):
    """A tool call started."""

    parameters: Any = None
    """The parsed arguments, or their text when they are not JSON."""


class ToolOutcome(_ToolEvent, frozen=True, kw_only=True, tag="tool_execution_result"):
    """A tool call ended."""

    success: bool
    denied: bool = False
    error_code: str = ""
    display: str = ""
    """The text for the screen, when it differs from the text for the model."""
    data: dict[str, Any] = {}
    entry_id: EntryId = EntryId(0)


class ToolCommitted(_Event, frozen=True, kw_only=True, tag="tool_message_committed"):
    """A tool result was added to the history."""

    call_id: CallId
    tool: str
    entry_id: EntryId


class HistoryMutation(_Event, frozen=True, kw_only=True, tag="history_mutation"):
    """One journal entry; nothing else changes a history."""

    mutation: str
    """`append`, `compact`, `clear_results`, `reasoning_dropped`, `clear`, `undo`, `rewind`,
    `setup`, `pin`, `mode`, `charge` or `note`; a newer Clew may write other kinds."""
    entry_id: EntryId
    sha256: str
    """The hash of the message for an `append`, otherwise of the entry's body."""
    entry: dict[str, Any]


class ServerToolUse(_Event, frozen=True, kw_only=True, tag="server_tool"):
    """A tool that the provider runs itself started or ended."""

    call_id: str
    tool: str
    query: str = ""
    ended: bool = False
    result: str = ""
    failed: bool = False


class ContextReading(_Event, frozen=True, kw_only=True, tag="context"):
    """How full the context window is."""

    state: ContextState


class ContextCompact(_Event, frozen=True, kw_only=True, tag="context_compact"):
    """A compaction succeeded; the `compact` mutation before this line has the details."""

    trigger: str
    before: ContextState
    after: ContextState
    author: str
    """The author of the summary: `model` or `rules`."""
    why: str


class CompactFailed(_Event, frozen=True, kw_only=True, tag="context_compact_failed"):
    """A compaction failed; the view is unchanged."""

    why: str
    attempts: tuple[SummaryAttempt, ...] = ()
    """Every try to write the summary, with its cost."""


class ContextClear(_Event, frozen=True, kw_only=True, tag="context_clear"):
    """Tool results left the view; the `clear_results` mutation before this line names them."""

    trigger: str
    """`economy`, `option` or `limit`."""
    before: ContextState
    after: ContextState
    cleared: int
    """The number of results."""
    why: str


class Assistant(_Event, frozen=True, kw_only=True, tag="assistant"):
    """A run ended with this response."""

    run: int
    text: str
    stop_reason: str = ""
    usage: Usage | None = None
    entry_id: EntryId = EntryId(0)
    messages: int = 0
    """The number of messages in the history after the run."""


class RunFailure(_Event, frozen=True, kw_only=True, tag="error"):
    """A run failed or was aborted."""

    run: int
    text: str = ""
    interrupted: bool = False


class SessionShutdown(_Event, frozen=True, kw_only=True, tag="session_shutdown"):
    """The session ended."""

    reason: str


LogEvent: TypeAlias = (
    SessionInit
    | PreRun
    | ProviderRequest
    | NativePayload
    | StreamDelta
    | ResponseRaw
    | ResponseNormalized
    | ProviderFailed
    | ToolBatch
    | ToolRequest
    | ToolOutcome
    | ToolCommitted
    | HistoryMutation
    | TextDelta
    | ReasoningDelta
    | ServerToolUse
    | ContextReading
    | ContextCompact
    | CompactFailed
    | ContextClear
    | Assistant
    | RunFailure
    | Warned
    | SessionShutdown
)
EVENT_NAMES: tuple[str, ...] = tuple(str(kind.__struct_config__.tag) for kind in get_args(LogEvent))
"""The name of every event."""


def parse_event(fields: dict[str, Any]) -> LogEvent:
    """Parse the fields of a line, without its envelope.

    Raises:
        msgspec.ValidationError: The event is unknown or its fields are invalid.
    """
    return msgspec.convert(fields, LogEvent)  # type: ignore[no-any-return]
