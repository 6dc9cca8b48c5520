"""Getting the words that stand in for what leaves the view, one way or another.

The ladder: the model that is meant for it; once more, asked to be brief; the session's own
model; rules. A history larger than the summariser's window is read in chunks, each bringing
the notes of the one before up to date. After three failures in a row the model is not asked
again in this session: rules always work.
"""

from contextlib import aclosing

import anyio
from msgspec import Struct
from msgspec.structs import replace

from clew.context.compaction import summarise_by_rules
from clew.context.estimate import text_units
from clew.context.items import Item, ItemKind, Items
from clew.context.loss_report import WrittenSummary
from clew.context.plan import Budget, Reduce, Wording
from clew.context.summary import (
    SUMMARY_SYSTEM,
    build_summary_prompt,
    format_facts,
    split_transcript,
)
from clew.core.entries import Charged
from clew.core.errors import ProviderError
from clew.core.events import CompactionProgress, Warned
from clew.core.models import ModelFacts
from clew.core.usage import Usage
from clew.providers.protocol import Finished, Request, TextChunk
from clew.session.state import SessionState

_MOST_FAILURES = 3
_CHARS_PER_TOKEN = 3
_LEAST_OUTPUT = 256
_PROGRESS_STEP = 400
_FACTS_CHARS_PER_UNIT = 0.75
"""Facts may take about a quarter of what a summary may take."""


class _Notes(Struct, frozen=True, kw_only=True):
    text: str
    usage: Usage


async def summarise(
    kit: SessionState, plan: Reduce, budget: Budget, *, instructions: str = ""
) -> WrittenSummary:
    """Write the words for `plan`. Always succeeds: the last rung needs no model."""
    instructions = "\n".join(filter(None, [kit.compact_instructions, instructions]))
    if plan.dropped and plan.wording is Wording.MODEL and kit.summary_failures < _MOST_FAILURES:
        summary = await _by_model(kit, plan, budget, instructions=instructions)
        if summary is not None:
            kit.summary_failures = 0
            return _with_extra(kit, summary)
    return _with_extra(kit, summarise_by_rules(kit.journal.view, plan, budget))


async def _by_model(
    kit: SessionState, plan: Reduce, budget: Budget, *, instructions: str
) -> WrittenSummary | None:
    view = kit.journal.view
    for model, brief in _rungs(kit, plan):
        if not model.summarises:
            continue
        wish = f"{instructions}\nBe brief." if brief else instructions
        try:
            notes = await _read_all(kit, model, plan, budget=budget, instructions=wish)
        except ProviderError as error:
            kit.emit(Warned(f"{model.name} gave no summary: {error}"))
        else:
            if notes.text and text_units(notes.text) <= budget.summary:
                gone = (
                    *view.archived,
                    *(i for i in plan.dropped if i.kind is not ItemKind.SUMMARY),
                )
                facts = format_facts(gone, max_chars=int(budget.summary * _FACTS_CHARS_PER_UNIT))
                text = f"{notes.text}\n\n{facts}".strip()
                return WrittenSummary(text=text, author="model", usage=notes.usage)
            fault = "too long" if notes.text else "empty"
            kit.emit(Warned(f"the summary by {model.name} was {fault}"))
        kit.summary_failures += 1
        if kit.summary_failures >= _MOST_FAILURES:
            kit.emit(Warned("summaries failed three times in a row; rules write them from now on"))
            return None
    return None


def _rungs(kit: SessionState, plan: Reduce) -> list[tuple[ModelFacts, bool]]:
    own = kit.journal.view.setup.model
    chosen = kit.provider.facts(plan.summary_model) if plan.summary_model else kit.summary_model
    meant = chosen or own
    return [(meant, False), (meant, True), *([(own, True)] if meant != own else [])]


async def _read_all(
    kit: SessionState, model: ModelFacts, plan: Reduce, *, budget: Budget, instructions: str
) -> _Notes:
    """Let `model` read what goes, in as many chunks as its window asks for."""
    view = kit.journal.view
    max_chars = model.window * _CHARS_PER_TOKEN // 2
    notes = _Notes(text=view.summary, usage=Usage())
    parts = list(split_transcript(_stretch(view.items, plan), max_chars=max_chars))
    for number, part in enumerate(parts, start=1):
        kit.emit(CompactionProgress(stage="reading", done=number - 1, total=len(parts)))
        prompt = build_summary_prompt(part, previous=notes.text, instructions=instructions)
        request = Request(
            model=model.name,
            messages=(prompt,),
            system=SUMMARY_SYSTEM,
            max_output_tokens=min(model.max_output, max(_LEAST_OUTPUT, budget.summary)),
        )
        notes = await _ask(kit, request, spent=notes.usage)
    return notes


async def _charge(kit: SessionState, model: str, finished: Finished) -> None:
    cost = finished.cost
    if cost is None and finished.usage is not None:
        cost = kit.cost(finished.usage, model)
    with anyio.CancelScope(shield=True):
        await kit.journal.append(Charged(why="a summary", usage=finished.usage, cost=cost))


async def _ask(kit: SessionState, request: Request, *, spent: Usage) -> _Notes:
    pieces: list[str] = []
    written = shown = 0
    usage = Usage()
    async with aclosing(kit.stream(request, purpose="summary")) as stream:
        async for chunk in stream:
            if isinstance(chunk, TextChunk):
                pieces.append(chunk.text)
                written += len(chunk.text)
                if written - shown >= _PROGRESS_STEP:
                    shown = written
                    kit.emit(CompactionProgress(stage="writing", done=written, total=0))
            elif isinstance(chunk, Finished):
                usage = chunk.usage or usage
                await _charge(kit, request.model, chunk)
    return _Notes(text="".join(pieces).strip(), usage=spent + usage)


def _stretch(items: Items, plan: Reduce) -> list[Item]:
    """Return all that was said up to the last message that goes, also what is spared.

    An answer without its question would make a poor transcript.
    """
    last = plan.dropped[-1].entry_id
    stretch: list[Item] = []
    for item in items:
        if item.kind is not ItemKind.SUMMARY:
            stretch.append(item)
        if item.entry_id == last:
            break
    return stretch


def _with_extra(kit: SessionState, summary: WrittenSummary) -> WrittenSummary:
    if not summary.text or kit.extra_facts is None:
        return summary
    return replace(summary, text="\n".join([summary.text, *kit.extra_facts()]))
