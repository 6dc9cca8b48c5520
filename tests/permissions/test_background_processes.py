"""Rules of Bash decide about background processes as they do about commands."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.core.permissions import Access, PermissionMode, Risk, TargetKind, Verdict
from clew.permissions.decide import decide
from clew.permissions.policy import Policy
from clew.permissions.rules import parse_rule

pytestmark = pytest.mark.req("PRM-2", "TOL-2")

COMMANDS = [
    "ls -l",
    "cat a.txt | head",
    "rm -rf build",
    "echo hi && rm x",
    "npm test",
    "npm test; make",
    "git push origin main",
    "git -C . push",
    "eval $X",
    "python -c 'print(1)'",
    "cd sub && make",
    "sh -c 'rm x'",
]
RULES = [
    "Bash",
    "Bash(rm *)",
    "Bash(npm test)",
    "Bash(npm *)",
    "Bash(git push:*)",
    "Bash(make)",
    "Bash(cat *)",
    "Read(a.txt)",
]
rules = st.lists(st.sampled_from(RULES).map(parse_rule), max_size=2, unique=True).map(tuple)
policies = st.builds(
    Policy,
    cwd=st.just(Path("/project")),
    mode=st.sampled_from(PermissionMode),
    allow=rules,
    ask=rules,
    deny=rules,
)


def access(tool: str, command: str) -> Access:
    return Access(tool=tool, risk=Risk.EXECUTE, target=command, kind=TargetKind.COMMAND)


@given(st.sampled_from(COMMANDS), policies)
def test_a_process_is_decided_like_a_command(command: str, policy: Policy) -> None:
    shell = decide(access("Bash", command), policy)
    process = decide(access("BackgroundProcess", command), policy)

    assert (process.verdict, process.reason) == (shell.verdict, shell.reason)


@given(st.sampled_from(COMMANDS), policies)
def test_a_line_for_a_process_is_allowed_by_no_pattern_of_bash(
    command: str, policy: Policy
) -> None:
    shell = decide(access("Bash", command), policy)
    line = decide(access("BackgroundProcess.send", command), policy)

    if shell.verdict is not Verdict.ALLOW:
        assert line.verdict is shell.verdict
    if line.verdict is Verdict.ALLOW:
        allows_all = any(rule.tool == "Bash" and rule.covers_all for rule in policy.allow)
        assert allows_all or policy.mode is PermissionMode.BYPASS


def test_rules_of_processes_do_not_apply_to_bash() -> None:
    denied = (parse_rule("BackgroundProcess"), parse_rule("BackgroundProcess.send(y)"))
    policy = Policy(cwd=Path("/project"), mode=PermissionMode.BYPASS, deny=denied)

    assert decide(access("Bash", "make"), policy).verdict is Verdict.ALLOW
    assert decide(access("BackgroundProcess", "make"), policy).verdict is Verdict.DENY
    assert decide(access("BackgroundProcess.send", "x"), policy).verdict is Verdict.DENY
    only_lines = replace(policy, deny=denied[1:])
    assert decide(access("BackgroundProcess", "y"), only_lines).verdict is Verdict.ALLOW
    assert decide(access("BackgroundProcess.send", "y"), only_lines).verdict is Verdict.DENY
