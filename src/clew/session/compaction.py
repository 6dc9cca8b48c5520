"""Compaction: carry out what `clew.context` decided, and report what was done.

The strategy decides when (before a model call, in `clew.session.window_fit`) and what goes. The
summary comes from `clew.session.summarizer`. Every change is an entry.
"""

from inspect import isawaitable

from msgspec import Struct, field
from msgspec.structs import replace

from clew.context.clearing_plan import plan_clearing, plan_squeeze
from clew.context.compaction_pace import Tier
from clew.context.compaction_plan import (
    economize,
    find_gain_fault,
    is_worth_a_call,
    limit_summary,
    make_budget,
    plan_compaction,
    plan_without_summary,
)
from clew.context.compaction_triggers import find_limit, is_compaction_due
from clew.context.loss_report import WrittenSummary, build_compaction, report_clearing
from clew.context.plan import Reduce, Stuck
from clew.context.render import render
from clew.context.strategies.custom import Custom, compact_to
from clew.context.window_state import describe_load
from clew.core.context_state import ContextState, Status, SummaryAttempt
from clew.core.entries import Compacted, ResultsCleared, Trigger
from clew.core.errors import ContextFull, ContextThrashing, NothingToDrop
from clew.core.events import (
    CompactionEnded,
    CompactionFailed,
    CompactionStarted,
    ToolResultsCleared,
    Warned,
)
from clew.core.text import pluralize
from clew.session.background_compaction import find_prepared_plan, take_prepared_notes
from clew.session.hook_events import check_compaction, report_compaction
from clew.session.state import SessionState


async def make_room(state: SessionState) -> None:
    """Clear results and compact where that is due, and truncate what is still too long.

    Raises:
        ContextFull: The view is still above the hard limit; nothing was sent.
    """
    policy, strategy = state.policy, state.strategy
    clears = plan_clearing(state.journal.view, policy, strategy, now=state.clock())
    if clears is not None:
        await _clear_results(state, clears)
    if is_compaction_due(state.journal.view, policy, strategy, used=state.used_tokens):
        await compact(state, trigger="auto")
    limit = find_limit(policy, window=state.journal.view.setup.model.window)
    if state.used_tokens > limit:
        excess = state.used_tokens - limit * 9 // 10
        squeezed = plan_squeeze(state.journal.view, excess=excess, protect=policy.protect)
        if squeezed is not None:
            await _clear_results(state, squeezed)
    context = state.context_state()
    if context.used_tokens > limit:
        raise ContextFull(_full_text(state, context), state=context)


async def _clear_results(state: SessionState, body: ResultsCleared) -> None:
    before, report = state.context_state(), report_clearing(state.journal.view, body)
    await state.journal.append(body)
    after = state.report_context()
    state.emit(ToolResultsCleared(trigger=body.trigger, before=before, after=after, report=report))


class _Order(Struct, frozen=True, kw_only=True):
    """What was asked for."""

    trigger: Trigger
    before: ContextState
    must: bool
    """Any saving is enough."""
    window: int | None = None
    tier: Tier = Tier.MODEL
    attempts: list[SummaryAttempt] = field(default_factory=list)
    """Filled while the summary is written."""


async def compact(
    state: SessionState,
    *,
    trigger: Trigger,
    instructions: str = "",
    window: int | None = None,
    force: bool = False,
    paced: bool = True,
) -> Compacted | None:
    """Compact the view once, to fit `window` or the model's own window.

    A failure leaves the view unchanged.

    Args:
        state: The session.
        trigger: What asks for it.
        instructions: What the summary should keep.
        window: Default: the model's.
        force: Accept any saving.
        paced: Let rules write the summary if a model wrote one a few calls ago.

    Returns:
        The compaction, or None when an automatic one would gain nothing.

    Raises:
        NothingToDrop: It is not automatic, and there is nothing to remove.
        ContextThrashing: It is not manual, and the last ones freed too little.
    """
    before = state.context_state()
    is_over = before.used_tokens > state.policy.thresholds.block * before.max_tokens
    order = _Order(trigger=trigger, before=before, must=force or is_over, window=window)
    plan = await _decide(state, order, instructions)
    if isinstance(plan, Stuck):
        if trigger != "auto":
            raise NothingToDrop(f"nothing can be compacted: {plan.why}", state=before)
        return None
    if paced:
        order = replace(order, tier=_choose_tier(state, order))
    why_not, instructions = await check_compaction(state, trigger, instructions)
    if why_not:
        if trigger != "auto":
            raise NothingToDrop(f"the compaction was refused: {why_not}", state=before)
        state.emit(Warned(f"a compaction was refused: {why_not}"))
        return None
    try:
        return await _carry_out(state, order, plan, instructions)
    except NothingToDrop:
        if trigger != "auto":
            raise
        return None


