"""What the calls of a blind test that are still to be made take, said before they are made.

Input is the sum of what is sent, output is what such replies usually have. Second attempts and more
look-ups than usual come on top of it. A reader sends its view with every question, so a provider
that caches the prefix charges much less for it; both prices are given.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from clew.core.usage import Usage
from clew.simulation.blind_test.compared_views import ComparedView
from clew.simulation.blind_test.plan import (
    EXPECTED_LOOKUPS,
    LOOKUP_TOKENS,
    PROMPT_TOKENS,
    CasePlan,
)
from clew.simulation.blind_test.records import Replies
from clew.simulation.blind_test.transcript import CountTokens

Price: TypeAlias = Callable[[Usage], float | None]
"""Returns the cost of a call in US dollars; None when it is unknown."""

_WRITTEN, _ANSWERED, _GRADED, _SUMMARY = 90, 60, 8, 1_500
"""Output tokens: of a question with its reference, an answer, a grade, and a summary."""
_WRAPPED = 15
"""Output tokens of the JSON around them, and of a look-up."""
_RECALL_TOKENS = 350
"""The declaration of the tool."""


class CostEstimate(Struct, frozen=True, kw_only=True):
    """The calls that remain."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = 0.0
    """None when the price of the model is unknown."""
    cached_usd: float | None = 0.0
    """The same where the provider caches prompts."""


def estimate_cost(
    plans: Sequence[CasePlan], replies: Replies, *, count: CountTokens, price: Price
) -> CostEstimate:
    """Add up the calls for which there is no reply yet."""
    calls = [usage for plan in plans for usage in _list_calls(plan, replies, count)]
    plain = [replace(usage, cache_read_tokens=0, cache_write_tokens=0) for usage in calls]
    return CostEstimate(
        calls=len(calls),
        input_tokens=sum(usage.input_tokens for usage in calls),
        output_tokens=sum(usage.output_tokens for usage in calls),
        usd=_add_prices(plain, price),
        cached_usd=_add_prices(calls, price),
    )


def _add_prices(calls: Sequence[Usage], price: Price) -> float | None:
    prices = {usage: price(usage) for usage in set(calls)}
    costs = [prices[usage] for usage in calls]
    return None if None in costs else sum(cost for cost in costs if cost is not None)


def _list_calls(plan: CasePlan, replies: Replies, count: CountTokens) -> Iterator[Usage]:
    """Yield the usage of each call, as a provider that caches prompts would report it."""
    cached: set[str] = set()
    for number, task in enumerate(plan.tasks):
        if replies.find_written(plan, number) is None:
            piece = count(plan.pieces[task.piece])
            yield _call(piece, output=_WRITTEN * len(task.kinds))
    for view in plan.readable_views:
        if view.summary_prompt:
            yield _call(count(view.summary_prompt), output=_SUMMARY)
    written = replies.list_questions(plan)
    for place in range(_count_questions(plan) if written is None else len(written)):
        question = written[place] if written is not None else None
        for view in plan.readable_views:
            if question is None or replies.find_answer(question, view) is None:
                yield from _list_reader_calls(view, is_cached=view.kind.name in cached)
                cached.add(view.kind.name)
        answers = replies.list_answers(plan, question) if question is not None else None
        expected = len(plan.readable_views) if answers is None else len(set(answers.values()))
        is_graded = (
            question is not None
            and answers is not None
            and (not answers or replies.find_grades(question, answers.values()) is not None)
        )
        if expected and not is_graded:
            yield _call(expected * _ANSWERED, output=expected * _GRADED)


def _list_reader_calls(view: ComparedView, *, is_cached: bool) -> Iterator[Usage]:
    start = view.tokens + (_RECALL_TOKENS if view.kind.can_search else 0)
    lookups = EXPECTED_LOOKUPS if view.kind.can_search else 0
    for number in range(lookups + 1):
        usage = _call(
            start + number * LOOKUP_TOKENS, output=_ANSWERED if number == lookups else _WRAPPED
        )
        if is_cached or number:
            yield replace(usage, cache_read_tokens=start)
        else:
            yield replace(usage, cache_write_tokens=start)


def _call(tokens: int, *, output: int) -> Usage:
    return Usage(input_tokens=tokens + PROMPT_TOKENS // 2, output_tokens=output + _WRAPPED)


def _count_questions(plan: CasePlan) -> int:
    return sum(len(task.kinds) for task in plan.tasks)
