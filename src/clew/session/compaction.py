"""Compaction: carry out what `clew.context` decided, and report what was done.

The strategy decides when (before a model call, in `fit`) and what goes. The summary comes from
`clew.session.summarizer`. Every change is an entry.
"""

from inspect import isawaitable

from clew.context.clearing_plan import plan_clearing, plan_squeeze
from clew.context.compaction_plan import (
    compact_by_rules,
    economize,
    find_threshold,
    make_budget,
    plan_compaction,
)
from clew.context.loss_report import build_compaction, report_clearing
from clew.context.plan import Budget, Reduce, Stuck
from clew.context.render import render
from clew.context.strategies.custom import Custom, compact_to
from clew.core.context_state import ContextState
from clew.core.entries import Compacted, ResultsCleared, Trigger
from clew.core.errors import ContextFull, NothingToDrop
from clew.core.events import (
    CompactionEnded,
    CompactionFailed,
    CompactionStarted,
    ToolResultsCleared,
    Warned,
)
from clew.session.background_compaction import find_prepared_plan, prepare_summary
from clew.session.hook_events import check_compaction, report_compaction
from clew.session.state import SessionState
from clew.session.summarizer import summarise


async def fit(state: SessionState) -> ContextState:
    """Make the view fit: compact it if that is due, and refuse to send what is too long.

    Raises:
        ContextFull: The view is still above the hard limit; nothing was sent.
    """
    context = state.report_context()
    clears = plan_clearing(state.journal.view, state.policy, state.strategy, now=state.clock())
    if clears is not None:
        context = await _clear_results(state, clears)
    thresholds = state.policy.thresholds
    threshold = find_threshold(state.journal.view, state.policy, window=context.max_tokens)
    if state.strategy.due(state.journal.view, used=context.used_tokens, threshold=threshold):
        await compact(state, trigger="auto")
        context = state.context_state()
    limit = int(thresholds.block * context.max_tokens)
    if context.used_tokens > limit:
        squeezed = plan_squeeze(state.journal.view, excess=context.used_tokens - limit * 9 // 10)
        if squeezed is not None:
            context = await _clear_results(state, squeezed)
    if context.used_tokens > limit:
        raise ContextFull(_full_text(state, context), state=context)
    await prepare_summary(state)
    return context


async def _clear_results(state: SessionState, body: ResultsCleared) -> ContextState:
    before, report = state.context_state(), report_clearing(state.journal.view, body)
    await state.journal.append(body)
    after = state.report_context()
    state.emit(ToolResultsCleared(trigger=body.trigger, before=before, after=after, report=report))
    return after


async def compact(
    state: SessionState,
    *,
    trigger: Trigger,
    instructions: str = "",
    window: int | None = None,
    force: bool = False,
) -> Compacted | None:
    """Compact the view once, to fit `window` or the model's own window.

    A failure leaves the view unchanged.

    Returns:
        The compaction, or None when an automatic one would gain nothing.

    Raises:
        NothingToDrop: It is not automatic, and there is nothing to remove.
    """
    before = state.context_state()
    budget = make_budget(state.journal.view, state.policy, state.strategy, window=window)
    found = await find_prepared_plan(state, trigger, instructions=instructions, window=window)
    plan = found or await _decide(state, budget, before, trigger=trigger, force=force)
    if isinstance(plan, Stuck):
        if trigger != "auto":
            raise NothingToDrop(f"nothing can be compacted: {plan.why}", state=before)
        return None
    why_not, instructions = await check_compaction(state, trigger, instructions)
    if why_not:
        if trigger != "auto":
            raise NothingToDrop(f"the compaction was refused: {why_not}", state=before)
        state.emit(Warned(f"a compaction was refused: {why_not}"))
        return None
    state.emit(CompactionStarted(trigger=trigger, before=before))
    try:
        body = await _carry_out(state, plan, budget, trigger=trigger, instructions=instructions)
    except BaseException as error:
        state.emit(CompactionFailed(why=str(error) or "it was aborted"))
        if trigger == "auto" and isinstance(error, NothingToDrop):
            return None
        raise
    state.emit(
        CompactionEnded(
            trigger=trigger,
            before=before,
            after=state.report_context(),
            report=body.report,
            summary=body.summary,
        )
    )
    await report_compaction(state, trigger, body.summary)
    return body


async def compact_now(
    state: SessionState, instructions: str = "", *, force: bool = False
) -> Compacted:
    """Compact because the user asked for it.

    Args:
        state: The session.
        instructions: What the summary should keep.
        force: Compact even if that saves less than a tenth of the tokens.

    Raises:
        NothingToDrop: There is nothing to remove, or too little would be gained.
    """
    done = await compact(state, trigger="manual", instructions=instructions, force=force)
    assert done is not None  # noqa: S101 - only an automatic compaction may do nothing
    return done


def preview(state: SessionState) -> Compacted:
    """Preview a compaction, with a rule-based summary; changes nothing.

    Raises:
        NothingToDrop: There is nothing to remove, or too little would be gained.
    """
    body = compact_by_rules(state.journal.view, state.policy, state.strategy, trigger="manual")
    if isinstance(body, Stuck):
        raise NothingToDrop(f"nothing can be compacted: {body.why}", state=state.context_state())
    return body


async def _decide(
    state: SessionState, budget: Budget, before: ContextState, *, trigger: Trigger, force: bool
) -> Reduce | Compacted | Stuck:
    """Ask the strategy what to do; a custom one returns the finished entry."""
    view, strategy = state.journal.view, state.strategy
    if not isinstance(strategy, Custom):
        must = force or before.used_tokens > state.policy.thresholds.block * before.max_tokens
        plan = plan_compaction(view, strategy, budget, must=must)
        return economize(plan, state.policy) if trigger == "auto" else plan
    used = before.used_tokens
    if trigger == "overflow":
        # The provider counted more than the estimate: the function must see that it is too long.
        used = max(used, before.max_tokens)
    result = strategy.compress(list(render(view)), used)
    messages = await result if isawaitable(result) else result
    return compact_to(state.journal.view, messages, trigger=trigger, strategy=strategy.name)


async def _carry_out(
    state: SessionState,
    plan: Reduce | Compacted,
    budget: Budget,
    *,
    trigger: Trigger,
    instructions: str,
) -> Compacted:
    if isinstance(plan, Compacted):
        await state.journal.append(plan)
        return plan
    view = state.journal.view
    summary = await summarise(state, plan, budget, instructions=instructions)
    body = build_compaction(view, plan, summary, trigger=trigger, strategy=state.strategy.name)
    if body.report.tokens_after >= body.report.tokens_before:
        raise NothingToDrop(
            "the summary is longer than the messages that it replaces", state=state.context_state()
        )
    await state.journal.append(body)
    return body


def _full_text(state: SessionState, context: ContextState) -> str:
    limit = int(state.policy.thresholds.block * context.max_tokens)
    parts = {name: getattr(context.breakdown, name) for name in context.breakdown.__struct_fields__}
    largest = max(parts, key=lambda name: parts[name])
    return (
        f"the conversation needs {context.used_tokens:,} of {context.max_tokens:,} tokens and "
        f"at most {limit:,} are sent. Most of it is {largest.replace('_', ' ')} "
        f"({parts[largest]:,}). Shorten the request, clear the history, or use a model with a "
        f"larger window."
    )
