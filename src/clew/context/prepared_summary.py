"""Summaries that are prepared before a compaction is due: when, for what, and how long they hold.

A prepared summary replaces exactly the messages it was written for. Messages that came later
stay behind it. It holds while those messages, their pins and the model are what they were.

Preparing early has a price: what comes between the preparation and the compaction stays in the
view, so the next compaction is due sooner. `on` accepts that for the longest lead. `auto` starts
as late as it can, and only where the price is small.
"""

from msgspec.structs import replace

from clew.context.compaction_plan import (
    economize,
    find_threshold,
    make_budget,
    plan_compaction,
)
from clew.context.items import Items
from clew.context.loss_report import WrittenSummary, build_compaction
from clew.context.plan import Reduce, Strategy, Stuck, Wording
from clew.context.policy import ContextPolicy
from clew.context.view import View

_CALLS_AHEAD = 3
"""How many turns of the conversation a summary takes, at the usual lengths of both."""
_ITEMS_PER_CALL = 2
_MOST_EXTRA = 0.1
"""The share of additional compactions that `auto` accepts."""
_LEAST_GAIN = 0.1


def is_preparation_due(
    view: View, policy: ContextPolicy, strategy: Strategy, *, used: int, is_local: bool
) -> bool:
    """Return whether to start preparing a summary now.

    Args:
        view: The present view.
        policy: The mode, and the thresholds: preparation starts from the warning threshold on,
            or from the same share of the strategy's own limit.
        strategy: Decides when a compaction is due.
        used: Tokens in the window.
        is_local: The model runs on a local server, which a second call would slow down.
    """
    mode, thresholds = policy.background_compaction, policy.thresholds
    window = view.setup.model.window
    share = thresholds.compact or thresholds.block
    ahead = int(used * max(0.0, share / thresholds.warn - 1))
    if mode == "auto":
        growth = view.items.units() * view.calibration.rate / max(1, len(view.items))
        ahead = min(ahead, int(_CALLS_AHEAD * _ITEMS_PER_CALL * growth))
        regained = used + ahead - strategy.target(window)
        if is_local or ahead > _MOST_EXTRA * regained:
            return False
    threshold = find_threshold(view, policy, window=window)
    return mode != "off" and strategy.due(view, used=used + ahead, threshold=threshold)


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
