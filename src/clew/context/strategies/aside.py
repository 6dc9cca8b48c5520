"""Setting aside what stands before the recent turns: the step that several strategies share."""

from clew.context.plan import Budget, Plan, Reduce, Stuck, Wording
from clew.context.strategies.keeping import beside_pins, must_stay, tail_cut, users_words
from clew.context.strategies.shortening import shorten_results
from clew.context.view import View

_TARGET = 0.45


def set_aside(view: View, budget: Budget, *, wording: Wording) -> Plan:
    """Drop what stands before the recent turns, except what must survive word for word.

    That is: pinned messages, the current request, and the user's own words, newest first. A
    recent tool output too large to keep whole is shortened, not dropped.
    """
    budget = beside_pins(view, budget)
    cut = tail_cut(view.items, budget)
    left = budget.limit - min(view.items.units(cut), budget.limit)
    spared = must_stay(view, cut) | users_words(view, cut, room=min(budget.words, left // 2))
    dropped = tuple(item for item in view.items[:cut] if item.entry_id not in spared)
    replaced = shorten_results(view.items[cut:], view.pinned, room=budget.tail)
    if not dropped and not replaced:
        return Stuck(why="every message is recent, pinned or the user's own request")
    return Reduce(
        dropped=dropped,
        replaced=replaced,
        wording=wording,
        why=f"the last {len(view.items) - cut} messages and the user's words are kept",
    )


def reached(used: int, *limits: int | None) -> bool:
    """Say whether `used` has come to one of the limits that are set."""
    return any(limit is not None and used >= limit for limit in limits)


def under_half(window: int, max_tokens: int | None) -> int:
    """Return a little under half of what is allowed: room for many calls until the next time."""
    return int(min(window, max_tokens or window) * _TARGET)
