"""The blind test of recorded sessions: what a model can still answer from compacted views.

The model writes questions from the full text, answers them from one view at a time, and grades the
shuffled answers without knowing the views. `open_blind_test` says what that will cost before any
call is made; every reply is kept in a file, so a test that was stopped continues where it was.
"""

import os
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from clew.core.entries import encode
from clew.core.errors import ConfigError, SessionNotFound
from clew.core.models import ModelFacts
from clew.core.text import pluralize
from clew.core.usage import Spending
from clew.importers import clew_jsonl
from clew.importers.reader import read_session
from clew.importers.recorded_session import RecordedSession
from clew.providers.protocol import HasAddress, ReportsWindow
from clew.sdk.folders import Homes
from clew.sdk.local_servers import find_local_server
from clew.sdk.model_choice import ModelChoice, ModelChooser
from clew.sdk.session_admin import load_transcript
from clew.sdk.session_spec import SessionSpec
from clew.sdk.session_store import project_store
from clew.sdk.settings import load_project_settings
from clew.sdk.simulation import SimulationOptions, find_recordings
from clew.session.config import override_window
from clew.session.limits import make_cost_limit
from clew.simulation.blind_test.cases import find_cases
from clew.simulation.blind_test.compared_views import VIEWS, ViewKind, parse_views
from clew.simulation.blind_test.cost import CostEstimate, estimate_cost
from clew.simulation.blind_test.model_calls import AskedModel
from clew.simulation.blind_test.plan import CasePlan, plan_case
from clew.simulation.blind_test.questions import KINDS, QUESTIONS, digest
from clew.simulation.blind_test.records import Replies, ReplyFile, TestedSession
from clew.simulation.blind_test.runner import BlindRun, OnProgress, TestProgress
from clew.simulation.blind_test.score_chart import draw_scores
from clew.simulation.blind_test.scores import BlindScores, ViewScore, score
from clew.simulation.blind_test.transcript import make_counter

__all__ = [
    "KINDS",
    "POINTS",
    "QUESTIONS",
    "VIEWS",
    "BlindReport",
    "BlindScores",
    "BlindTest",
    "BlindTestOptions",
    "CostEstimate",
    "SessionReport",
    "TestProgress",
    "TestedCase",
    "ViewScore",
    "draw_report",
    "open_blind_test",
]

POINTS = 3
"""Compactions of each session that are tested, unless another number is given."""


class BlindTestOptions(Struct, frozen=True, kw_only=True):
    """What to test."""

    questions: int = QUESTIONS
    """About each compaction."""
    points: int = POINTS
    """The most compactions of each session."""
    views: tuple[str, ...] = VIEWS
    """`full`, `recorded`, `newest-Nk`, `rules-Nk`, `summary-Nk`, `recall-Nk`."""
    simulation: SimulationOptions
    """Says where Clew would compact a session without recorded compactions."""
    model_window: int | None = None
    """The window of the model that is asked, where Clew does not know it."""
    out: Path | None = None
    """The folder for the replies; by default one beside the sessions of the project."""
    budget_usd: float | None = None
    """What one run may cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _TestedRecording:
    """A session with its cases, and the file with the replies about it."""

    name: str
    session: RecordedSession
    plans: Sequence[CasePlan]
    file: ReplyFile


class TestedCase(Struct, frozen=True, kw_only=True):
    """A compaction that was tested."""

    __test__ = False

    at: int
    """How many messages of the recording come before it."""
    is_recorded: bool
    """False where Clew would have compacted."""
    pieces: int
    """In how many pieces the writer reads the text."""
    views: dict[str, int]
    """The tokens of each view."""


class SessionReport(Struct, frozen=True, kw_only=True):
    """The results for one session."""

    name: str
    source: str
    replies: str
    """The file with the replies."""
    damaged_lines: int
    """Lines of that file that cannot be read."""
    cases: tuple[TestedCase, ...]
    scores: BlindScores


class BlindReport(Struct, frozen=True, kw_only=True):
    """The results for all sessions, as far as the test went."""

    model: str
    provider: str
    sessions: tuple[SessionReport, ...]
    skipped: dict[str, str]
    """Sessions that were not tested, with the reason."""
    scores: BlindScores
    done: int
    """Replies that are there."""
    total: int

    def to_data(self) -> dict[str, Any]:
        """Return the report as data for JSON."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        data["skipped"] = [{"name": name, "why": why} for name, why in self.skipped.items()]
        return data


