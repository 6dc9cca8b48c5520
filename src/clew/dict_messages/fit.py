"""`fit` and `count_tokens`: the context engine for a message list of one's own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from clew.context.compaction import plan_squeeze, summarise_by_rules
from clew.context.estimate import text_units
from clew.context.items import ItemKind
from clew.context.loss_report import WrittenSummary, build_compaction
from clew.context.plan import Budget, Reduce, Strategy, Stuck, Wording
from clew.context.policy import Thresholds
from clew.context.state import compute_state
from clew.context.strategies import make_strategy
from clew.context.summary import build_summary_prompt, format_facts, format_transcript
from clew.context.view import View
from clew.core.context_state import ContextState
from clew.core.entries import Entry
from clew.core.errors import ConfigError, ContextFull
from clew.core.ids import EntryId
from clew.core.text import replace_surrogates
from clew.dict_messages.source import Source, open_source

M = TypeVar("M")
Summarizer = Callable[[str], str]
"""Gets the request for a summary as text, and returns the summary."""

_ROUNDS = 3
_ALL_THAT_FIT = 10**9
_SMALL = 5_000
"""Units that are worth a second look at how they could be used."""
_USE_OF_SPARE = 0.5
"""The rest stays free, so that not every step of a loop has to shrink the list again."""
_SUMMARY_ID = EntryId(0)


class FitReport(Struct, frozen=True, kw_only=True):
    """What became of each message: by its place in the list, in exactly one of four lists.

    Places count from 0, in the list as it was after repairs.
    """

    tokens_before: int
    tokens_after: int
    kept: tuple[int, ...]
    summarised: tuple[int, ...] = ()
    cleared: tuple[int, ...] = ()
    archived: tuple[int, ...] = ()
    repairs: tuple[str, ...] = ()
    """What was wrong with the list as it was given, in words."""
    strategy: str = ""
    why: str = ""


class Fitted(Struct, Generic[M], frozen=True, kw_only=True):
    """A message list that fits, in the style it came in."""

    messages: list[M]
    report: FitReport


def fit(  # noqa: PLR0913 - a plain function for callers with no session to hold their options
    messages: Sequence[M],
    *,
    max_tokens: int,
    model: str | None = None,
    strategy: str | Strategy = "tiered",
    summarize: Summarizer | None = None,
    system: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    invalid: Literal["repair", "refuse"] = "repair",
) -> Fitted[M]:
    """Make a message list fit into `max_tokens`, keeping what matters.

    Takes lists as OpenAI's or Anthropic's API have them, or Clew messages. What fits is
    returned as it is; messages that stay are the caller's own objects. System messages, the
    last user message and the most recent steps always stay, and no tool call is parted from
    its result. `system` and `tools` are counted if they are sent beside the messages.

    Without `summarize` no model is asked: rules write what takes the place of old turns.

    Raises:
        ConfigError: The list is not one a provider would take, and `invalid` is `refuse`.
        ContextFull: What must stay does not fit.
    """
    source = open_source(messages, model=model, system=system, tools=tools, invalid=invalid)
    way = make_strategy(strategy) if isinstance(strategy, str) else strategy
    budget = Budget.of(
        source.view, tokens=max_tokens, recent_turns=_ALL_THAT_FIT, fill=_USE_OF_SPARE
    )
    view, why = _shrunk(source.view, way, budget, max_tokens=max_tokens, summarize=summarize)
    return Fitted(
        messages=source.write(view),
        report=_report(source, view, strategy=way.name, why=why),
    )


def count_tokens(
    messages: Sequence[Any],
    *,
    model: str | None = None,
    system: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
) -> int:
    """Estimate how many tokens a request with these messages has.

    Exact for models whose tokenizer is known and installed (`clew[tokenizers]`), a calibrated
    estimate otherwise.
    """
    source = open_source(messages, model=model, system=system, tools=tools, invalid="repair")
    return _state(source.view).used_tokens


def _shrunk(
    view: View,
    strategy: Strategy,
    budget: Budget,
    *,
    max_tokens: int,
    summarize: Summarizer | None,
) -> tuple[View, str]:
    why = "it fits as it is"
    for _ in range(_ROUNDS):
        if _state(view).used_tokens <= max_tokens:
            return view, why
        plan = strategy.plan(view, budget)
        if isinstance(plan, Stuck):
            break
        plan, summary = _filled(view, strategy, plan, budget=budget, summarize=summarize)
        body = build_compaction(view, plan, summary, trigger="auto", strategy=strategy.name)
        if body.report.tokens_after >= body.report.tokens_before:
            break
        view = view.apply(Entry(id=_SUMMARY_ID, at=0.0, body=body))
        why = plan.why
    view = _squeezed(view, max_tokens)
    state = _state(view)
    if state.used_tokens > max_tokens:
        raise ContextFull(
            f"the messages need {state.used_tokens:,} tokens, and {max_tokens:,} are allowed: "
            f"what is left is recent, pinned or the user's request",
            state=state,
        )
    return view, why


def _filled(
    view: View,
    strategy: Strategy,
    plan: Reduce,
    *,
    budget: Budget,
    summarize: Summarizer | None,
) -> tuple[Reduce, WrittenSummary]:
    """Write the words for `plan`; where they leave much room, keep more of the tail instead."""
    summary = _words(view, plan, budget, summarize)
    body = build_compaction(view, plan, summary, trigger="auto", strategy=strategy.name)
    after = view.apply(Entry(id=_SUMMARY_ID, at=0.0, body=body))
    spare = budget.limit - after.items.units()
    if summarize is not None or not plan.dropped or not _SMALL > spare > budget.limit // 4:
        return plan, summary
    roomier = replace(budget, tail=budget.tail + int(spare * _USE_OF_SPARE))
    again = strategy.plan(view, roomier)
    if isinstance(again, Stuck) or not again.dropped or again.dropped == plan.dropped:
        return plan, summary
    return again, _words(view, again, roomier, summarize)


def _squeezed(view: View, max_tokens: int) -> View:
    for _ in range(_ROUNDS):
        excess = _state(view).used_tokens - max_tokens
        body = plan_squeeze(view, excess=excess) if excess > 0 else None
        if body is None:
            break
        view = view.apply(Entry(id=_SUMMARY_ID, at=0.0, body=body))
    return view


def _words(
    view: View, plan: Reduce, budget: Budget, summarize: Summarizer | None
) -> WrittenSummary:
    if summarize is None or not plan.dropped or plan.wording is not Wording.MODEL:
        return summarise_by_rules(view, plan, budget)
    gone = [item for item in plan.dropped if item.kind is not ItemKind.SUMMARY]
    prompt = build_summary_prompt(format_transcript(gone), previous=view.summary)
    text = summarize(prompt.text)
    if not isinstance(text, str):
        raise ConfigError(f"summarize must return text, not {type(text).__name__}")
    text = replace_surrogates(text).strip()
    if not text or text_units(text) > budget.summary:
        return summarise_by_rules(view, plan, budget)
    return WrittenSummary(
        text=f"{text}\n\n{format_facts(gone, max_chars=2_000)}".strip(), author="model"
    )


def _report(source: Source[M], view: View, *, strategy: str, why: str) -> FitReport:
    now = {item.entry_id: item for item in view.items}
    fate: dict[int, str] = {}
    for item in source.view.items:
        place = source.place_of(item.entry_id)
        here = now.get(item.entry_id)
        this = "kept" if here is item else "cleared" if here is not None else "gone"
        fate[place] = this if fate.get(place, this) == this else "cleared"
    gone = tuple(place for place, what in fate.items() if what == "gone")
    header = tuple(place for place in range(source.length) if place not in fate)
    return FitReport(
        tokens_before=_state(source.view).used_tokens,
        tokens_after=_state(view).used_tokens,
        kept=tuple(sorted((*header, *(place for place, what in fate.items() if what == "kept")))),
        summarised=gone if view.summary else (),
        cleared=tuple(place for place, what in fate.items() if what == "cleared"),
        archived=() if view.summary else gone,
        repairs=source.repairs,
        strategy=strategy,
        why=why,
    )


def _state(view: View) -> ContextState:
    return compute_state(view, Thresholds(), window=max(1, view.setup.model.window))
