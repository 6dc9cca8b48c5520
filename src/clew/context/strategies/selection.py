"""What every strategy spares: pins, the current request, the user's own words, the tail."""

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
    """Return the legal cuts that keep the last step: what the model has not answered yet.

    Where a signed tool loop alone exceeds `limit`, cuts inside it count as well.
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
    """Take what pinned messages fill off the budget: they stay, whatever else goes."""
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
    """Return the legal cut that keeps the recent turns, or as much of them as the tail holds.

    The last step of the conversation is always behind the cut.
    """
    inner = find_inner_cuts(items, limit=budget.limit)
    starts = turn_starts(items)
    wanted = starts[-budget.recent_turns] if len(starts) >= budget.recent_turns else 0
    if items.units(wanted) <= budget.tail:
        return max(cut for cut in inner if cut <= wanted)
    return next((cut for cut in inner if items.units(cut) <= budget.tail), inner[-1])


def find_required(view: View, cut: int) -> set[EntryId]:
    """Return what stands before `cut` and may not go: pinned steps and the current request."""
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
    """Return the user's messages before `cut` that fit into `room`, the newest first."""
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
    """Cut the largest tool results among `items` until all of them fit into `room` units."""
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
    """Return head and tail of a result, `by` units shorter if it has as many to give."""
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
    """Drop what stands before the recent turns, except what must survive word for word.

    That is: pinned messages, the current request, and the user's own words, newest first. A
    recent tool output too large to keep whole is shortened, not dropped.
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
        return Stuck(why="every message is recent, pinned or the user's own request")
    return Reduce(
        dropped=dropped,
        replaced=replaced,
        wording=wording,
        summary_model=summary_model,
        why=f"the last {len(view.items) - cut} messages and the user's words are kept",
    )


def is_reached(used: int, *limits: int | None) -> bool:
    """Say whether `used` has come to one of the limits that are set."""
    return any(limit is not None and used >= limit for limit in limits)


def target_tokens(window: int, max_tokens: int | None) -> int:
    """Return a little under half of what is allowed: room for many calls until the next time."""
    return int(min(window, max_tokens or window) * _TARGET)
