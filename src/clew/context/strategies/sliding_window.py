"""`SlidingWindow`: keeps the last turns and drops the rest, without a summary."""

from msgspec import Struct

from clew.context.cuts import find_turn_start
from clew.context.plan import Budget, Plan, Reduce, Stuck, Wording
from clew.context.strategies.selection import (
    find_inner_cuts,
    split_before,
    subtract_pins,
)
from clew.context.view import View
from clew.core.errors import ConfigError


class SlidingWindow(Struct, frozen=True, kw_only=True):
    """Keeps the last `max_turns` turns, pinned messages and the current request.

    If they exceed the budget, it keeps fewer turns.
    """

    name: str = "sliding_window"
    clears_early: bool = False
    max_turns: int = 20

    def __post_init__(self) -> None:
        if self.max_turns < 1:
            raise ConfigError(f"max_turns must be at least 1, but is {self.max_turns}")

    def due(self, view: View, *, used: int, threshold: int | None) -> bool:
        """Return True with more than `max_turns` turns, or from the policy's threshold on."""
        too_many = view.items.turns > self.max_turns
        return too_many or (threshold is not None and used >= threshold)

    def target(self, window: int) -> int:
        """Return three quarters of the window; usually the number of turns decides."""
        return window * 3 // 4

    def plan(self, view: View, budget: Budget) -> Plan:
        """Drop everything before the last turns."""
        items = view.items
        is_longer = items.turns > self.max_turns
        wanted = find_turn_start(items, self.max_turns) or 0 if is_longer else 0
        limit = subtract_pins(view, budget).limit
        inner = find_inner_cuts(items, limit=limit)
        room = [cut for cut in inner if cut >= wanted and items.units(cut) <= limit]
        cut = room[0] if room else inner[-1]
        dropped, _ = split_before(view, cut)
        if not dropped:
            return Stuck(why="every message is in the last turns, pinned or the current request")
        return Reduce(
            dropped=dropped,
            wording=Wording.NOTICE,
            why=f"the last {self.max_turns} turns are kept, as far as they fit",
        )
