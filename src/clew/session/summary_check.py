"""Lets a model check the notes of a summary, where the policy asks for it.

The check never fails a compaction: without an answer, the notes stay as they are, and the loss
report says so.
"""

from msgspec.structs import replace

from clew.context.compaction_plan import summarise_by_rules
from clew.context.estimate import text_units
from clew.context.plan import Budget, Reduce
from clew.context.summary_check import CHECK_SYSTEM, add_points, build_check_prompt, parse_points
from clew.context.summary_prompt import split_transcript
from clew.context.view import View
from clew.core.context_state import SummaryCheck
from clew.core.errors import ClewError
from clew.core.events import Warned
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from clew.providers.protocol import Request
from clew.session.state import SessionState
from clew.session.summarizer import list_transcript
from clew.session.summary_call import ask
from clew.session.summary_notes import FOREGROUND, Notes

_CHARS_PER_TOKEN = 3
_MOST_OUTPUT = 2_000
_CHARGE = "a check of a summary"


async def check_notes(
    state: SessionState,
    model: ModelFacts,
    plan: Reduce,
    *,
    budget: Budget,
    notes: Notes,
    why: str = FOREGROUND,
) -> Notes:
    """Return `notes` with what a second call found missing.

    They are unchanged where no check is wanted, or the notes are empty or too long to be used.

    Args:
        state: The session.
        model: The model that wrote the notes; it also checks them.
        plan: What the notes replace.
        budget: How long the notes may be.
        notes: The notes.
        why: What the journal says about the cost of notes.
    """
    is_draft = notes.text and text_units(notes.text) <= budget.summary
    if not state.policy.verify_summary or not is_draft:
        return notes
    answers = Notes(text="", usage=Usage())
    points: list[str] = []
    fault = ""
    try:
        for request in _requests(state.journal.view, model, plan, budget=budget, notes=notes.text):
            charge = _CHARGE if why == FOREGROUND else why
            answers = await ask(state, request, why=charge, after=answers)
            points += parse_points(answers.text)
    except ClewError as error:
        fault = str(error)
        state.emit(Warned(f"the summary was not checked completely: {error}"))
    checked = add_points(notes.text, points, max_units=budget.summary)
    return replace(
        notes,
        text=checked.text,
        usage=notes.usage + answers.usage,
        cost=None if notes.cost is None or answers.cost is None else notes.cost + answers.cost,
        check=SummaryCheck(
            added=checked.added,
            left_out=checked.left_out,
            usage=answers.usage,
            cost=answers.cost,
            fault=fault,
        ),
    )


def _requests(
    view: View, model: ModelFacts, plan: Reduce, *, budget: Budget, notes: str
) -> list[Request]:
    """Return one request per part of the transcript that fits into the model's window."""
    facts = summarise_by_rules(view, plan, budget).text
    whole = model.window * _CHARS_PER_TOKEN * 2 // 3
    max_chars = max(model.window, whole - len(facts) - len(notes))
    return [
        Request(
            model=model.name,
            messages=(build_check_prompt(notes, facts=facts, transcript=part),),
            system=CHECK_SYSTEM,
            max_output_tokens=min(model.max_output, _MOST_OUTPUT),
        )
        for part in split_transcript(list_transcript(view.items, plan), max_chars=max_chars)
    ]
