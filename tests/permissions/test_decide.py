"""The order of rules, grants and modes, and what cannot slip past it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.access import Access, Decision, PermissionMode, Risk, Verdict
from clew.permissions.decide import decide
from clew.permissions.grants import Grant, grant_for
from clew.permissions.rules import DEFAULT_ALLOW, parse

PLAN, DEFAULT = PermissionMode.PLAN, PermissionMode.DEFAULT
EDITS, BYPASS = PermissionMode.ACCEPT_EDITS, PermissionMode.BYPASS
ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY
HERE = Path("/srv/project")


def judge(
    access: Access,
    *,
    mode: PermissionMode = DEFAULT,
    allow: tuple[str, ...] = (),
    deny: tuple[str, ...] = (),
    grants: tuple[Grant, ...] = (),
    cwd: Path = HERE,
) -> Decision:
    return decide(
        access,
        mode=mode,
        allow=[parse(rule) for rule in allow],
        deny=[parse(rule) for rule in deny],
        grants=grants,
        cwd=cwd,
    )


def bash(command: str) -> Access:
    return Access(tool="Bash", risk=Risk.EXECUTE, target=command)


def read(path: str) -> Access:
    return Access(tool="Read", risk=Risk.INSPECT, target=path, is_path=True)


def write(path: str) -> Access:
    return Access(tool="Write", risk=Risk.MODIFY, target=path, is_path=True)


@pytest.mark.req("PRM-1")
@pytest.mark.parametrize(
    ("mode", "inspect", "modify", "execute"),
    [
        (PLAN, ALLOW, DENY, DENY),
        (DEFAULT, ALLOW, ASK, ASK),
        (EDITS, ALLOW, ALLOW, ASK),
        (BYPASS, ALLOW, ALLOW, ALLOW),
    ],
)
def test_the_mode_decides_what_no_rule_speaks_of(
    mode: PermissionMode, inspect: Verdict, modify: Verdict, execute: Verdict
) -> None:
    assert judge(read("a.py"), mode=mode).verdict == inspect
    assert judge(write("a.py"), mode=mode).verdict == modify
    assert judge(bash("ls"), mode=mode).verdict == execute
    for risk, verdict in zip(Risk, (inspect, modify, execute), strict=True):
        assert judge(Access(tool="Other", risk=risk), mode=mode).verdict == verdict


@pytest.mark.req("PRM-1")
@pytest.mark.parametrize("mode", list(PermissionMode))
def test_deny_holds_in_every_mode_and_against_allow_rules_and_grants(mode: PermissionMode) -> None:
    access = bash("git push origin")
    grants = (grant_for(access, HERE),)

    decision = judge(
        access, mode=mode, allow=("Bash", "Bash(git *)"), deny=("Bash(git push *)",), grants=grants
    )

    assert decision.verdict is DENY
    assert "Bash(git push *)" in decision.reason


@pytest.mark.req("PRM-4")
def test_neither_an_allow_rule_nor_a_grant_makes_a_call_write_or_run_in_plan_mode() -> None:
    grants = (grant_for(bash("ls"), HERE), grant_for(write("a"), HERE))

    for access in (bash("ls"), write("a"), bash("echo $(date)")):
        decision = judge(access, mode=PLAN, allow=("Bash", "Write"), grants=grants)
        assert decision.verdict is DENY
        assert "Plan mode" in decision.reason


@pytest.mark.req("PRM-5")
def test_every_decision_says_why() -> None:
    assert "Bash(ls *)" in judge(bash("ls -l"), allow=("Bash(ls *)",)).reason
    assert "default" in judge(bash("ls")).reason
    assert "acceptEdits" in judge(write("a"), mode=EDITS).reason
    assert "not certain" in judge(bash("ls $(x)")).reason
    assert "session" in judge(bash("ls"), grants=(grant_for(bash("ls"), HERE),)).reason
    assert "bypassPermissions" in judge(bash("ls"), mode=BYPASS).reason
    assert "outside" in judge(read("/etc/passwd")).reason


@pytest.mark.req("PRM-5")
def test_the_mode_is_an_argument_so_that_a_change_counts_from_the_next_call_on() -> None:
    verdicts = [judge(write("a"), mode=mode).verdict for mode in (DEFAULT, EDITS, PLAN)]

    assert verdicts == [ASK, ALLOW, DENY]


@pytest.mark.req("PRM-1")
@pytest.mark.parametrize("path", ["~/.ssh/id_rsa", "/etc/passwd", "../other/x", "a/../../x", "/"])
@pytest.mark.parametrize("mode", [PLAN, DEFAULT, EDITS])
def test_reading_outside_the_working_folder_is_asked_about(path: str, mode: PermissionMode) -> None:
    assert judge(read(path), mode=mode).verdict is ASK
    assert judge(read(path), mode=mode, allow=("Read",)).verdict is ALLOW


@pytest.mark.req("PRM-1")
@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../x", ".git/hooks/pre-commit", ".clew/settings.json", ".claude/x"]
)
def test_edits_outside_the_folder_or_to_its_guards_are_asked_about(path: str) -> None:
    assert judge(write(path), mode=EDITS).verdict is ASK


@pytest.mark.req("PRM-2")
def test_a_link_inside_the_folder_does_not_make_its_target_inside(tmp_path: Path) -> None:
    project, secret = tmp_path / "project", tmp_path / "secret"
    project.mkdir()
    secret.mkdir()
    (secret / "key").write_text("k")
    (project / "link").symlink_to(secret)
    (project / ".clew").symlink_to(secret)

    assert judge(read("link/key"), cwd=project).verdict is ASK
    assert judge(write("link/key"), mode=EDITS, cwd=project).verdict is ASK
    assert judge(read(".clew/key"), allow=DEFAULT_ALLOW, cwd=project).verdict is ASK
    assert judge(read("link/key"), deny=(f"Read({secret}/**)",), cwd=project).verdict is DENY
    assert judge(read("link/key"), deny=("Read(link/**)",), cwd=project).verdict is DENY
    assert judge(read(str(secret / "key")), deny=("Read(link/*)",), cwd=project).verdict is DENY


@pytest.mark.req("PRM-2")
@pytest.mark.parametrize(
    ("rule", "path", "verdict"),
    [
        ("Read(/src/**)", "/src/a/b.py", ALLOW),
        ("Read(/src/**)", "/src/../etc/passwd", ASK),
        ("Read(/src/**)", "/srcs/a", ASK),
        ("Read(/src/*)", "/src/a", ALLOW),
        ("Read(/src/*)", "/src/a/b", ASK),
        ("Read(/src/?.py)", "/src/a.py", ALLOW),
        ("Read(/src/?.py)", "/src/ab.py", ASK),
        ("Read(/src/**/x.py)", "/src/x.py", ALLOW),
        ("Read(/src/**/x.py)", "/src/a/b/x.py", ALLOW),
        ("Read(/src/**/x.py)", "/src/a/b/y.py", ASK),
        ("Read(~/notes/**)", "~/notes/a", ALLOW),
        ("Read(~/notes/**)", "~/notes/../.ssh/id", ASK),
        ("Read(../shared/**)", "../shared/a.md", ALLOW),
        ("read(/src/**)", "/src/a", ASK),
        ("Read(/a.b)", "/axb", ASK),
        ("Read(/src/**)", "/src/\0", ASK),
    ],
)
def test_path_patterns_are_compared_with_where_the_path_leads(
    rule: str, path: str, verdict: Verdict
) -> None:
    assert judge(read(path), allow=(rule,)).verdict is verdict


@pytest.mark.req("PRM-4")
@pytest.mark.parametrize("path", [".clew/commands/a.md", ".claude/CLAUDE.md", "~/.clew/skills/x"])
def test_the_configuration_folders_may_be_read_by_default(path: str) -> None:
    assert judge(read(path), allow=DEFAULT_ALLOW).verdict is ALLOW


@pytest.mark.req("PRM-2")
def test_a_search_of_a_folder_that_holds_something_denied_is_asked_about() -> None:
    search = Access(tool="Grep", risk=Risk.INSPECT, target="/etc", is_path=True)

    assert judge(search, deny=("Grep(/etc/ssh/**)",), allow=("Grep",)).verdict is ASK
    assert judge(search, deny=("Grep(/var/**)",), allow=("Grep",)).verdict is ALLOW


@pytest.mark.req("PRM-2")
def test_a_rule_with_a_pattern_cannot_be_dodged_by_a_call_without_a_target() -> None:
    access = Access(tool="Agent", risk=Risk.EXECUTE)

    assert judge(access, mode=BYPASS, deny=("Agent(x*)",)).verdict is ASK
    assert judge(access, mode=BYPASS, deny=("Agent",)).verdict is DENY


@pytest.mark.req("PRM-2")
def test_without_deny_rules_bypass_and_a_bare_allow_rule_do_not_ask_about_doubtful_lines() -> None:
    assert judge(bash("echo $(date) > x"), mode=BYPASS).verdict is ALLOW
    assert judge(bash("echo $(date) > x"), allow=("Bash",)).verdict is ALLOW
    assert judge(bash("echo $(date) > x"), allow=("Bash",), deny=("Bash(rm *)",)).verdict is ASK


@given(st.sampled_from(["; ", " && ", "\n", " | ", " || ", " & "]), st.text(max_size=40))
@pytest.mark.req("PRM-2")
def test_nothing_appended_to_a_denied_line_makes_it_run(mark: str, anything: str) -> None:
    for denied in ("rm -rf x", "sudo rm x", "git push origin", "ls; rm y", "echo $(rm z)"):
        rules = ("Bash(rm *)", "Bash(git push *)")
        assert judge(bash(denied), mode=BYPASS, deny=rules).verdict is DENY

        longer = judge(bash(denied + mark + anything), mode=BYPASS, allow=("Bash",), deny=rules)

        assert longer.verdict is not ALLOW


@given(st.text(max_size=60), st.sampled_from(list(PermissionMode)))
def test_no_text_makes_the_decision_fail(text: str, mode: PermissionMode) -> None:
    rules = ("Bash(rm *)", "Read(/etc/**)")

    for access in (bash(text), read(text), write(text)):
        assert judge(access, mode=mode, allow=rules, deny=rules).reason
