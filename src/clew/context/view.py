"""`View`: what the model would see now, as a fold over the journal.

`fold(entries)` and applying the same entries one by one give the same view. A view is never
stored: it can always be computed again from the journal.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from clew.context.calibration import convert_tokens, default_for, learn
from clew.context.cuts import split_items
from clew.context.estimate import Framing, Meter, system_units, text_units, tool_units
from clew.context.items import NO_ITEMS, Item, ItemKind, Items, sort_items
from clew.context.lazy_list import LazyMapping, Memo
from clew.context.model_family import family_of
from clew.context.reasoning import strip_reasoning
from clew.context.shortened_items import apply_replacement
from clew.context.todo_list import update_todos
from clew.context.undone_entries import UndoneEntries, drop_usage, find_changed, find_undone_entries
from clew.core.entries import (
    Body,
    Cleared,
    Compacted,
    Entry,
    MessageAdded,
    ModeChanged,
    PinChanged,
    ReasoningDropped,
    Replacement,
    ResultsCleared,
    Rewound,
    SetupChanged,
    Undone,
)
from clew.core.ids import EntryId
from clew.core.messages import Message, assistant
from clew.core.models import Calibration, ModelFacts
from clew.core.todos import TodoItem
from clew.core.usage import Usage

SUMMARY_HEADING = "[Context Summary]"
_MOST_PER_UNIT, _MOST_HIDDEN = 20, 1_000_000
_SUMMARY = ItemKind.SUMMARY
_LOOKING_BACK = (Undone, Rewound)
_NO_SETUP = SetupChanged(model=ModelFacts(name=""))


class Anchor(Struct, frozen=True, gc=False, kw_only=True):
    """A provider's own count: the first `length` items, with the setup, were `tokens`."""

    length: int
    tokens: int
    units: int
    """The estimate of the view when it was counted."""


class View(Struct, frozen=True, gc=False, kw_only=True):
    """The conversation as the model would read it, and facts about its size."""

    setup: SetupChanged = _NO_SETUP
    system_units: int = 0
    tool_units: int = 0
    items: Items = NO_ITEMS
    archived: Items = NO_ITEMS
    """Messages that compactions dropped, oldest first, in their original text."""
    originals: LazyMapping[EntryId, Item] = LazyMapping()
    """The items whose text in the view is a marker or shortened, as they were."""
    notes: str = ""
    """The part of the summary in force that a model wrote."""
    pinned: frozenset[EntryId] = frozenset()
    mode: str = ""
    todos: tuple[TodoItem, ...] = ()
    """The todo list; compactions keep it."""
    anchor: Anchor | None = None
    """None if a compaction or a clear came after the last count. An undo brings back the count
    from before the change that it takes back."""
    calibration: Calibration = Calibration()
    """How tokens follow from units, learned from all counts so far."""
    meter: Meter = text_units
    undoable: tuple[EntryId, ...] = ()
    """Compactions, cleared results, clears and rewinds in force, oldest first."""
    restored: frozenset[EntryId] = frozenset()
    """Messages that an undo brought back since the last compaction. They leave the view again
    only when the window is full, not to save cost."""
    tools_used: bool = False
    """True after the first tool call, even if a compaction dropped it."""
    settled: int = 0
    """Leading items that clearing of results will not change again: a good cache prefix."""
    calls: int = 0
    """The model's answers so far, with or without a provider's count."""
    called_at: float = 0.0
    """Time of the last of them."""
    memo: Memo = field(default_factory=Memo)
    """Shared with the views that follow, which continue what it holds."""

    @property
    def units(self) -> int:
        """Estimated size of the whole request."""
        return self.count_units(self.items)

    def count_units(self, items: Items) -> int:
        """Return the estimated size of the whole request, if it had these items."""
        whole = self.system_units + self.tool_units + items.units()
        return whole - self.count_forgotten(items)

    @property
    def forgotten_units(self) -> int:
        """Thinking in the items that the model's provider no longer counts."""
        return self.count_forgotten(self.items)

    def count_forgotten(self, items: Items) -> int:
        """Return the thinking in `items` that the model's provider no longer counts."""
        return 0 if family_of(self.setup.model.name).keeps_reasoning else items.past_reasoning

    @property
    def framing(self) -> Framing:
        """What the format of the model's requests adds to their texts."""
        return family_of(self.setup.model.name).framing

    def measure(self, entry_id: EntryId, message: Message, kind: ItemKind | None = None) -> Item:
        """Return `message` as an item, measured as the model counts."""
        return Item.of(entry_id, message, kind, meter=self.meter, framing=self.framing)

    def units_for(self, tokens: int) -> int:
        """Convert tokens of the model to estimated units."""
        return convert_tokens(self.calibration, tokens)

    @property
    def summary(self) -> str:
        """The summary in force, without its heading; empty if there is none."""
        if not self.items or self.items[0].kind is not _SUMMARY:
            return ""
        return self.items[0].message.text.removeprefix(SUMMARY_HEADING).lstrip("\n")

    def list_conversation(self) -> list[Item]:
        """Return all messages since the last clear, in order and in their original text."""
        items = self.items[1:] if self.items and self.items[0].kind is _SUMMARY else self.items
        return sort_items(self.restore_texts([*self.archived, *items]))

    def restore_texts(self, items: Sequence[Item]) -> Sequence[Item]:
        """Return `items` with the text that they had before they were cleared or shortened."""
        if not self.originals:
            return items
        return [self.originals.get(item.entry_id, item) for item in items]

    def reduce_items(
        self,
        staying: Iterable[Item],
        replaced: Iterable[Replacement],
        *,
        entry_id: EntryId,
        summary: str,
        inserted: Iterable[Message] = (),
    ) -> Items:
        """Return the items after the compaction of `entry_id`, which left those in `staying`."""
        made = [make_summary(self, entry_id, summary)] if summary else []
        made += [self.measure(entry_id, message) for message in inserted]
        return Items([*made, *_replace_texts(self, staying, replaced)])

    def apply(self, entry: Entry) -> "View":
        """Return the view after `entry`.

        An `Undone` or `Rewound` entry needs the entries before it: use `fold` for those.
        """
        return _apply(self, entry)