async def _carry_out(
    state: SessionState, order: _Order, plan: Reduce | Compacted, instructions: str
) -> Compacted:
    """Append the entry; publishes the start and exactly one end."""
    state.emit(CompactionStarted(trigger=order.trigger, before=order.before))
    try:
        done = plan
        if isinstance(done, Reduce):
            done = await _write(state, order, done, instructions)
        await state.journal.append(done)
    except BaseException as error:
        why = str(error) or "it was aborted"
        state.emit(CompactionFailed(why=why, attempts=tuple(order.attempts)))
        raise
    report, after = done.report, state.report_context()
    gain = 1 - report.tokens_after / max(1, report.tokens_before)
    state.pace = state.pace.add_compaction(gain=gain)
    state.emit(
        CompactionEnded(
            trigger=order.trigger,
            before=order.before,
            after=after,
            report=report,
            summary=done.summary,
        )
    )
    await report_compaction(state, order.trigger, done.summary)
    return done


def _choose_tier(state: SessionState, order: _Order) -> Tier:
    """Ask the pace what this compaction may use; warn once if the window keeps refilling.

    Raises:
        ContextThrashing: Another compaction would not help.
    """
    pace, context = state.pace, order.before
    tier, load = pace.choose_tier(), describe_load(state.journal.view, context)
    if isinstance(state.strategy, Custom):
        return Tier.MODEL
    is_full = context.status is Status.CRITICAL or order.trigger == "overflow"
    if order.trigger == "manual" or not is_full:
        return Tier.RULES if tier is Tier.STOP else tier
    if tier is Tier.STOP:
        raise ContextThrashing(
            f"the window of {context.max_tokens:,} tokens was full again at once after"
            f" {pace.refills + 1} compactions in a row, so the run was stopped. {load}",
            state=context,
        )
    if (pace.is_refilling or pace.is_crowded) and not pace.warned:
        state.pace = pace.add_warning()
        again = f"was full again after {pluralize(pace.calls or 0, 'call')}"
        little = f"gained little room in {pluralize(pace.small_gains, 'compaction')}"
        happened = again if pace.is_refilling else little
        state.emit(
            Warned(
                f"the window of {context.max_tokens:,} tokens {happened},"
                f" so rules write most summaries for now. {load}"
            )
        )
    return tier


async def _decide(
    state: SessionState, order: _Order, instructions: str
) -> Reduce | Compacted | Stuck:
    """Ask the strategy what to do, unless a summary is prepared; a custom one returns the entry."""
    prepared = await find_prepared_plan(
        state, order.trigger, instructions=instructions, window=order.window
    )
    if prepared is not None:
        return prepared
    view, strategy = state.journal.view, state.strategy
    if not isinstance(strategy, Custom):
        budget = make_budget(view, state.policy, strategy, window=order.window)
        asked, protect = order.trigger != "auto", state.policy.protect
        plan = plan_compaction(
            view, strategy, budget, protect=protect, must=order.must, asked=asked
        )
        return economize(plan, state.policy) if order.trigger == "auto" else plan
    used = order.before.used_tokens
    if order.trigger == "overflow":
        # The provider counted more than the estimate: the function must see that it is too long.
        used = max(used, order.before.max_tokens)
    result = strategy.compress(list(render(view)), used)
    messages = await result if isawaitable(result) else result
    return compact_to(state.journal.view, messages, trigger=order.trigger, strategy=strategy.name)


async def _write(state: SessionState, order: _Order, plan: Reduce, instructions: str) -> Compacted:
    """Return the entry, with the first summary that is worth it.

    Raises:
        NothingToDrop: No summary and no clearing of results makes the view smaller.
    """
    # Imported here because few sessions are ever compacted, and it loads much.
    from clew.session.summary_fallback import SummaryTask, summarise  # noqa: PLC0415

    view = state.journal.view
    budget = make_budget(view, state.policy, state.strategy, window=order.window)
    from clew.context.file_versions import restore_files  # noqa: PLC0415 - few sessions need it

    restored = restore_files(view, plan, budget)

    def build(plan: Reduce, summary: WrittenSummary) -> Compacted:
        whole, name = restored.add_to(summary), state.strategy.name
        return build_compaction(view, plan, whole, trigger=order.trigger, strategy=name)

    task = SummaryTask(
        plan=plan,
        budget=limit_summary(view, plan, restored.budget),
        find_fault=lambda summary: find_gain_fault(build(plan, summary), must=order.must),
        instructions="\n".join(filter(None, [state.options["compact_instructions"], instructions])),
        asks_models=order.tier is Tier.MODEL
        and (order.trigger == "manual" or is_worth_a_call(view, plan, budget)),
        attempts=order.attempts,
        prepared=take_prepared_notes(state, plan, instructions=instructions),
    )
    summary = await summarise(state, task)
    if summary is not None:
        return build(plan, replace(summary, attempts=tuple(order.attempts)))
    none = WrittenSummary(text="", author="rules", attempts=tuple(order.attempts))
    cleared = build(plan_without_summary(view, protect=state.policy.protect), none)
    if fault := find_gain_fault(cleared, must=order.must):
        raise NothingToDrop(f"nothing can be compacted: {fault}", state=state.context_state())
    return cleared


def _full_text(state: SessionState, context: ContextState) -> str:
    limit = find_limit(state.policy, window=context.max_tokens)
    return (
        f"the conversation needs {context.used_tokens:,} of {context.max_tokens:,} tokens and "
        f"at most {limit:,} are sent. {describe_load(state.journal.view, context)}"
    )
