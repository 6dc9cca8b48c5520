"""The notes that a model writes for a summary, in one or more calls outside the conversation.

A history larger than the model's window is read in chunks; each chunk updates the notes of the
one before. Every call is charged to the session as soon as it ends, also when it is cancelled or
its answer is not used. Tool calls in an answer are never run.
"""

from contextlib import aclosing

import anyio
from msgspec import Struct
from msgspec.structs import replace

from clew.context.items import Item, ItemKind, Items
from clew.context.plan import Budget, Reduce
from clew.context.summary_prompt import SUMMARY_SYSTEM, build_summary_prompt, split_transcript
from clew.core.context_state import SummaryCheck
from clew.core.entries import Charged
from clew.core.errors import ContextOverflow, ProviderRejected
from clew.core.events import CompactionProgress
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from clew.providers.protocol import CallChunk, Finished, Request, TextChunk, UsageChunk
from clew.session.shared_prefix import make_shared_request
from clew.session.state import SessionState

_CHARS_PER_TOKEN = 3
_LEAST_OUTPUT = 256
_PROGRESS_STEP = 400


class Notes(Struct, frozen=True, kw_only=True):
    """What a model wrote, and what that took."""

    text: str
    usage: Usage
    cost: float | None = 0.0
    """US dollars; None if a price is unknown."""
    check: SummaryCheck | None = None
    """What a second call added; see `clew.session.summary_check`."""
    called_tools: bool = False
    """True if the answer asks for tools, so that its text is not the end of it."""


FOREGROUND, BACKGROUND = "a summary", "a summary prepared in the background"
"""What the journal says about the cost of a draft."""


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
    notes = Notes(text=view.summary, usage=Usage())
    parts = list(split_transcript(list_transcript(view.items, plan), max_chars=max_chars))
    shared = make_shared_request(
        state, model, plan, budget=budget, transcript=parts, instructions=instructions
    )
    if shared is not None:
        _report_progress(state, "reading", 0, 1, why=why)
        draft = await _ask_at_the_end(state, shared, why=why)
        if draft.text and not draft.called_tools:
            return draft
        notes = replace(draft, text=notes.text)
    for number, part in enumerate(parts, start=1):
        _report_progress(state, "reading", number - 1, len(parts), why=why)
        prompt = build_summary_prompt(part, previous=notes.text, instructions=instructions)
        request = Request(
            model=model.name,
            messages=(prompt,),
            system=SUMMARY_SYSTEM,
            max_output_tokens=min(model.max_output, max(_LEAST_OUTPUT, budget.summary)),
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


async def ask(
    state: SessionState, request: Request, *, why: str = FOREGROUND, after: Notes | None = None
) -> Notes:
    """Send `request` and return the text of the answer.

    Args:
        state: The session.
        request: The whole request.
        why: What the journal says about the cost.
        after: An earlier call, whose usage and cost are added.

    Raises:
        ProviderError: The call failed.
    """
    pieces: list[str] = []
    written = shown = 0
    usage: Usage | None = None
    finished: Finished | None = None
    called = False
    try:
        async with aclosing(state.stream(request, purpose="summary")) as stream:
            async for chunk in stream:
                match chunk:
                    case TextChunk(text=text):
                        pieces.append(text)
                        written += len(text)
                    case CallChunk():
                        called = True
                    case UsageChunk(usage=counted):
                        usage = counted
                    case Finished():
                        finished, usage = chunk, chunk.usage or usage
                    case _:
                        pass
                if written - shown >= _PROGRESS_STEP:
                    shown = written
                    _report_progress(state, "writing", written, why=why)
    finally:
        cost = None
        if finished is not None or usage is not None:
            cost = await _charge(state, request.model, usage, finished, why=why)
    spent = after or Notes(text="", usage=Usage())
    return Notes(
        text="".join(pieces).strip(),
        usage=spent.usage + (usage or Usage()),
        cost=None if cost is None or spent.cost is None else spent.cost + cost,
        called_tools=called,
    )


def _report_progress(
    state: SessionState, stage: str, done: int, total: int = 0, *, why: str = FOREGROUND
) -> None:
    """Publish how far a summary is."""
    background = why == BACKGROUND
    state.emit(CompactionProgress(stage=stage, done=done, total=total, background=background))


async def _charge(
    state: SessionState, model: str, usage: Usage | None, finished: Finished | None, *, why: str
) -> float | None:
    cost = finished.cost if finished is not None else None
    if cost is None and usage is not None:
        cost = state.cost(usage, model)
    with anyio.CancelScope(shield=True):
        await state.journal.append(Charged(why=why, usage=usage, cost=cost))
    return cost
