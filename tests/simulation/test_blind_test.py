"""The blind test: known scores, replies that are kept, mistakes of a model, and the cost."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from clew.core.errors import BudgetReached, ConfigError, ProviderError
from clew.core.models import ModelFacts
from clew.dict_messages.fit import fit
from clew.importers.recorded_session import RecordedSession
from clew.sdk.blind_test import (
    BlindReport,
    BlindTest,
    BlindTestOptions,
    draw_report,
    open_blind_test,
)
from clew.sdk.session_spec import SessionSpec
from clew.sdk.simulation import SimulationOptions
from clew.simulation.scenario import make_scenario
from clew.simulation.simulator import simulate
from clew.testing.fake_openai import (
    ScriptedResponse,
    error_response,
    fake_openai,
    tool_call_response,
)
from tests.simulation.examiner import (
    NOTES,
    SECRET,
    Examiner,
    Say,
    make_session,
    role_of,
    text_response,
    write_session,
)

pytestmark = [pytest.mark.anyio, pytest.mark.req("SIM-1")]

SUMMARY = "fact fact_1 is value_1, fact fact_3 is value_3, fact fact_5 is value_5"
"""The examiner asks for the facts with odd numbers, so this answers three of twelve."""

SMALL = ("full", "recorded")

Ask = Callable[..., Any]


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Ask]:
    """Open a test of a session with an examiner on loopback, always at the same address."""
    examiners: list[Examiner] = []

    @asynccontextmanager
    async def opened(
        examiner: Examiner,
        session: RecordedSession,
        *,
        model: str = "gpt-4o",
        window: int | None = None,
        **options: Any,
    ) -> AsyncIterator[BlindTest]:
        examiners.append(examiner)
        file = write_session(tmp_path / "session.jsonl", session)
        spec = SessionSpec(cwd=str(tmp_path), base_url=server.url, model=model)
        simulation = SimulationOptions.of(window=window)
        chosen = BlindTestOptions(simulation=simulation, out=tmp_path / "out", **options)
        environ = {"CLEW_HOME": str(tmp_path / "home")}
        async with open_blind_test([str(file)], spec, chosen, environ=environ) as test:
            yield test

    def answer(body: bytes) -> ScriptedResponse:
        return examiners[-1](body)

    async with fake_openai(answer) as server:
        yield opened


def answer_always(role: str, text: str) -> Say:
    return lambda one: text_response(text, one) if role_of(one) == role else None


def answer_first(role: str, text: str) -> Say:
    left = [text]
    return lambda one: text_response(left.pop(), one) if role_of(one) == role and left else None


def fail_after(count: int) -> Say:
    left = [None] * count
    error = {"error": {"message": "no such key", "code": "invalid_api_key"}}
    return lambda _: left.pop() if left else error_response(401, error)


def search(query: str, *, name: str = "Recall", arguments: str = "") -> ScriptedResponse:
    return tool_call_response(name, arguments or json.dumps({"query": query}))


def count_facts(text: str) -> int:
    """Return how many of the facts with odd numbers a view contains."""
    return sum(f"fact fact_{number} is" in text for number in range(1, 24, 2))


def scores_of(report: BlindReport) -> dict[str, float | None]:
    return {view.view: view.score for view in report.scores.views}


async def test_every_view_gets_the_score_that_is_known_in_advance(ask: Ask) -> None:
    session = make_session(summary=SUMMARY)
    views = ("full", "recorded", "newest-1k", "rules-4k", "summary-4k", "recall-4k")
    examiner = Examiner()

    async with ask(examiner, session, views=views) as test:
        await test.run()
        report = test.report()

    before = [step.message for step in session.steps[:-5]]
    by_rules = fit(before, max_tokens=4_000, model="gpt-4o")
    with_notes = fit(before, max_tokens=4_000, model="gpt-4o", summarize=lambda _: NOTES)
    kept = count_facts(str(by_rules.messages))
    scores = scores_of(report)
    assert scores["full"] == 1.0
    assert scores["recall-4k"] == 1.0
    assert scores["recorded"] == 3 / 12
    assert scores["newest-1k"] == 1 / 12
    assert scores["rules-4k"] == kept / 12
    assert scores["summary-4k"] == count_facts(str(with_notes.messages)) / 12 > kept / 12
    found = {view.view: view for view in report.scores.views}
    assert 0 < found["recall-4k"].lookups_per_question <= 1
    assert found["full"].lookups_per_question == 0
    assert {kind: one.questions for kind, one in found["full"].kinds.items()} == {
        "goal": 1,
        "rule": 2,
        "decision": 2,
        "failure": 1,
        "state": 2,
        "next step": 1,
        "fact": 3,
    }
    assert found["full"].tokens > found["rules-4k"].tokens > found["newest-1k"].tokens
    assert report.done == report.total == 2 + 12 * 6 + 12
    assert examiner.roles.count("summary") == 1


async def test_the_writer_gets_the_full_text_and_readers_get_one_view_each(ask: Ask) -> None:
    examiner = Examiner()

    async with ask(examiner, make_session(summary=SUMMARY), views=SMALL, questions=2) as test:
        await test.run()

    by_role = [(role_of(one), one["messages"]) for one in examiner.requests]
    (written,) = [messages for role, messages in by_role if role == "writer"]
    assert all(f"fact fact_{number} is" in written[-1]["content"] for number in range(24))
    read = [str(messages[1]["content"]) for role, messages in by_role if role == "reader"]
    assert read.count(f"<text>\n{SUMMARY}\n</text>") == 2
    assert len(read) == 4
    graded = [str(messages) for role, messages in by_role if role == "grader"]
    assert len(graded) == 2
    assert not any(view in shown for view in SMALL for shown in graded)


async def test_what_is_said_to_cost_is_what_is_used(ask: Ask) -> None:
    examiner = Examiner()
    views = ("full", "recorded", "rules-4k")

    async with ask(examiner, make_session(summary=SUMMARY), views=views, questions=4) as test:
        cost = test.estimate_cost()
        before = len(examiner.requests)
        await test.run()
        spent, after = test.report().scores.spent, test.estimate_cost()

    assert before == 0
    assert cost.calls == spent.calls == len(examiner.requests) == 1 + 4 * 3 + 4
    assert cost.input_tokens == pytest.approx(spent.usage.input_tokens, rel=0.3)
    assert cost.usd == pytest.approx(spent.usd, rel=0.4)
    assert cost.cached_usd is not None
    assert cost.cached_usd < cost.usd
    assert (after.calls, after.input_tokens, after.usd) == (0, 0, 0.0)


async def test_an_unknown_price_is_called_unknown(ask: Ask) -> None:
    async with ask(Examiner(), make_session(), views=("full",), model="mystery-9") as test:
        assert test.estimate_cost().usd is None


async def test_a_test_that_was_stopped_continues_without_paying_twice(
    ask: Ask, tmp_path: Path
) -> None:
    session = make_session(summary=SUMMARY)
    whole = Examiner()
    async with ask(whole, session, views=SMALL, questions=3) as test:
        await test.run()
        expected = scores_of(test.report())
    (file,) = (tmp_path / "out").iterdir()
    file.unlink()
    stopping = Examiner(fail_after(5))
    going_on = Examiner()

    async with ask(stopping, session, views=SMALL, questions=3) as test:
        with pytest.raises(ProviderError):
            await test.run()
        left = test.estimate_cost()
        partial = test.report()
    async with ask(going_on, session, views=SMALL, questions=3) as test:
        resumed = test.report()
        await test.run()
        report = test.report()

    assert 0 < partial.done < partial.total
    assert resumed.done == partial.done
    assert left.calls == len(going_on.requests) == len(whole.requests) - partial.done
    assert scores_of(report) == expected
    assert report.scores.spent.calls == len(whole.requests)


async def test_a_damaged_last_line_is_asked_again(ask: Ask, tmp_path: Path) -> None:
    session = make_session(summary=SUMMARY)
    async with ask(Examiner(), session, views=SMALL, questions=2) as test:
        await test.run()
        expected = scores_of(test.report())
    (file,) = (tmp_path / "out").iterdir()
    data = file.read_bytes()
    file.write_bytes(data[:-20])
    again, nothing = Examiner(), Examiner()

    async with ask(again, session, views=SMALL, questions=2) as test:
        await test.run()
        report = test.report()
    async with ask(nothing, session, views=SMALL, questions=2) as test:
        await test.run()
        last = test.report()

    assert again.roles == ["grader"]
    assert nothing.roles == []
    assert scores_of(report) == scores_of(last) == expected
    assert report.sessions[0].damaged_lines == 1


async def test_a_folder_that_cannot_be_written_is_noticed_before_a_call(
    ask: Ask, tmp_path: Path
) -> None:
    (tmp_path / "out").write_text("a file", encoding="utf-8")
    examiner = Examiner()

    with pytest.raises(ConfigError, match="cannot"):
        async with ask(examiner, make_session(), views=("full",), questions=1) as test:
            await test.run()

    assert examiner.requests == []


async def test_a_file_of_another_test_is_refused(ask: Ask, tmp_path: Path) -> None:
    async with ask(Examiner(), make_session(), views=("full",), questions=1) as test:
        await test.run()
    (file,) = (tmp_path / "out").iterdir()
    changed = file.read_text(encoding="utf-8").replace('"questions":1,', '"questions":9,', 1)
    file.write_text(changed, encoding="utf-8")

    with pytest.raises(ConfigError, match="belongs to another test"):
        async with ask(Examiner(), make_session(), views=("full",), questions=1):
            pass


async def test_replies_of_another_model_session_or_number_of_questions_are_not_used(
    ask: Ask, tmp_path: Path
) -> None:
    session = make_session(summary=SUMMARY)
    async with ask(Examiner(), session, views=SMALL, questions=2) as test:
        await test.run()
    cases: list[dict[str, Any]] = [
        {"session": session, "questions": 2, "model": "gpt-4.1"},
        {"session": session, "questions": 3},
        {"session": make_session(turns=9, summary=SUMMARY), "questions": 2},
        {"session": make_session(padding=80, summary=SUMMARY), "questions": 2},
    ]

    for case in cases:
        examiner = Examiner()
        async with ask(examiner, views=SMALL, **case) as test:
            fresh = test.report()
            await test.run()
        assert fresh.done == 0
        assert examiner.roles.count("writer") == 1

    assert len(list((tmp_path / "out").iterdir())) == 3


async def test_another_view_uses_the_questions_and_answers_that_are_there(ask: Ask) -> None:
    session = make_session(summary=SUMMARY)
    async with ask(Examiner(), session, views=("recorded",), questions=2) as test:
        await test.run()
    examiner = Examiner()

    async with ask(examiner, session, views=SMALL, questions=2) as test:
        await test.run()
        report = test.report()

    assert sorted(examiner.roles) == ["grader", "grader", "reader", "reader"]
    assert len(report.scores.views) == 2


async def test_a_reply_in_the_wrong_form_is_asked_for_once_more_with_the_reason(ask: Ask) -> None:
    examiner = Examiner(answer_first("reader", "I think it is value_7."))

    async with ask(examiner, make_session(), views=("full",), questions=2) as test:
        await test.run()
        report = test.report()

    second = examiner.requests[2]["messages"]
    assert second[-2]["content"] == "I think it is value_7."
    assert "not a JSON object" in second[-1]["content"]
    assert scores_of(report) == {"full": 1.0}
    assert report.scores.problems == ()


async def test_questions_that_are_not_answered_or_graded_are_counted_and_never_guessed(
    ask: Ask,
) -> None:
    def say(request: dict[str, Any]) -> ScriptedResponse | None:
        last = str(request["messages"])
        if role_of(request) == "reader" and "fact_3?" in last:
            return text_response("no idea", request)
        if role_of(request) == "grader" and "fact_9?" in last:
            return text_response('{"a": 0.7}', request)
        return None

    async with ask(Examiner(say), make_session(), views=("full",), questions=4) as test:
        await test.run()
        report = test.report()
        left = test.estimate_cost()

    (view,) = report.scores.views
    assert (view.questions, view.unanswered, view.ungraded, view.score) == (4, 1, 1, 1.0)
    assert sum(one.graded for one in view.kinds.values()) == 2
    assert len(report.scores.problems) == 2
    assert "must be 1, 0.5 or 0" in report.scores.problems[1]
    assert (report.done, left.calls) == (report.total, 0)


async def test_questions_in_the_wrong_form_are_left_out_and_reported(ask: Ask) -> None:
    good = {"kind": "fact", "question": "What is fact_2?", "reference": "value_2"}
    bad = {"kind": "gossip", "question": "Who?", "reference": "me"}
    say = answer_always("writer", json.dumps([good, bad, {"kind": "fact"}, good]))

    async with ask(Examiner(say), make_session(), views=("full",), questions=4) as test:
        await test.run()
        report = test.report()

    assert report.scores.questions == 1
    assert scores_of(report) == {"full": 1.0}
    (problem,) = report.scores.problems
    assert "3 questions not written" in problem
    assert "unknown kind 'gossip'" in problem


async def test_a_writer_without_any_question_leaves_nothing_to_ask(ask: Ask) -> None:
    examiner = Examiner(answer_always("writer", "<think>[1, 2]</think>I would rather not."))

    async with ask(examiner, make_session(), views=("full",), questions=4) as test:
        await test.run()
        report = test.report()

    assert examiner.roles == ["writer", "writer"]
    assert (report.scores.questions, report.scores.views) == (0, ())
    assert (report.done, report.total) == (1, 1)


@pytest.mark.parametrize(
    ("role", "reply", "calls"),
    [
        ("writer", "```\n[]\n```", {"writer": 1, "reader": 2, "grader": 2}),
        ("reader", "no idea", {"reader": 2, "grader": 2}),
        ("grader", "not json at all", {"grader": 2}),
        ("summary", "<think>hm</think>", {"summary": 1, "reader": 2}),
    ],
)
async def test_a_reply_that_failed_is_asked_for_again_by_the_next_run(
    ask: Ask, role: str, reply: str, calls: dict[str, int]
) -> None:
    session, views = make_session(), ("summary-4k" if role == "summary" else "full",)
    options: Mapping[str, Any] = {"views": views, "questions": 2}
    examiner = Examiner()

    async with ask(Examiner(answer_always(role, reply)), session, **options) as test:
        await test.run()
        failed = test.report()
    async with ask(examiner, session, **options) as test:
        left = test.estimate_cost()
        await test.run()
        report = test.report()

    assert failed.scores.problems
    assert Counter(examiner.roles) == calls
    assert left.calls == sum(calls.values()) or role == "summary"
    assert (report.done, report.scores.problems) == (report.total, ())
    assert report.scores.views[0].unanswered == report.scores.views[0].ungraded == 0
    assert report.scores.spent.calls > sum(calls.values())


async def test_a_text_that_is_longer_than_the_window_is_read_in_pieces(ask: Ask) -> None:
    session = make_session(turns=90, padding=160)
    examiner = Examiner()

    async with ask(examiner, session, model="mystery-9", views=("full", "rules-4k")) as test:
        await test.run()
        report = test.report()

    (case,) = report.sessions[0].cases
    assert case.pieces > 1
    assert examiner.roles.count("writer") == case.pieces
    asked = [str(one["messages"]) for one in examiner.requests if role_of(one) == "writer"]
    assert all("of kind" in one for one in asked)
    assert report.scores.questions == 12
    assert list(scores_of(report)) == ["rules-4k"]
    assert any("full was left out" in problem for problem in report.scores.problems)


async def test_a_session_without_compactions_is_tested_where_clew_would_compact(ask: Ask) -> None:
    session = make_session(compacted=False, turns=60)
    examiner = Examiner()

    async with ask(
        examiner, session, window=8_000, points=2, views=("full", "recorded"), questions=2
    ) as test:
        await test.run()
        report = test.report()
    async with ask(Examiner(), session, window=1_000_000, views=("full",)) as test:
        unfilled = test.report()

    (tested,) = report.sessions
    assert [case.is_recorded for case in tested.cases] == [False, False]
    assert tested.cases[0].at < tested.cases[1].at
    assert scores_of(report) == {"full": 1.0}
    assert unfilled.sessions == ()
    assert "choose a smaller one with --window" in next(iter(unfilled.skipped.values()))


async def test_a_session_that_is_only_cleared_is_tested_where_results_are_cleared(
    ask: Ask,
) -> None:
    session = make_session(compacted=False, turns=40)
    runs = simulate(session, [make_scenario("balanced")], ModelFacts(name="m", window=16_000))

    async with ask(Examiner(), session, window=16_000, points=1, views=("full",)) as test:
        report = test.report()

    assert (runs[0].compactions, runs[0].clearings > 0) == (0, True)
    assert len(report.sessions[0].cases) == 1


async def test_secrets_are_neither_sent_nor_kept(ask: Ask, tmp_path: Path) -> None:
    say = answer_always("reader", json.dumps({"answer": f"the key is {SECRET}"}))
    examiner = Examiner(say)

    async with ask(examiner, make_session(), views=("full", "recall-4k"), questions=2) as test:
        await test.run()

    (file,) = (tmp_path / "out").iterdir()
    assert SECRET not in str(examiner.requests)
    assert SECRET not in file.read_text(encoding="utf-8")
    assert file.stat().st_mode & 0o077 == 0


async def test_a_budget_stops_the_test_before_it_is_exceeded(ask: Ask) -> None:
    session = make_session()
    options: Mapping[str, Any] = {"views": ("full",), "questions": 4}

    async with ask(Examiner(), session, budget_usd=0.2, **options) as test:
        with pytest.raises(BudgetReached, match="Raise the budget or ask fewer questions"):
            await test.run()
        stopped = test.report()
    async with ask(Examiner(), session, **options) as test:
        await test.run()
        report = test.report()

    async with ask(Examiner(), session, budget_usd=0.0001, views=("full",)) as test:
        with pytest.raises(BudgetReached, match=r"of the budget of \$0\.0001 is left"):
            await test.run()

    assert 0 < stopped.done < stopped.total
    assert stopped.scores.spent.usd <= 0.2
    assert report.done == report.total


async def test_a_reader_that_never_stops_searching_is_told_to_answer(ask: Ask) -> None:
    def say(request: dict[str, Any]) -> ScriptedResponse | None:
        if role_of(request) != "reader" or "no more look-ups" in str(request["messages"]):
            return None
        return search("noise")

    async with ask(Examiner(say), make_session(), views=("recall-4k",), questions=1) as test:
        await test.run()
        report = test.report()

    (view,) = report.scores.views
    assert view.lookups_per_question == 6
    assert view.unanswered == 0


async def test_a_wrong_look_up_gets_a_result_that_says_so(ask: Ask) -> None:
    wrong = [search("", name="Grep"), search("x", arguments="{"), search("", arguments="{}")]
    examiner = Examiner(lambda one: wrong.pop() if role_of(one) == "reader" and wrong else None)

    async with ask(examiner, make_session(), views=("recall-4k",), questions=1) as test:
        await test.run()
        report = test.report()

    results = [one for one in examiner.requests[4]["messages"] if one["role"] == "tool"]
    assert [str(one["content"]).startswith("Error") for one in results] == [True] * 3
    assert report.scores.views[0].unanswered == 0


async def test_a_summary_is_written_once_and_counted(ask: Ask) -> None:
    session, options = make_session(), {"views": ("summary-4k",), "questions": 2}
    stopping, going_on = Examiner(fail_after(2)), Examiner()

    async with ask(stopping, session, **options) as test:
        before = test.estimate_cost()
        with pytest.raises(ProviderError):
            await test.run()
    async with ask(going_on, session, **options) as test:
        after = test.estimate_cost()
        await test.run()
        report = test.report()

    assert stopping.roles[:2] == ["summary", "writer"]
    assert "summary" not in going_on.roles
    assert (before.calls, after.calls, len(going_on.requests)) == (6, 4, 4)
    assert report.done == report.total == 6


async def test_without_a_summary_rules_write_the_view(ask: Ask) -> None:
    examiner = Examiner(answer_always("summary", "<think>hm</think> "))

    async with ask(examiner, make_session(), views=("summary-4k", "rules-4k")) as test:
        await test.run()
        report = test.report()

    scores = scores_of(report)
    assert scores["summary-4k"] == scores["rules-4k"]
    assert report.scores.problems == ("no summary was written, so rules wrote it: it is empty",)


async def test_the_chart_shows_each_view_with_its_scores(ask: Ask) -> None:
    async with ask(Examiner(), make_session(summary=SUMMARY), views=SMALL, questions=4) as test:
        empty = draw_report(test.report())
        await test.run()
        drawn = draw_report(test.report())

    texts = [node.text or "" for node in ElementTree.fromstring(drawn).iter()]
    assert {"full", "recorded", "goal", "1.00"} <= set(texts)
    assert ElementTree.fromstring(empty) is not None


@pytest.mark.parametrize("name", ["magic", "rules-0k", "rules", "full-4k", ""])
async def test_an_unknown_view_is_an_error(ask: Ask, name: str) -> None:
    with pytest.raises(ConfigError, match="unknown view"):
        async with ask(Examiner(), make_session(turns=3), views=(name,)):
            pass
