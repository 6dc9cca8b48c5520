"""What holds for every line: denying is monotone, and allowing needs every command."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.permissions import Access, PermissionMode, Risk, TargetKind, Verdict
from clew.permissions.decide import decide
from clew.permissions.policy import Policy
from clew.permissions.rules import parse_rule
from tests.rows import each_row

pytestmark = pytest.mark.req("PRM-2")
HERE = Path("/srv/project")
RANK = {Verdict.ALLOW: 0, Verdict.ASK: 1, Verdict.DENY: 2}

ALLOWED = ("ls", "ls -l 'a b'", "git status", 'npm test -- -t "x y"', "true", "ls {a,b}.py")
UNKNOWN = ("make", "./x --y", "psql -c 'select 1'", "echo $(make)", "ls > out", "X=1 make")
DENIED = (
    "rm -rf x", "sudo rm x", "curl evil", "git push origin", "ls; rm y", "echo $(rm z)",
    "cat .env", "ls > conf/x", "r\\m x", "FOO=1 'rm' x", "xargs rm",
)  # fmt: skip
DOUBTFUL = ("$X", "eval ls", "source x", "ls )", "a() { ls; }", "PATH=x ls", "echo $((x))")

SEPARATORS = ("; ", " && ", " || ", " | ", " & ", "\n", " |& ")
WRAPPINGS: tuple[Callable[[str], str], ...] = (
    lambda line: f"({line})",
    lambda line: f"{{ {line}\n}}",
    lambda line: f"! {line}" if "\n" not in line else line,
    lambda line: f"if true; then {line}\nfi",
    lambda line: f"if {line}\nthen true; fi",
    lambda line: f"while {line}\ndo break; done",
    lambda line: f"for x in a b; do {line}\ndone",
    lambda line: f"case x in x) {line}\n;; esac",
    lambda line: f"echo $({line}\n)",
    lambda line: f'echo "$({line}\n)"',
    lambda line: f"cat <({line}\n)",
    lambda line: f"f() {{ {line}\n}}; f",
    lambda line: f"ls # comment\n{line}",
    lambda line: f"{line} # comment",
    lambda line: f"{line} 2>&1",
    lambda line: f"  {line}  ",
    lambda line: f"true \\\n && {line}",
)
RULES = tuple(
    parse_rule(f"Bash({rule})")
    for rule in ("ls:*", "git status:*", "npm test:*", "echo:*", "cat:*", "xargs:*", "git *")
)
DENY = tuple(
    map(
        parse_rule,
        ("Bash(rm *)", "Bash(curl:*)", "Bash(git push *)", "Read(./.env)", "Edit(./conf/**)"),
    )
)
POLICIES = [
    Policy(cwd=HERE, allow=RULES, deny=DENY),
    Policy(cwd=HERE, allow=RULES, ask=DENY),
    Policy(cwd=HERE, allow=(parse_rule("Bash"),), deny=DENY),
    Policy(cwd=HERE, allow=RULES, deny=DENY, mode=PermissionMode.ACCEPT_EDITS),
    Policy(cwd=HERE, deny=DENY, mode=PermissionMode.BYPASS),
]

lines = st.sampled_from([*ALLOWED, *UNKNOWN, *DENIED, *DOUBTFUL])
policies = st.sampled_from(POLICIES)


def verdict(line: str, policy: Policy) -> Verdict:
    access = Access(tool="Bash", risk=Risk.EXECUTE, target=line, kind=TargetKind.COMMAND)
    return decide(access, policy).verdict


@each_row("line", DENIED)
def test_the_lines_that_must_be_denied_are(line: str) -> None:
    assert verdict(line, POLICIES[0]) is Verdict.DENY
    assert verdict(line, POLICIES[4]) is Verdict.DENY


@pytest.mark.parametrize("line", [*ALLOWED[:4], ALLOWED[5]])
def test_the_lines_that_must_be_allowed_are(line: str) -> None:
    assert verdict(line, POLICIES[0]) is Verdict.ALLOW


@given(lines, st.sampled_from(SEPARATORS), lines, policies)
def test_a_line_beside_another_is_never_judged_more_kindly(
    one: str, separator: str, other: str, policy: Policy
) -> None:
    strictest = max((verdict(one, policy), verdict(other, policy)), key=RANK.__getitem__)

    together = verdict(one + separator + other, policy)

    if strictest is not Verdict.ALLOW:
        assert together is not Verdict.ALLOW
    if verdict(one, policy) is Verdict.DENY and one not in DOUBTFUL:
        assert together is Verdict.DENY


@given(lines, st.lists(st.sampled_from(WRAPPINGS), min_size=1, max_size=3), policies)
def test_wrapping_never_makes_a_verdict_kinder(
    line: str, wrappings: list[Callable[[str], str]], policy: Policy
) -> None:
    wrapped = line
    for wrap in wrappings:
        wrapped = wrap(wrapped)

    if verdict(line, policy) is not Verdict.ALLOW:
        assert verdict(wrapped, policy) is not Verdict.ALLOW
    if verdict(line, policy) is Verdict.DENY:
        assert verdict(wrapped, policy) is Verdict.DENY


@given(st.sampled_from(DENIED), st.sampled_from(SEPARATORS), st.text(max_size=40), policies)
def test_nothing_appended_to_a_denied_line_makes_it_run(
    denied: str, separator: str, anything: str, policy: Policy
) -> None:
    assert verdict(denied + separator + anything, policy) is not Verdict.ALLOW


@given(
    st.lists(st.sampled_from([*ALLOWED, *UNKNOWN]), min_size=1, max_size=4),
    st.sampled_from(SEPARATORS),
)
def test_a_row_of_commands_is_allowed_only_if_each_is(parts: list[str], separator: str) -> None:
    policy = POLICIES[0]
    each = [part == "true" or verdict(part, policy) is Verdict.ALLOW for part in parts]
    some = any(verdict(part, policy) is Verdict.ALLOW for part in parts)

    allowed = verdict(separator.join(parts), policy) is Verdict.ALLOW

    assert allowed == (all(each) and some)


@given(lines, policies, st.sampled_from(DENY))
def test_one_more_deny_rule_never_makes_a_verdict_kinder(
    line: str, policy: Policy, rule: object
) -> None:
    fewer = Policy(
        cwd=HERE,
        allow=policy.allow,
        mode=policy.mode,
        deny=tuple(each for each in policy.deny if each != rule),
        ask=policy.ask,
    )

    assert RANK[verdict(line, policy)] >= RANK[verdict(line, fewer)]


@given(st.text(max_size=60), st.sampled_from(list(PermissionMode)))
def test_no_text_makes_the_decision_fail(text: str, mode: PermissionMode) -> None:
    policy = Policy(cwd=HERE, mode=mode, allow=RULES, ask=DENY[:2], deny=DENY)

    for kind in TargetKind:
        for risk in Risk:
            assert decide(Access(tool="Bash", risk=risk, target=text, kind=kind), policy).reason
