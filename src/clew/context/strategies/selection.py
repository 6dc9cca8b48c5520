"""Selection of messages that strategies share: what stays, what is truncated, what leaves.

Pinned messages, the current request and the last step always stay.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from clew.context.cuts import batches, legal_cuts, turn_starts
from clew.context.estimate import text_units
from clew.context.items import Item, ItemKind, Items
from clew.context.plan import Budget, Plan, Reduce, Stuck, Wording
from clew.context.view import View
from clew.core.entries import Replacement
from clew.core.ids import EntryId
from clew.core.messages import Role
from clew.core.text import truncate_middle


def find_inner_cuts(items: Items, *, limit: int) -> list[int]:
    """Return the legal cuts that keep the last step, which the model has not answered yet.

    If a signed tool loop alone exceeds `limit`, cuts inside it are included.
    """
    last = max(0, len(items) - 1)
    for place in range(len(items) - 1, -1, -1):
        if items[place].kind is ItemKind.ASSISTANT:
            last = place if items[place].message.calls else last
            break
        if items[place].message.role is Role.USER:
            break
    cuts = [cut for cut in legal_cuts(items) if cut <= last]
    if items.units(cuts[-1]) > limit:
        cuts = [cut for cut in legal_cuts(items, inside_loops=True) if cut <= last]
    return cuts


def subtract_pins(view: View, budget: Budget) -> Budget:
    """Reduce the budget by the size of the pinned messages, which always stay."""
    if not view.pinned:
        return budget
    taken = sum(item.units for item in view.items if item.entry_id in view.pinned)
    share = max(0.0, 1 - taken / max(1, budget.limit))
    return replace(
        budget,
        limit=int(budget.limit * share),
        tail=int(budget.tail * share),
        words=int(budget.words * share),
    )


def find_tail_cut(items: Items, budget: Budget) -> int:
    """Return the legal cut that keeps the recent turns, as far as they fit into the tail.

    The last step of the conversation is always after the cut.
    """
    inner = find_inner_cuts(items, limit=budget.limit)
    starts = turn_starts(items)
    wanted = starts[-budget.recent_turns] if len(starts) >= budget.recent_turns else 0
    if items.units(wanted) <= budget.tail:
        return max(cut for cut in inner if cut <= wanted)
    return next((cut for cut in inner if items.units(cut) <= budget.tail), inner[-1])


def find_required(view: View, cut: int) -> set[EntryId]:
    """Return the entries before `cut` that must stay: pinned steps and the current request."""
    items = view.items
    spared: set[EntryId] = set()
    for batch in batches(items[:cut]) if view.pinned else []:
        ids = {items[index].entry_id for index in batch}
        if ids & view.pinned:
            spared |= ids
    starts = turn_starts(items)
    if starts:
        spared.add(items[starts[-1]].entry_id)
    return spared


def choose_user_messages(view: View, cut: int, *, room: int) -> set[EntryId]:
    """Return the user's messages before `cut` that fit into `room`, preferring the newest."""
    chosen: set[EntryId] = set()
    for index in reversed([start for start in turn_starts(view.items) if start < cut]):
        item = view.items[index]
        if item.units <= room:
            room -= item.units
            chosen.add(item.entry_id)
    return chosen


_LEAST_CHARS = 200


def shorten_results(
    items: Sequence[Item], pinned: frozenset[EntryId], *, room: int
) -> tuple[Replacement, ...]:
    """Truncate the largest tool results of `items` until all items fit into `room` units."""
    excess = sum(item.units for item in items) - room
    changes: list[Replacement] = []
    for item in sorted(items, key=lambda item: -item.units):
        if excess <= 0:
            break
        if len(item.answers) != 1 or item.entry_id in pinned:
            continue
        change = shorten_result(item, by=excess)
        saved = text_units(_text(item)) - text_units(change.text)
        if saved > 0:
            changes.append(change)
            excess -= saved
    return tuple(changes)


def shorten_result(item: Item, *, by: int) -> Replacement:
    """Return head and tail of a result, up to `by` units shorter."""
    text = _text(item)
    chars = round(len(text) * max(0.0, 1 - by / max(1, item.units)))
    where = f"; entry #{item.entry_id} has it" if item.entry_id > 0 else ""
    return Replacement(
        entry_id=item.entry_id, text=truncate_middle(text, max(chars, _LEAST_CHARS), where=where)
    )


def _text(item: Item) -> str:
    return "\n".join(result.text for result in item.message.results)


_TARGET = 0.45


def set_aside(
    view: View, budget: Budget, *, wording: Wording, summary_model: str | None = None
) -> Plan:
    """Drop everything before the recent turns, except what must stay word for word.

    Pinned messages, the current request and the newest of the user's own messages stay. A
    recent tool output that is too large is truncated, not dropped.
    """
    budget = subtract_pins(view, budget)
    cut = find_tail_cut(view.items, budget)
    left = budget.limit - min(view.items.units(cut), budget.limit)
    spared = find_required(view, cut) | choose_user_messages(
        view, cut, room=min(budget.words, left // 2)
    )
    dropped = tuple(item for item in view.items[:cut] if item.entry_id not in spared)
    replaced = shorten_results(view.items[cut:], view.pinned, room=budget.tail)
    if not dropped and not replaced:
        return Stuck(why="every message is recent, pinned or the current request")
    return Reduce(
        dropped=dropped,
        replaced=replaced,
        wording=wording,
        summary_model=summary_model,
        why=f"the last {len(view.items) - cut} messages and the user's own messages are kept",
    )


def is_reached(used: int, *limits: int | None) -> bool:
    """Return whether `used` has reached one of the limits that are set."""
    return any(limit is not None and used >= limit for limit in limits)


def target_tokens(window: int, max_tokens: int | None) -> int:
    """Return a little less than half of the limit: room for many calls before the next time."""
    return int(min(window, max_tokens or window) * _TARGET)
