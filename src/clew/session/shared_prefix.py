"""Asks for a summary after the conversation's own prefix, where that is the cheaper form.

The request has the same system prompt, tools and messages as the next turn would have, and one
more message: the instruction. So the provider reads all but the end from its prompt cache. Where
the cache is cold, another model summarises, or the request would not fit, there is no such
request, and the conversation is sent as text.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from clew.context.estimate import message_units, text_units
from clew.context.items import ItemKind
from clew.context.plan import Budget, Reduce
from clew.context.summary_cost import (
    MOST_OUTPUT,
    SummaryForm,
    SummaryPrices,
    SummarySizes,
    choose_form,
    count_cached,
)
from clew.context.summary_prompt import build_summary_instruction
from clew.context.view import View
from clew.core.entries import Compacted, Entry, MessageAdded
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from clew.providers.protocol import Request
from clew.session.model_call import request_for
from clew.session.state import SessionState

_SAMPLE = 100_000


def make_shared_request(
    state: SessionState,
    model: ModelFacts,
    plan: Reduce,
    *,
    budget: Budget,
    transcript: Sequence[Sequence[str]],
    instructions: str = "",
) -> Request | None:
    """Return the request for notes after the conversation's prefix; None for the other form.

    Args:
        state: The session.
        model: The model that writes the notes.
        plan: What the notes replace.
        budget: How long the notes may be.
        transcript: What the serialised form would send, in its parts.
        instructions: What the notes should keep.
    """
    view = state.journal.view
    if model.name != view.setup.model.name or not view.items.is_complete:
        return None
    cached = _count_cached_tokens(state)
    if not cached:
        return None
    used = state.used_tokens
    window = min(model.window, view.setup.model.window)
    longest = min(budget.notes, max(0, window - used) / view.calibration.rate)
    instruction = build_summary_instruction(
        kept=_count_kept(view, plan),
        max_units=int(longest),
        instructions=instructions,
    )
    sizes = SummarySizes(
        view=used,
        cached=cached,
        instruction=_tokens(view, message_units(instruction)),
        transcript=_tokens(view, sum(text_units(line) for part in transcript for line in part)),
        output=min(model.max_output, MOST_OUTPUT, _tokens(view, budget.notes)),
        thinking=_tokens(view, view.items.totals[ItemKind.REASONING] * 2 // len(view.items)),
    )
    if choose_form(sizes, _find_prices(state, model.name), window=window) is SummaryForm.SERIALISED:
        return None
    request = request_for(state, used)
    room = min(model.max_output, window - sizes.view - sizes.instruction)
    return replace(request, messages=(*request.messages, instruction), max_output_tokens=room)


def _count_kept(view: View, plan: Reduce) -> int:
    """Return the number of messages after the last one that goes."""
    leaving = {item.entry_id for item in plan.dropped}
    places = [n for n, item in enumerate(view.items, 1) if item.entry_id in leaving]
    return len(view.items) - max(places, default=0)


def _tokens(view: View, units: int) -> int:
    return round(units * view.calibration.rate)


def _count_cached_tokens(state: SessionState) -> int:
    """Return how much of the next request is in the provider's cache."""
    if state.journal.view.anchor is None:
        # The view has changed since its last request, so it begins with other bytes.
        return 0
    found = _find_last_call(state.journal.entries)
    if found is None:
        return 0
    entry, usage = found
    return count_cached(
        usage.input_tokens,
        reported=usage.cache_read_tokens + usage.cache_write_tokens,
        age=state.clock() - entry.at,
        cold_after=state.policy.prices.cold_after,
    )


def _find_last_call(entries: Sequence[Entry]) -> tuple[Entry, Usage] | None:
    for entry in reversed(entries):
        if isinstance(entry.body, MessageAdded) and entry.body.usage is not None:
            return entry, entry.body.usage
        if isinstance(entry.body, Compacted):
            return None
    return None


def _find_prices(state: SessionState, model: str) -> SummaryPrices:
    """Return what the model costs; the usual relations where that is unknown or nothing."""
    found = [
        state.cost(usage, model)
        for usage in (
            Usage(input_tokens=_SAMPLE),
            Usage(input_tokens=_SAMPLE, cache_read_tokens=_SAMPLE),
            Usage(input_tokens=_SAMPLE, cache_write_tokens=_SAMPLE),
            Usage(output_tokens=_SAMPLE),
        )
    ]
    match found:
        case [float(full), float(read), float(write), float(output)] if full > 0:
            return SummaryPrices(input=full, read=read, write=write, output=output)
        case _:
            usual = state.policy.prices
            return SummaryPrices(read=usual.read_price, write=usual.write_price)
