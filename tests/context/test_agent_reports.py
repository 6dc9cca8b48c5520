"""A digest quotes what each subagent reported, with its verdict."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.context.digest.prose.agent_prose import read_prose
from clew.context.digest.prose.agent_reports import list_reports, write_reports
from clew.context.digest.rule_summary import prepare_digest
from clew.context.digest.steps.step_log import list_steps
from clew.core.messages import Message, user
from tests.context.conversations import items, run, use
from tests.rows import each_row

REVIEW = """I have read everything. Let me write the report.

# Review of the cache

> Verdict: REQUEST CHANGES

## Critical
- `evict()` in `store/cache.py` drops entries that are still being written
- `load()` has no test for a truncated file

## Strengths
- The names in `store/keys.py` are clear and the docstrings are complete

agentId: a1b2 (for resuming)
"""


def ask(description: str, report: str, *, failed: bool = False) -> tuple[Message, ...]:
    return use("Task", {"description": description, "prompt": "…"}, report, failed=failed)


def written(*steps: tuple[Message, ...], max_chars: int = 3_000) -> str:
    return write_reports(list_reports(list_steps(items(*steps))), max_chars=max_chars)


def test_a_report_is_told_with_its_task_its_verdict_and_what_is_wrong() -> None:
    assert written(ask("Review the cache", REVIEW)).splitlines() == [
        "Reports of subagents, newest first:",
        "- #3 Review the cache: Verdict: REQUEST CHANGES … Critical: `evict()` in "
        "`store/cache.py` drops entries that are still being written; `load()` has no test for a "
        "truncated file … Strengths: The names in `store/keys.py` are clear and the docstrings are "
        "complete",
    ]
    assert "Strengths" not in written(ask("Review the cache", REVIEW), max_chars=260)


def test_the_digest_of_a_session_has_the_reports() -> None:
    steps = ask("Review the cache", REVIEW), *(run(f"make part{n}", "ok") for n in range(3))
    talk = items(user("Review the cache with a subagent."), *steps)

    assert "\nReports of subagents, newest first:\n- #4 Review the cache: Verdict: REQUEST" in (
        prepare_digest(talk).write_chars(6_000)
    )


@each_row(
    ("lines", "verdict"),
    [
        ("## Final Verdict\n\n**APPROVE** with small fixes", "Final Verdict: APPROVE with small"),
        ("Verdict: fine\nMore.\n**Recommendation:** merge it", "Verdict: fine"),
        ("Verdict: a\nVerdict: b\n**Recommendation:** merge it now", "Recommendation: merge it"),
        ("## Overall assessment\n| a | b |\n|---|---|", ""),
        ("## Conclusion", ""),
        ("Verdict\n=======\nAPPROVE the change", "Verdict: APPROVE the change"),
        ("1. Verdict: APPROVE the change", "Verdict: APPROVE"),
        ("✅ **Verdict:** APPROVE the change", "Verdict: APPROVE"),
        ("# Assessment criteria for the change", ""),
        ("The verdict is not yet known, as the tests still run.", ""),
    ],
)
def test_the_verdict_of_a_report_is_found(lines: str, verdict: str) -> None:
    (report,) = list_reports(list_steps(items(ask("Look", lines))))

    assert report.verdict.startswith(verdict)
    assert bool(report.verdict) == bool(verdict)


def test_reports_that_arrive_later_belong_to_their_task() -> None:
    launched = "Async agent launched successfully.\nagentId: b7 (internal)\nIt runs."
    told = user(
        "<task-notification><task-id>b7</task-id>\n<status>completed</status>\n"
        "<result>Verdict: the port is closed by `net/guard.py`</result>\n</task-notification>"
    )
    asked = {"task_id": "b7"}
    output = (
        "<task_id>b7</task_id>\n<task_type>local_agent</task_type>\n<status>completed</status>\n"
        "<output>\nConclusion: the port is closed by `net/guard.py`\n</output>"
    )

    assert written(ask("Find the port", launched)) == ""
    assert "#4 Find the port: Verdict: the port is" in written(
        ask("Find the port", launched), (told,)
    )
    polled = written(ask("Find the port", launched), use("TaskOutput", asked, output))
    assert "#5 Find the port: Conclusion: the port is" in polled


@pytest.mark.parametrize(
    "report",
    [
        "The server prints `Process running with session ID 42` although it has crashed: a bug.",
        "Critical: `render()` in `page.py` writes <result>ok</result> before it has an answer.",
        "<output>\nCritical: `render()` loses </output> of `page.py`, which is a bug.\n</output>",
    ],
)
def test_a_report_may_quote_what_programs_write(report: str) -> None:
    assert "Look: " in written(ask("Look", report))
    assert "bug" in written(ask("Look", report)) or "render()" in written(ask("Look", report))


@pytest.mark.parametrize(
    "report", ["x" + "\n" * 24_000 + "y", "<task_id>a</task_id>\n" * 20_000, "> " * 12_000]
)
def test_odd_reports_are_read_in_no_time(report: str) -> None:
    assert len(written(ask("Look", report))) <= 3_000


def test_the_newest_reports_come_first_where_not_all_fit() -> None:
    steps = [ask(f"Review part {n}", REVIEW) for n in range(12)]

    assert written(*steps, max_chars=200).count("\n- #") == 1
    assert "Review part 11" in written(*steps, max_chars=200)
    assert 1 < written(*steps, max_chars=1_000).count("\n- #") < 12


def test_a_notification_has_prose_only_if_it_has_a_result() -> None:
    bare = user("<task-notification><task-id>b7</task-id></task-notification>")
    told = user("<task-notification><result>The port is closed by a guard.</result>")

    (bare_item, told_item) = items(bare, told)

    assert read_prose(bare_item).pieces == ()
    assert [piece.text for piece in read_prose(told_item).pieces] == [
        "The port is closed by a guard."
    ]


def test_refused_and_empty_reports_are_left_out() -> None:
    refused = ask("Look", "The user doesn't want to proceed with this tool use.", failed=True)

    assert written(refused, ask("Look", "agentId: a1"), run("make", "ok")) == ""


@given(
    max_chars=st.integers(-10, 1_500),
    reports=st.lists(
        st.lists(st.sampled_from(REVIEW.split("\n")), max_size=30).map("\n".join), max_size=15
    ),
)
def test_reports_never_take_more_than_their_room(max_chars: int, reports: list[str]) -> None:
    text = written(*(ask("Review", report) for report in reports), max_chars=max_chars)

    assert len(text) <= max(0, max_chars)
    assert text.count("\n- #") <= 12
