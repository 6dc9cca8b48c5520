"""A project that changes itself: the plan of a round, and the order of what happens in it."""

import subprocess
import sys
from collections import deque
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import ConfigError, SessionError
from clew.sdk.self_hosting import (
    EVENTS,
    STATES,
    TRANSITIONS,
    Event,
    SelfHostingPlan,
    State,
    VerificationCommands,
    plan_self_hosting_verification,
    transition_self_hosting_loop,
)
from tests.rows import each_row

pytestmark = pytest.mark.req("SHV-1")

PNPM = VerificationCommands(
    package=tuple(("pnpm", "--filter", "{scope}", task) for task in ("test", "typecheck", "build")),
    harness=(("pnpm", "harness:verify", "--", "--base-ref", "{base_ref}", "--skip-record-check"),),
)


def test_the_steps_come_in_their_order_with_commands_as_argument_lists() -> None:
    plan = plan_self_hosting_verification(
        changed_files=["src/a.py", "src/b.py", "src/a.py"], package_scopes=["tests/a", "tests/b"]
    )

    assert [(step.kind, step.scope, step.in_child) for step in plan.steps] == [
        ("create-checkpoint", "", False),
        ("mutate-files", "", False),
        ("hand-off", "", False),
        ("verify-package", "tests/a", True),
        ("verify-package", "tests/b", True),
        ("verify-harness", "", True),
        ("roll-back", "", False),
    ]
    assert plan.steps[3].commands == (
        ("python", "-m", "pytest", "tests/a"),
        ("python", "-m", "mypy", "tests/a"),
        ("python", "-m", "compileall", "-q", "-f", "tests/a"),
    )
    assert plan.steps[5].commands == (("make", "test"),)
    assert [step.only_after_failure for step in plan.steps] == [False] * 6 + [True]
    assert plan.changed_files == ("src/a.py", "src/b.py")
    assert len({step.id for step in plan.steps}) == len(plan.steps)


def test_the_form_of_another_ecosystem_can_be_said() -> None:
    plan = plan_self_hosting_verification(
        changed_files=["packages/agent-sdk/src/index.ts"],
        package_scopes=["@robota-sdk/agent-sdk"],
        base_ref="origin/develop",
        commands=PNPM,
    )

    commands = [" ".join(command) for step in plan.steps for command in step.commands]
    assert commands == [
        "pnpm --filter @robota-sdk/agent-sdk test",
        "pnpm --filter @robota-sdk/agent-sdk typecheck",
        "pnpm --filter @robota-sdk/agent-sdk build",
        "pnpm harness:verify -- --base-ref origin/develop --skip-record-check",
    ]


def test_without_scopes_the_harness_still_runs() -> None:
    plan = plan_self_hosting_verification(changed_files=["README.md"])

    assert [step.kind for step in plan.steps if step.commands] == ["verify-harness"]


def test_changed_files_can_be_given_to_a_command() -> None:
    plan = plan_self_hosting_verification(
        changed_files=["a b.py", "{base_ref}.py"],
        commands=VerificationCommands(harness=(("check", "{changed_files}", "--", "{base_ref}"),)),
    )

    assert plan.steps[-2].commands == (("check", "a b.py", "{base_ref}.py", "--", "origin/main"),)


