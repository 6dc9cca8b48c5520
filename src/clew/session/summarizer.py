"""Writes the summary of a compaction.

The ladder: the summary model; the same again, asked to be brief; the session's own model; rules.
A history larger than the window of the summary model is read in chunks; each chunk updates the
notes of the one before. After three failures in a row, only rules write summaries in this session.
"""

from msgspec.structs import replace

from clew.context.compaction_plan import summarise_by_rules
from clew.context.estimate import text_units
from clew.context.items import ItemKind
from clew.context.loss_report import WrittenSummary
from clew.context.plan import Budget, Reduce, Wording
from clew.context.summary_prompt import (
    format_facts,
)
from clew.context.view import View
from clew.core.errors import ProviderError
from clew.core.events import Warned
from clew.core.models import ModelFacts
from clew.session.background_compaction import take_prepared_notes
from clew.session.state import SessionState
from clew.session.summary_check import check_notes
from clew.session.summary_notes import Notes, write_notes

_MOST_FAILURES = 3
_FACTS_CHARS_PER_UNIT = 0.75
"""Lets facts take about a quarter of a summary's budget."""


async def summarise(
    state: SessionState, plan: Reduce, budget: Budget, *, instructions: str = ""
) -> WrittenSummary:
    """Return the summary for `plan`. Always succeeds: the last step needs no model."""
    prepared = take_prepared_notes(state, plan, instructions=instructions)
    if prepared is not None:
        return _with_extra(state, _finish(state, plan, budget, prepared))
    instructions = "\n".join(filter(None, [state.options["compact_instructions"], instructions]))
    if plan.dropped and plan.wording is Wording.MODEL and state.summary_failures < _MOST_FAILURES:
        summary = await _by_model(state, plan, budget, instructions=instructions)
        if summary is not None:
            state.summary_failures = 0
            return _with_extra(state, summary)
    return _with_extra(state, summarise_by_rules(state.journal.view, plan, budget))


async def _by_model(
    state: SessionState, plan: Reduce, budget: Budget, *, instructions: str
) -> WrittenSummary | None:
    for model, brief in _attempts(state, plan):
        if not model.summarises:
            continue
        wanted = f"{instructions}\nBe brief." if brief else instructions
        try:
            notes = await write_notes(state, model, plan, budget=budget, instructions=wanted)
        except ProviderError as error:
            state.emit(Warned(f"{model.name} wrote no summary: {error}"))
        else:
            if notes.text and text_units(notes.text) <= budget.summary:
                notes = await check_notes(state, model, plan, budget=budget, notes=notes)
                return _finish(state, plan, budget, notes)
            fault = "too long" if notes.text else "empty"
            state.emit(Warned(f"the summary by {model.name} was {fault}"))
        state.summary_failures += 1
        if state.summary_failures >= _MOST_FAILURES:
            state.emit(
                Warned("summaries failed three times in a row; rules write them from now on")
            )
            return None
    return None


def _attempts(state: SessionState, plan: Reduce) -> list[tuple[ModelFacts, bool]]:
    own = state.journal.view.setup.model
    chosen = state.provider.facts(plan.summary_model) if plan.summary_model else state.summary_model
    meant = chosen or own
    return [(meant, False), (meant, True), *([(own, True)] if meant != own else [])]


def _finish(state: SessionState, plan: Reduce, budget: Budget, notes: Notes) -> WrittenSummary:
    summary = join_notes(state.journal.view, plan, budget, notes)
    return replace(summary, check=notes.check)


def join_notes(view: View, plan: Reduce, budget: Budget, notes: Notes) -> WrittenSummary:
    """Return the model's draft, followed by what code extracted from the messages that go."""
    gone = (*view.archived, *(i for i in plan.dropped if i.kind is not ItemKind.SUMMARY))
    facts = format_facts(gone, max_chars=int(budget.summary * _FACTS_CHARS_PER_UNIT))
    text = f"{notes.text}\n\n{facts}".strip()
    return WrittenSummary(text=text, author="model", usage=notes.usage)


def _with_extra(state: SessionState, summary: WrittenSummary) -> WrittenSummary:
    if not summary.text or state.options["extra_facts"] is None:
        return summary
    return replace(summary, text="\n".join([summary.text, *state.options["extra_facts"]()]))
