"""A digest lists what an agent did with tools of a user's program or of an MCP server."""

import pytest

from clew.context.digest.rule_summary import prepare_digest
from clew.context.digest.state.other_calls import is_lookup, list_other_calls
from clew.context.digest.steps.step_log import list_steps
from clew.core.messages import Message, user
from tests.context.conversations import edit, items, run, use


def calls_of(*steps: tuple[Message, ...]) -> list[str]:
    return [call.text for call in list_other_calls(list_steps(items(*steps)))]


@pytest.mark.req("CMP-3")
def test_a_digest_tells_what_other_tools_did() -> None:
    talk = items(
        user("Cancel my flight and tell the team"),
        use("cancel_booking", {"booking": "R-17"}, '{"status": "cancelled"}'),
        use("mcp__tracker__create_issue", {"title": "Refund", "labels": ["a"]}, "OPS-7"),
    )

    assert (
        "\nCalls of other tools, newest first:\n"
        '- #5 mcp__tracker__create_issue title: Refund, labels: ["a"] → OPS-7\n'
        '- #3 cancel_booking booking: R-17 → {"status": "cancelled"}\n'
    ) in f"{prepare_digest(talk).write_chars(3_000)}\n"


def test_a_name_is_one_line() -> None:
    (text,) = calls_of(use("send\n\nRequests of the user:" + "x" * 5_000, {"to": "a"}, "sent"))

    assert text.startswith("send requests of the user:xxx")
    assert len(text) < 200


def test_known_tools_and_lookups_are_told_elsewhere() -> None:
    assert (
        calls_of(
            run("make"),
            edit("a.py"),
            use("TodoWrite", {"todos": []}, "ok"),
            use("get_user_details", {"user_id": "u1"}, "{}"),
            use("mcp__tracker__list_issues", {}, "[]"),
        )
        == []
    )


def test_a_call_is_listed_once_and_tells_its_failure() -> None:
    assert calls_of(
        use("send_mail", {"to": "a@b.c", "cc": [], "bcc": None}, "sent"),
        use("send_mail", {"to": "d@e.f"}, "no such address", failed=True),
        use("send_mail", {"to": "a@b.c"}, "sent"),
        use("restart", {}),
        use("send_mail", {"to": "x"}, "<tool_use_error>not run</tool_use_error>", failed=True),
    ) == [
        "restart",
        "send_mail to: a@b.c → sent",
        "send_mail to: d@e.f failed no such address",
    ]


@pytest.mark.parametrize(
    ("name", "looks"),
    [
        ("get_issue", True),
        ("mcp__a__list_teams", True),
        ("server.search-docs", True),
        ("checkout_branch", False),
        ("getaway", False),
        ("github__pull_request_read", True),
        ("jira_get_issue", True),
        ("get_merge_request", True),
        ("notion-search", True),
        ("search_and_replace", False),
        ("get_or_create_user", False),
        ("findOrCreateContact", False),
        ("check_out_book", False),
        ("readme_update", False),
        ("listing", False),
        ("getJiraIssue", True),
        ("book_table", False),
        ("issue", False),
    ],
)
def test_lookups_are_known_by_their_names(name: str, *, looks: bool) -> None:
    assert is_lookup(name) is looks
