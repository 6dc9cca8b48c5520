"""What the calls of a blind test that are still to be made take, said before they are made.

Input is the sum of what is sent, without the discount for a cached prefix; output is what such
replies usually have. Second attempts and more look-ups than usual come on top of it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

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

_WRITTEN, _ANSWERED, _GRADED = 90, 60, 8
"""Output tokens: of a question with its reference, an answer, and a grade."""
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


def estimate_cost(
    plans: Sequence[CasePlan], replies: Replies, *, count: CountTokens, price: Price
) -> CostEstimate:
    """Add up the calls for which there is no reply yet."""
    calls = [usage for plan in plans for usage in _list_calls(plan, replies, count)]
    prices = {usage: price(usage) for usage in set(calls)}
    costs = [prices[usage] for usage in calls]
    return CostEstimate(
        calls=len(calls),
        input_tokens=sum(usage.input_tokens for usage in calls),
        output_tokens=sum(usage.output_tokens for usage in calls),
        usd=None if None in costs else sum(cost for cost in costs if cost is not None),
    )


def _list_calls(plan: CasePlan, replies: Replies, count: CountTokens) -> Iterator[Usage]:
    for number, task in enumerate(plan.tasks):
        if replies.find_written(plan, number) is None:
            piece = count(plan.pieces[task.piece])
            yield _call(piece, output=_WRITTEN * len(task.kinds))
    written = replies.list_questions(plan)
    for place in range(_count_questions(plan) if written is None else len(written)):
        question = written[place] if written is not None else None
        for view in plan.readable_views:
            if question is None or replies.find_answer(question, view) is None:
                yield from _list_reader_calls(view)
        answers = replies.list_answers(plan, question) if question is not None else None
        expected = len(plan.readable_views) if answers is None else len(set(answers.values()))
        is_graded = (
            question is not None
            and answers is not None
            and (not answers or replies.find_grades(question, answers.values()) is not None)
        )
        if expected and not is_graded:
            yield _call(expected * _ANSWERED, output=expected * _GRADED)


def _list_reader_calls(view: ComparedView) -> Iterator[Usage]:
    if not view.kind.can_search:
        yield _call(view.tokens, output=_ANSWERED)
        return
    start = view.tokens + _RECALL_TOKENS
    for lookup in range(EXPECTED_LOOKUPS):
        yield _call(start + lookup * LOOKUP_TOKENS, output=_WRAPPED)
    yield _call(start + EXPECTED_LOOKUPS * LOOKUP_TOKENS, output=_ANSWERED)


def _call(tokens: int, *, output: int) -> Usage:
    return Usage(input_tokens=tokens + PROMPT_TOKENS // 2, output_tokens=output + _WRAPPED)


def _count_questions(plan: CasePlan) -> int:
    return sum(len(task.kinds) for task in plan.tasks)
