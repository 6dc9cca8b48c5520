"""`Tiered`, the default strategy, and `Summarize`, which is its last step alone.

`Tiered` takes the cheapest step that is enough: it clears answered tool results if that makes
enough room; otherwise it drops and summarises everything before the recent turns.
"""

from msgspec import Struct

from clew.context.cleared_results import exclude_recent, find_consumed, make_marker
from clew.context.estimate import text_units
from clew.context.items import ItemKind
from clew.context.plan import Budget, Plan, Reduce, Wording
from clew.context.strategies.selection import is_reached, set_aside, target_tokens
from clew.context.view import View
from clew.core.entries import Replacement

_ENOUGH = 1.2
"""Clearing is enough if it leaves at most this multiple of the budget."""
_MOST_CLEARED = 0.5
"""Largest share of the tool results to clear; beyond it a digest says more in less room."""


class Tiered(Struct, frozen=True, kw_only=True):
    """Clears answered tool results if that is enough; otherwise summarises old turns."""

    name: str = "tiered"
    clears_early: bool = True
    max_tokens: int | None = None
    """Compact from this many tokens on, even below the policy's threshold."""
    wording: Wording = Wording.MODEL
    summary_model: str | None = None
    """The model that writes summaries, on the same provider; it takes precedence over the
    session's `summary_model`."""
    min_chars: int = 500
    """Shorter tool results are not cleared."""

    def due(self, view: View, *, used: int, threshold: int | None) -> bool:  # noqa: ARG002
        """Return True from `max_tokens` or the policy's threshold on."""
        return is_reached(used, threshold, self.max_tokens)

    def target(self, window: int) -> int:
        """Return a little less than half of the limit."""
        return target_tokens(window, self.max_tokens)

    def plan(self, view: View, budget: Budget) -> Plan:
        """Clear if that is enough; otherwise drop everything before the recent turns."""
        changes = self._plan_clearing(view, budget)
        if not changes:
            return set_aside(view, budget, wording=self.wording, summary_model=self.summary_model)
        return Reduce(
            replaced=changes,
            wording=Wording.RULES,
            why=f"clearing {len(changes)} answered tool results is enough",
        )

    def _plan_clearing(self, view: View, budget: Budget) -> tuple[Replacement, ...]:
        items = view.items
        left = items.units()
        least = left - items.totals[ItemKind.TOOL_RESULT] * _MOST_CLEARED
        if least > budget.limit * _ENOUGH:
            return ()
        places = find_consumed(items, excluded=view.pinned, min_chars=self.min_chars)
        places = exclude_recent(items, places, recent_turns=budget.recent_turns, tail=budget.tail)
        changes: list[Replacement] = []
        for place in places:
            if left <= budget.limit:
                break
            changes.append(make_marker(items[place]))
            left -= items[place].units - text_units(changes[-1].text)
        if not changes or not least <= left <= budget.limit * _ENOUGH:
            return ()
        # The parts of a digest are slow to import, and few sessions reach this place.
        from clew.context.digest.name_index import add_names  # noqa: PLC0415

        return add_names(view.items, changes)


class Summarize(Struct, frozen=True, kw_only=True):
    """Summarises old turns when a request would exceed `max_tokens`; recent turns stay.

    Unlike the default strategy it does not clear tool results first.
    """

    name: str = "summarize"
    clears_early: bool = False
    max_tokens: int | None = None
    summary_model: str | None = None
    """The model that writes summaries, on the same provider; it takes precedence over the
    session's `summary_model`."""

    def due(self, view: View, *, used: int, threshold: int | None) -> bool:  # noqa: ARG002
        """Return True from `max_tokens` or the policy's threshold on."""
        return is_reached(used, threshold, self.max_tokens)

    def target(self, window: int) -> int:
        """Return a little less than half of the limit."""
        return target_tokens(window, self.max_tokens)

    def plan(self, view: View, budget: Budget) -> Plan:
        """Drop everything before the recent turns, for a summary by a model."""
        return set_aside(view, budget, wording=Wording.MODEL, summary_model=self.summary_model)
