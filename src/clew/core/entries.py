"""Entries of the journal: everything that a session writes to disk.

An `Entry` is an envelope (id, time, schema version) around a body that says what happened.
Entries are appended and never changed; the present state of a session is a fold over them
(`clew.context.view`). A body of an unknown kind or version is kept as the bytes it was read
from, so an older Clew never damages what a newer one wrote.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from clew.core.context_state import LossReport
from clew.core.errors import StoreDamaged
from clew.core.ids import CallId, EntryId, SessionId
from clew.core.json_text import JsonDecoder
from clew.core.messages import Message
from clew.core.models import Calibration, ModelFacts, ToolSpec
from clew.core.tasks import JobGroupState, TaskState
from clew.core.tool_states import ToolReport
from clew.core.usage import Spending, Usage

SCHEMA = 1
"""Version of the bodies below; incremented when one changes its meaning."""

Trigger: TypeAlias = Literal["auto", "manual", "overflow"]


class SetupChanged(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="setup"
):
    """Sets the beginning of every following request: model, system prompt, tools."""

    model: ModelFacts
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    calibration: Calibration | None = None
    """Learned from earlier sessions with this model; None uses the default of its family."""
    effort: str = ""
    """How much the model reasons: `low`, `medium` or `high`; empty for the model's default."""


