"""The scores of a blind test: shuffle the answers for the grader, and compute the table."""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean
from string import ascii_lowercase

from msgspec import Struct

from clew.core.usage import Spending
from clew.simulation.blind_test.compared_views import ComparedView
from clew.simulation.blind_test.plan import CasePlan
from clew.simulation.blind_test.questions import KINDS, Question
from clew.simulation.blind_test.records import Replies, SummaryWritten


class KindScore(Struct, frozen=True, kw_only=True):
    """The score of a view on one kind of question."""

    questions: int
    graded: int
    score: float | None
    """The mean of the grades; None without any."""


class ViewScore(Struct, frozen=True, kw_only=True):
    """The score of a view over all cases."""

    view: str
    cases: int
    """Cases in which there is such a view."""
    tokens: int
    """Mean size."""
    questions: int
    unanswered: int
    """Questions to which the reader gave no answer in the right form."""
    ungraded: int
    """Answers to which the grader gave no grade in the right form."""
    score: float | None
    """The mean of the grades; None without any."""
    lookups_per_question: float
    kinds: dict[str, KindScore]


class BlindScores(Struct, frozen=True, kw_only=True):
    """The result of a test as far as it went."""

    cases: int
    questions: int
    views: tuple[ViewScore, ...]
    """The best first."""
    problems: tuple[str, ...]
    """What was not written, answered, graded or compared, and why."""
    spent: Spending
    """In all runs of the test."""


class _Outcome(Struct, frozen=True, kw_only=True):
    """What became of one question on one view."""

    view: str
    kind: str
    lookups: int = 0
    is_answered: bool = False
    grade: float | None = None


def shuffle_answers(question: Question, answers: Iterable[str]) -> dict[str, str]:
    """Return the different answers under letters, in an order that says nothing about views.

    Equal answers get one letter, and so the same grade. The order is always the same for the
    same answers.
    """
    different = sorted(set(answers))
    random.Random(question.key).shuffle(different)  # noqa: S311 - it need not be secret
    return dict(zip(_letters(), different, strict=False))


def score(plans: Sequence[CasePlan], replies: Replies) -> BlindScores:
    """Compute the scores from the replies so far."""
    outcomes = [one for plan in plans for one in _list_outcomes(plan, replies)]
    names = dict.fromkeys(view.kind.name for plan in plans for view in plan.views)
    views = [
        _score_view(name, [one for one in outcomes if one.view == name], plans)
        for name in names
        if any(one.view == name for one in outcomes)
    ]
    questions = [replies.list_questions(plan) or [] for plan in plans]
    return BlindScores(
        cases=len(plans),
        questions=sum(map(len, questions)),
        views=tuple(sorted(views, key=lambda one: -1 if one.score is None else -one.score)),
        problems=tuple(_list_problems(plans, replies)),
        spent=replies.spent,
    )


def _score_view(name: str, outcomes: Sequence[_Outcome], plans: Sequence[CasePlan]) -> ViewScore:
    sizes = [
        view.tokens for plan in plans for view in plan.readable_views if view.kind.name == name
    ]
    answered = [one for one in outcomes if one.is_answered]
    return ViewScore(
        view=name,
        cases=len(sizes),
        tokens=round(fmean(sizes)),
        questions=len(outcomes),
        unanswered=len(outcomes) - len(answered),
        ungraded=sum(one.grade is None for one in answered),
        score=_mean(outcomes),
        lookups_per_question=fmean(one.lookups for one in outcomes),
        kinds={
            kind: KindScore(
                questions=len(some),
                graded=sum(one.grade is not None for one in some),
                score=_mean(some),
            )
            for kind in KINDS
            if (some := [one for one in outcomes if one.kind == kind])
        },
    )


def _list_outcomes(plan: CasePlan, replies: Replies) -> Iterator[_Outcome]:
    """Yield what became of every question that a reader has replied to."""
    for question in replies.list_questions(plan) or []:
        answers = replies.list_answers(plan, question)
        grades = replies.find_grades(question, answers.values()) if answers else None
        for view in plan.readable_views:
            given = replies.find_answer(question, view)
            if given is None:
                continue
            is_answered = given.answer is not None
            yield _Outcome(
                view=view.kind.name,
                kind=question.kind,
                lookups=given.lookups,
                is_answered=is_answered,
                grade=grades.grades.get(given.answer or "") if grades and is_answered else None,
            )


def _list_problems(plans: Sequence[CasePlan], replies: Replies) -> Iterator[str]:
    for plan in plans:
        where = f"at message {plan.case.at:,}"
        yield from (f"{where}: {_explain_missing(view)}" for view in plan.views if view.missing)
        yield from (f"{where}: {problem}" for problem in _find_unwritten(plan, replies))
    for record in replies.records:
        if isinstance(record, SummaryWritten) and record.problem:
            yield f"no summary was written, so rules wrote it: {record.problem}"
    yield from _count_problems("unanswered", _find_unanswered(plans, replies))
    yield from _count_problems("not graded", _find_ungraded(plans, replies))


def _explain_missing(view: ComparedView) -> str:
    return f"{view.kind.name} was left out: {view.missing}"


def _find_unwritten(plan: CasePlan, replies: Replies) -> Iterator[str]:
    missing: Counter[str] = Counter()
    for number, task in enumerate(plan.tasks):
        written = replies.find_written(plan, number)
        if written is not None and len(written.questions) < len(task.kinds):
            missing[written.problem] += len(task.kinds) - len(written.questions)
    yield from _count_problems("not written", missing.elements())


def _find_unanswered(plans: Sequence[CasePlan], replies: Replies) -> Iterator[str]:
    for plan in plans:
        for question in replies.list_questions(plan) or []:
            for view in plan.readable_views:
                given = replies.find_answer(question, view)
                if given is not None and given.answer is None:
                    yield f"{view.kind.name}: {given.problem}"


def _find_ungraded(plans: Sequence[CasePlan], replies: Replies) -> Iterator[str]:
    for plan in plans:
        for question in replies.list_questions(plan) or []:
            answers = replies.list_answers(plan, question)
            graded = replies.find_grades(question, answers.values()) if answers else None
            if graded is not None and not graded.grades:
                yield graded.problem


def _count_problems(what: str, problems: Iterable[str]) -> Iterator[str]:
    for problem, count in Counter(problems).most_common():
        yield f"{count} {'question' if count == 1 else 'questions'} {what}: {problem}"


def _mean(outcomes: Iterable[_Outcome]) -> float | None:
    grades = [one.grade for one in outcomes if one.grade is not None]
    return fmean(grades) if grades else None


def _letters() -> Iterator[str]:
    yield from ascii_lowercase
    yield from (f"{first}{second}" for first in ascii_lowercase for second in ascii_lowercase)