@pytest.mark.slow("starts processes")
def test_commands_run_in_child_processes_on_what_is_on_disk(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    file = tmp_path / "part" / "new.py"
    plan = plan_self_hosting_verification(
        changed_files=["part/new.py"],
        package_scopes=["part"],
        commands=VerificationCommands(
            package=((sys.executable, "-m", "compileall", "-q", "-f", "{scope}"),),
            harness=((sys.executable, "-c", "import part.new"),),
        ),
    )

    def codes() -> list[int]:
        commands = [c for step in plan.steps if step.in_child for c in step.commands]
        runs = [subprocess.run(c, cwd=tmp_path, capture_output=True, check=False) for c in commands]
        return [run.returncode for run in runs]

    file.write_text("x = 1\n", encoding="utf-8")
    assert codes() == [0, 0]
    file.write_text("x = = 1\n", encoding="utf-8")
    assert codes() == [1, 1]


def test_a_plan_is_a_value_that_can_be_sent() -> None:
    plan = plan_self_hosting_verification(changed_files=["a.py"], package_scopes=["a"])

    assert msgspec.json.decode(msgspec.json.encode(plan), type=SelfHostingPlan) == plan


@each_row(
    ("given", "message"),
    [
        ({"changed_files": []}, "at least one changed file"),
        ({"changed_files": "a.py"}, "a list of names"),
        ({"changed_files": [" "]}, "must not be empty"),
        ({"changed_files": ["a\0b"]}, "NUL"),
        ({"changed_files": ["/etc/passwd"]}, "leads out of the project"),
        ({"changed_files": ["a/../../b"]}, "leads out of the project"),
        ({"package_scopes": ["--pdb"]}, "read as an option"),
        ({"package_scopes": [""]}, "must not be empty"),
        ({"base_ref": "--exec=x"}, "read as an option"),
        ({"commands": VerificationCommands(harness=())}, "harness needs a command"),
        ({"commands": VerificationCommands(package=((),))}, "a command needs a program"),
        ({"commands": VerificationCommands(harness=(("x", "{scope}"),))}, "means nothing"),
    ],
)
def test_what_makes_no_plan_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plan_self_hosting_verification(**{"changed_files": ["a.py"], **given})  # type: ignore[arg-type]


names = st.text(min_size=1, max_size=20).filter(
    lambda name: (
        name.strip() and "\0" not in name and not name.startswith(("-", "/")) and ".." not in name
    )
)


@given(st.lists(names, min_size=1, max_size=5), st.lists(names, max_size=5))
def test_every_plan_begins_with_a_checkpoint_and_ends_with_harness_and_recovery(
    files: list[str], scopes: list[str]
) -> None:
    plan = plan_self_hosting_verification(changed_files=files, package_scopes=scopes)

    kinds = [step.kind for step in plan.steps]
    assert kinds[:3] == ["create-checkpoint", "mutate-files", "hand-off"]
    assert kinds[3:-2] == ["verify-package"] * len(set(scopes))
    assert kinds[-2:] == ["verify-harness", "roll-back"]
    for step in plan.steps[3:-2]:
        assert all(command[-1] == step.scope for command in step.commands)


# The loop


def walk(*events: Event) -> State:
    state: State = "idle"
    for event in events:
        state = transition_self_hosting_loop(state, event)
    return state


def test_a_round_passes() -> None:
    edits: tuple[Event, ...] = ("checkpoint_created", "edits_started", "edits_applied")

    assert walk(*edits, "verify_passed") == "passed"
    assert walk(*edits, "verify_passed", "reset") == "idle"


def test_a_round_that_fails_is_rolled_back() -> None:
    edits: tuple[Event, ...] = ("checkpoint_created", "edits_started", "edits_applied")

    assert walk(*edits, "verify_failed") == "failed"
    assert walk(*edits, "verify_failed", "rollback_failed") == "failed"
    assert walk(*edits, "verify_failed", "rollback_completed") == "rolled_back"
    assert walk("checkpoint_created", "edits_started", "edits_failed") == "failed"
    assert walk("checkpoint_created", "reset") == "idle"


def test_what_cannot_happen_is_an_error_that_says_what_can() -> None:
    with pytest.raises(SessionError, match="state idle there can be no 'verify_passed', only"):
        transition_self_hosting_loop("idle", "verify_passed")
    with pytest.raises(SessionError, match="no state 'lost': use one of idle"):
        transition_self_hosting_loop("lost", "reset")  # type: ignore[arg-type]


@given(st.lists(st.sampled_from(EVENTS), max_size=30))
def test_no_events_lead_to_a_state_that_is_none(events: list[Event]) -> None:
    state: State = "idle"
    for event in events:
        try:
            state = transition_self_hosting_loop(state, event)
        except SessionError:
            assert event not in TRANSITIONS[state]
        assert state in STATES


def reachable(start: State) -> set[State]:
    seen, todo = {start}, deque([start])
    while todo:
        for following in TRANSITIONS[todo.popleft()].values():
            if following not in seen:
                seen.add(following)
                todo.append(following)
    return seen


@each_row("state", STATES)
def test_every_state_can_be_reached_and_leads_back_to_idle(state: State) -> None:
    assert state in reachable("idle")
    assert "idle" in reachable(state)


def test_touched_files_are_never_left_without_a_check_or_a_rollback() -> None:
    ways = {"editing", "verifying", "failed"}

    assert all("reset" not in TRANSITIONS[state] for state in STATES if state in ways)
