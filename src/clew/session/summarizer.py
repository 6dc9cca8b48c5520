"""Writes a summary with a model: its draft, and what code adds to it.

A history larger than the window of the summary model is read in chunks; each chunk updates the
notes of the one before. Which models are asked, and what follows if they fail, is decided in
`clew.session.summary_fallback`.
"""

from msgspec.structs import replace

from clew.context.compaction_plan import summarise_by_rules
from clew.context.items import Item, ItemKind, Items
from clew.context.loss_report import WrittenSummary
from clew.context.plan import Budget, Reduce
from clew.context.summary_prompt import (
    SUMMARY_SYSTEM,
    build_summary_prompt,
    split_transcript,
)
from clew.context.view import View
from clew.core.errors import ContextOverflow, ProviderRejected
from clew.core.messages import user
from clew.core.models import ModelFacts
from clew.core.text import truncate_middle
from clew.core.usage import Usage
from clew.providers.protocol import Request
from clew.session.shared_prefix import make_shared_request
from clew.session.state import SessionState
from clew.session.summary_call import ask, report_progress
from clew.session.summary_notes import FOREGROUND, Notes

_CHARS_PER_TOKEN = 3
_KEPT_CHARS = 2_000
"""Longest user message in the transcript, of those that stay in the view."""
_LEAST_OUTPUT = 256
_ROOM = 2
"""Times what is asked for: models exceed a number of words, and notes should not be cut off."""


def join_notes(view: View, plan: Reduce, budget: Budget, notes: Notes) -> WrittenSummary:
    """Return the model's draft, followed by what code extracted from the messages that go."""
    return summarise_by_rules(view, plan, budget, notes=notes.text, usage=notes.usage)


async def write_notes(
    state: SessionState,
    model: ModelFacts,
    plan: Reduce,
    *,
    budget: Budget,
    instructions: str,
    why: str = FOREGROUND,
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
    notes = Notes(text=view.notes or view.summary, usage=Usage())
    parts = list(split_transcript(list_transcript(view.items, plan), max_chars=max_chars))
    shared = make_shared_request(
        state, model, plan, budget=budget, transcript=parts, instructions=instructions
    )
    if shared is not None:
        report_progress(state, "reading", 0, 1, why=why)
        draft = await _ask_at_the_end(state, shared, why=why)
        if draft.text and not draft.called_tools:
            return draft
        notes = replace(draft, text=notes.text)
    most = round(_ROOM * budget.notes * view.calibration.rate)
    for number, part in enumerate(parts, start=1):
        report_progress(state, "reading", number - 1, len(parts), why=why)
        prompt = build_summary_prompt(
            part, max_units=budget.notes, previous=notes.text, instructions=instructions
        )
        request = Request(
            model=model.name,
            messages=(prompt,),
            system=SUMMARY_SYSTEM,
            max_output_tokens=min(model.max_output, max(_LEAST_OUTPUT, most)),
        )
        notes = await ask(state, request, why=why, after=notes)
    return notes


async def _ask_at_the_end(state: SessionState, request: Request, *, why: str) -> Notes:
    """Ask after the conversation's own prefix; a rejected or too long request gives no notes."""
    try:
        return await ask(state, request, why=why)
    except (ContextOverflow, ProviderRejected):
        return Notes(text="", usage=Usage())


def list_transcript(items: Items, plan: Reduce) -> list[Item]:
    """Return all messages up to the last one that goes, including those that stay.

    An answer without its question would make a poor transcript. A long message that stays is
    truncated: the summary need not repeat it.
    """
    leaving = {item.entry_id for item in plan.dropped}
    last = plan.dropped[-1].entry_id
    messages: list[Item] = []
    for item in items:
        if item.kind is ItemKind.USER and item.entry_id not in leaving:
            text = truncate_middle(item.message.text, _KEPT_CHARS)
            messages.append(Item.of(item.entry_id, user(text)))
        elif item.kind is not ItemKind.SUMMARY:
            messages.append(item)
        if item.entry_id == last:
            break
    return messages
