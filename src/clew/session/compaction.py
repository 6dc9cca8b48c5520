"""Compaction in action: carry out what the context decided, and report what it did.

Whether to compact is read off the `ContextState`; what leaves is the strategy's plan; the
words that stand in for it come from the model, or from rules where the model's are not to
be had or not to be trusted.
"""

from contextlib import aclosing

from clew.context.estimate import text_units
from clew.context.items import Item, Items, Kind
from clew.context.loss import Summary, account
from clew.context.plan import Budget, Reduce, Stuck
from clew.context.summary import SUMMARY_SYSTEM, digest, facts_text, summary_prompt
from clew.core.entries import Compacted, Trigger
from clew.core.errors import ContextFull, NothingToDrop, ProviderError
from clew.core.events import CompactionEnded, CompactionStarted, Warned
from clew.core.state import ContextState
from clew.core.usage import Usage
from clew.providers.protocol import Finished, Request, TextChunk
from clew.session.kit import Kit

_LEAST_GAIN = 0.10
_CHARS_PER_TOKEN = 3


async def fit(kit: Kit) -> ContextState:
    """Make sure that the view may be sent, compacting first when it is due.

    Raises:
        ContextFull: Above the hard limit even so; nothing was sent.
    """
    state = kit.report_state()
    thresholds = kit.policy.thresholds
    if thresholds.compact and state.used_tokens >= thresholds.compact * state.max_tokens:
        await compact(kit, trigger="auto")
        state = kit.state()
    if state.used_tokens > thresholds.block * state.max_tokens:
        raise ContextFull(_full_text(kit, state), state=state)
    return state


async def compact(kit: Kit, *, trigger: Trigger, instructions: str = "") -> Compacted | None:
    """Make the view smaller by one compaction.

    A failure leaves the view as it was.

    Returns:
        What was done, or None when an automatic compaction would gain nothing.

    Raises:
        NothingToDrop: The caller insisted, and there is nothing that may go.
    """
    before = kit.state()
    view = kit.journal.view
    budget = Budget.of(kit.policy, window=before.max_tokens, ratio=view.ratio)
    plan = kit.strategy.plan(view, budget)
    match plan:
        case Stuck(why=why):
            if trigger != "auto":
                raise NothingToDrop(f"nothing can be compacted: {why}", state=before)
            return None
        case Reduce():
            kit.emit(CompactionStarted(trigger=trigger, before=before))
            summary = await _summarise(kit, plan, budget, instructions)
            body = account(view, plan, summary, trigger=trigger, strategy=kit.strategy.name)
            report = body.report
            if report.tokens_after > report.tokens_before * (1 - _LEAST_GAIN):
                if trigger != "auto":
                    raise NothingToDrop("a compaction would gain too little", state=before)
                return None
            await kit.journal.append(body)
            after = kit.report_state()
            kit.emit(
                CompactionEnded(
                    trigger=trigger,
                    before=before,
                    after=after,
                    report=body.report,
                    summary=body.summary,
                )
            )
            return body


async def _summarise(kit: Kit, plan: Reduce, budget: Budget, instructions: str) -> Summary:
    view = kit.journal.view
    if not plan.dropped:
        return Summary(text="", author="rules")
    if view.setup.model.summarises:
        try:
            summary = await _ask_model(kit, plan, budget, instructions)
        except ProviderError as error:
            kit.emit(Warned(f"the model gave no summary ({error}); rules wrote it instead"))
        else:
            if summary.text and text_units(summary.text) <= 2 * budget.summary:
                return summary
            kit.emit(Warned("the model's summary was empty or too long; rules wrote it instead"))
    text = digest((*view.archived, *_messages(plan)), max_units=budget.summary)
    return Summary(text=text, author="rules")


async def _ask_model(kit: Kit, plan: Reduce, budget: Budget, instructions: str) -> Summary:
    view = kit.journal.view
    model = view.setup.model
    prompt = summary_prompt(
        _stretch(view.items, plan),
        previous=view.summary,
        instructions=instructions,
        max_chars=model.window * _CHARS_PER_TOKEN // 2,
    )
    request = Request(
        model=model.name,
        messages=(prompt,),
        system=SUMMARY_SYSTEM,
        max_output_tokens=min(model.max_output, max(256, int(budget.summary * view.ratio))),
    )
    pieces: list[str] = []
    usage: Usage | None = None
    async with aclosing(kit.provider.stream(request)) as chunks:
        async for chunk in chunks:
            if isinstance(chunk, TextChunk):
                pieces.append(chunk.text)
            elif isinstance(chunk, Finished):
                usage = chunk.usage
    text = "".join(pieces).strip()
    facts = facts_text((*view.archived, *_messages(plan)))
    return Summary(text=f"{text}\n\n{facts}".strip() if text else "", author="model", usage=usage)


def _messages(plan: Reduce) -> tuple[Item, ...]:
    return tuple(item for item in plan.dropped if item.kind is not Kind.SUMMARY)


def _stretch(items: Items, plan: Reduce) -> list[Item]:
    """Return all that was said up to the last message that goes, also what is spared.

    An answer without its question would make a poor transcript.
    """
    last = plan.dropped[-1].entry_id
    stretch = []
    for item in items:
        if item.kind is not Kind.SUMMARY:
            stretch.append(item)
        if item.entry_id == last:
            break
    return stretch


def _full_text(kit: Kit, state: ContextState) -> str:
    limit = int(kit.policy.thresholds.block * state.max_tokens)
    largest = max(kit.journal.view.items, key=lambda item: item.units, default=None)
    where = f" The largest message is #{largest.entry_id}." if largest else ""
    return (
        f"the conversation needs {state.used_tokens:,} of {state.max_tokens:,} tokens and "
        f"nothing above {limit:,} is sent.{where} Shorten the request, clear the history, "
        f"or use a model with a larger window."
    )
