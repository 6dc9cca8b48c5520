"""Decisions that make a view smaller: what to clear, drop, truncate and summarise by rules.

The session carries them out and can let a model write the summary; `clew.fit` and the
simulator use them with summaries by rules.
"""

from clew.context.cleared_results import (
    choose_worthwhile,
    exclude_recent,
    find_consumed,
    make_marker,
)
from clew.context.estimate import text_units
from clew.context.items import Item, ItemKind
from clew.context.loss_report import WrittenSummary, build_compaction
from clew.context.passages import render_text
from clew.context.plan import Budget, Reduce, Strategy, Stuck, Wording
from clew.context.policy import ContextPolicy
from clew.context.strategies.selection import shorten_results
from clew.context.view import View
from clew.core.entries import Compacted, ResultsCleared, Trigger
from clew.core.ids import EntryId
from clew.core.messages import assistant

_LEAST_GAIN = 0.10
_CLEAR_OVER = 500
_LEAST_DIGEST = 60
_HEADING_UNITS = 24


def plan_clearing(
    view: View, policy: ContextPolicy, strategy: Strategy, *, now: float
) -> ResultsCleared | None:
    """Replace answered tool results by markers, if the policy asks for it or it saves cost."""
    if policy.compress_over is not None:
        places = find_consumed(view.items, pinned=view.pinned, min_chars=policy.compress_over)
        why = "answered tool results are compressed"
    elif strategy.clears_early and _worth_a_look(view, policy, now):
        recent = view.units_for(policy.economy.recent_tokens)
        tail = min(recent, make_budget(view, policy, strategy).tail)
        if view.items.units() <= tail:
            return None
        places = find_consumed(view.items, pinned=view.pinned, min_chars=_CLEAR_OVER)
        places = exclude_recent(
            view.items, places, recent_turns=policy.preserve_recent_turns, tail=tail
        )
        cold = view.calls > 0 and now - view.called_at > policy.economy.cold_after
        places = choose_worthwhile(view.items, places, policy.economy, calls=view.calls, cold=cold)
        why = "the cache is cold" if cold else "the saving pays for the broken cache prefix"
    else:
        places, why = [], ""
    if not places:
        return None
    return ResultsCleared(replaced=tuple(make_marker(view.items[p]) for p in places), why=why)


def _worth_a_look(view: View, policy: ContextPolicy, now: float) -> bool:
    """Return whether results have grown since the last call, or the cache is cold.

    Checking every result before each call would make turns slower as a session grows.
    """
    if view.calls and now - view.called_at > policy.economy.cold_after:
        return True
    return view.items.has_grown_since(view.anchor.length if view.anchor is not None else 0)


def make_budget(
    view: View, policy: ContextPolicy, strategy: Strategy, *, window: int | None = None
) -> Budget:
    """Divide what a compaction may leave of `window`, by default the model's own window."""
    return Budget.of(
        view,
        tokens=strategy.target(window or view.setup.model.window),
        recent_turns=policy.preserve_recent_turns,
    )


def plan_compaction(
    view: View, strategy: Strategy, budget: Budget, *, must: bool = False
) -> Reduce | Stuck:
    """Return the strategy's plan, or why it is not worth carrying out.

    A plan must save at least a tenth of the request. With `must`, any saving is enough. This
    is checked before a summary is paid for.
    """
    plan = strategy.plan(view, budget)
    if isinstance(plan, Stuck):
        return plan
    nothing = WrittenSummary(text="", author="rules")
    best = build_compaction(view, plan, nothing, trigger="auto", strategy=strategy.name).report
    least = 0 if must else _LEAST_GAIN * best.tokens_before
    if best.tokens_before - best.tokens_after <= least:
        return Stuck(why="it would save too little")
    return plan


def plan_squeeze(view: View, *, excess: int) -> ResultsCleared | None:
    """Truncate the largest remaining tool results by up to `excess` tokens in total."""
    room = view.items.units() - round(excess / view.calibration.rate) - 1
    changes = shorten_results(view.items, view.pinned, room=room)
    if not changes:
        return None
    return ResultsCleared(replaced=changes, why="the request would exceed the window")


def summarise_by_rules(view: View, plan: Reduce, budget: Budget) -> WrittenSummary:
    """Write the summary for `plan` without a model."""
    gone = tuple(item for item in plan.dropped if item.kind is not ItemKind.SUMMARY)
    if len(gone) < len(plan.dropped) and not view.archived:
        # Without a journal the old summary is all there is of what it covers, so keep its text.
        gone = (Item.of(EntryId(0), assistant(view.summary)), *gone)
    if not plan.dropped:
        return WrittenSummary(text="", author="rules")
    if plan.wording is Wording.NOTICE:
        return WrittenSummary(text=f"{len(gone)} earlier messages were set aside.", author="rules")
    leaving = {item.entry_id for item in plan.dropped}
    staying = [item for item in view.items if item.entry_id not in leaving]
    shorter = {change.entry_id: change.text for change in plan.replaced}
    taken = sum(
        text_units(shorter[item.entry_id]) if item.entry_id in shorter else item.units
        for item in staying
    )
    room = max(_LEAST_DIGEST, min(budget.summary, budget.limit - taken - _HEADING_UNITS))
    from clew.context.rule_summary import write_digest  # noqa: PLC0415 - few sessions ever need it

    text = write_digest((*view.archived, *gone), max_units=room, known=render_text(staying))
    return WrittenSummary(text=text, author="rules")


def compact_by_rules(
    view: View, policy: ContextPolicy, strategy: Strategy, *, trigger: Trigger = "auto"
) -> Compacted | Stuck:
    """Return the entry of a compaction that needs no model."""
    budget = make_budget(view, policy, strategy)
    plan = plan_compaction(view, strategy, budget)
    if isinstance(plan, Stuck):
        return plan
    summary = summarise_by_rules(view, plan, budget)
    body = build_compaction(view, plan, summary, trigger=trigger, strategy=strategy.name)
    if body.report.tokens_after >= body.report.tokens_before:
        return Stuck(why="the summary would be longer than the text it replaces")
    return body
