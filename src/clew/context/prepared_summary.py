"""Summaries that are prepared before a compaction is due: when, for what, and how long they hold.

A prepared summary replaces exactly the messages it was written for. Messages that came later
stay behind it. It holds while those messages, their pins and the model are what they were.

Preparing early has a price: what comes between the preparation and the compaction stays in the
view, so the next compaction is due sooner. `on` accepts that for the longest lead. `auto` starts
as late as it can, and only where the price is small.
"""

from msgspec.structs import replace

from clew.context.compaction_plan import economize, make_budget, plan_compaction
from clew.context.compaction_triggers import find_threshold
from clew.context.items import Items
from clew.context.loss_report import WrittenSummary, build_compaction
from clew.context.plan import Reduce, Strategy, Stuck, Wording
from clew.context.policy import ContextPolicy
from clew.context.view import View

_LEAST_GAIN = 0.1


def plan_preparation(view: View, policy: ContextPolicy, strategy: Strategy) -> Reduce | None:
    """Return what a compaction would drop now; None if it needs no model, or saves little."""
    plan = economize(plan_compaction(view, strategy, make_budget(view, policy, strategy)), policy)
    if isinstance(plan, Stuck) or not plan.dropped or plan.wording is not Wording.MODEL:
        return None
    return replace(plan, why=f"{plan.why}; the summary was prepared in the background")


def find_change(before: View, plan: Reduce, now: View) -> str:
    """Return what has happened to the messages that `plan` covers; empty if nothing has.

    Args:
        before: The view for which `plan` was made.
        plan: What the prepared summary would replace.
        now: The present view.
    """
    if now.setup.model != before.setup.model:
        return "the model was changed"
    touched = {item.entry_id for item in plan.dropped}
    touched |= {change.entry_id for change in plan.replaced}
    length = max(n for n, item in enumerate(before.items, 1) if item.entry_id in touched)
    if not _begin_alike(before.items, now.items, length):
        return "the messages that it covers were changed"
    covered = {item.entry_id for item in before.items[:length]}
    if (before.pinned ^ now.pinned) & covered:
        return "a message that it covers was pinned or unpinned"
    return ""


def _begin_alike(before: Items, now: Items, length: int) -> bool:
    """Return whether the first `length` items are the same messages of the same entries."""
    return len(now) >= length and all(
        one is other or (one.entry_id == other.entry_id and one.message == other.message)
        for one, other in zip(before[:length], now[:length], strict=True)
    )


def frees_enough(
    view: View, plan: Reduce, text: str, *, policy: ContextPolicy, strategy: Strategy
) -> bool:
    """Return whether the summary `text` saves a tenth, and no compaction is due right after it."""
    written = WrittenSummary(text=text, author="model")
    report = build_compaction(view, plan, written, trigger="auto", strategy=strategy.name).report
    if report.tokens_after > (1 - _LEAST_GAIN) * report.tokens_before:
        return False
    threshold = find_threshold(view, policy, window=view.setup.model.window)
    ahead = int(report.tokens_after * (1 + _LEAST_GAIN))
    return not strategy.due(view, used=ahead, threshold=threshold)
