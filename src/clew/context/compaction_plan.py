"""Decisions that make a view smaller: what to clear, drop, truncate and summarise by rules.

The session carries them out and can let a model write the summary; `clew.fit` and the
simulator use them with summaries by rules.
"""

from collections.abc import Sequence

from clew.context.cleared_results import (
    choose_worthwhile,
    exclude_recent,
    find_consumed,
    make_marker,
)
from clew.context.estimate import Meter
from clew.context.items import Item, ItemKind
from clew.context.loss_report import WrittenSummary, build_compaction
from clew.context.plan import Budget, Reduce, Strategy, Stuck, Wording
from clew.context.policy import ContextPolicy
from clew.context.truncation import shorten_items
from clew.context.view import View, shorten_item
from clew.core.entries import Compacted, ResultsCleared, Trigger
from clew.core.text import truncate_middle
from clew.core.usage import Usage

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
        window=window or view.setup.model.window,
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


def plan_squeeze(view: View, *, excess: int, only_results: bool = True) -> ResultsCleared | None:
    """Truncate what remains by up to `excess` tokens in total.

    With `only_results` false even answers, arguments of calls and requests are truncated.
    """
    room = view.items.units() - round(excess / view.calibration.rate) - 1
    changes = shorten_items(view.items, view.pinned, room=room, only_results=only_results)
    if not changes:
        return None
    return ResultsCleared(replaced=changes, why="the request would exceed the window")


def summarise_by_rules(
    view: View, plan: Reduce, budget: Budget, *, notes: str = "", usage: Usage | None = None
) -> WrittenSummary:
    """Write the summary for `plan`: the notes of a model, if there are any, and a digest.

    Without new `notes`, those of an earlier compaction stay in force.
    """
    author = "model" if notes else "rules"
    if not plan.dropped:
        return WrittenSummary(text="", author=author, usage=usage)
    gone = tuple(
        view.originals.get(item.entry_id, item)
        for item in plan.dropped
        if item.kind is not ItemKind.SUMMARY
    )
    if plan.wording is Wording.NOTICE:
        return WrittenSummary(text=f"{len(gone)} earlier messages were set aside.", author="rules")
    notes = notes or truncate_middle(view.notes, budget.summary)
    leaving = {item.entry_id for item in plan.dropped}
    staying = [
        item
        for item in view.items
        if item.entry_id not in leaving and item.kind is not ItemKind.SUMMARY
    ]
    from clew.context.rule_summary import write_digest  # noqa: PLC0415 - few sessions ever need it

    taken = _HEADING_UNITS + view.meter(notes) + _count_staying(staying, plan, view.meter)
    gone = (*view.archived, *gone)
    said = budget.quote(sum(item.units for item in gone if item.kind is ItemKind.USER))
    digest = write_digest(
        gone,
        max_units=max(_LEAST_DIGEST, said, budget.limit - taken),
        staying=staying,
        # Without a journal the old summary is all there is of what it covers.
        previous="" if view.archived or view.notes else view.summary,
        has_notes=bool(notes),
        meter=view.meter,
    )
    text = f"{notes}\n\n{digest}" if notes else digest
    return WrittenSummary(text=text, author=author, notes=notes, usage=usage)


def _count_staying(staying: Sequence[Item], plan: Reduce, meter: Meter) -> int:
    changes = {change.entry_id: change for change in plan.replaced}
    return sum(
        shorten_item(item, changes[item.entry_id], meter).units
        if item.entry_id in changes
        else item.units
        for item in staying
    )


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
