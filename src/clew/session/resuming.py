"""What a journal knows beside its entries, kept so that it can be opened without reading them."""

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


class Standing(Struct, frozen=True, kw_only=True):
    """Where a journal stands after its last entry."""

    view: View
    spending: Spending
    call_ids: set[CallId]
    kept: int = 0
    """How many entries are in the snapshot that it came from."""


class _Kept(Struct, frozen=True, kw_only=True):
    release: str
    """What another release folds may be another view."""
    view: Snapshot
    spending: Spending
    call_ids: list[CallId]


_decoder = msgspec.msgpack.Decoder(_Kept)


def pack(
    view: View, spent: Spending, call_ids: Iterable[CallId], entries: Sequence[Entry]
) -> bytes:
    """Return a snapshot of where a journal stands; empty where there cannot be one."""
    taken = take_snapshot(view, entries)
    if taken is None:
        return b""
    kept = _Kept(release=__version__, view=taken, spending=spent, call_ids=list(call_ids))
    return msgspec.msgpack.encode(kept)


async def keep(store: Store, session_id: SessionId, data: bytes) -> None:
    """Have a store keep a snapshot, if there is one; a session goes on without it."""
    if not data:
        return
    try:
        await store.save_snapshot(session_id, data)
    except StoreError as error:
        logger.warning("no snapshot of session %s was kept: %s", session_id, error)


def torn(entries: Sequence[Entry], view: View) -> list[EntryId]:
    """Read all that a view shows; returns the entries that turn out to be damaged."""
    if not isinstance(entries, StoredEntries):
        return []
    known = len(entries.torn)
    list(view.items)
    return entries.torn[known:]


def is_due(count: int, kept: int) -> bool:
    """Say whether so many entries deserve a new snapshot: when an eighth of them is new.

    A snapshot is as long as the journal; made that seldom, it costs each entry the same.
    """
    return count - kept >= max(_SELDOM, count // _SHARE)


def stand(entries: Sequence[Entry], meter: Meter, snapshot: bytes | None = None) -> Standing:
    """Find out where a journal stands, from a snapshot and what came after it if possible."""
    known = _from_snapshot(entries, meter, snapshot) if snapshot else None
    if known is not None:
        return known
    return Standing(
        view=fold(entries, meter=meter),
        spending=total_spending(entries),
        call_ids={call_id for entry in entries for call_id in asked(entry.body)},
    )


def asked(body: Body) -> Iterator[CallId]:
    """Return the ids of the calls that a message makes."""
    if isinstance(body, MessageAdded):
        for call in body.message.calls:
            yield call.call_id


def _from_snapshot(entries: Sequence[Entry], meter: Meter, snapshot: bytes) -> Standing | None:
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
        call_ids.update(asked(entry.body))
    return Standing(view=view, spending=spent, call_ids=call_ids, kept=count)