class BlindTest:
    """A test that is ready to run; see `open_blind_test`."""

    def __init__(
        self, model: AskedModel, tested: Sequence[_TestedRecording], skipped: Mapping[str, str]
    ) -> None:
        self._model, self._tested, self._skipped = model, tested, skipped
        self._runs = [BlindRun(one.plans, model, one.file) for one in tested]

    @property
    def model(self) -> ModelFacts:
        """The model that is asked."""
        return self._model.facts

    @property
    def files(self) -> list[Path]:
        """The files with the replies."""
        return [one.file.path for one in self._tested]

    def estimate_cost(self) -> CostEstimate:
        """Return what the calls that remain will take."""
        return estimate_cost(
            self._plans(), self._replies(), count=self._model.count, price=self._model.price
        )

    def count_progress(self, doing: str = "") -> TestProgress:
        """Return how many of the replies are there."""
        found = [run.count_progress() for run in self._runs]
        done, total = sum(one.done for one in found), sum(one.total for one in found)
        return TestProgress(done=done, total=total, doing=doing)

    async def run(self, on_progress: OnProgress | None = None) -> None:
        """Ask for all replies that are missing.

        Raises:
            ConfigError: The file for the replies cannot be written.
            BudgetReached: The next call would exceed the budget; all replies are kept.
            ProviderError: A call failed; all replies are kept.
        """
        for run in self._runs:
            await run.run(
                None if on_progress is None else partial(self._report_progress, on_progress)
            )

    def report(self) -> BlindReport:
        """Return the results so far."""
        progress = self.count_progress()
        return BlindReport(
            model=self._model.facts.name,
            provider=self._model.provider.name,
            sessions=tuple(map(_report_session, self._tested, self._runs)),
            skipped=dict(self._skipped),
            scores=score(self._plans(), self._replies()),
            done=progress.done,
            total=progress.total,
        )

    def _report_progress(self, on_progress: OnProgress, progress: TestProgress) -> None:
        on_progress(self.count_progress(progress.doing))

    def _plans(self) -> list[CasePlan]:
        return [plan for run in self._runs for plan in run.plans]

    def _replies(self) -> Replies:
        every = [one.file.replies for one in self._tested]
        return Replies(
            (record for replies in every for record in replies.records),
            wasted=sum((replies.wasted for replies in every), Spending()),
        )


@asynccontextmanager
async def open_blind_test(
    names: Iterable[str],
    spec: SessionSpec,
    options: BlindTestOptions,
    *,
    environ: Mapping[str, str] | None = None,
) -> AsyncGenerator[BlindTest, None]:
    """Read the sessions and prepare the test; no model is called before `run`.

    Args:
        names: Recordings, folders of recordings, and ids or names of stored sessions.
        spec: Names the model, as for a session.
        options: What to test.
        environ: Environment variables; by default those of the process.

    Raises:
        ConfigError: An option is wrong, or the model cannot be used.
    """
    environ = os.environ if environ is None else environ
    kinds = parse_views(options.views)
    limit = replace(make_cost_limit(options.budget_usd, {}), remedy="ask fewer questions")
    choice = await _choose_model(spec, environ)
    try:
        facts = await _find_facts(choice, options.model_window)
        model = AskedModel(choice.provider, facts, count=make_counter(facts.name), limit=limit)
        sessions, skipped = await _load_sessions(names, spec, environ)
        folder = options.out or Homes.of(environ).project(Path(spec.cwd)) / "blind-tests"
        tested: list[_TestedRecording] = []
        for name, session in sessions.items():
            plan = partial(_plan_session, session, kinds, model, options=options)
            plans = await to_thread.run_sync(plan)
            if not plans:
                skipped[name] = _explain_no_case(name, session, options.simulation)
                continue
            header = _make_header(name, session, model, questions=options.questions)
            file = ReplyFile(folder / header.file_name, header)
            tested.append(_TestedRecording(name=name, session=session, plans=plans, file=file))
        yield BlindTest(model, tested, skipped)
    finally:
        with anyio.CancelScope(shield=True):
            await choice.provider.aclose()


