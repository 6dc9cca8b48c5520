"""What every strategy spares: pins, the current request, the user's own words, the tail."""

from msgspec.structs import replace

from clew.context.cuts import batches, legal_cuts, turn_starts
from clew.context.items import Items, Kind
from clew.context.plan import Budget
from clew.context.view import View
from clew.core.ids import EntryId
from clew.core.messages import Role


def inner_cuts(items: Items, *, limit: int) -> list[int]:
    """Return the legal cuts that keep the last step: what the model has not answered yet.

    Where a signed tool loop alone exceeds `limit`, cuts inside it count as well.
    """
    last = max(0, len(items) - 1)
    for place in range(len(items) - 1, -1, -1):
        if items[place].kind is Kind.ASSISTANT:
            last = place if items[place].message.calls else last
            break
        if items[place].message.role is Role.USER:
            break
    cuts = [cut for cut in legal_cuts(items) if cut <= last]
    if items.units(cuts[-1]) > limit:
        cuts = [cut for cut in legal_cuts(items, inside_loops=True) if cut <= last]
    return cuts


def beside_pins(view: View, budget: Budget) -> Budget:
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


def tail_cut(items: Items, budget: Budget) -> int:
    """Return the legal cut that keeps the recent turns, or as much of them as the tail holds.

    The last step of the conversation is always behind the cut.
    """
    inner = inner_cuts(items, limit=budget.limit)
    starts = turn_starts(items)
    wanted = starts[-budget.recent_turns] if len(starts) >= budget.recent_turns else 0
    if items.units(wanted) <= budget.tail:
        return max(cut for cut in inner if cut <= wanted)
    return next((cut for cut in inner if items.units(cut) <= budget.tail), inner[-1])


def must_stay(view: View, cut: int) -> set[EntryId]:
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


def users_words(view: View, cut: int, *, room: int) -> set[EntryId]:
    """Return the user's messages before `cut` that fit into `room`, the newest first."""
    chosen: set[EntryId] = set()
    for index in reversed([start for start in turn_starts(view.items) if start < cut]):
        item = view.items[index]
        if item.units <= room:
            room -= item.units
            chosen.add(item.entry_id)
    return chosen
