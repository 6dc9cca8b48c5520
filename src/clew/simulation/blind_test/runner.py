"""Carry out a blind test: ask for what has no reply yet, and keep every reply at once."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import TypeAlias

import anyio
from msgspec import Struct

from clew.context.summary_prompt import SUMMARY_SYSTEM
from clew.core.errors import ClewError
from clew.core.messages import user
from clew.core.redaction import redact
from clew.simulation.blind_test.compared_views import ComparedView
from clew.simulation.blind_test.model_calls import AskedModel, SearchableView
from clew.simulation.blind_test.plan import CasePlan, complete_views
from clew.simulation.blind_test.prompts import (
    GRADER,
    READER,
    SEARCHING_READER,
    WRITER,
    ask_for_grades,
    ask_for_questions,
    ask_question,
)
from clew.simulation.blind_test.questions import Question, digest
from clew.simulation.blind_test.records import (
    AnswersGraded,
    QuestionAnswered,
    QuestionsWritten,
    Record,
    ReplyFile,
    SummaryWritten,
    identify_answers,
)
from clew.simulation.blind_test.replies import (
    parse_answer,
    parse_grades,
    parse_questions,
    parse_summary,
)
from clew.simulation.blind_test.scores import shuffle_answers

_AT_ONCE = 4
"""Views that are read at the same time."""
_SHARED_MESSAGES = 2
"""Messages at the beginning that are the same for all questions on a view."""


class TestProgress(Struct, frozen=True, kw_only=True):
    """How far a test is, in replies."""

    __test__ = False

    done: int
    total: int
    doing: str


OnProgress: TypeAlias = Callable[[TestProgress], None]
_Job: TypeAlias = Callable[[], Awaitable[None]]


class BlindRun:
    """Asks a model for all replies about the cases of one session that are still missing.

    Args:
        plans: The cases.
        model: Writes, reads and grades.
        file: Keeps the replies.
    """

    def __init__(self, plans: Sequence[CasePlan], model: AskedModel, file: ReplyFile) -> None:
        self._model, self._file = model, file
        self.plans = [self._complete(plan) for plan in plans]
        """The cases, with the views that are ready."""
        self._on_progress: OnProgress | None = None

    async def run(self, on_progress: OnProgress | None = None) -> None:
        """Ask for everything that is missing.

        Args:
            on_progress: Called after each reply.

        Raises:
            ConfigError: The file cannot be written.
            BudgetReached: The next call would exceed the budget; all replies are kept.
            ProviderError: A call failed; all replies are kept.
        """
        self._on_progress = on_progress
        self._file.start()
        for place in range(len(self.plans)):
            await self._summarise(place)
            plan = self.plans[place]
            for number in range(len(plan.tasks)):
                await self._write(plan, number)
            questions = self._file.replies.list_questions(plan) or []
            await _run_all([partial(self._read, view, questions) for view in plan.readable_views])
            await _run_all([partial(self._grade, plan, question) for question in questions])

    def count_progress(self, doing: str = "") -> TestProgress:
        """Return how many of the replies are there."""
        done = total = 0
        replies = self._file.replies
        for plan in self.plans:
            written = [replies.find_written(plan, n) for n in range(len(plan.tasks))]
            questions = replies.list_questions(plan)
            count = sum(len(task.kinds) for task in plan.tasks)
            views = plan.readable_views
            with_summary = [view for view in views if view.kind.has_summary]
            total += len(plan.tasks) + len(with_summary)
            done += sum(one is not None for one in written)
            done += sum(not view.summary_prompt for view in with_summary)
            total += (count if questions is None else len(questions)) * (len(views) + 1)
            for question in questions or []:
                done += sum(replies.find_answer(question, view) is not None for view in views)
                answers = replies.list_answers(plan, question)
                done += answers is not None and self._is_graded(question, answers.values())
        return TestProgress(done=done, total=total, doing=doing)

    def _complete(self, plan: CasePlan) -> CasePlan:
        return complete_views(
            plan, self._file.replies.summaries, self._model.facts, count=self._model.count
        )

    async def _summarise(self, place: int) -> None:
        """Let the model write the summaries that views of a case wait for."""
        while waiting := [view for view in self.plans[place].views if view.summary_prompt]:
            prompt = waiting[0].summary_prompt
            reply = await self._model.ask(
                [user(prompt)], system=SUMMARY_SYSTEM, parse=parse_summary
            )
            self._keep(
                SummaryWritten(
                    prompt=digest(prompt),
                    text=redact(reply.value or ""),
                    problem=redact(reply.problem),
                    spent=reply.spent,
                ),
                "writing a summary",
            )
            self.plans[place] = self._complete(self.plans[place])

    async def _write(self, plan: CasePlan, number: int) -> None:
        replies = self._file.replies
        if replies.find_written(plan, number) is not None:
            return
        task = plan.tasks[number]
        earlier = [
            question
            for n in range(number)
            if plan.tasks[n].piece == task.piece and (one := replies.find_written(plan, n))
            for question in one.questions
        ]
        reply = await self._model.ask(
            ask_for_questions(
                plan.pieces[task.piece],
                task.kinds,
                part=task.piece + 1,
                parts=len(plan.pieces),
                earlier=earlier,
            ),
            system=WRITER,
            parse=partial(parse_questions, count=len(task.kinds)),
        )
        questions = [
            Question(kind=one.kind, question=redact(one.question), reference=redact(one.reference))
            for one in reply.value or ()
        ]
        self._keep(
            QuestionsWritten(
                task=plan.task_keys[number],
                questions=tuple(questions),
                problem=redact(reply.problem),
                spent=reply.spent,
            ),
            "writing questions",
        )

    async def _read(self, view: ComparedView, questions: Sequence[Question]) -> None:
        """Answer the questions one after the other, so that the view stays in the cache."""
        searchable: SearchableView | None = None
        for question in questions:
            if self._file.replies.find_answer(question, view) is not None:
                continue
            if view.kind.can_search and searchable is None:
                searchable = await SearchableView.open(view, window=self._model.facts.window)
            reply = await self._model.ask(
                ask_question(view.text, question.question),
                system=SEARCHING_READER if searchable else READER,
                parse=parse_answer,
                settled=_SHARED_MESSAGES,
                searchable=searchable,
            )
            self._keep(
                QuestionAnswered(
                    question=question.key,
                    view=view.key,
                    view_name=view.kind.name,
                    answer=None if reply.value is None else redact(reply.value),
                    lookups=reply.lookups,
                    problem=redact(reply.problem),
                    spent=reply.spent,
                ),
                f"reading {view.kind.name}",
            )

    async def _grade(self, plan: CasePlan, question: Question) -> None:
        answers = self._file.replies.list_answers(plan, question) or {}
        if self._is_graded(question, answers.values()):
            return
        shown = shuffle_answers(question, answers.values())
        reply = await self._model.ask(
            ask_for_grades(question, shown),
            system=GRADER,
            parse=partial(parse_grades, letters=shown),
        )
        grades = reply.value or {}
        self._keep(
            AnswersGraded(
                question=question.key,
                answers=identify_answers(answers.values()),
                grades={shown[letter]: grade for letter, grade in grades.items()},
                problem=redact(reply.problem),
                spent=reply.spent,
            ),
            "grading",
        )

    def _is_graded(self, question: Question, answers: Collection[str]) -> bool:
        """Return whether the answers have grades, or there are none to grade."""
        return not answers or self._file.replies.find_grades(question, answers) is not None

    def _keep(self, record: Record, doing: str) -> None:
        self._file.append(record)
        if self._on_progress is not None:
            self._on_progress(self.count_progress(doing))


async def _run_all(jobs: Sequence[_Job]) -> None:
    """Run the jobs, some at once; the first error ends the others and is raised."""
    errors: list[ClewError] = []
    limiter = anyio.CapacityLimiter(_AT_ONCE)

    async def run(job: _Job) -> None:
        async with limiter:
            try:
                await job()
            except ClewError as error:
                errors.append(error)
                group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for job in jobs:
            group.start_soon(run, job)
    if errors:
        raise errors[0]
