"""What a blind test of one case takes: pieces to read, questions to write, views to compare."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from clew.core.models import ModelFacts
from clew.simulation.blind_test.cases import Case
from clew.simulation.blind_test.compared_views import ComparedView, ViewKind, make_view
from clew.simulation.blind_test.questions import QuestionTask, digest, plan_questions
from clew.simulation.blind_test.transcript import CountTokens, split_text

PROMPT_TOKENS = 500
"""What the instructions and a question need."""
LOOKUP_TOKENS = 2_000
"""What the result of a look-up needs, about."""
EXPECTED_LOOKUPS, MOST_LOOKUPS = 2, 6
"""Of one question."""
_MOST_OUTPUT = 8_000
_QUESTION_OUTPUT = 120
"""Tokens that a writer needs for one question with its answer."""
_FULLNESS = 0.9
"""How much of the window is used, since token counts are estimates."""


class CasePlan(Struct, frozen=True, kw_only=True):
    """A case with everything that can be decided before a model is asked."""

    case: Case
    pieces: tuple[str, ...]
    """The text in pieces that the writer can read."""
    tasks: tuple[QuestionTask, ...]
    task_keys: tuple[str, ...]
    """Identify what the writer reads in each task, and what it is asked for."""
    views: tuple[ComparedView, ...]

    @property
    def readable_views(self) -> list[ComparedView]:
        """The views that exist and fit the window of the reader."""
        return [view for view in self.views if not view.missing]


def limit_output(model: ModelFacts) -> int:
    """Return the most tokens that a reply may have."""
    return min(model.max_output, _MOST_OUTPUT, model.window // 4)


def plan_case(
    case: Case,
    kinds: Sequence[ViewKind],
    model: ModelFacts,
    *,
    count: CountTokens,
    questions: int,
) -> CasePlan:
    """Plan the test of a case with a model that reads at most its window at once."""
    pieces = split_text(case.text, tokens=max(_room(model), PROMPT_TOKENS), count=count)
    most = max(1, limit_output(model) // _QUESTION_OUTPUT)
    tasks = plan_questions(questions, pieces=len(pieces), most=most)
    views = (make_view(kind, case, model, count=count) for kind in kinds)
    return CasePlan(
        case=case,
        pieces=tuple(pieces),
        tasks=tuple(tasks),
        task_keys=tuple(
            digest(pieces[task.piece], *task.kinds, str(number))
            for number, task in enumerate(tasks)
        ),
        views=tuple(_check_size(view, model, count) for view in views),
    )


def complete_views(
    plan: CasePlan, summaries: Mapping[str, str], model: ModelFacts, *, count: CountTokens
) -> CasePlan:
    """Make the views that waited for a summary, as far as the summaries are there."""
    views = (
        _check_size(
            make_view(view.kind, plan.case, model, count=count, summaries=summaries), model, count
        )
        if view.summary_prompt
        else view
        for view in plan.views
    )
    return replace(plan, views=tuple(views))


def _room(model: ModelFacts) -> int:
    """Return how many tokens of text a request may have."""
    return int(model.window * _FULLNESS) - limit_output(model) - PROMPT_TOKENS


def _check_size(view: ComparedView, model: ModelFacts, count: CountTokens) -> ComparedView:
    needed = max(view.tokens, count(view.summary_prompt))
    needed += EXPECTED_LOOKUPS * LOOKUP_TOKENS if view.kind.can_search else 0
    if view.missing or needed <= _room(model):
        return view
    return ComparedView(
        kind=view.kind,
        missing=f"{needed:,} tokens do not fit in the window of {model.name}, {model.window:,}",
    )
