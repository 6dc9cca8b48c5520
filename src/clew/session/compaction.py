"""Compaction in action: carry out what the context decided, and report what it did.

When: the strategy says so, before a call (`fit`). What: its plan. The words that stand in for
what goes come from `clew.session.summarising`. Every change is an entry.
"""

from inspect import isawaitable

from clew.context.compaction import (
    compact_by_rules,
    make_budget,
    plan_clearing,
    plan_compaction,
    plan_squeeze,
)
from clew.context.loss_report import build_compaction
from clew.context.plan import Budget, Reduce, Stuck
from clew.context.render import render
from clew.context.strategies.custom import Custom, compact_to
from clew.core.context_state import ContextState
from clew.core.entries import Compacted, Trigger
from clew.core.errors import ContextFull, NothingToDrop
from clew.core.events import CompactionEnded, CompactionFailed, CompactionStarted, Warned
from clew.session.hooking import compacted, refusal
from clew.session.state import SessionState
from clew.session.summarising import summarise


async def fit(kit: SessionState) -> ContextState:
    """Make sure that the view may be sent, making it smaller first when that is due.

    Raises:
        ContextFull: Above the hard limit even so; nothing was sent.
    """
    state = kit.report_state()
    clears = plan_clearing(kit.journal.view, kit.policy, kit.strategy, now=kit.clock())
    if clears is not None:
        await kit.journal.append(clears)
        state = kit.report_state()
    thresholds = kit.policy.thresholds
    threshold = int(thresholds.compact * state.max_tokens) if thresholds.compact else None
    if kit.strategy.due(kit.journal.view, used=state.used_tokens, threshold=threshold):
        await compact(kit, trigger="auto")
        state = kit.state()
    limit = int(thresholds.block * state.max_tokens)
    if state.used_tokens > limit:
        squeezed = plan_squeeze(kit.journal.view, excess=state.used_tokens - limit * 9 // 10)
        if squeezed is not None:
            await kit.journal.append(squeezed)
            state = kit.report_state()
    if state.used_tokens > limit:
        raise ContextFull(_full_text(kit, state), state=state)
    return state


async def compact(
    kit: SessionState,
    *,
    trigger: Trigger,
    instructions: str = "",
    window: int | None = None,
    force: bool = False,
) -> Compacted | None:
    """Make the view smaller by one compaction, to fit `window` or the model's own.

    A failure leaves the view as it was.

    Returns:
        What was done, or None when an automatic compaction would gain nothing.

    Raises:
        NothingToDrop: The caller insisted, and there is nothing that may go.
    """
    before = kit.state()
    budget = make_budget(kit.journal.view, kit.policy, kit.strategy, window=window)
    plan = await _decide(kit, budget, before, trigger=trigger, force=force)
    if isinstance(plan, Stuck):
        if trigger != "auto":
            raise NothingToDrop(f"nothing can be compacted: {plan.why}", state=before)
        return None
    why_not, instructions = await refusal(kit, trigger, instructions)
    if why_not:
        if trigger != "auto":
            raise NothingToDrop(f"the compaction was refused: {why_not}", state=before)
        kit.emit(Warned(f"a compaction was refused: {why_not}"))
        return None
    kit.emit(CompactionStarted(trigger=trigger, before=before))
    try:
        body = await _carry_out(kit, plan, budget, trigger=trigger, instructions=instructions)
    except BaseException as error:
        kit.emit(CompactionFailed(why=str(error) or "it was aborted"))
        if trigger == "auto" and isinstance(error, NothingToDrop):
            return None
        raise
    kit.emit(
        CompactionEnded(
            trigger=trigger,
            before=before,
            after=kit.report_state(),
            report=body.report,
            summary=body.summary,
        )
    )
    await compacted(kit, trigger, body.summary)
    return body


def preview(kit: SessionState) -> Compacted:
    """Return what a compaction would do now, with words by rules; changes nothing.

    Raises:
        NothingToDrop: Nothing may go, or too little would be gained.
    """
    body = compact_by_rules(kit.journal.view, kit.policy, kit.strategy, trigger="manual")
    if isinstance(body, Stuck):
        raise NothingToDrop(f"nothing can be compacted: {body.why}", state=kit.state())
    return body


async def _decide(
    kit: SessionState, budget: Budget, before: ContextState, *, trigger: Trigger, force: bool
) -> Reduce | Compacted | Stuck:
    """Ask the strategy what to do; a custom one returns the finished entry."""
    view, strategy = kit.journal.view, kit.strategy
    if not isinstance(strategy, Custom):
        must = force or before.used_tokens > kit.policy.thresholds.block * before.max_tokens
        return plan_compaction(view, strategy, budget, must=must)
    used = before.used_tokens
    if trigger == "overflow":
        # The provider counted more than the estimate: the function must see that it is too long.
        used = max(used, before.max_tokens)
    result = strategy.compress(list(render(view)), used)
    messages = await result if isawaitable(result) else result
    return compact_to(kit.journal.view, messages, trigger=trigger, strategy=strategy.name)


async def _carry_out(
    kit: SessionState,
    plan: Reduce | Compacted,
    budget: Budget,
    *,
    trigger: Trigger,
    instructions: str,
) -> Compacted:
    if isinstance(plan, Compacted):
        await kit.journal.append(plan)
        return plan
    view = kit.journal.view
    summary = await summarise(kit, plan, budget, instructions=instructions)
    body = build_compaction(view, plan, summary, trigger=trigger, strategy=kit.strategy.name)
    if body.report.tokens_after >= body.report.tokens_before:
        raise NothingToDrop("the summary is longer than what it replaces", state=kit.state())
    await kit.journal.append(body)
    return body


def _full_text(kit: SessionState, state: ContextState) -> str:
    limit = int(kit.policy.thresholds.block * state.max_tokens)
    parts = {name: getattr(state.breakdown, name) for name in state.breakdown.__struct_fields__}
    largest = max(parts, key=lambda name: parts[name])
    return (
        f"the conversation needs {state.used_tokens:,} of {state.max_tokens:,} tokens and "
        f"nothing above {limit:,} is sent. Most of it is {largest.replace('_', ' ')} "
        f"({parts[largest]:,}). Shorten the request, clear the history, or use a model with a "
        f"larger window."
    )