class ContextReference(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that the user attached to a prompt with `@`."""

    kind: Literal["file", "folder", "image", "session", "resource"]
    target: str
    """The path, the id of the session, or `server:uri`."""
    lines: str = ""
    """The lines that were attached, such as `3-9`; empty for all."""


class MessageAdded(
    Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag_field="kind", tag="message"
):
    """Adds a message to the conversation."""

    message: Message
    usage: Usage | None = None
    """Tokens that the provider counted for the call that produced this answer."""
    cost: float | None = None
    """Cost of the call in US dollars; None if the price is unknown or there was no call."""
    uncounted: bool = False
    """True for a model's answer without a token count and without a price."""
    full_text: str | None = None
    """The full output of a tool whose result was truncated; never sent, always readable."""
    display: str | None = None
    """What people are shown in place of a prompt that was made from what they typed."""
    report: ToolReport | None = None
    """How the tool call that this result answers looks to a client."""
    references: tuple[ContextReference, ...] = ()
    """What the user attached to this prompt."""


class Replacement(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The text that replaces one entry in the view."""

    entry_id: EntryId
    text: str
    arguments: dict[CallId, str] = {}
    """Shortened arguments, by tool call; they are valid JSON."""


class Compacted(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="compaction"
):
    """Makes the view smaller; the entries named here stay in the journal."""

    trigger: Trigger
    strategy: str
    summary: str
    """Replaces the dropped entries at the beginning of the view; empty for none."""
    notes: str = ""
    """The part of the summary that a model wrote; the next compaction updates it."""
    dropped: tuple[EntryId, ...]
    replaced: tuple[Replacement, ...] = ()
    inserted: tuple[Message, ...] = ()
    """Messages that a custom strategy put first; they have no entry of their own."""
    report: LossReport
    usage: Usage | None = None
    """Tokens of the call that wrote the summary."""


class ResultsCleared(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="results_cleared"
):
    """Shows tool results as markers or excerpts in every following request.

    An undo restores them. The fields below `why` are the loss report: the cleared entries are
    those in `replaced`, all other messages of the view stay word for word.
    """

    replaced: tuple[Replacement, ...]
    why: str
    trigger: str = ""
    """What asked for it: `economy` (to save cost), `option` (`compress_tool_results`) or `limit`
    (the request was too long to send); empty in entries of 0.1.0."""
    kept: int = 0
    """Messages of the view that stay word for word."""
    tokens_before: int = 0
    tokens_after: int = 0


class Charged(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="charge"
):
    """Records the cost of a model call outside the conversation, such as a summary."""

    why: str
    usage: Usage | None = None
    cost: float | None = None
    """US dollars; None when the price is unknown."""
    task_id: str = ""
    """The durable agent that made the calls; empty for other calls."""
    through: int = 0
    """How many entries of that agent's journal are paid with this and the charges before."""


class ReasoningDropped(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="reasoning_dropped"
):
    """Sends these messages without their thinking, because the provider rejected a signature.

    The thinking stays in the journal. Other private fields of that provider family (ids,
    signatures on calls) are omitted too.
    """

    targets: tuple[EntryId, ...]
    why: str


class Cleared(Struct, frozen=True, kw_only=True, tag_field="kind", tag="clear"):
    """Starts an empty conversation; the setup stays."""


class Undone(Struct, frozen=True, kw_only=True, tag_field="kind", tag="undo"):
    """Reverts an earlier entry: a compaction, cleared results, a clear, a rewind or an undo."""

    target: EntryId


class Rewound(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="rewind"
):
    """Returns the conversation, the files, or both to an earlier point.

    Model, system prompt, tools, permission mode and pins stay as they are.
    """

    before: EntryId | None = None
    """The conversation returns to the state before this entry; None leaves it unchanged."""
    files: tuple[str, ...] = ()
    """Paths that were restored on disk."""


class PinChanged(Struct, frozen=True, kw_only=True, tag_field="kind", tag="pin"):
    """Pins a message, which every compaction then keeps word for word, or unpins it."""

    target: EntryId
    pinned: bool


class ModeChanged(Struct, frozen=True, kw_only=True, tag_field="kind", tag="mode"):
    """Sets the permission mode."""

    mode: str


class TaskChanged(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="task"
):
    """Records where a background task stands.

    There is one when the task is created, starts, asks, ends or is closed, when its log or its
    worktree becomes known, and when its end was reported to the model. The model does not see it.
    The newest entry of a task that is not `reported` has its last known state.
    """

    state: TaskState
    closed: bool = False
    """True when the task was removed from the list."""
    reported: bool = False
    """True when a message told the model how the task ended; `state` only names the task then."""


class JobGroupChanged(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="job_group"
):
    """Records where a group of background tasks stands; the model does not see it."""

    state: JobGroupState


class CallStarted(
    Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag_field="kind", tag="call"
):
    """Records that tool calls are about to run, so that none is repeated after a crash by mistake.

    Only sessions with the option `record_calls` write it.
    """

    call_ids: tuple[CallId, ...]
    """The calls that may change something; read-only calls are not recorded."""


class Noted(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="note"):
    """A note for people that the model never sees: a tool summary, an error, a warning."""

    topic: str
    text: str
    data: dict[str, object] = {}


class UnknownBody(Struct, frozen=True, tag_field="kind", tag="unknown"):
    """A body that this release cannot read, byte for byte as it was found.

    The tag is for clients only: on disk the body keeps the kind that it has.
    """

    raw: bytes


KnownBody: TypeAlias = (
    SetupChanged
    | MessageAdded
    | Compacted
    | ResultsCleared
    | ReasoningDropped
    | Cleared
    | Undone
    | Rewound
    | PinChanged
    | ModeChanged
    | Charged
    | TaskChanged
    | JobGroupChanged
    | CallStarted
    | Noted
)
Body: TypeAlias = KnownBody | UnknownBody


class Entry(Struct, frozen=True, gc=False, kw_only=True):
    """One line of the journal."""

    id: EntryId
    at: float
    """Seconds since the epoch, for display; only `id` defines the order."""
    schema: int = SCHEMA
    body: Body


class SessionRecord(Struct, frozen=True, kw_only=True):
    """One row in a list of sessions, readable without the journal."""

    id: SessionId
    cwd: str
    created_at: float
    updated_at: float
    name: str = ""


class _Envelope(Struct, frozen=True, kw_only=True):
    id: EntryId
    at: float
    schema: int
    body: msgspec.Raw


class _Kind(Struct, frozen=True):
    kind: str = ""


_encoder = msgspec.json.Encoder()
_envelope = JsonDecoder(_Envelope)
_known: JsonDecoder[KnownBody] = JsonDecoder(KnownBody)
_kind = JsonDecoder(_Kind)
_KINDS = frozenset(body.__struct_config__.tag for body in get_args(KnownBody))


def encode(entry: Entry) -> bytes:
    """Encode `entry` as one line of JSON; an unknown body keeps its bytes."""
    body = entry.body.raw if isinstance(entry.body, UnknownBody) else _encoder.encode(entry.body)
    return _encoder.encode(
        _Envelope(id=entry.id, at=entry.at, schema=entry.schema, body=msgspec.Raw(body))
    )


def decode(line: bytes) -> Entry:
    """Decode a line that `encode` wrote, in this release or another.

    Raises:
        StoreDamaged: The line is not an entry at all.
    """
    try:
        envelope = _envelope.decode(line)
        body = _read_body(bytes(envelope.body), envelope.schema)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreDamaged(f"a journal entry cannot be read: {error}") from error
    return Entry(id=envelope.id, at=envelope.at, schema=envelope.schema, body=body)


def _read_body(raw: bytes, schema: int) -> Body:
    if schema > SCHEMA or _kind.decode(raw).kind not in _KINDS:
        return UnknownBody(raw)
    return _known.decode(raw)


NO_SPENDING = Spending()


def spending_of(body: Body) -> Spending:
    """Return the cost of the model call behind `body`; `NO_SPENDING` for one without a call."""
    match body:
        case MessageAdded(usage=None, cost=None, uncounted=False):
            return NO_SPENDING
        case MessageAdded(usage=usage, cost=cost) | Charged(usage=usage, cost=cost):
            return Spending(
                usd=cost or 0.0,
                calls=1,
                unpriced=cost is None,
                uncounted=usage is None,
                usage=usage or Usage(),
            )
        case _:
            return NO_SPENDING


def total_spending(entries: Iterable[Entry]) -> Spending:
    """Return the total cost of `entries`."""
    return sum((spending_of(entry.body) for entry in entries), Spending())
