"""The attempts to write the summary of a compaction, until one makes the view smaller.

In this order: the summary model; the same again, asked to be brief and with half of the room; the
session's own model; rules; rules with less room. A draft that is empty, too long or saves too
little is not used, but its cost is recorded. After three compactions in a row without a usable
draft, rules write the summaries for a while; see `clew.context.summary_breaker`.
"""

from collections.abc import Callable

from msgspec import Struct, field
from msgspec.structs import replace

from clew.context.compaction_plan import draft_by_rules
from clew.context.estimate import text_units
from clew.context.loss_report import WrittenSummary
from clew.context.plan import Budget, Reduce, Wording
from clew.context.summary_breaker import RETRY_AFTER, SummaryBreaker
from clew.core.context_state import SummaryAttempt
from clew.core.errors import ContextOverflow, ProviderDenied, ProviderError, ProviderRejected
from clew.core.events import Warned
from clew.core.models import ModelFacts
from clew.core.usage import Spending, Usage
from clew.session.state import SessionState
from clew.session.summarizer import join_notes, write_notes
from clew.session.summary_check import check_notes
from clew.session.summary_notes import Notes

USED = "used"


class SummaryTask(Struct, kw_only=True):
    """What a summary is written for, and what was tried so far."""

    plan: Reduce
    budget: Budget
    find_fault: Callable[[WrittenSummary], str]
    """Returns why a summary cannot be used; an empty string if it can."""
    instructions: str = ""
    asks_models: bool = True
    """False lets only rules write."""
    prepared: Notes | None = None
    """Notes that were written for this plan in the background."""
    attempts: list[SummaryAttempt] = field(default_factory=list)
    warnings: set[str] = field(default_factory=set)
    """Texts that the user has seen: a retry often has the same fault."""


async def summarise(state: SessionState, task: SummaryTask) -> WrittenSummary | None:
    """Return the first summary that can be used; None if there is none.

    `task.attempts` gets every try, including those of a compaction that is aborted later.
    """
    plan = task.plan
    if task.prepared is not None and (summary := _use_prepared(state, task, task.prepared)):
        return summary
    if plan.dropped and plan.wording is Wording.MODEL and task.asks_models:
        summary = await _ask_models(state, task)
        if summary is not None:
            return summary
    for draft in draft_by_rules(state.journal.view, plan, task.budget):
        summary = _with_extra(state, draft)
        fault = task.find_fault(summary)
        if summary.text:
            task.attempts.append(SummaryAttempt(author="rules", outcome=fault or USED))
        if not fault:
            return summary
    return None


def _use_prepared(state: SessionState, task: SummaryTask, notes: Notes) -> WrittenSummary | None:
    """Return the summary that was prepared in the background, if it can be used."""
    summary = _join(state, task.plan, task.budget, notes)
    outcome = task.find_fault(summary) or USED
    tokens = notes.usage.context_tokens
    task.attempts.append(
        SummaryAttempt(author=notes.author, outcome=outcome, tokens=tokens, cost=notes.cost)
    )
    return summary if outcome == USED else None


async def _ask_models(state: SessionState, task: SummaryTask) -> WrittenSummary | None:
    own, plan = state.journal.view.setup.model, task.plan
    chosen = state.provider.facts(plan.summary_model) if plan.summary_model else state.summary_model
    meant = chosen or own
    if state.summary_breaker.is_open(meant.name, now=state.clock()):
        return None
    before = len(task.attempts)
    summary, error = await _try(state, task, meant)
    if summary is None and not isinstance(error, ProviderDenied | ProviderRejected):
        # With half of the window the chunks are half as long.
        smaller = replace(meant, window=meant.window // 2)
        again = smaller if isinstance(error, ContextOverflow) else meant
        summary, error = await _try(state, task, again, brief=True)
    if summary is None and own != meant:
        summary, error = await _try(state, task, own, brief=True)
    if summary is not None:
        state.summary_breaker = SummaryBreaker()
    elif len(task.attempts) > before:
        _record_failure(state, meant)
    return summary


def _record_failure(state: SessionState, meant: ModelFacts) -> None:
    breaker = state.summary_breaker.add_failure(meant.name, now=state.clock())
    state.summary_breaker = breaker
    if breaker.has_just_opened:
        state.emit(
            Warned(
                f"{meant.name} wrote no usable summary in {breaker.failures} compactions in a row;"
                f" rules write summaries for the next {RETRY_AFTER / 60:.0f} minutes, or until you"
                " change the model"
            )
        )


async def _try(
    state: SessionState, task: SummaryTask, model: ModelFacts, *, brief: bool = False
) -> tuple[WrittenSummary | None, ProviderError | None]:
    """Let a model write; returns a summary that can be used, or the error that prevented it."""
    budget = replace(task.budget, summary=task.budget.summary // 2) if brief else task.budget
    if not model.summarises or not _can_pay(state, task, model, budget):
        return None, None
    wanted = f"{task.instructions}\nBe brief." if brief else task.instructions
    spent, outcome = state.journal.spending, "it was aborted"
    try:
        notes = await write_notes(state, model, task.plan, budget=budget, instructions=wanted)
        notes = await check_notes(state, model, task.plan, budget=budget, notes=notes)
        summary = _join(state, task.plan, budget, notes)
        if not notes.text:
            outcome = "it was empty"
        elif text_units(notes.text) > budget.summary:
            outcome = "it was too long"
        else:
            outcome = task.find_fault(summary) or USED
    except ProviderError as error:
        outcome = str(error)
        _warn(state, task, f"{model.name} wrote no summary: {error}")
        return None, error
    finally:
        attempt = _measure(spent, state.journal.spending, author=model.name, outcome=outcome)
        task.attempts.append(attempt)
        if state.journal.spending.calls > spent.calls:
            read = max(attempt.tokens, _estimate_input(state, task))
            state.pace = state.pace.add_summary(read)
    if outcome == USED:
        return summary, None
    _warn(state, task, f"the summary by {model.name} was not used: {outcome}")
    return None, None


def _warn(state: SessionState, task: SummaryTask, text: str) -> None:
    if text not in task.warnings:
        task.warnings.add(text)
        state.emit(Warned(text))


def _can_pay(state: SessionState, task: SummaryTask, model: ModelFacts, budget: Budget) -> bool:
    output = round(budget.notes * state.journal.view.calibration.rate)
    expected = Usage(input_tokens=_estimate_input(state, task), output_tokens=output)
    if state.affords(expected, model.name):
        return True
    _warn(state, task, f"the budget does not allow a summary by {model.name}")
    return False


def _estimate_input(state: SessionState, task: SummaryTask) -> int:
    units = sum(item.units for item in task.plan.dropped)
    return round(units * state.journal.view.calibration.rate)


def _measure(before: Spending, after: Spending, *, author: str, outcome: str) -> SummaryAttempt:
    tokens = after.usage.context_tokens - before.usage.context_tokens
    is_known = after.unpriced == before.unpriced
    cost = after.usd - before.usd if is_known else None
    return SummaryAttempt(author=author, outcome=outcome, tokens=tokens, cost=cost)


def _join(state: SessionState, plan: Reduce, budget: Budget, notes: Notes) -> WrittenSummary:
    joined = join_notes(state.journal.view, plan, budget, notes)
    return _with_extra(state, replace(joined, check=notes.check))


def _with_extra(state: SessionState, summary: WrittenSummary) -> WrittenSummary:
    if not summary.text or state.options["extra_facts"] is None:
        return summary
    return replace(summary, text="\n".join([summary.text, *state.options["extra_facts"]()]))
