"""A plan that the user approved stays in the view while it is carried out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew import fit
from clew.context.digest.rule_summary import prepare_digest
from clew.context.digest.state.approved_plan import quote_plan
from clew.core.messages import assistant, user
from tests.context.conversations import items, use

PLAN = "# Split the module\n1. Move the parser\n2. Run make test"
APPROVED = "The user approved the plan. Carry it out."
CHANGED = "The user changed the plan and approved it. Carry out this plan:\n\n1. Only rename it"
QUOTED = "User has approved your plan.\n\n## Approved Plan (edited by user):\n1. Only rename it"


def digest(*messages: object, max_chars: int = 5_000) -> str:
    talk = items(user("Plan the split"), *messages)  # type: ignore[arg-type]
    return prepare_digest(talk).write_chars(max_chars)


def plan(result: str, *, failed: bool = False, **arguments: str) -> object:
    return use("ExitPlanMode", arguments or {"plan": PLAN}, result, failed=failed)


def test_the_plan_is_quoted_with_the_entry_of_its_approval() -> None:
    text = digest(plan(APPROVED), assistant("I begin with the parser."))

    assert f"Plan that the user approved (#4):\n{PLAN}\n" in text


@pytest.mark.parametrize("result", [CHANGED, QUOTED])
def test_a_plan_that_the_user_changed_is_quoted_as_changed(result: str) -> None:
    text = digest(plan(APPROVED), plan(result))

    assert "Plan that the user approved (#6):\n1. Only rename it\n" in text


def test_a_plan_that_was_not_approved_is_no_plan() -> None:
    for step in (
        plan("The user did not approve the plan; plan mode stays active."),
        plan("Plan mode is not active: carry on.", failed=True),
        plan(APPROVED, plan=" "),
        plan(APPROVED, path="plan.md"),
    ):
        assert "Plan that the user approved" not in digest(step)


def test_a_plan_is_dropped_once_the_user_asks_for_other_things() -> None:
    asked = [user(f"Now do task number {n}, please") for n in range(3)]

    assert "Plan that the user approved" in digest(plan(APPROVED), *asked[:2])
    assert "Plan that the user approved" not in digest(plan(APPROVED), *asked)


def test_a_plan_that_can_be_seen_is_not_quoted_again() -> None:
    talk = items(user("Plan the split"), plan(APPROVED))  # type: ignore[arg-type]

    text = prepare_digest(talk[:1], staying=talk[1:], conversation=talk).write_chars(5_000)

    assert "Plan that the user approved" not in text


def test_fitting_messages_keeps_the_plan() -> None:
    def call(name: str, arguments: str, result: str, mark: str) -> list[dict[str, object]]:
        function = {"name": name, "arguments": arguments}
        asked = [{"id": mark, "type": "function", "function": function}]
        return [
            {"role": "assistant", "content": "", "tool_calls": asked},
            {"role": "tool", "tool_call_id": mark, "content": result},
        ]

    messages: list[dict[str, object]] = [{"role": "user", "content": "Plan the split"}]
    messages += call("ExitPlanMode", '{"plan": "1. Move the parser"}', APPROVED, "p")
    for number in range(60):
        messages += call("Bash", '{"command": "cat log"}', f"line {number} " * 100, f"c{number}")

    fitted = str(fit(messages, max_tokens=4_000).messages)

    assert "Plan that the user approved:\\n1. Move the parser" in fitted


def test_a_long_plan_loses_its_code_and_then_its_middle() -> None:
    code = "```python\n" + "x = 1\n" * 100 + "```"
    steps = [f"{n}. Change file number {n}" for n in range(100)]

    assert quote_plan(f"Goal\n{code}\nRun make test", max_chars=100) == "Goal\n…\nRun make test"
    text = quote_plan("\n".join(["Goal", *steps, "Run make test"]), max_chars=300)
    assert text.startswith("Goal\n0. Change file number 0\n")
    assert text.endswith("99. Change file number 99\nRun make test")
    assert "\n…\n" in text


@given(text=st.text(alphabet="ab \n`", max_size=300), max_chars=st.integers(0, 200))
def test_a_plan_is_quoted_within_its_size(text: str, max_chars: int) -> None:
    quoted = quote_plan(text, max_chars=max_chars)

    assert len(quoted) <= max_chars
    assert all(line in [*text.split("\n"), "…", ""] for line in quoted.split("\n"))


def test_a_digest_with_a_plan_keeps_to_its_size() -> None:
    for size in range(0, 3_000, 50):
        assert len(digest(plan(APPROVED, plan=PLAN * 50), max_chars=size)) <= size
