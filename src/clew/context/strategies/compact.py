"""`Compact`: shortens by rules, without a model call."""

from msgspec import Struct

from clew.context.cleared_results import find_consumed, make_marker
from clew.context.cuts import find_turn_start
from clew.context.estimate import text_units
from clew.context.items import Item, ItemKind
from clew.context.plan import Budget, Plan, Reduce, Wording
from clew.context.strategies.selection import is_reached, set_aside, target_tokens
from clew.context.view import View
from clew.core.entries import Replacement
from clew.core.messages import Text, ToolCall


class Compact(Struct, frozen=True, kw_only=True):
    """Truncates old answers and clears old tool results; drops turns only if that is not enough.

    The first step does not change recent turns, user messages, pinned messages and calls. The
    second writes a digest by rules.
    """

    name: str = "compact"
    clears_early: bool = False
    max_tokens: int | None = None
    preserve_recent_turns: int = 4
    min_tool_result_chars: int = 200
    min_text_chars: int = 2_000
    text_excerpt_chars: int = 200

    def due(self, view: View, *, used: int, threshold: int | None) -> bool:  # noqa: ARG002
        """Return True from `max_tokens` or the policy's threshold on."""
        return is_reached(used, threshold, self.max_tokens)

    def target(self, window: int) -> int:
        """Return a little less than half of the limit."""
        return target_tokens(window, self.max_tokens)

    def plan(self, view: View, budget: Budget) -> Plan:
        """Truncate in place if that is enough; otherwise drop old turns."""
        changes = (*self._clear_results(view), *self._truncate_texts(view))
        sizes = {item.entry_id: item.units for item in view.items}
        saved = sum(sizes[change.entry_id] - text_units(change.text) for change in changes)
        if changes and view.items.units() - saved <= budget.limit:
            return Reduce(
                replaced=changes,
                wording=Wording.RULES,
                why=f"shortening {len(changes)} old messages is enough",
            )
        return set_aside(view, budget, wording=Wording.RULES)

    def _recent_start(self, view: View) -> int:
        return find_turn_start(view.items, self.preserve_recent_turns) or 0

    def _clear_results(self, view: View) -> tuple[Replacement, ...]:
        places = find_consumed(
            view.items, excluded=view.pinned, min_chars=self.min_tool_result_chars
        )
        old = self._recent_start(view)
        return tuple(make_marker(view.items[place]) for place in places if place < old)

    def _truncate_texts(self, view: View) -> tuple[Replacement, ...]:
        return tuple(
            Replacement(entry_id=item.entry_id, text=self._truncate(item.message.text))
            for item in view.items[: self._recent_start(view)]
            if self._is_long(item) and item.entry_id not in view.pinned
        )

    def _is_long(self, item: Item) -> bool:
        texts = [part for part in item.message.parts if isinstance(part, Text)]
        return (
            item.kind is ItemKind.ASSISTANT
            and len(texts) == 1
            and len(texts[0].text) >= self.min_text_chars
            and all(isinstance(part, Text | ToolCall) for part in item.message.parts)
        )

    def _truncate(self, text: str) -> str:
        return f"{text[: self.text_excerpt_chars]}… [shortened from {len(text):,} characters]"
