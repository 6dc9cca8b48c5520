"""What exit codes and answers mean, event by event."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.permissions import Decision, Verdict
from clew.hooks.output import (
    ProcessResult,
    interpret_answer,
    interpret_background,
    interpret_body,
    interpret_exit,
)
from clew.hooks.protocol import HookEvent, HookVerdict
from tests.rows import each_row

pytestmark = pytest.mark.req("HOK-2", "HOK-3")

NOTHING = HookVerdict()
CANNOT = [
    HookEvent.SESSION_START,
    HookEvent.SESSION_END,
    HookEvent.POST_COMPACT,
    HookEvent.STOP_FAILURE,
    HookEvent.SUBAGENT_START,
    HookEvent.WORKTREE_REMOVE,
]
CAN = [
    HookEvent.USER_PROMPT_SUBMIT,
    HookEvent.POST_TOOL_USE,
    HookEvent.PRE_COMPACT,
    HookEvent.STOP,
    HookEvent.SUBAGENT_STOP,
    HookEvent.WORKTREE_CREATE,
]
PRE = HookEvent.PRE_TOOL_USE


def exits(event: HookEvent, code: int, stdout: str = "", stderr: str = "") -> HookVerdict:
    return interpret_exit(event, ProcessResult(code, stdout, stderr))


def says(event: HookEvent, code: int = 0, /, **answer: Any) -> HookVerdict:
    return exits(event, code, json.dumps(answer), "from stderr")


def specific(event: HookEvent, code: int = 0, /, **fields: Any) -> HookVerdict:
    return says(event, code, hookSpecificOutput={"hookEventName": event.value, **fields})


def denied(reason: str) -> Decision:
    return Decision(Verdict.DENY, reason)


def test_the_events_are_all_sorted() -> None:
    assert {*CANNOT, *CAN, PRE} == set(HookEvent)


@each_row("event", HookEvent)
def test_silence_and_code_0_change_nothing(event: HookEvent) -> None:
    assert exits(event, 0) == NOTHING
    assert exits(event, 0, " \n", "noise") == NOTHING
    assert exits(event, 0, "{}") == NOTHING


@each_row("event", HookEvent)
def test_plain_output_is_context_only_for_prompts_and_starts(event: HookEvent) -> None:
    plain = exits(event, 0, "\nbranch: main\nclean\n")

    if event in (HookEvent.USER_PROMPT_SUBMIT, HookEvent.SESSION_START):
        assert plain == HookVerdict(context=("branch: main\nclean",))
    elif event is HookEvent.WORKTREE_CREATE:
        assert plain == HookVerdict(worktree_path="clean")
    else:
        assert plain == NOTHING


@pytest.mark.parametrize("event", CAN)
def test_code_2_blocks_where_it_can(event: HookEvent) -> None:
    assert exits(event, 2, "ignored", " no\nway \n") == HookVerdict(block="no\nway")
    assert exits(event, 2, "no stderr") == HookVerdict(block="no stderr")
    assert exits(event, 2) == HookVerdict(block="the hook gave no reason")
    assert says(event, 2, continue_=True, systemMessage="m") == HookVerdict(
        block="from stderr", messages=("m",)
    )
    assert says(event, 2, decision="block", reason="said so").block == "said so"


@pytest.mark.parametrize("event", CANNOT)
def test_code_2_is_a_report_where_it_cannot_block(event: HookEvent) -> None:
    report = f"exit code 2 cannot block {event}: no"

    assert exits(event, 2, "", "no") == HookVerdict(reports=(report,))


def test_code_2_denies_a_call_whatever_is_printed() -> None:
    assert exits(PRE, 2, "", "no") == HookVerdict(decision=denied("no"))
    allow = specific(PRE, 2, permissionDecision="allow", updatedInput={"a": 1})
    assert allow.decision == denied("from stderr")
    deny = specific(PRE, 2, permissionDecision="deny", permissionDecisionReason="said so")
    assert deny.decision == denied("said so")
    broken = exits(PRE, 2, '{"decision": 7}', "no")
    assert broken.decision == denied("no")
    assert "not a valid hook answer" in broken.reports[0]


@pytest.mark.parametrize("code", [1, 3, 127, -9])
@pytest.mark.parametrize("event", [*CANNOT, PRE, *CAN[:-1]])
def test_another_code_is_reported_and_decides_nothing(event: HookEvent, code: int) -> None:
    failed = exits(event, code, "text", "line one\nline two")

    assert failed == HookVerdict(reports=(f"failed with exit code {code}: line one",))
    assert exits(event, code).reports == (f"failed with exit code {code}",)


def test_another_code_does_not_matter_beside_an_answer() -> None:
    assert says(HookEvent.STOP, 1, decision="block", reason="go on") == HookVerdict(block="go on")


def test_any_failure_means_no_worktree() -> None:
    event = HookEvent.WORKTREE_CREATE

    assert exits(event, 1, "/path", "why") == HookVerdict(block="failed with exit code 1: why")
    assert says(event, 1, systemMessage="m").block == "failed with exit code 1: from stderr"
    assert specific(event, 0, worktreePath="/made") == HookVerdict(worktree_path="/made")


@pytest.mark.parametrize("event", CAN)
def test_an_answer_may_block(event: HookEvent) -> None:
    assert says(event, decision="block", reason="no") == HookVerdict(block="no")
    assert says(event, decision="block") == HookVerdict(block="the hook gave no reason")
    assert says(event, decision="approve", reason="fine") == NOTHING


@pytest.mark.parametrize("event", CANNOT)
def test_an_answer_that_cannot_block_is_reported(event: HookEvent) -> None:
    report = f"a hook cannot block {event}: no"

    assert says(event, decision="block", reason="no") == HookVerdict(reports=(report,))


@pytest.mark.parametrize(
    ("said", "decision"),
    [
        ({"permissionDecision": "allow"}, Decision(Verdict.ALLOW, "r")),
        ({"permissionDecision": "ask"}, Decision(Verdict.ASK, "r")),
        ({"permissionDecision": "deny"}, Decision(Verdict.DENY, "r")),
        ({"permissionDecision": "defer"}, Decision(Verdict.ASK, "r")),
        ({"permissionDecision": None}, None),
        ({}, None),
    ],
)
def test_a_call_is_allowed_asked_about_or_denied(
    said: dict[str, Any], decision: Decision | None
) -> None:
    verdict = specific(PRE, **said, permissionDecisionReason="r", updatedInput={"a": 1})

    assert verdict.decision == decision
    assert verdict.updated_input == {"a": 1}
    assert verdict.reports == (
        ("it defers the decision, so the session asks the user",)
        if said.get("permissionDecision") == "defer"
        else ()
    )


def test_the_older_way_to_decide_about_a_call_still_works() -> None:
    assert says(PRE, decision="approve", reason="r").decision == Decision(Verdict.ALLOW, "r")
    assert says(PRE, decision="block", reason="r") == HookVerdict(decision=denied("r"))
    both = says(
        PRE,
        decision="approve",
        hookSpecificOutput={"hookEventName": "PreToolUse", "permissionDecision": "deny"},
    )
    assert both.decision == denied("the hook gave no reason")


@each_row("event", HookEvent)
def test_the_fields_that_every_event_has(event: HookEvent) -> None:
    verdict = says(
        event,
        **{"continue": False},
        stopReason="enough",
        suppressOutput=True,
        systemMessage="look",
        hookSpecificOutput={"hookEventName": event.value, "additionalContext": "fact"},
        terminalSequence="\x07",
    )

    assert verdict == HookVerdict(stop="enough", messages=("look",), context=("fact",))
    assert says(event, **{"continue": False}).stop == "the hook gave no reason"


def test_input_is_changed_before_and_output_after_a_call() -> None:
    after = HookEvent.POST_TOOL_USE
    fields: dict[str, Any] = {"updatedInput": {"a": 1}, "updatedToolOutput": {"stdout": "x"}}

    assert specific(PRE, **fields) == HookVerdict(updated_input={"a": 1})
    assert specific(after, **fields) == HookVerdict(updated_output={"stdout": "x"})
    assert specific(HookEvent.STOP, **fields) == NOTHING


@pytest.mark.parametrize(
    ("stdout", "report"),
    [
        (
            '{"decision": "blok"}',
            "the output is not a valid hook answer: Invalid enum value 'blok'",
        ),
        ('{"continue": "no"}', "the output is not a valid hook answer: Expected `bool`, got `str`"),
        ('{"hookSpecificOutput": {"updatedInput": []}}', "the output is not a valid hook answer"),
        ('{"hookSpecificOutput": {"hookEventName": "Stop"}}', "the answer is for Stop, not"),
        ('{"a": 1,}', "the output looks like JSON but is invalid"),
        (
            '{"systemMessage": "a"}\n{"continue": false}',
            "the output looks like JSON but is invalid",
        ),
    ],
)
@pytest.mark.parametrize("event", [PRE, HookEvent.SESSION_START, HookEvent.PRE_COMPACT])
@pytest.mark.parametrize("code", [0, 1])
def test_a_malformed_answer_is_reported_and_decides_nothing(
    event: HookEvent, code: int, stdout: str, report: str
) -> None:
    verdict = exits(event, code, stdout)

    assert verdict == HookVerdict(reports=verdict.reports)
    assert verdict.reports[0].startswith(report)


def test_text_that_only_begins_like_json_is_text_where_text_has_a_use() -> None:
    assert exits(HookEvent.SESSION_START, 0, "{x} is set").context == ("{x} is set",)
    assert exits(PRE, 0, '{"decision": "block"').reports != ()


def test_a_cut_answer_says_that_it_was_cut() -> None:
    verdict = interpret_exit(PRE, ProcessResult(0, '{"systemMessage": "aaa', "", 7))

    assert verdict.reports[0].endswith("; 7 bytes beyond the limit were dropped")


def test_a_log_of_json_lines_is_plain_text() -> None:
    log = '{"level": "info"}\n{"level": "warn"}'

    assert exits(HookEvent.SESSION_START, 0, log).context == (log,)
    assert exits(HookEvent.STOP, 0, log) == NOTHING


def test_the_async_mark_of_a_hook_is_not_an_answer() -> None:
    mark = '{"async":true,"asyncTimeout":15000}\n'

    assert exits(HookEvent.SESSION_START, 0, mark) == NOTHING
    assert exits(HookEvent.SESSION_START, 0, mark + "late").context == ("late",)
    assert exits(HookEvent.STOP, 0, mark + '{"systemMessage": "m"}').messages == ("m",)


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        ("", NOTHING),
        ("{}", NOTHING),
        ('{"decision": "block", "reason": "no"}', HookVerdict(block="no")),
        ("fine", HookVerdict(reports=("the server's answer is not a JSON object",))),
        ("[]", HookVerdict(reports=("the server's answer is not a JSON object",))),
    ],
)
def test_a_servers_answer_must_be_json(body: str, verdict: HookVerdict) -> None:
    assert interpret_body(HookEvent.USER_PROMPT_SUBMIT, body) == verdict


def test_a_servers_malformed_answer_is_reported() -> None:
    assert interpret_body(HookEvent.STOP, '{"decision": 1}').block is None
    assert interpret_body(HookEvent.STOP, '{"decision": 1}').reports != ()


NO = '```json\n{"ok": false, "reason": "tests fail"}\n```'


@each_row(
    ("event", "ends_turn", "verdict"),
    [
        (PRE, False, HookVerdict(decision=denied("tests fail"))),
        (PRE, True, HookVerdict(decision=denied("tests fail"), stop="tests fail")),
        (HookEvent.POST_TOOL_USE, False, HookVerdict(block="tests fail")),
        (HookEvent.POST_TOOL_USE, True, HookVerdict(block="tests fail", stop="tests fail")),
        (HookEvent.STOP, True, HookVerdict(block="tests fail")),
        (HookEvent.USER_PROMPT_SUBMIT, True, HookVerdict(block="tests fail")),
        (
            HookEvent.SESSION_END,
            True,
            HookVerdict(
                reports=("the answer is no, but a hook cannot block SessionEnd: tests fail",)
            ),
        ),
    ],
)
def test_a_no_means_what_the_event_allows(
    event: HookEvent, verdict: HookVerdict, *, ends_turn: bool
) -> None:
    assert interpret_answer(event, NO, ends_turn=ends_turn) == verdict
    assert interpret_answer(event, '{"ok": true, "reason": "x"}', ends_turn=ends_turn) == NOTHING


def test_a_run_may_stop_when_what_a_hook_wants_can_never_be() -> None:
    answer = '{"ok": false, "reason": "r", "impossible": true}'

    assert interpret_answer(HookEvent.STOP, answer, ends_turn=False) == NOTHING
    assert interpret_answer(HookEvent.USER_PROMPT_SUBMIT, answer, ends_turn=False).block == "r"


@pytest.mark.parametrize("text", ["", "yes", "{}", '{"ok": "no"}', "} {", "[true]"])
def test_an_unreadable_answer_is_reported(text: str) -> None:
    verdict = interpret_answer(PRE, text, ends_turn=True)

    assert verdict == HookVerdict(reports=verdict.reports)
    assert verdict.reports[0].startswith("the answer is not JSON with `ok` and `reason`")


def test_a_background_hook_decides_nothing() -> None:
    answer = json.dumps(
        {
            "decision": "block",
            "continue": False,
            "systemMessage": "m",
            "hookSpecificOutput": {"additionalContext": "c"},
        }
    )

    assert interpret_background(ProcessResult(0, answer), rewake=False) == HookVerdict(
        context=("c", "m")
    )
    assert interpret_background(ProcessResult(2, "", "no"), rewake=False).block is None
    assert interpret_background(ProcessResult(2, "", "no"), rewake=True) == HookVerdict(
        context=("no",)
    )
    assert interpret_background(ProcessResult(2, "no"), rewake=True) == HookVerdict(context=("no",))
    assert interpret_background(ProcessResult(0, "text"), rewake=True) == NOTHING
    assert interpret_background(ProcessResult(1, "text"), rewake=True).reports == (
        "failed with exit code 1",
    )
    assert interpret_background(ProcessResult(0, "{,}"), rewake=True).reports != ()


@given(
    st.sampled_from(HookEvent),
    st.integers(-64, 255),
    st.text(max_size=30) | st.text('{}[]":,\n abdecision', max_size=30),
    st.text(max_size=10),
)
def test_whatever_a_hook_prints_has_a_meaning(
    event: HookEvent, code: int, stdout: str, stderr: str
) -> None:
    verdict = exits(event, code, stdout, stderr)

    assert verdict.block is None or event in CAN
    assert verdict.decision is None or event is PRE
