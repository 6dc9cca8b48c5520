"""Snapshots of a journal: with one, a long session opens without reading every entry."""

import logging
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from clew._version import __version__
from clew.context.estimate import Meter
from clew.context.snapshot import Snapshot, restore_view, take_snapshot
from clew.context.view import View, fold
from clew.core.entries import (
    Body,
    Entry,
    MessageAdded,
    Rewound,
    Undone,
    spending_of,
    total_spending,
)
from clew.core.errors import StoreError
from clew.core.ids import CallId, EntryId, SessionId
from clew.core.usage import Spending
from clew.stores.protocol import Store
from clew.stores.stored_entries import StoredEntries

logger = logging.getLogger(__name__)

_SELDOM = 512
_SHARE = 8


class JournalState(Struct, frozen=True, kw_only=True):
    """What is computed from the entries of a journal."""

    view: View
    spending: Spending
    call_ids: set[CallId]
    kept: int = 0
    """The number of entries in the snapshot that it was computed from."""


class _Kept(Struct, frozen=True, kw_only=True):
    release: str
    """A snapshot of another release is not used: its view may differ."""
    view: Snapshot
    spending: Spending
    call_ids: list[CallId]


_decoder = msgspec.msgpack.Decoder(_Kept)


def encode_snapshot(
    view: View, spent: Spending, call_ids: Iterable[CallId], entries: Sequence[Entry]
) -> bytes:
    """Return a snapshot; empty where the view cannot be stored."""
    taken = take_snapshot(view, entries)
    if taken is None:
        return b""
    kept = _Kept(release=__version__, view=taken, spending=spent, call_ids=list(call_ids))
    return msgspec.msgpack.encode(kept)


async def save_snapshot(store: Store, session_id: SessionId, data: bytes) -> None:
    """Store a snapshot unless it is empty; a failure is logged, because a session works without."""
    if not data:
        return
    try:
        await store.save_snapshot(session_id, data)
    except StoreError as error:
        logger.warning("the snapshot of session %s could not be stored: %s", session_id, error)


def find_damaged(entries: Sequence[Entry], view: View) -> list[EntryId]:
    """Read everything in a view; returns the entries that are damaged."""
    if not isinstance(entries, StoredEntries):
        return []
    known = len(entries.torn)
    list(view.items)
    return entries.torn[known:]


def is_snapshot_due(count: int, kept: int) -> bool:
    """Return True when an eighth of `count` entries came after the last snapshot, which has `kept`.

    A snapshot is as long as the journal, so its cost per entry stays the same.
    """
    return count - kept >= max(_SELDOM, count // _SHARE)


def load_state(
    entries: Sequence[Entry], meter: Meter, snapshot: bytes | None = None
) -> JournalState:
    """Compute the state of a journal, from a snapshot and the entries after it if possible."""
    known = _from_snapshot(entries, meter, snapshot) if snapshot else None
    if known is not None:
        return known
    return JournalState(
        view=fold(entries, meter=meter),
        spending=total_spending(entries),
        call_ids={call_id for entry in entries for call_id in call_ids_of(entry.body)},
    )


def call_ids_of(body: Body) -> Iterator[CallId]:
    """Yield the ids of the tool calls in an entry."""
    if isinstance(body, MessageAdded):
        for call in body.message.calls:
            yield call.call_id


def _from_snapshot(entries: Sequence[Entry], meter: Meter, snapshot: bytes) -> JournalState | None:
    try:
        kept = _decoder.decode(snapshot)
    except msgspec.DecodeError:
        return None
    count = kept.view.count
    if kept.release != __version__ or count > len(entries):
        return None
    since = entries[count:]
    if any(isinstance(entry.body, Undone | Rewound) for entry in since):
        return None
    view = restore_view(kept.view, entries, meter)
    if view is None:
        return None
    spent, call_ids = kept.spending, set(kept.call_ids)
    for entry in since:
        view = view.apply(entry)
        spent += spending_of(entry.body)
        call_ids.update(call_ids_of(entry.body))
    return JournalState(view=view, spending=spent, call_ids=call_ids, kept=count)
