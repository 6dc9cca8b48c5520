"""Have old turns put into words by a model, and keep the words in their place."""

from msgspec import Struct

from clew.context.plan import Budget, Plan, Wording
from clew.context.strategies.aside import reached, set_aside, under_half
from clew.context.view import View


class Summarize(Struct, frozen=True, kw_only=True):
    """Summarise when a request would exceed `max_tokens`; the recent turns stay as they are.

    Unlike the default it clears no tool results first: all that goes is summarised.
    """

    name: str = "summarize"
    clears_early: bool = False
    max_tokens: int | None = None

    def due(self, view: View, *, used: int, threshold: int | None) -> bool:  # noqa: ARG002
        """Due at `max_tokens`, or at the policy's threshold."""
        return reached(used, threshold, self.max_tokens)

    def target(self, window: int) -> int:
        """Return a little under half of what is allowed."""
        return under_half(window, self.max_tokens)

    def plan(self, view: View, budget: Budget) -> Plan:
        """Set aside what stands before the recent turns, to be summarised by a model."""
        return set_aside(view, budget, wording=Wording.MODEL)