def fold(entries: Iterable[Entry], *, meter: Meter = text_units) -> View:
    """Compute the view after all `entries`; `meter` measures texts."""
    entries = list(entries)
    return continue_fold(View(meter=meter), entries, find_undone_entries(entries))


def continue_fold(
    view: View, entries: Iterable[Entry], gone: UndoneEntries, *, is_prompt_undone: bool = False
) -> View:
    """Compute the view after `entries`, which follow those of `view`.

    Args:
        view: The view before them.
        entries: The entries to apply.
        gone: Which of them have no effect.
        is_prompt_undone: The last message before them was undone.
    """
    for entry in entries:
        if isinstance(entry.body, MessageAdded):
            is_prompt_undone = entry.id in gone.undone
        if gone.counts(entry):
            view = view.apply(drop_usage(entry) if entry.id in gone.stale else entry)
        elif entry.id in gone.undone and not is_prompt_undone:
            # What a prompt that did not fit caused is undone with it; no request asks for it.
            view = replace(view, restored=view.restored | find_changed(entry))
    return view


def advance(view: View, journal: Sequence[Entry]) -> View:
    """Apply the newest entry of `journal` to `view`.

    The cost is that of one entry. Only an undo or a rewind folds the whole journal.
    """
    newest = journal[-1]
    if isinstance(newest.body, _LOOKING_BACK):
        return fold(journal, meter=view.meter)
    return view.apply(newest)


def _apply(view: View, entry: Entry) -> View:
    entry_id = entry.id
    match entry.body:
        case MessageAdded() as body:
            return _add_message(view, entry, body)
        case Compacted() as body:
            return _compact(view, entry_id, body)
        case ResultsCleared(replaced=replaced):
            items = Items(_replace_texts(view, view.items, replaced))
            return replace(
                view,
                items=items,
                originals=_remember(view, replaced),
                anchor=None,
                settled=_count_settled(items, replaced),
                undoable=(*view.undoable, entry_id),
            )
        case Cleared():
            return replace(
                view,
                items=NO_ITEMS,
                archived=NO_ITEMS,
                originals=LazyMapping(),
                notes="",
                todos=(),
                anchor=None,
                tools_used=False,
                settled=0,
                undoable=(*view.undoable, entry_id),
            )
        case ReasoningDropped(targets=targets):
            return replace(view, items=Items(_strip_items(view, frozenset(targets))), anchor=None)
        case Rewound():
            return replace(view, undoable=(*view.undoable, entry_id))
        case other:
            return _apply_setting(view, other)


def _apply_setting(view: View, body: Body) -> View:
    match body:
        case SetupChanged():
            return _apply_setup(view, body)
        case PinChanged(target=target, pinned=True):
            return replace(view, pinned=view.pinned | {target})
        case PinChanged(target=target):
            return replace(view, pinned=view.pinned - {target})
        case ModeChanged(mode=mode):
            return replace(view, mode=mode)
        case _:
            # The others do not change what the model gets.
            return view


