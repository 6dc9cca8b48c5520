"""The input of hooks, and how their verdicts are merged."""

import json
import subprocess
import sys
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.permissions import Decision, PermissionMode, Verdict
from clew.hooks.protocol import HookEvent, HookInput, HookVerdict, NoHooks
from clew.hooks.runner import NamedVerdict, map_texts, merge_verdicts
from tests.rows import each_row

COMMON: dict[str, Any] = {"session_id": "abc", "transcript_path": "/t.jsonl", "cwd": "/w"}


@pytest.mark.req("HOK-1")
@each_row(
    ("event", "fields"),
    [
        ("SessionStart", {"source": "resume", "model": "m"}),
        ("SessionEnd", {"reason": "other"}),
        ("UserPromptSubmit", {"permission_mode": "default", "prompt": "hi"}),
        (
            "PreToolUse",
            {
                "permission_mode": "plan",
                "tool_name": "Bash",
                "tool_input": {"command": "npm test"},
                "tool_use_id": "toolu_1",
            },
        ),
        (
            "PostToolUse",
            {
                "tool_name": "Write",
                "tool_input": {"file_path": "/f", "content": "é"},
                "tool_response": {"success": True},
                "tool_use_id": "toolu_1",
                "duration_ms": 12,
            },
        ),
        ("PreCompact", {"trigger": "manual", "custom_instructions": None}),
        ("PostCompact", {"trigger": "auto", "compact_summary": "what was"}),
        ("Stop", {"stop_hook_active": False, "last_assistant_message": "done", "response": "done"}),
        ("StopFailure", {"error": "rate_limit", "error_details": "429"}),
        ("SubagentStart", {"agent_id": "a1", "agent_type": "Explore"}),
        (
            "SubagentStop",
            {
                "stop_hook_active": True,
                "agent_id": "a1",
                "agent_type": "Explore",
                "agent_transcript_path": "/a.jsonl",
                "last_assistant_message": "found",
            },
        ),
        ("WorktreeCreate", {"name": "bold-oak"}),
        ("WorktreeRemove", {"worktree_path": "/w/tree"}),
    ],
)
def test_the_json_has_the_event_and_the_fields_that_are_set(
    event: str, fields: dict[str, Any]
) -> None:
    told = {**COMMON, **fields}
    payload = HookInput(**{**told, **_mode(fields)})

    assert json.loads(payload.encode(HookEvent(event))) == {"hook_event_name": event, **told}


def _mode(fields: dict[str, Any]) -> dict[str, Any]:
    mode = fields.get("permission_mode")
    return {"permission_mode": PermissionMode(mode)} if mode else {}


def test_half_characters_do_not_break_the_json() -> None:
    payload = HookInput(**COMMON, tool_input={"file_path": "a\udc80b"})

    assert json.loads(payload.encode(HookEvent.PRE_TOOL_USE))["tool_input"]["file_path"] == "a�b"


@pytest.mark.anyio
async def test_without_hooks_everything_may_go_ahead() -> None:
    assert await NoHooks().fire(HookEvent.STOP, HookInput(**COMMON)) == HookVerdict()


@pytest.mark.slow("starts a process")
def test_hooks_load_no_http_client_before_they_need_one() -> None:
    code = "import sys, clew.hooks.runner; sys.exit('aiohttp' in sys.modules)"

    subprocess.run([sys.executable, "-c", code], check=True)


def decided(verdict: Verdict, reason: str = "") -> HookVerdict:
    return HookVerdict(decision=Decision(verdict, reason))


def test_the_first_reason_counts_and_the_others_are_reported() -> None:
    together = merge_verdicts(
        [
            ("a", decided(Verdict.ALLOW, "fine")),
            ("b", decided(Verdict.DENY, "no")),
            ("c", decided(Verdict.ASK, "hm")),
            ("d", decided(Verdict.DENY, "never")),
            ("e", HookVerdict(block="first", stop="enough", worktree_path="/one")),
            ("f", HookVerdict(block="second", stop="too much", worktree_path="/two")),
        ]
    )

    assert together.decision == Decision(Verdict.DENY, "no")
    assert (together.block, together.stop, together.worktree_path) == ("first", "enough", "/one")
    assert together.reports == (
        "d also says deny: never",
        "f also blocks: second",
        "f also stops the run: too much",
        "f also created a worktree, which is unused: /two",
    )


