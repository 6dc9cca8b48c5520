"""Snapshot of a view: the result of a fold without the messages.

With a snapshot, a journal opens without reading its entries: each message is read and
measured on first access. A snapshot is only a cache. Without a matching one, folding the
journal gives the same view.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clew.context.estimate import Framing, Meter
from clew.context.items import Item, ItemIndex, ItemKind, Items, Tally, outgoing_message
from clew.context.lazy_list import LazyList, LazyMapping
from clew.context.view import Anchor, View
from clew.core.entries import Entry, MessageAdded, SetupChanged
from clew.core.ids import EntryId
from clew.core.json_text import decode_json
from clew.core.messages import Message, user
from clew.core.models import Calibration
from clew.core.todos import TodoItem

_UNREADABLE = user("[this message was damaged on disk and cannot be read]")
"""Replaces a message that was readable when the snapshot was made."""
_Measure: TypeAlias = Callable[[EntryId, Message, ItemKind | None], Item]
_PROBES = ("The quick brown fox", "def f(x):\n    return x[0]", "計算機 Ω 🧵", "0x1F 3.14159")


class _PackedItems(Struct, frozen=True, array_like=True):
    """Items: index and totals, and the messages that differ from their entries."""

    known: ItemIndex
    tally: Tally
    changed: dict[int, tuple[ItemKind, Message]]


class Snapshot(Struct, frozen=True, kw_only=True):
    """A view after the first `count` entries of a journal."""

    count: int
    meter: tuple[int, ...]
    """Measures of some sample texts and the framing, which identify how items were measured."""
    setup: bytes
    system_units: int
    tool_units: int
    items: _PackedItems
    archived: _PackedItems
    originals: dict[EntryId, Message | None]
    """Messages before they were shortened; None for the message of the entry."""
    notes: str
    pinned: frozenset[EntryId]
    mode: str
    anchor: Anchor | None
    calibration: Calibration
    undoable: tuple[EntryId, ...]
    restored: frozenset[EntryId]
    tools_used: bool
    settled: int
    calls: int
    called_at: float
    todos: tuple[TodoItem, ...] = ()


def take_snapshot(view: View, entries: Sequence[Entry]) -> Snapshot | None:
    """Return a snapshot of the view after `entries`; None if it cannot represent the view."""
    if not entries or entries[-1].id != len(entries):
        return None
    shown, gone = _pack(view.items, entries), _pack(view.archived, entries)
    if shown is None or gone is None:
        return None
    return Snapshot(
        count=len(entries),
        meter=_measure_probes(view.meter, view.framing),
        setup=msgspec.json.encode(view.setup),
        system_units=view.system_units,
        tool_units=view.tool_units,
        items=shown,
        archived=gone,
        originals={
            entry_id: None
            if item is None or item.message is _message_of(entries, entry_id)
            else item.message
            for entry_id, item in view.originals.iter_made()
        },
        notes=view.notes,
        pinned=view.pinned,
        mode=view.mode,
        anchor=view.anchor,
        calibration=view.calibration,
        undoable=view.undoable,
        restored=view.restored,
        tools_used=view.tools_used,
        settled=view.settled,
        calls=view.calls,
        called_at=view.called_at,
        todos=view.todos,
    )


def restore_view(snapshot: Snapshot, entries: Sequence[Entry], meter: Meter) -> View | None:
    """Return the view of a snapshot; None if another meter measured it."""
    setup = decode_json(snapshot.setup, type=SetupChanged)
    empty = View(setup=setup, meter=meter)
    if snapshot.meter != _measure_probes(meter, empty.framing):
        return None
    return replace(
        empty,
        system_units=snapshot.system_units,
        tool_units=snapshot.tool_units,
        items=_unpack(snapshot.items, entries, empty.measure),
        archived=_unpack(snapshot.archived, entries, empty.measure),
        originals=_unpack_originals(snapshot.originals, entries, empty.measure),
        notes=snapshot.notes,
        pinned=snapshot.pinned,
        mode=snapshot.mode,
        anchor=snapshot.anchor,
        calibration=snapshot.calibration,
        undoable=snapshot.undoable,
        restored=snapshot.restored,
        tools_used=snapshot.tools_used,
        settled=snapshot.settled,
        calls=snapshot.calls,
        called_at=snapshot.called_at,
        todos=snapshot.todos,
    )


def _pack(items: Items, entries: Sequence[Entry]) -> _PackedItems | None:
    known, tally = items.export_index()
    if tally.outgoing != len(items):
        # An empty message is not sent, so indices would differ. This is rare.
        return None
    changed = {
        index: (item.kind, item.message)
        for index, item in items.iter_made()
        if item.message is not _message_of(entries, item.entry_id)
    }
    return _PackedItems(known, tally, changed)


def _unpack(shown: _PackedItems, entries: Sequence[Entry], measure: _Measure) -> Items:
    ids, changed = shown.known.ids, shown.changed

    def item(index: int) -> Item:
        kind, message = changed.get(index) or (
            None,
            _message_of(entries, ids[index]) or _UNREADABLE,
        )
        return measure(ids[index], message, kind)

    def load_message(index: int) -> Message:
        message = None if index in changed else _message_of(entries, ids[index])
        return outgoing_message(items[index]) if message is None else message

    items = LazyList(len(ids), item)
    for index in changed:
        # Make changed items now: an item that is not made is its entry's own message.
        items[index]
    return Items.restore(
        items, LazyList(len(ids), load_message), known=shown.known, tally=shown.tally
    )


def _unpack_originals(
    packed: dict[EntryId, Message | None], entries: Sequence[Entry], measure: _Measure
) -> LazyMapping[EntryId, Item]:
    def load(entry_id: EntryId) -> Item:
        return measure(entry_id, _message_of(entries, entry_id) or _UNREADABLE, None)

    made = {
        key: None if message is None else measure(key, message, None)
        for key, message in packed.items()
    }
    return LazyMapping(made, load)


def _message_of(entries: Sequence[Entry], entry_id: EntryId) -> Message | None:
    """Return the message of an entry, or None."""
    body = entries[entry_id - 1].body if 0 < entry_id <= len(entries) else None
    return body.message if isinstance(body, MessageAdded) else None


def _measure_probes(meter: Meter, framing: Framing) -> tuple[int, ...]:
    return (*map(meter, _PROBES), *map(int, msgspec.structs.astuple(framing)))
