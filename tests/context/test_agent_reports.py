"""A digest quotes what each subagent reported, with its verdict."""

from hypothesis import given
from hypothesis import strategies as st

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


def test_refused_and_empty_reports_are_left_out() -> None:
    refused = ask("Look", "The user doesn't want to proceed with this tool use.", failed=True)

    assert written(refused, ask("Look", "agentId: a1"), run("make", "ok")) == ""


@given(max_chars=st.integers(-10, 1_500), count=st.integers(0, 15))
def test_reports_never_take_more_than_their_room(max_chars: int, count: int) -> None:
    steps = [ask(f"Review part {n}", REVIEW) for n in range(count)]

    text = written(*steps, max_chars=max_chars)

    assert len(text) <= max(0, max_chars)
    assert text.count("\n- #") <= 12
