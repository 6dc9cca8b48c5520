"""The lines of a session log, one kind of event each.

A line is a JSON object: `seq`, `timestamp`, `session_id`, `event`, and the fields of that event.
"""

from enum import StrEnum
from typing import Any, TypeAlias, get_args

import msgspec
from msgspec import Struct

from clew.core.context_state import ContextState
from clew.core.ids import CallId, EntryId
from clew.core.messages import Message
from clew.core.models import ToolSpec
from clew.core.usage import Usage

FORMAT = 1
"""Version of the events below; raised when one changes its meaning."""
ENVELOPE = ("seq", "timestamp", "session_id")


class LogLevel(StrEnum):
    """How much is written."""

    EVENTS = "events"
    """What happened in the session, and every change to its history."""
    REQUESTS = "requests"
    """Each model call too: what was sent, as far as it is new, and what came back."""
    RAW = "raw"
    """The chunks of each answer too, and the bytes on the wire where a provider has any."""

    @property
    def has_requests(self) -> bool:
        """True when model calls are written."""
        return self is not LogLevel.EVENTS


class Outline(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A list of contents that repeats the beginning of an earlier one."""

    of: str = ""
    """The `execution_id` whose list it begins like; `history`: the history up to here."""
    same: int = 0
    """How many leading elements are the same."""
    new: tuple[str, ...] = ()
    """The sha256 of each element after those."""

    @property
    def count(self) -> int:
        """How long the list is."""
        return self.same + len(self.new)


HISTORY = "history"


class _Event(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event"):
    """What all events share."""


class SessionInit(_Event, frozen=True, kw_only=True, tag="session_init"):
    """A session was opened, or opened again."""

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
    """True when earlier lines speak of another history under the same id: they do not count."""


class PreRun(_Event, frozen=True, kw_only=True, tag="pre_run"):
    """A run begins with this input, hooks' words included."""

    run: int
    provider: str
    web_tools: tuple[str, ...] = ()
    """Tools for the web that the provider runs itself."""
    input: Message
    messages: int = 0
    """How many messages the history holds already."""
    entry_id: EntryId = EntryId(0)
    """The last entry of the history."""


class ProviderRequest(_Event, frozen=True, kw_only=True, tag="provider_request"):
    """A model is called. Contents are named by their sha256, and written once."""

    execution_id: str
    run: int
    round: int
    """Which call of the run it is."""
    purpose: str
    """`turn`, or `summary` for the words of a compaction."""
    provider: str
    model: str
    messages: Outline
    system: str = ""
    tools: str = ""
    head: dict[str, Any] = {}
    """All other fields of the request that are not as they always are."""
    content: dict[str, Any] = {}
    """Messages, system prompt and tools that no line before holds, by sha256."""
    native: bool = False
    """True when the provider shows its bytes, so that `provider_native_raw_payload` follows."""


class NativePayload(_Event, frozen=True, kw_only=True, tag="provider_native_raw_payload"):
    """What went over the wire."""

    execution_id: str
    surface: str
    """The path of the API."""
    payload_kind: str
    """`request`, `response` for one document or an error, `stream_event` for a piece of text."""
    sequence: int
    attempt: int = 1
    """A call that is made again after a failure sends another request."""
    payload: Any
    lists: dict[str, Outline] = {}
    """Top-level lists of a request; `of` is written `execution_id/attempt`."""
    named: dict[str, str] = {}
    """Other large fields of a request, by sha256."""
    content: dict[str, Any] = {}
    """Parts of the request that no line before holds, by sha256."""


class StreamDelta(_Event, frozen=True, kw_only=True, tag="provider_stream_raw_delta"):
    """Chunks of an answer as the provider's adapter made them, neighbours joined."""

    execution_id: str
    sequence: int
    """The number of the first of them."""
    chunks: tuple[dict[str, Any], ...]


class ResponseRaw(_Event, frozen=True, kw_only=True, tag="provider_response_raw"):
    """The adapter's stream is over."""

    execution_id: str
    response_kind: str
    """`stream` when it came to its end, `broken` when it did not."""
    chunks: int
    finished: dict[str, Any] | None = None


class ResponseNormalized(_Event, frozen=True, kw_only=True, tag="provider_response_normalized"):
    """The answer as a message, also when it broke off."""

    execution_id: str
    message: Message
    tool_calls: int = 0
    stop_reason: str = ""
    usage: Usage | None = None
    cost: float | None = None


class ProviderFailed(_Event, frozen=True, kw_only=True, tag="provider_error"):
    """A model call failed or was broken off."""

    execution_id: str
    kind: str
    """The class of the error; `Aborted` when the session broke it off."""
    text: str = ""
    fields: dict[str, Any] = {}


class ToolBatch(_Event, frozen=True, kw_only=True, tag="tool_batch_started"):
    """The calls of one answer are about to run."""

    run: int
    round: int
    execution_id: str = ""
    mode: str = "parallel"
    max_concurrency: int = 1
    count: int
    tools: tuple[str, ...]
    call_ids: tuple[CallId, ...]


class ToolRequest(_Event, frozen=True, kw_only=True, tag="tool_execution_request"):
    """A tool call was taken up."""

    run: int
    round: int
    call_id: CallId
    tool: str
    parameters: Any = None
    """The arguments, as text when they are not JSON."""
    index: int = 0


class ToolOutcome(_Event, frozen=True, kw_only=True, tag="tool_execution_result"):
    """A tool call has its result."""

    run: int
    round: int
    call_id: CallId
    tool: str
    success: bool
    denied: bool = False
    error_code: str = ""
    display: str = ""
    """What the screen shows, where that is not what the model reads."""
    data: dict[str, Any] = {}
    entry_id: EntryId = EntryId(0)
    index: int = 0


class ToolCommitted(_Event, frozen=True, kw_only=True, tag="tool_message_committed"):
    """A tool result is part of the history."""

    call_id: CallId
    tool: str
    entry_id: EntryId


class HistoryMutation(_Event, frozen=True, kw_only=True, tag="history_mutation"):
    """One entry of the journal: all that ever changes a history."""

    mutation: str
    """`append`, `compact`, `clear_results`, `reasoning_dropped`, `clear`, `undo`, `rewind`,
    `setup`, `pin`, `mode`, `charge`, `note`; the entry's own kind for one from a newer Clew."""
    entry_id: EntryId
    sha256: str
    """Of the message for an `append`, of the entry's body otherwise."""
    entry: dict[str, Any]


class TextPiece(_Event, frozen=True, kw_only=True, tag="text_delta"):
    """Words of an answer as the screen got them, joined to pieces."""

    text: str


class ReasoningPiece(_Event, frozen=True, kw_only=True, tag="reasoning_delta"):
    """Words of thinking as the screen got them, joined to pieces."""

    text: str


class ServerTool(_Event, frozen=True, kw_only=True, tag="server_tool"):
    """The provider began a tool of its own, or that tool answered."""

    call_id: str
    tool: str
    query: str = ""
    ended: bool = False
    result: str = ""
    failed: bool = False


class ContextReading(_Event, frozen=True, kw_only=True, tag="context"):
    """How full the window is."""

    state: ContextState


class ContextCompact(_Event, frozen=True, kw_only=True, tag="context_compact"):
    """The view was made smaller; the `compact` mutation before says how."""

    trigger: str
    before: ContextState
    after: ContextState
    author: str
    """Who wrote the summary: `model` or `rules`."""
    why: str


class CompactFailed(_Event, frozen=True, kw_only=True, tag="context_compact_failed"):
    """A compaction was begun and not carried out."""

    why: str


class Assistant(_Event, frozen=True, kw_only=True, tag="assistant"):
    """A run came to its end with this answer."""

    run: int
    text: str
    stop_reason: str = ""
    usage: Usage | None = None
    entry_id: EntryId = EntryId(0)
    messages: int = 0
    """How many messages the history holds now."""


class RunFailed(_Event, frozen=True, kw_only=True, tag="error"):
    """A run ended early."""

    run: int
    text: str = ""
    interrupted: bool = False


class Notice(_Event, frozen=True, kw_only=True, tag="warning"):
    """Something a person should know that stopped nothing."""

    text: str


class SessionShutdown(_Event, frozen=True, kw_only=True, tag="session_shutdown"):
    """The session was ended."""

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
    | TextPiece
    | ReasoningPiece
    | ServerTool
    | ContextReading
    | ContextCompact
    | CompactFailed
    | Assistant
    | RunFailed
    | Notice
    | SessionShutdown
)
NAMES: tuple[str, ...] = tuple(str(kind.__struct_config__.tag) for kind in get_args(LogEvent))
"""Every event this release writes."""


def typed(fields: dict[str, Any]) -> LogEvent:
    """Return the event of a line whose envelope was taken off.

    Raises:
        msgspec.ValidationError: The event is unknown, or its fields are not as they should be.
    """
    return msgspec.convert(fields, LogEvent)  # type: ignore[no-any-return]
