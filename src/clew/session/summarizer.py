"""Writes the summary of a compaction.

The ladder: the summary model; the same again, asked to be brief; the session's own model; rules.
A history larger than the window of the summary model is read in chunks; each chunk updates the
notes of the one before. After three failures in a row, only rules write summaries in this session.
"""

from msgspec.structs import replace

from clew.context.compaction_plan import summarise_by_rules
from clew.context.estimate import text_units
from clew.context.items import Item, ItemKind, Items
from clew.context.loss_report import WrittenSummary
from clew.context.plan import Budget, Reduce, Wording
from clew.context.summary_prompt import (
    SUMMARY_SYSTEM,
    build_summary_prompt,
    format_facts,
    split_transcript,
)
from clew.context.view import View
from clew.core.errors import ContextOverflow, ProviderError, ProviderRejected
from clew.core.events import CompactionProgress, Warned
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from clew.providers.protocol import Request
from clew.session.shared_prefix import make_shared_request
from clew.session.state import SessionState
from clew.session.summary_call import Notes, ask

_MOST_FAILURES = 3
_CHARS_PER_TOKEN = 3
_LEAST_OUTPUT = 256
_FACTS_CHARS_PER_UNIT = 0.75
"""Lets facts take about a quarter of a summary's budget."""


async def summarise(
    state: SessionState, plan: Reduce, budget: Budget, *, instructions: str = ""
) -> WrittenSummary:
    """Return the summary for `plan`. Always succeeds: the last step needs no model."""
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
                return join_notes(state.journal.view, plan, budget, notes)
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


def join_notes(view: View, plan: Reduce, budget: Budget, notes: Notes) -> WrittenSummary:
    """Return the model's draft, followed by what code extracted from the messages that go."""
    gone = (*view.archived, *(i for i in plan.dropped if i.kind is not ItemKind.SUMMARY))
    facts = format_facts(gone, max_chars=int(budget.summary * _FACTS_CHARS_PER_UNIT))
    text = f"{notes.text}\n\n{facts}".strip()
    return WrittenSummary(text=text, author="model", usage=notes.usage)


async def write_notes(
    state: SessionState, model: ModelFacts, plan: Reduce, *, budget: Budget, instructions: str
) -> Notes:
    """Let `model` write the draft, reading in as many chunks as its window requires.

    Where that costs less, the model is asked at the end of the conversation itself; see
    `clew.session.shared_prefix`. An answer that asks for tools is not used.

    Each call is charged to the session as soon as it ends.

    Raises:
        ProviderError: A call failed.
    """
    view = state.journal.view
    max_chars = model.window * _CHARS_PER_TOKEN // 2
    notes = Notes(text=view.summary, usage=Usage())
    parts = list(split_transcript(_transcript(view.items, plan), max_chars=max_chars))
    shared = make_shared_request(
        state, model, plan, budget=budget, transcript=parts, instructions=instructions
    )
    if shared is not None:
        state.emit(CompactionProgress(stage="reading", done=0, total=1))
        draft = await _ask_at_the_end(state, shared)
        if draft.text and not draft.called_tools:
            return draft
        notes = replace(draft, text=notes.text)
    for number, part in enumerate(parts, start=1):
        state.emit(CompactionProgress(stage="reading", done=number - 1, total=len(parts)))
        prompt = build_summary_prompt(part, previous=notes.text, instructions=instructions)
        request = Request(
            model=model.name,
            messages=(prompt,),
            system=SUMMARY_SYSTEM,
            max_output_tokens=min(model.max_output, max(_LEAST_OUTPUT, budget.summary)),
        )
        notes = await ask(state, request, after=notes)
    return notes


async def _ask_at_the_end(state: SessionState, request: Request) -> Notes:
    """Ask after the conversation's own prefix; a request that is too long or rejected gives none."""
    try:
        return await ask(state, request)
    except (ContextOverflow, ProviderRejected):
        return Notes(text="", usage=Usage())


def _transcript(items: Items, plan: Reduce) -> list[Item]:
    """Return all messages up to the last one that goes, including those that stay.

    An answer without its question would make a poor transcript.
    """
    last = plan.dropped[-1].entry_id
    messages: list[Item] = []
    for item in items:
        if item.kind is not ItemKind.SUMMARY:
            messages.append(item)
        if item.entry_id == last:
            break
    return messages


def _with_extra(state: SessionState, summary: WrittenSummary) -> WrittenSummary:
    if not summary.text or state.options["extra_facts"] is None:
        return summary
    return replace(summary, text="\n".join([summary.text, *state.options["extra_facts"]()]))
