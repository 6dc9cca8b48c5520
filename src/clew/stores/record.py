"""The record of a session: what a store knows of it without reading its entries.

Each batch of entries updates the record by what it adds. No store ever counts, so a turn costs
the same however long the session is.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from clew.core.entries import Entry, MessageAdded, SessionRecord, SetupChanged
from clew.core.errors import SessionError
from clew.core.ids import EntryId, SessionId, new_session_id
from clew.core.json_text import decode_json
from clew.core.messages import Message, Role
from clew.core.text import replace_surrogates

_MOST_WORDS = 200
_LOOKED_AT = 2_000
"""Characters of a message from which its first words are taken."""
_ADDED = ("<", "# AGENTS.md instructions", "Caveat: ")
"""How messages begin that other agent programs write in the name of the user."""
COLUMNS = (
    *("id", "cwd", "name", "created_at", "updated_at", "parent", "forked_at", "model"),
    *("title", "last_words", "entries", "messages", "size", "kind", "extra"),
)
"""The fields of a record, in the order in which databases select them."""
AGENT_KIND = "agent"
"""The `kind` of sessions of subagents: lists for people leave them out, and they are deleted with
the session that started them."""


class StoredSession(SessionRecord, frozen=True, kw_only=True):
    """A session as lists show it; the store computes the counts from the entries."""

    parent: SessionId | None = None
    """The session that this one was forked from; of an agent, the session that started it."""
    forked_at: EntryId | None = None
    """The last entry that it has in common with its parent."""
    model: str = ""
    """The model that was set last."""
    title: str = ""
    """The user's first words."""
    last_words: str = ""
    """The newest words of the user or the model."""
    entries: int = 0
    messages: int = 0
    size: int = 0
    """Bytes of all entries."""
    kind: str = ""
    """`AGENT_KIND` for the session of a subagent; empty for one that a person uses."""
    extra: dict[str, object] = msgspec.field(default_factory=dict)
    """Fields that other parts of the program set with `Store.annotate`."""

    @property
    def heading(self) -> str:
        """The name of the session, or else its first words."""
        return self.name or self.title


def new_record(record: SessionRecord) -> StoredSession:
    """Return the record of a session without entries, with text that every store accepts."""
    full = record if isinstance(record, StoredSession) else StoredSession(**asdict(record))
    return StoredSession(
        id=full.id,
        cwd=clean_for_storage(full.cwd),
        name=clean_for_storage(full.name),
        created_at=full.created_at,
        updated_at=full.updated_at,
        parent=full.parent,
        forked_at=full.forked_at,
        kind=clean_for_storage(full.kind),
        extra=merge_extra({}, full.extra),
    )


def fork_record(
    record: StoredSession, *, last: EntryId | None, name: str, now: float
) -> StoredSession:
    """Return the record of a new session with the entries of another one up to `last`.

    A fork of an agent's session is an ordinary session: a person forked it to use it.
    """
    return StoredSession(
        id=new_session_id(),
        cwd=record.cwd,
        name=clean_for_storage(name),
        created_at=now,
        updated_at=now,
        parent=record.id,
        forked_at=last,
        extra=record.extra,
    )


def record_from_row(row: Sequence[Any]) -> StoredSession:
    """Return the record in a row with `COLUMNS`; `extra` is JSON.

    A field that a damaged file has lost is empty, so that the entries can still be read.
    """
    *plain, extra = row
    fields = dict(zip(COLUMNS[:-1], plain, strict=True))
    try:
        return msgspec.convert({**fields, "extra": decode_json(extra)}, StoredSession)
    except (msgspec.DecodeError, TypeError, ValueError):
        return _repair({**fields, "extra": extra})


def _repair(fields: Mapping[str, Any]) -> StoredSession:
    empty = StoredSession(id=SessionId(""), cwd="", created_at=0.0, updated_at=0.0)
    sound: dict[str, Any] = {}
    for field in msgspec.structs.fields(StoredSession):
        value = fields[field.name]
        with suppress(msgspec.DecodeError, TypeError, ValueError):
            if field.name == "extra":
                value = decode_json(value, type=dict[str, object])
            sound[field.name] = msgspec.convert(value, field.type)
    return replace(empty, **sound)


def clean_for_storage(text: str) -> str:
    """Replace characters that a text column of a database may reject."""
    return replace_surrogates(text).replace("\x00", "\ufffd")


def merge_extra(extra: Mapping[str, object], fields: Mapping[str, object]) -> dict[str, object]:
    """Return `extra` with `fields` set, as they will be read back; None removes a field.

    Raises:
        SessionError: A field cannot be stored as JSON.
    """
    try:
        made = decode_json(msgspec.json.encode(fields), type=dict[str, object])
    except (TypeError, ValueError) as error:
        raise SessionError(f"the fields cannot be stored as JSON: {error}") from error
    return {key: value for key, value in {**extra, **made}.items() if value is not None}


class Growth(Struct, frozen=True, kw_only=True):
    """What a batch of entries adds to the record of its session."""

    first: EntryId
    last: EntryId
    at: float
    entries: int
    messages: int
    size: int
    title: str
    """The user's first words in this batch; an existing title stays."""
    last_words: str
    model: str

    @classmethod
    def of(cls, entries: Sequence[Entry], lines: Sequence[bytes]) -> "Growth":
        """Compute it for at least one entry; `lines` are the entries as stored."""
        bodies = [entry.body for entry in entries if isinstance(entry.body, MessageAdded)]
        said = [body.message for body in bodies if body.message.role is not Role.TOOL]
        asked = (_find_words(message) for message in said if message.role is Role.USER)
        return cls(
            first=entries[0].id,
            last=entries[-1].id,
            at=max(entry.at for entry in entries),
            entries=len(entries),
            messages=len(bodies),
            size=sum(map(len, lines)),
            title=next(_words(asked), ""),
            last_words=next(_words(map(_find_words, reversed(said))), ""),
            model=next(_models(reversed(entries)), ""),
        )

    def apply_to(self, record: StoredSession) -> StoredSession:
        """Return the record after the batch; its time never runs backwards."""
        return replace(
            record,
            updated_at=max(record.updated_at, self.at),
            entries=record.entries + self.entries,
            messages=record.messages + self.messages,
            size=record.size + self.size,
            title=record.title or self.title,
            last_words=self.last_words or record.last_words,
            model=self.model or record.model,
        )


class SearchHit(Struct, frozen=True, kw_only=True):
    """A session that a search found."""

    session: StoredSession
    entry_id: EntryId | None = None
    """The newest entry that matches; None when only the name does."""
    matches: int = 0
    """How many entries match."""
    excerpt: str = ""
    """The text of that entry around the words of the query."""


def _find_words(message: Message) -> str:
    """Return what a person or the model said, without what programs put before it."""
    text = message.text
    if message.role is not Role.USER or not text.lstrip().startswith(_ADDED):
        return text
    # Its patterns take a while to compile, and messages of Clew itself do not begin like this.
    from clew.context.digest.user_words import find_request  # noqa: PLC0415

    return find_request(text)


def _words(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        words = " ".join(clean_for_storage(text[:_LOOKED_AT]).split())
        if words:
            yield words[:_MOST_WORDS]


def _models(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry.body, SetupChanged) and entry.body.model.name:
            yield clean_for_storage(entry.body.model.name)
