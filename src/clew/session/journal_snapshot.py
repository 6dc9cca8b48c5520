"""Snapshots of a journal: with one, a long session opens without reading every entry."""

import logging
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from clew._version import __version__
from clew.context.estimate import Meter
from clew.context.snapshot import Snapshot, restore_view, take_snapshot
from clew.context.view import View
from clew.core.entries import Entry, Rewound, Undone, spending_of
from clew.core.errors import StoreError
from clew.core.ids import CallId, SessionId
from clew.core.usage import Spending
from clew.session.journal_state import JournalState, call_ids_of, load_state
from clew.stores.protocol import Store

logger = logging.getLogger(__name__)


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


def restore_state(entries: Sequence[Entry], meter: Meter, snapshot: bytes) -> JournalState:
    """Compute the state of a journal, from a snapshot and the entries after it if possible."""
    return _from_snapshot(entries, meter, snapshot) or load_state(entries, meter)


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