def draw_report(report: BlindReport) -> str:
    """Return the scores as an SVG chart."""
    scores = report.scores
    return draw_scores(
        scores.views,
        title=f"What {report.model} still answers from each view",
        note=f"{pluralize(scores.questions, 'question')} at"
        f" {pluralize(scores.cases, 'compaction')}; 1 right, ½ in part, 0 wrong; graded blind",
    )


async def _choose_model(spec: SessionSpec, environ: Mapping[str, str]) -> ModelChoice:
    homes = Homes.of(environ)
    load = partial(load_project_settings, Path(spec.cwd), homes, environ)
    loaded = await to_thread.run_sync(load)
    chooser = ModelChooser(loaded.settings, loaded.environ)
    return await chooser.choose_first(spec, partial(find_local_server, environ=loaded.environ))


async def _find_facts(choice: ModelChoice, window: int | None) -> ModelFacts:
    facts = choice.provider.facts(choice.model)
    if window := window or choice.window:
        return override_window(facts, window)
    if not facts.known and isinstance(choice.provider, ReportsWindow):
        return await choice.provider.load_facts(choice.model)
    return facts


def _plan_session(
    session: RecordedSession,
    kinds: Sequence[ViewKind],
    model: AskedModel,
    *,
    options: BlindTestOptions,
) -> list[CasePlan]:
    found = find_cases(session, options.simulation.find_model(session), most=options.points)
    return [
        plan_case(case, kinds, model.facts, count=model.count, questions=options.questions)
        for case in found
    ]


async def _load_sessions(
    names: Iterable[str], spec: SessionSpec, environ: Mapping[str, str]
) -> tuple[dict[str, RecordedSession], dict[str, str]]:
    """Return the sessions by name, and the reasons why others were skipped."""
    sessions: dict[str, RecordedSession] = {}
    skipped: dict[str, str] = {}
    for name in names:
        if not await anyio.Path(name).exists():
            try:
                sessions[name] = await _load_stored(name, spec, environ)
            except SessionNotFound as error:
                skipped[name] = f"{name} is neither a file nor a stored session: {error}"
            continue
        files, without = find_recordings([name])
        skipped |= without
        for file in files:
            try:
                sessions[str(file)] = await to_thread.run_sync(read_session, file)
            except ConfigError as error:
                skipped[str(file)] = str(error)
    return sessions, skipped


async def _load_stored(name: str, spec: SessionSpec, environ: Mapping[str, str]) -> RecordedSession:
    place = project_store(Path(spec.cwd), environ, spec.store)
    try:
        if place.is_empty:
            raise SessionNotFound("there are no sessions in this folder")
        found = await load_transcript(place, name)
    finally:
        await place.store.aclose()
    session = clew_jsonl.parse(map(encode, found.entries))
    return msgspec.structs.replace(session, id=found.record.id)


def _explain_no_case(name: str, session: RecordedSession, options: SimulationOptions) -> str:
    window = options.find_model(session).window
    return (
        f"{name} has no compaction, and never fills a window of {window:,} tokens; choose a"
        " smaller one with --window"
    )


def _make_header(
    name: str, session: RecordedSession, model: AskedModel, *, questions: int
) -> TestedSession:
    first = session.steps[0].message.text if session.steps else ""
    provider = model.provider
    address = provider.address if isinstance(provider, HasAddress) else ""
    return TestedSession(
        name=Path(name).name.partition(".")[0],
        session=digest(session.source, session.id, first),
        provider=f"{provider.name} {address}".strip(),
        model=model.facts.name,
        questions=questions,
    )


def _report_session(tested: _TestedRecording, run: BlindRun) -> SessionReport:
    return SessionReport(
        name=tested.name,
        source=tested.session.source,
        replies=str(tested.file.path),
        damaged_lines=tested.file.damaged,
        cases=tuple(
            TestedCase(
                at=plan.case.at,
                is_recorded=bool(plan.case.summary),
                pieces=len(plan.pieces),
                views={view.kind.name: view.tokens for view in plan.readable_views},
            )
            for plan in run.plans
        ),
        scores=score(run.plans, tested.file.replies),
    )
