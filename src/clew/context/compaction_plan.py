"""Decisions that make a view smaller: what to drop, truncate and summarise by rules.

The session carries them out and can let a model write the summary; `clew.fit` and the
simulator use them with summaries by rules.
"""

from msgspec.structs import replace

from clew.context.economy import Economy, fixed_tokens, working_set
from clew.context.estimate import text_units
from clew.context.items import Item, ItemKind
from clew.context.loss_report import WrittenSummary, build_compaction
from clew.context.passages import render_text
from clew.context.plan import Budget, Reduce, Strategy, Stuck, Wording
from clew.context.policy import ContextPolicy
from clew.context.view import View
from clew.core.entries import Compacted, Trigger
from clew.core.ids import EntryId
from clew.core.messages import assistant

_LEAST_GAIN = 0.10
_LEAST_DIGEST = 60
_HEADING_UNITS = 24


def find_threshold(view: View, policy: ContextPolicy, *, window: int) -> int | None:
    """Return the size of a request, in tokens, from which to compact; None for never."""
    share = policy.thresholds.compact
    if not share:
        return None
    room = working_set(policy.economy, view, window=window)
    return min(int(share * window), room)


def make_budget(
    view: View, policy: ContextPolicy, strategy: Strategy, *, window: int | None = None
) -> Budget:
    """Divide what a compaction may leave of `window`, by default the model's own window."""
    window = window or view.setup.model.window
    room = working_set(policy.economy, view, window=window)
    fixed = fixed_tokens(view) if room < window else 0
    return Budget.of(
        view,
        tokens=fixed + strategy.target(room - fixed),
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


def economize(plan: Reduce | Stuck, policy: ContextPolicy) -> Reduce | Stuck:
    """Let rules write the summary of an automatic compaction of a `lean` session.

    Such a session compacts often; a model call each time would cost more than it saves. A
    strategy that names its own model for summaries keeps it.
    """
    if isinstance(plan, Stuck) or policy.economy is not Economy.LEAN or plan.summary_model:
        return plan
    is_model = plan.wording is Wording.MODEL
    return replace(plan, wording=Wording.RULES) if is_model else plan


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
