"""What goes to disk: the journal's entries.

An `Entry` is an envelope (place, time, schema version) around a body that says what
happened. Entries are appended and never changed; what a session looks like now is a
fold over them (`clew.context.view`). A body of a kind or version that this release does
not know is kept as the bytes it was read from, so that an older Clew never damages what
a newer one wrote.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from clew.core.context_state import LossReport
from clew.core.errors import StoreDamaged
from clew.core.ids import EntryId, SessionId
from clew.core.messages import Message
from clew.core.models import Calibration, ModelFacts, ToolSpec
from clew.core.usage import Spending, Usage

SCHEMA = 1
"""Version of the bodies below; raised when one changes its meaning."""

Trigger: TypeAlias = Literal["auto", "manual", "overflow"]


class SetupChanged(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="setup"
):
    """What every request from here on begins with: model, system prompt, tools."""

    model: ModelFacts
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    calibration: Calibration | None = None
    """What earlier sessions learned about the model; None for what is known of its family."""


class MessageAdded(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="message"
):
    """A message joined the conversation."""

    message: Message
    usage: Usage | None = None
    """What the provider counted for the call that produced this answer."""
    cost: float | None = None
    """US dollars that the call cost; None when its price is unknown, or there was no call."""
    uncounted: bool = False
    """True for a model's answer of which neither size nor price is known."""
    full_text: str | None = None
    """The uncut output of a tool whose result was shortened; never sent, always readable."""
    display: str | None = None
    """What people are shown in place of a prompt that was made from what they typed."""


class Replacement(Struct, frozen=True, kw_only=True):
    """How one entry reads in the view from now on."""

    entry_id: EntryId
    text: str


class Compacted(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="compaction"
):
    """The view was made smaller; the entries named here stay in the journal."""

    trigger: Trigger
    strategy: str
    summary: str
    """Stands in the view where the first dropped entry stood; empty for none."""
    dropped: tuple[EntryId, ...]
    replaced: tuple[Replacement, ...] = ()
    inserted: tuple[Message, ...] = ()
    """Messages that a strategy of the user's own put first; they have no entry of their own."""
    report: LossReport
    usage: Usage | None = None
    """What the summary itself cost."""


class ResultsCleared(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="results_cleared"
):
    """Tool results that the model has answered are shown as markers from here on."""

    replaced: tuple[Replacement, ...]
    why: str


class Charged(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="charge"
):
    """A call to a model whose answer is not in the conversation, such as a summary."""

    why: str
    usage: Usage | None = None
    cost: float | None = None
    """US dollars; None when the price is unknown."""


class ReasoningDropped(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="reasoning_dropped"
):
    """A provider refused signed thinking; these messages go out without theirs from here on.

    The thinking stays in the journal. Whatever else was meant for the refusing family alone
    (ids, signatures on calls) goes with it.
    """

    targets: tuple[EntryId, ...]
    why: str


class Cleared(Struct, frozen=True, kw_only=True, tag_field="kind", tag="clear"):
    """The conversation begins anew; the setup stays."""


class Undone(Struct, frozen=True, kw_only=True, tag_field="kind", tag="undo"):
    """An earlier entry counts as if it had not happened: a compaction, a rewind, another undo."""

    target: EntryId


class Rewound(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="rewind"
):
    """The conversation, the files, or both went back to an earlier point.

    Model, system prompt, tools, permission mode and pins are not part of what goes back.
    """

    before: EntryId | None = None
    """The conversation is what it was before this entry; None leaves it as it is."""
    files: tuple[str, ...] = ()
    """What was restored on disk."""


class PinChanged(Struct, frozen=True, kw_only=True, tag_field="kind", tag="pin"):
    """A message must survive every compaction word for word, or no longer need to."""

    target: EntryId
    pinned: bool


class ModeChanged(Struct, frozen=True, kw_only=True, tag_field="kind", tag="mode"):
    """The permission mode from here on."""

    mode: str


class Noted(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="note"):
    """Something for people, never for the model: a tool summary, an error, a warning."""

    topic: str
    text: str
    data: dict[str, object] = {}


class UnknownBody(Struct, frozen=True):
    """A body that this release cannot read, byte for byte as it was found."""

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
    | Noted
)
Body: TypeAlias = KnownBody | UnknownBody


class Entry(Struct, frozen=True, kw_only=True):
    """One line of the journal."""

    id: EntryId
    at: float
    """Seconds since the epoch, for people; order is given by `id` alone."""
    schema: int = SCHEMA
    body: Body


class SessionRecord(Struct, frozen=True, kw_only=True):
    """What a list of sessions shows, readable without the journal."""

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
_envelope = msgspec.json.Decoder(_Envelope)
_known: msgspec.json.Decoder[KnownBody] = msgspec.json.Decoder(KnownBody)
_kind = msgspec.json.Decoder(_Kind)
_KINDS = frozenset(body.__struct_config__.tag for body in get_args(KnownBody))


def encode(entry: Entry) -> bytes:
    """Return the one-line JSON of `entry`; an unknown body keeps its bytes."""
    body = entry.body.raw if isinstance(entry.body, UnknownBody) else _encoder.encode(entry.body)
    return _encoder.encode(
        _Envelope(id=entry.id, at=entry.at, schema=entry.schema, body=msgspec.Raw(body))
    )


def decode(line: bytes) -> Entry:
    """Read what `encode` wrote, in this release or another.

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


def spending_of(body: Body) -> Spending:
    """Return what the model call behind `body` cost; zero for an entry without a call."""
    match body:
        case MessageAdded(usage=None, cost=None, uncounted=False):
            return Spending()
        case MessageAdded(usage=usage, cost=cost) | Charged(usage=usage, cost=cost):
            return Spending(
                usd=cost or 0.0,
                calls=1,
                unpriced=cost is None,
                uncounted=usage is None,
                usage=usage or Usage(),
            )
        case _:
            return Spending()


def total_spending(entries: Iterable[Entry]) -> Spending:
    """Return what all of `entries` cost together."""
    return sum((spending_of(entry.body) for entry in entries), Spending())
