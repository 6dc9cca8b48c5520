"""Keep the last turns, set the rest aside: the cheapest strategy, and the most forgetful."""

from msgspec import Struct

from clew.context.cuts import turn_starts
from clew.context.plan import Budget, Plan, Reduce, Stuck, Wording
from clew.context.strategies.selection import find_inner_cuts, find_required, subtract_pins
from clew.context.view import View
from clew.core.errors import ConfigError


class SlidingWindow(Struct, frozen=True, kw_only=True):
    """Show the model the last `max_turns` turns, pinned messages and the current request.

    Where those do not fit the budget, fewer turns are kept.
    """

    name: str = "sliding_window"
    clears_early: bool = False
    max_turns: int = 20

    def __post_init__(self) -> None:
        if self.max_turns < 1:
            raise ConfigError(f"max_turns must be at least 1, not {self.max_turns}")

    def due(self, view: View, *, used: int, threshold: int | None) -> bool:
        """Due as soon as there is a turn too many, or when the window is full."""
        too_many = view.items.turns > self.max_turns
        return too_many or (threshold is not None and used >= threshold)

    def target(self, window: int) -> int:
        """Return three quarters of the window: it is the number of turns that decides."""
        return window * 3 // 4

    def plan(self, view: View, budget: Budget) -> Plan:
        """Drop what stands before the last turns."""
        items = view.items
        starts = turn_starts(items)
        wanted = starts[-self.max_turns] if len(starts) > self.max_turns else 0
        limit = subtract_pins(view, budget).limit
        inner = find_inner_cuts(items, limit=limit)
        room = [cut for cut in inner if cut >= wanted and items.units(cut) <= limit]
        cut = room[0] if room else inner[-1]
        spared = find_required(view, cut)
        dropped = tuple(item for item in items[:cut] if item.entry_id not in spared)
        if not dropped:
            return Stuck(why="every message belongs to the last turns, is pinned or asked for")
        return Reduce(
            dropped=dropped,
            wording=Wording.NOTICE,
            why=f"the last {self.max_turns} turns are kept, as far as they fit",
        )
