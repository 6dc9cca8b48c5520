"""The default strategy: the cheapest step that is enough.

First, tool results that the model has read and answered are cleared, where that alone makes
enough room. Otherwise everything before the recent turns is set aside and summarised.
"""

from msgspec import Struct

from clew.context.estimate import text_units
from clew.context.items import ItemKind
from clew.context.plan import Budget, Plan, Reduce, Wording
from clew.context.strategies.selection import is_reached, set_aside, target_tokens
from clew.context.tool_results import exclude_recent, find_consumed, make_marker
from clew.context.view import View
from clew.core.entries import Replacement

_ENOUGH = 1.2
"""Clearing alone is enough when it leaves at most this many times the budget."""
_MOST_CLEARED = 0.5
"""Beyond this share of the tool results a digest, which quotes them, says more in less room."""


class Tiered(Struct, frozen=True, kw_only=True):
    """Clear, then compact; see the module."""

    name: str = "tiered"
    clears_early: bool = True
    max_tokens: int | None = None
    """Compact from here on, below the policy's threshold; None leaves it to the policy."""
    wording: Wording = Wording.MODEL
    summary_model: str | None = None
    """The model that writes summaries, on the same provider; it takes precedence over the
    session's `summary_model`."""
    min_chars: int = 500
    """Tool results up to this length are never worth clearing."""

    def due(self, view: View, *, used: int, threshold: int | None) -> bool:  # noqa: ARG002
        """Due at the policy's threshold, or at `max_tokens`."""
        return is_reached(used, threshold, self.max_tokens)

    def target(self, window: int) -> int:
        """Return a little under half of the window."""
        return target_tokens(window, self.max_tokens)

    def plan(self, view: View, budget: Budget) -> Plan:
        """Clear if that is enough; else set aside what stands before the recent turns."""
        changes = self._clearing(view, budget)
        if not changes:
            return set_aside(view, budget, wording=self.wording, summary_model=self.summary_model)
        return Reduce(
            replaced=changes,
            wording=Wording.RULES,
            why=f"clearing {len(changes)} tool results that were answered is enough",
        )

    def _clearing(self, view: View, budget: Budget) -> tuple[Replacement, ...]:
        items = view.items
        places = find_consumed(items, pinned=view.pinned, min_chars=self.min_chars)
        places = exclude_recent(items, places, recent_turns=budget.recent_turns, tail=budget.tail)
        left = items.units()
        least = left - items.totals[ItemKind.TOOL_RESULT] * _MOST_CLEARED
        changes: list[Replacement] = []
        for place in places:
            if left <= budget.limit:
                break
            changes.append(make_marker(items[place]))
            left -= items[place].units - text_units(changes[-1].text)
        return tuple(changes) if least <= left <= budget.limit * _ENOUGH else ()


class Summarize(Struct, frozen=True, kw_only=True):
    """Summarise when a request would exceed `max_tokens`; the recent turns stay as they are.

    Unlike the default it clears no tool results first: all that goes is summarised.
    """

    name: str = "summarize"
    clears_early: bool = False
    max_tokens: int | None = None
    summary_model: str | None = None
    """The model that writes summaries, on the same provider; it takes precedence over the
    session's `summary_model`."""

    def due(self, view: View, *, used: int, threshold: int | None) -> bool:  # noqa: ARG002
        """Due at `max_tokens`, or at the policy's threshold."""
        return is_reached(used, threshold, self.max_tokens)

    def target(self, window: int) -> int:
        """Return a little under half of what is allowed."""
        return target_tokens(window, self.max_tokens)

    def plan(self, view: View, budget: Budget) -> Plan:
        """Set aside what stands before the recent turns, to be summarised by a model."""
        return set_aside(view, budget, wording=Wording.MODEL, summary_model=self.summary_model)
