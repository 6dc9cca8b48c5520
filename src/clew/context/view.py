"""What the model would be shown now: a fold over the journal.

`fold(entries)` and applying the same entries one by one give the same view. Nothing here
is stored: a view can always be computed again from the journal.
"""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from clew.context.estimate import text_units, tool_units
from clew.context.items import Item, Items, Kind
from clew.core.entries import (
    Body,
    Cleared,
    Compacted,
    Entry,
    MessageAdded,
    ModeChanged,
    Noted,
    PinChanged,
    SetupChanged,
    Undone,
    UnknownBody,
)
from clew.core.ids import EntryId
from clew.core.messages import Message, Part, Text, ToolResult, assistant
from clew.core.models import ModelFacts

SUMMARY_HEADING = "[Context Summary]"
_NO_SETUP = SetupChanged(model=ModelFacts(name=""))
_MIN_RATIO, _MAX_RATIO = 0.25, 4.0


class Anchor(Struct, frozen=True, kw_only=True):
    """A provider's own count: the first `length` items, with the setup, were `tokens`."""

    length: int
    tokens: int


class View(Struct, frozen=True, kw_only=True):
    """The conversation as a model would read it, and what is known about its size."""

    setup: SetupChanged = _NO_SETUP
    system_units: int = 0
    tool_units: int = 0
    items: Items = field(default_factory=Items)
    archived: tuple[Item, ...] = ()
    """Messages that left the view by compaction, oldest first."""
    pinned: frozenset[EntryId] = frozenset()
    mode: str = ""
    anchor: Anchor | None = None
    """None when a compaction, clear or undo came after the last count."""
    ratio: float = 1.0
    """Tokens that one estimated unit was worth in the provider's last count."""
    undoable: tuple[EntryId, ...] = ()
    """Compactions and clears that still count, oldest first."""

    @property
    def units(self) -> int:
        """Estimated size of the whole request."""
        return self.system_units + self.tool_units + self.items.units()

    @property
    def summary(self) -> str:
        """The summary in force, without its heading; empty when there is none."""
        if not self.items or self.items[0].kind is not Kind.SUMMARY:
            return ""
        return self.items[0].message.text.removeprefix(SUMMARY_HEADING).lstrip("\n")

    def apply(self, entry: Entry) -> "View":
        """Return the view after `entry`.

        An `Undone` entry needs the entries before it: use `fold` for those.
        """
        return _apply(self, entry.id, entry.body)


def fold(entries: Iterable[Entry]) -> View:
    """Compute the view that a whole journal leads to."""
    entries = list(entries)
    undone = _undone(entries)
    view = View()
    for entry in entries:
        if entry.id in undone:
            continue
        stale = any(target < entry.id < undo for target, undo in undone.items())
        view = view.apply(_without_usage(entry) if stale else entry)
    return view


def advance(view: View, journal: Sequence[Entry]) -> View:
    """Bring `view` up to date with the newest entry of `journal`.

    Costs no more than that entry, save for an undo, which is rare and folds anew.
    """
    if isinstance(journal[-1].body, Undone):
        return fold(journal)
    return view.apply(journal[-1])


def _undone(entries: Sequence[Entry]) -> dict[EntryId, EntryId]:
    """Return what no longer counts, and which entry says so."""
    undone: dict[EntryId, EntryId] = {}
    for entry in reversed(entries):
        if isinstance(entry.body, Undone) and entry.id not in undone:
            undone[entry.body.target] = entry.id
    return undone


def _without_usage(entry: Entry) -> Entry:
    """Drop a count that was made while something was in force that no longer is."""
    if isinstance(entry.body, MessageAdded) and entry.body.usage is not None:
        body = msgspec.structs.replace(entry.body, usage=None)
        return msgspec.structs.replace(entry, body=body)
    return entry


def _apply(view: View, entry_id: EntryId, body: Body) -> View:
    match body:
        case MessageAdded():
            return _add(view, entry_id, body)
        case Compacted():
            return _compact(view, entry_id, body)
        case Cleared():
            return replace(view, items=Items(), anchor=None, undoable=(*view.undoable, entry_id))
        case SetupChanged():
            return replace(
                view,
                setup=body,
                system_units=text_units(body.system),
                tool_units=tool_units(body.tools) if body.model.calls_tools else 0,
                anchor=None,
            )
        case PinChanged(target=target, pinned=True):
            return replace(view, pinned=view.pinned | {target})
        case PinChanged(target=target):
            return replace(view, pinned=view.pinned - {target})
        case ModeChanged(mode=mode):
            return replace(view, mode=mode)
        case Undone():
            return replace(view, anchor=None)
        case Noted() | UnknownBody():
            return view


def _add(view: View, entry_id: EntryId, body: MessageAdded) -> View:
    items = view.items.append(Item.of(entry_id, body.message))
    if body.usage is None or body.usage.context_tokens <= 0:
        return replace(view, items=items)
    tokens = body.usage.context_tokens
    units = view.system_units + view.tool_units + items.units()
    return replace(
        view,
        items=items,
        anchor=Anchor(length=len(items), tokens=tokens),
        ratio=min(max(tokens / units, _MIN_RATIO), _MAX_RATIO),
    )


def _compact(view: View, entry_id: EntryId, body: Compacted) -> View:
    dropped = frozenset(body.dropped)
    texts = {change.entry_id: change.text for change in body.replaced}
    kept = [
        _replaced(item, texts[item.entry_id]) if item.entry_id in texts else item
        for item in view.items
        if item.entry_id not in dropped
    ]
    gone = [
        item for item in view.items if item.entry_id in dropped and item.kind is not Kind.SUMMARY
    ]
    if body.summary:
        summary = assistant(f"{SUMMARY_HEADING}\n{body.summary}")
        kept.insert(0, Item.of(entry_id, summary, Kind.SUMMARY))
    return replace(
        view,
        items=Items(kept),
        archived=(*view.archived, *gone),
        anchor=None,
        undoable=(*view.undoable, entry_id),
    )


def _replaced(item: Item, text: str) -> Item:
    message = item.message
    parts = tuple(_with_text(part, text) for part in message.parts)
    shorter = Message(role=message.role, parts=parts, interrupted=message.interrupted)
    return Item.of(item.entry_id, shorter, item.kind)


def _with_text(part: Part, text: str) -> Part:
    match part:
        case ToolResult(call_id=call_id, name=name, failed=failed):
            return ToolResult(call_id=call_id, name=name, text=text, failed=failed)
        case Text():
            return Text(text)
        case _:
            return part
