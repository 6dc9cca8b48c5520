"""`fit` and `count_tokens`: the context engine for your own message lists."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import compress, filterfalse
from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct

from clew.context.clearing_plan import plan_squeeze
from clew.context.compaction_plan import LEAST_DIGEST, limit_summary, summarise_by_rules
from clew.context.estimate import text_units
from clew.context.items import ItemKind
from clew.context.loss_report import WrittenSummary, build_compaction
from clew.context.plan import Budget, Reduce, Strategy, Stuck, Wording
from clew.context.policy import Thresholds
from clew.context.strategies import make_strategy
from clew.context.summary_prompt import build_summary_prompt, format_transcript
from clew.context.view import View
from clew.context.window_state import compute_state
from clew.core.context_state import ContextState
from clew.core.entries import Entry
from clew.core.errors import ConfigError, ContextFull
from clew.core.ids import EntryId
from clew.core.text import replace_surrogates
from clew.dict_messages.message_list import MessageList, find_place, read_message_list

M = TypeVar("M")
Summarizer = Callable[[str], str]
"""Called with a prompt for a summary; returns the summary."""

_ROUNDS = 3
_SUMMARY_ID = EntryId(0)


class FitReport(Struct, frozen=True, kw_only=True):
    """What happened to each message. Each index is in exactly one of the four lists.

    Indexes count from 0, in the list after repairs.
    """

    tokens_before: int
    tokens_after: int
    kept: tuple[int, ...]
    summarised: tuple[int, ...] = ()
    cleared: tuple[int, ...] = ()
    archived: tuple[int, ...] = ()
    repairs: tuple[str, ...] = ()
    """What was wrong with the given list."""
    strategy: str = ""
    why: str = ""


class Fitted(Struct, Generic[M], frozen=True, kw_only=True):
    """A message list that fits, in the format of the given list."""

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
    """Reduce a message list to `max_tokens`.

    The list may have the format of OpenAI's or Anthropic's API, or contain Clew messages. Messages
    and content blocks that their Python libraries return can be in it as they are. A list that fits
    is returned unchanged, and messages that stay are your own objects. System messages, the last
    user message and the most recent steps always stay. A tool call is never separated from its
    result.

    Args:
        messages: The list.
        max_tokens: The limit for the whole request.
        model: Selects the tokenizer or the token rates.
        strategy: The name of a strategy, or one of your own.
        summarize: Writes the summary of old turns; without it, rules do, and no model is called.
        system: A system prompt that you send beside the messages; it is counted.
        tools: Tool schemas that you send beside the messages; they are counted.
        invalid: Whether to repair a list that a provider would reject, or to refuse it.

    Raises:
        ConfigError: A provider would reject the list, and `invalid` is `refuse`; or an argument
            has no meaning.
        ContextFull: The messages that must stay do not fit.
    """
    if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1:
        raise ConfigError(f"max_tokens must be a positive whole number, not {max_tokens!r}")
    given = read_message_list(messages, model=model, system=system, tools=tools, invalid=invalid)
    chosen = make_strategy(strategy) if isinstance(strategy, str) else strategy
    budget = Budget.of(given.view, tokens=max_tokens)
    view, why = _shrink(given.view, chosen, budget, max_tokens=max_tokens, summarize=summarize)
    return Fitted(
        messages=given.write(view),
        report=_report(given, view, strategy=chosen.name, why=why),
    )


def count_tokens(
    messages: Sequence[Any] | str,
    *,
    model: str | None = None,
    system: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
) -> int:
    """Count the tokens of a request with these messages, or with this text of the user.

    Exact for models whose tokenizer is known and installed (`clew[tokenizers]`), otherwise a
    calibrated estimate.
    """
    listed = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
    given = read_message_list(listed, model=model, system=system, tools=tools, invalid="repair")
    return _state(given.view).used_tokens


def fit_view(view: View, *, max_tokens: int, strategy: str = "tiered") -> View:
    """Reduce the view of a journal to `max_tokens` by rules, as `fit` does with a list.

    The summary refers to entries by their numbers, so that `Recall` can read them.

    Raises:
        ContextFull: The messages that must stay do not fit.
    """
    budget = Budget.of(view, tokens=max_tokens)
    chosen = make_strategy(strategy)
    return _shrink(view, chosen, budget, max_tokens=max_tokens, summarize=None)[0]


def _shrink(
    view: View,
    strategy: Strategy,
    budget: Budget,
    *,
    max_tokens: int,
    summarize: Summarizer | None,
) -> tuple[View, str]:
    why = "it already fits"
    for _ in range(_ROUNDS):
        if _state(view).used_tokens <= max_tokens:
            return view, why
        plan = strategy.plan(view, budget)
        if isinstance(plan, Stuck):
            break
        room = limit_summary(view, plan, budget)
        summary = _summarise(view, plan, room, summarize)
        body = build_compaction(view, plan, summary, trigger="auto", strategy=strategy.name)
        if body.report.tokens_after >= body.report.tokens_before:
            break
        view = view.apply(Entry(id=_SUMMARY_ID, at=0.0, body=body))
        why = plan.why
    view = _squeeze(view, max_tokens)
    state = _state(view)
    if state.used_tokens > max_tokens:
        raise ContextFull(
            f"the messages need {state.used_tokens:,} tokens, but max_tokens is {max_tokens:,}: "
            f"the remaining messages are recent, pinned or the user's request",
            state=state,
        )
    return view, why


def _squeeze(view: View, max_tokens: int) -> View:
    for _ in range(_ROUNDS):
        excess = _state(view).used_tokens - max_tokens
        body = plan_squeeze(view, excess=excess, only_results=False) if excess > 0 else None
        if body is None:
            break
        view = view.apply(Entry(id=_SUMMARY_ID, at=0.0, body=body))
    return view


def _summarise(
    view: View, plan: Reduce, budget: Budget, summarize: Summarizer | None
) -> WrittenSummary:
    if summarize is None or not plan.dropped or plan.wording is not Wording.MODEL:
        return summarise_by_rules(view, plan, budget)
    gone = [item for item in plan.dropped if item.kind is not ItemKind.SUMMARY]
    previous = view.notes or view.summary
    prompt = build_summary_prompt(
        format_transcript(gone), max_units=budget.notes, previous=previous
    )
    text = summarize(prompt.text)
    if isinstance(text, Coroutine):
        text.close()
        raise ConfigError("summarize must be a plain function, not a coroutine function")
    if not isinstance(text, str):
        raise ConfigError(f"summarize must return text, not {type(text).__name__}")
    text = replace_surrogates(text).strip()
    if text_units(text) > min(budget.summary // 2, budget.summary - LEAST_DIGEST):
        text = ""
    return summarise_by_rules(view, plan, budget, notes=text)


def _report(given: MessageList[M], view: View, *, strategy: str, why: str) -> FitReport:
    before, indices = given.view.items[:], given.indices
    leaves = [True] * len(before)
    places: list[int] = []
    same: set[int] = set()
    for item in view.items:
        if item.entry_id != _SUMMARY_ID:
            place = find_place(item)
            leaves[place] = False
            places.append(indices[place])
            if before[place] is item:
                same.add(indices[place])
    left = tuple(compress(indices, leaves))
    cleared = set(places) - same
    if given.slices:
        # A message of which one slice stays and another does not is shortened.
        slices = dict.fromkeys(left)
        cleared |= slices.keys() & same
        left = tuple(filterfalse(cleared.__contains__, slices))
        gone = cleared.union(left)
        kept = tuple(filterfalse(gone.__contains__, range(given.length)))
    else:
        kept = tuple(filterfalse(cleared.__contains__, places))
    return FitReport(
        tokens_before=_state(given.view).used_tokens,
        tokens_after=_state(view).used_tokens,
        kept=kept,
        summarised=left if view.summary else (),
        cleared=tuple(sorted(cleared)),
        archived=() if view.summary else left,
        repairs=given.repairs,
        strategy=strategy,
        why=why,
    )


def _state(view: View) -> ContextState:
    return compute_state(view, Thresholds(), window=max(1, view.setup.model.window))