def _apply_setup(view: View, body: SetupChanged) -> View:
    is_same = body.model.name == view.setup.model.name
    calibration = body.calibration
    if calibration is None:
        exact = view.meter is not text_units
        calibration = view.calibration if is_same else default_for(body.model.name, exact=exact)
        if is_same and (body.system or body.tools) and not (view.setup.system or view.setup.tools):
            # The count included an unrecorded prompt, as in a session imported from another
            # tool. This setup records its own.
            calibration = replace(calibration, units=0, tokens=0, base_units=0, base_tokens=0)
    framing = family_of(body.model.name).framing
    changed = replace(
        view,
        setup=body,
        system_units=system_units(body.system, view.meter, framing),
        tool_units=tool_units(body.tools if body.model.calls_tools else (), view.meter, framing),
        anchor=None,
        calibration=calibration,
    )
    return changed if framing == view.framing else _measure_again(changed)


def _measure_again(view: View) -> View:
    """Measure all items as another model counts."""

    def measure(item: Item) -> Item:
        return view.measure(item.entry_id, item.message, item.kind)

    return replace(
        view,
        items=Items(map(measure, view.items)),
        archived=Items(map(measure, view.archived)),
        originals=LazyMapping({key: measure(item) for key, item in view.originals.items()}),
    )


def _add_message(view: View, entry: Entry, body: MessageAdded) -> View:
    item = view.measure(entry.id, body.message)
    items = view.items.append(item)
    is_answer = item.kind is ItemKind.ASSISTANT
    anchor, calibration, usage = view.anchor, view.calibration, body.usage
    if usage is not None and _is_credible(usage, units := view.count_units(items)):
        # The request is known completely; the answer may contain hidden thinking.
        anchor = Anchor(length=len(items), tokens=usage.context_tokens, units=units)
        calibration = learn(calibration, view.units, usage.input_tokens)
    return replace(
        view,
        items=items,
        tools_used=view.tools_used or bool(item.asks),
        calls=view.calls + is_answer,
        called_at=entry.at if is_answer else view.called_at,
        todos=update_todos(view.todos, item, view.items) if item.answers else view.todos,
        anchor=anchor,
        calibration=calibration,
    )


def _is_credible(usage: Usage, units: int) -> bool:
    """Return whether a count is plausible: a wrong one would block the session."""
    return 0 < usage.context_tokens <= _MOST_HIDDEN + units * _MOST_PER_UNIT


def _compact(view: View, entry_id: EntryId, body: Compacted) -> View:
    gone, staying = split_items(view.items, body.dropped)
    gone = gone[1:] if gone and gone[0].kind is _SUMMARY else gone
    originals = _remember(view, body.replaced)
    items = view.reduce_items(
        staying, body.replaced, entry_id=entry_id, summary=body.summary, inserted=body.inserted
    )
    return replace(
        view,
        items=items,
        archived=view.archived.extend(view.restore_texts(gone)),
        originals=originals.without(frozenset(body.dropped)) if originals else originals,
        notes=_notes_after(view, body),
        anchor=None,
        settled=_count_settled(items, body.replaced),
        undoable=(*view.undoable, entry_id),
        restored=frozenset(),
    )


def make_summary(view: View, entry_id: EntryId, text: str) -> Item:
    """Return the item that shows a summary in `view`."""
    return view.measure(entry_id, assistant(f"{SUMMARY_HEADING}\n{text}"), ItemKind.SUMMARY)


def _notes_after(view: View, body: Compacted) -> str:
    """Return the model's notes after a compaction; older journals have them in the summary."""
    if body.notes or (not body.dropped and not body.summary):
        return body.notes or view.notes
    return body.summary if body.report.author == "model" else ""


def _remember(view: View, changes: Iterable[Replacement]) -> LazyMapping[EntryId, Item]:
    """Return the originals after `changes`: the first text of an item counts."""
    changed = {change.entry_id for change in changes} - view.originals.keys()
    if not changed:
        return view.originals
    return view.originals.merge(
        {
            item.entry_id: item
            for item in view.items
            if item.entry_id in changed and item.kind is not ItemKind.SUMMARY
        }
    )


def _count_settled(items: Items, changes: Iterable[Replacement]) -> int:
    """Return the number of items up to the last changed one."""
    changed = {change.entry_id for change in changes}
    if not changed:
        return 0
    return max((n for n, item in enumerate(items, 1) if item.entry_id in changed), default=0)


def _strip_items(view: View, targets: frozenset[EntryId]) -> list[Item]:
    return [
        view.measure(item.entry_id, strip_reasoning(item.message), item.kind)
        if item.entry_id in targets
        else item
        for item in view.items
    ]


def _replace_texts(view: View, items: Iterable[Item], changes: Iterable[Replacement]) -> list[Item]:
    wanted = {change.entry_id: change for change in changes}
    if not wanted:
        return list(items)
    return [
        shorten_item(view, item, wanted[item.entry_id]) if item.entry_id in wanted else item
        for item in items
    ]


def shorten_item(view: View, item: Item, change: Replacement) -> Item:
    """Return an item of `view` as `change` shows it."""
    return view.measure(item.entry_id, apply_replacement(item.message, change), item.kind)
