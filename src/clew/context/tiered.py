"""The default strategy: keep what matters word for word, set the rest aside.

Kept: pinned messages, the current request, the user's own words newest first, and the
recent turns. A recent tool output too large to keep whole is shortened, not dropped.
"""

from msgspec import Struct

from clew.context.cuts import batches, legal_cuts, turn_starts
from clew.context.estimate import text_units
from clew.context.excerpt import excerpt
from clew.context.items import Item, Items, Kind
from clew.context.plan import Budget, Plan, Reduce, Stuck
from clew.context.view import View
from clew.core.entries import Replacement
from clew.core.ids import EntryId

_LEAST_CHARS = 200


class Tiered(Struct, frozen=True):
    """Set aside what stands before the recent turns; see the module for what is kept."""

    name: str = "tiered"

    def plan(self, view: View, budget: Budget) -> Plan:
        """Choose a legal cut, then spare what must survive from before it."""
        items = view.items
        cut = _cut(items, budget)
        spared = _spared(view, cut, budget)
        dropped = tuple(item for item in items[:cut] if item.entry_id not in spared)
        replaced = _shortened(items[cut:], view.pinned, budget)
        if not dropped and not replaced:
            return Stuck(why="every message is recent, pinned or the user's own request")
        return Reduce(
            dropped=dropped,
            replaced=replaced,
            why=f"the last {len(items) - cut} messages and the user's words are kept",
        )


def _cut(items: Items, budget: Budget) -> int:
    inner = [cut for cut in legal_cuts(items) if cut < len(items)]
    starts = turn_starts(items)
    wanted = starts[-budget.recent_turns] if len(starts) >= budget.recent_turns else 0
    if items.units(wanted) <= budget.tail:
        return max((cut for cut in inner if cut <= wanted), default=0)
    return next(
        (cut for cut in inner if items.units(cut) <= budget.tail), inner[-1] if inner else 0
    )


def _spared(view: View, cut: int, budget: Budget) -> set[EntryId]:
    items = view.items
    spared: set[EntryId] = set()
    for batch in batches(items[:cut]):
        ids = {items[index].entry_id for index in batch}
        if ids & view.pinned:
            spared |= ids
    starts = turn_starts(items)
    if starts:
        spared.add(items[starts[-1]].entry_id)
    room = budget.words
    for index in reversed([start for start in starts if start < cut]):
        item = items[index]
        if item.entry_id not in spared and item.units <= room:
            room -= item.units
            spared.add(item.entry_id)
    return spared


def _shortened(
    tail: list[Item], pinned: frozenset[EntryId], budget: Budget
) -> tuple[Replacement, ...]:
    excess = sum(item.units for item in tail) - budget.tail
    changes: list[Replacement] = []
    for item in sorted(tail, key=lambda item: -item.units):
        if excess <= 0:
            break
        if item.kind is not Kind.TOOL_RESULT or item.entry_id in pinned:
            continue
        text = "\n".join(result.text for result in item.message.results)
        chars = round(len(text) * max(0.0, 1 - excess / max(1, item.units)))
        short = excerpt(text, max(chars, _LEAST_CHARS), where=f"; entry #{item.entry_id} has it")
        saved = text_units(text) - text_units(short)
        if saved > 0:
            changes.append(Replacement(entry_id=item.entry_id, text=short))
            excess -= saved
    return tuple(changes)