def test_texts_add_up_in_the_order_of_the_hooks() -> None:
    together = merge_verdicts(
        [
            ("a", HookVerdict(context=("1", "2"), messages=("m",), reports=("odd",))),
            ("b", HookVerdict(context=("3",), messages=("n",))),
        ]
    )

    assert together.context == ("1", "2", "3")
    assert together.messages == ("m", "n")
    assert together.reports == ("a: odd",)


def test_the_last_change_is_used_and_the_overruled_are_reported() -> None:
    together = merge_verdicts(
        [
            ("a", HookVerdict(updated_input={"command": "ls"}, updated_output="x")),
            ("b", HookVerdict(updated_input={"command": "pwd"})),
            ("c", HookVerdict(updated_input={"command": "pwd"}, updated_output="y")),
        ]
    )

    assert together.updated_input == {"command": "pwd"}
    assert together.updated_output == "y"
    assert together.reports == (
        "a also changed the input; the change of a later hook is used",
        "a also changed the output; the change of a later hook is used",
    )


def test_a_denied_call_has_no_changed_input() -> None:
    changed = HookVerdict(updated_input={"command": "ls"})

    assert merge_verdicts([("a", changed), ("b", decided(Verdict.DENY))]).updated_input is None


def test_no_verdicts_change_nothing() -> None:
    assert merge_verdicts([]) == HookVerdict()


def test_every_text_passes_the_change_and_values_do_not() -> None:
    verdict = HookVerdict(
        decision=Decision(Verdict.ASK, "k"),
        updated_input={"key": "k"},
        block="k",
        stop="k",
        context=("k",),
        messages=("k",),
        reports=("k\ud800",),
        worktree_path="/k",
    )

    changed = map_texts(verdict, lambda text: text.replace("k", "*"))

    assert changed == HookVerdict(
        decision=Decision(Verdict.ASK, "*"),
        updated_input={"key": "k"},
        block="*",
        stop="*",
        context=("*",),
        messages=("*",),
        reports=("*�",),
        worktree_path="/k",
    )


verdicts = st.builds(
    HookVerdict,
    decision=st.none() | st.builds(Decision, st.sampled_from(Verdict), st.text(max_size=3)),
    updated_input=st.none() | st.just({"a": 1}) | st.just({"a": 2}),
    block=st.none() | st.text(max_size=3),
    stop=st.none() | st.text(max_size=3),
    context=st.lists(st.text(max_size=3), max_size=2).map(tuple),
)
named_verdicts = st.lists(st.tuples(st.sampled_from("abc"), verdicts), max_size=4)


def says(verdict: HookVerdict) -> Verdict | None:
    return None if verdict.decision is None else verdict.decision.verdict


@pytest.mark.req("HOK-3")
@given(named_verdicts)
def test_the_decision_does_not_depend_on_the_order(named: list[NamedVerdict]) -> None:
    expected = merge_verdicts(named)

    for order in permutations(named):
        together = merge_verdicts(order)
        assert says(together) == says(expected)
        assert (together.block is None) == (expected.block is None)
        assert (together.stop is None) == (expected.stop is None)


@pytest.mark.req("HOK-3")
@given(named_verdicts)
def test_one_deny_is_enough_and_one_allow_is_not(named: list[NamedVerdict]) -> None:
    together = says(merge_verdicts(named))
    said = {says(verdict) for _, verdict in named}

    assert (together is Verdict.DENY) == (Verdict.DENY in said)
    assert (together is Verdict.ALLOW) == (said - {None} == {Verdict.ALLOW})
    assert together in said or not named


@given(named_verdicts)
def test_no_reason_is_lost(named: list[NamedVerdict]) -> None:
    together = merge_verdicts(named)
    told = [together.block, together.stop, *together.reports]

    for _, verdict in named:
        assert verdict.block is None or any((line or "").endswith(verdict.block) for line in told)
        assert verdict.stop is None or any((line or "").endswith(verdict.stop) for line in told)
        assert set(verdict.context) <= set(together.context)
