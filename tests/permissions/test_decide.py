"""The order of rules, grants and modes, and what cannot slip past it."""

from pathlib import Path

import pytest

from clew.core.permissions import Access, Decision, PermissionMode, Risk, TargetKind, Verdict
from clew.permissions.decide import decide
from clew.permissions.grants import grant_for
from clew.permissions.policy import MODE_TABLE, Grant, Policy
from clew.permissions.rules import DEFAULT_ALLOW, parse_rule

PLAN, DEFAULT = PermissionMode.PLAN, PermissionMode.DEFAULT
EDITS, BYPASS = PermissionMode.ACCEPT_EDITS, PermissionMode.BYPASS
ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY
HERE = Path("/srv/project")
BOTH = ("Bash", "Write")


def judge(  # noqa: PLR0913
    access: Access,
    *,
    mode: PermissionMode = DEFAULT,
    allow: tuple[str, ...] = (),
    ask: tuple[str, ...] = (),
    deny: tuple[str, ...] = (),
    grants: tuple[Grant, ...] = (),
    cwd: Path = HERE,
) -> Decision:
    policy = Policy(
        cwd=cwd,
        mode=mode,
        allow=tuple(map(parse_rule, allow)),
        ask=tuple(map(parse_rule, ask)),
        deny=tuple(map(parse_rule, deny)),
        grants=grants,
    )
    return decide(access, policy)


def bash(command: str, *further: str) -> Access:
    return Access(
        tool="Bash", risk=Risk.EXECUTE, target=command, kind=TargetKind.COMMAND, further=further
    )


def read(path: str, *further: str) -> Access:
    return Access(
        tool="Read", risk=Risk.INSPECT, target=path, kind=TargetKind.PATH, further=further
    )


def write(path: str, *further: str, tool: str = "Write") -> Access:
    return Access(tool=tool, risk=Risk.MODIFY, target=path, kind=TargetKind.PATH, further=further)


def fetch(address: str) -> Access:
    return Access(tool="WebFetch", risk=Risk.INSPECT, target=address, kind=TargetKind.ADDRESS)


@pytest.mark.req("PRM-1")
@pytest.mark.parametrize(
    ("mode", "verdicts"),
    [
        # inspect, modify, execute, unknown
        (PLAN, (ALLOW, DENY, DENY, DENY)),
        (DEFAULT, (ALLOW, ASK, ASK, ASK)),
        (EDITS, (ALLOW, ALLOW, ASK, ASK)),
        (BYPASS, (ALLOW, ALLOW, ALLOW, ALLOW)),
    ],
)
def test_the_mode_decides_what_no_rule_speaks_of(
    mode: PermissionMode, verdicts: tuple[Verdict, ...]
) -> None:
    for access, verdict in zip((read("a.py"), write("a.py"), bash("make")), verdicts, strict=False):
        assert judge(access, mode=mode).verdict == verdict
    for risk, verdict in zip(Risk, verdicts, strict=True):
        assert judge(Access(tool="Other", risk=risk), mode=mode).verdict == verdict
        assert MODE_TABLE[mode][risk] == verdict


@pytest.mark.req("PRM-1")
@pytest.mark.parametrize("mode", list(PermissionMode))
@pytest.mark.parametrize("risk", list(Risk))
def test_deny_beats_ask_beats_allow_beats_the_mode_for_every_mode_and_risk(
    mode: PermissionMode, risk: Risk
) -> None:
    access = Access(tool="Tool", risk=risk, target="x")
    plain = MODE_TABLE[mode][risk]

    assert judge(access, mode=mode, allow=("Tool",), ask=("Tool",), deny=("Tool",)).verdict is DENY
    asked = judge(access, mode=mode, allow=("Tool",), ask=("Tool",)).verdict
    assert asked is (DENY if plain is DENY else ASK)
    assert judge(access, mode=mode, allow=("Tool",)).verdict is (DENY if plain is DENY else ALLOW)
    assert judge(access, mode=mode).verdict is plain


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
        decision = judge(access, mode=PLAN, allow=BOTH, ask=BOTH, grants=grants)
        assert decision.verdict is DENY
        assert "plan mode" in decision.reason


@pytest.mark.req("PRM-5")
def test_every_decision_says_why() -> None:
    assert "Bash(ls *)" in judge(bash("ls -l"), allow=("Bash(ls *)",)).reason
    assert "default" in judge(bash("make")).reason
    assert "acceptEdits" in judge(write("a"), mode=EDITS).reason
    assert "uncertain" in judge(bash("ls $((x))")).reason
    assert "session" in judge(bash("ls"), grants=(grant_for(bash("ls"), HERE),)).reason
    assert "bypassPermissions" in judge(bash("ls"), mode=BYPASS).reason
    assert "outside" in judge(read("/etc/passwd")).reason
    both = judge(bash("ls | wc"), allow=("Bash(ls:*)", "Bash(wc:*)"))
    assert "Bash(ls:*), Bash(wc:*)" in both.reason
    assert "asks about" in judge(bash("ls"), ask=("Bash(ls:*)",)).reason
    assert "write" in judge(bash("ls > $X"), allow=("Bash(ls:*)",)).reason


@pytest.mark.req("PRM-5")
def test_a_reason_says_where_the_rule_was_written() -> None:
    rule = parse_rule("Bash(rm *)", source="project settings")

    decision = decide(bash("rm x"), Policy(cwd=HERE, deny=(rule,)))

    assert decision.reason == "the rule Bash(rm *) (project settings) forbids this"


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
    "path",
    ["/etc/x", "../x", ".git/hooks/pre-commit", ".GIT/config", ".clew/settings.json", ".claude/x"],
)
def test_edits_outside_the_folder_or_to_its_guards_are_asked_about(path: str) -> None:
    assert judge(write(path), mode=EDITS).verdict is ASK
    assert judge(bash(f"ls > {path}"), mode=EDITS, allow=("Bash(ls:*)",)).verdict is ASK
    assert judge(bash(f"cp a {path}"), mode=EDITS, allow=("Bash(cp:*)",)).verdict is ASK


@pytest.mark.req("PRM-2")
def test_every_target_must_be_allowed_and_any_may_be_denied() -> None:
    move = write("src/a", "docs/b", tool="Move")

    assert judge(move, allow=("Move(src/**)", "Move(docs/**)")).verdict is ALLOW
    assert judge(move, allow=("Move(src/**)",)).verdict is ASK
    assert judge(move, mode=EDITS, allow=("Move(src/**)",)).verdict is ALLOW
    assert judge(write("a", "/etc/b"), mode=EDITS).verdict is ASK
    assert judge(move, mode=BYPASS, deny=("Move(docs/**)",)).verdict is DENY
    assert judge(move, mode=BYPASS, deny=("Edit(docs/**)",)).verdict is DENY
    assert judge(bash("ls", "rm x"), mode=BYPASS, deny=("Bash(rm *)",)).verdict is DENY
    assert judge(bash("ls", "x"), allow=("Bash(ls)",)).verdict is ASK
    assert judge(bash("ls", "x"), allow=("Bash(ls)", "Bash(x)")).verdict is ALLOW


@pytest.mark.req("PRM-2")
def test_a_rule_about_files_holds_for_whatever_reads_or_writes_them(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("k")
    grep = Access(tool="Grep", risk=Risk.INSPECT, target=".env", kind=TargetKind.PATH)
    own = Access(tool="mcp__fs__put", risk=Risk.UNKNOWN, target="conf/x", kind=TargetKind.PATH)

    def denied(access: Access, rule: str) -> bool:
        return judge(access, mode=BYPASS, deny=(rule,), cwd=tmp_path).verdict is DENY

    assert denied(read(".env"), "Read(./.env)")
    assert denied(grep, "Read(./.env)")
    assert denied(write(".env"), "Read(./.env)")
    assert denied(write("conf/x"), "Edit(conf/**)")
    assert denied(write("conf/x", tool="Edit"), "Write(conf/**)")
    assert denied(own, "Edit(conf/**)")
    assert not denied(read("conf/x"), "Edit(conf/**)")
    assert not denied(write("x", tool="Edit"), "Write")
    assert judge(write("a"), allow=("Edit(./a)",)).verdict is ALLOW
    assert judge(write("a", tool="Edit"), allow=("Write(./a)",)).verdict is ASK


@pytest.mark.req("PRM-2")
def test_a_redirection_is_judged_like_the_tool_that_would_write_or_read_the_file() -> None:
    ls = ("Bash(ls:*)",)

    assert judge(bash("ls > out"), allow=ls).verdict is ASK
    assert judge(bash("ls > out"), mode=EDITS, allow=ls).verdict is ALLOW
    assert judge(bash("ls > out"), allow=(*ls, "Edit(./out)")).verdict is ALLOW
    assert judge(bash("ls > out"), allow=(*ls, "Write(out)")).verdict is ALLOW
    assert judge(bash("ls > /tmp/x"), mode=EDITS, allow=ls).verdict is ASK
    assert judge(bash("ls > /tmp/x"), allow=(*ls, "Edit(//tmp/**)")).verdict is ALLOW
    assert judge(bash("ls < in"), allow=ls).verdict is ALLOW
    assert judge(bash("ls < /etc/x"), allow=ls).verdict is ASK
    assert judge(bash("ls < /etc/x"), allow=(*ls, "Read(//etc/**)")).verdict is ALLOW
    assert judge(bash("ls > out"), mode=BYPASS, deny=("Write",)).verdict is DENY
    assert judge(bash("ls < in"), mode=BYPASS, deny=("Read",)).verdict is DENY
    assert judge(bash("cd sub && ls > ../out"), mode=EDITS, allow=ls).verdict is ASK
    assert judge(bash("cd sub && ls > out"), mode=EDITS, allow=ls).verdict is ALLOW


@pytest.mark.req("PRM-2")
def test_a_link_inside_the_folder_does_not_make_its_target_inside(tmp_path: Path) -> None:
    project, secret = tmp_path / "project", tmp_path / "secret"
    project.mkdir()
    secret.mkdir()
    (secret / "key").write_text("k")
    (project / "link").symlink_to(secret)
    (project / ".clew").symlink_to(secret)

    assert judge(read("link/key"), cwd=project).verdict is ASK
    assert judge(write("link/new"), mode=EDITS, cwd=project).verdict is ASK
    assert judge(read(".clew/key"), allow=DEFAULT_ALLOW, cwd=project).verdict is ASK
    assert judge(read("link/key"), deny=(f"Read(/{secret}/**)",), cwd=project).verdict is DENY
    assert judge(read("link/new"), deny=(f"Read(/{secret}/**)",), cwd=project).verdict is DENY
    assert judge(read("link/key"), deny=("Read(link/**)",), cwd=project).verdict is DENY
    assert judge(read(str(secret / "key")), deny=("Read(link/*)",), cwd=project).verdict is DENY
    cat = judge(bash("cat link/key"), mode=BYPASS, deny=(f"Read(/{secret}/**)",), cwd=project)
    assert cat.verdict is DENY


@pytest.mark.req("PRM-4")
@pytest.mark.parametrize("path", [".clew/commands/a.md", ".claude/CLAUDE.md", "~/.clew/skills/x"])
def test_the_configuration_folders_may_be_read_by_default(path: str) -> None:
    assert judge(read(path), allow=DEFAULT_ALLOW).verdict is ALLOW


@pytest.mark.req("PRM-2")
def test_a_search_of_a_folder_that_holds_something_denied_is_asked_about(tmp_path: Path) -> None:
    (tmp_path / "ssh").mkdir()
    (tmp_path / "b").mkdir()
    search = Access(tool="Grep", risk=Risk.INSPECT, target=".", kind=TargetKind.PATH)
    names = Access(tool="Glob", risk=Risk.INSPECT, target=".", kind=TargetKind.PATH)

    def verdict(access: Access, rule: str) -> Verdict:
        return judge(access, deny=(rule,), allow=("Grep", "Glob"), cwd=tmp_path).verdict

    assert verdict(search, "Grep(./ssh/**)") is ASK
    assert verdict(search, "Read(./ssh/**)") is ASK
    assert verdict(search, "Read(**/.env)") is ASK
    assert verdict(search, "Read(./absent)") is ALLOW
    assert verdict(search, "Read(//nowhere/**)") is ALLOW
    assert verdict(names, "Read(./ssh/**)") is ALLOW
    assert verdict(names, "Glob(./ssh/**)") is ASK


@pytest.mark.req("PRM-2")
def test_a_rule_with_a_pattern_cannot_be_dodged_by_a_call_without_a_target() -> None:
    access = Access(tool="Agent", risk=Risk.EXECUTE)

    assert judge(access, mode=BYPASS, deny=("Agent(x*)",)).verdict is ASK
    assert judge(access, mode=BYPASS, deny=("Agent",)).verdict is DENY
    assert judge(bash(""), mode=BYPASS, deny=("Bash(x*)",)).verdict is ASK
    assert judge(read(""), mode=BYPASS, deny=("Read(x*)",)).verdict is ASK
    assert judge(read("\0"), mode=DEFAULT).verdict is ASK


@pytest.mark.req("PRM-2")
def test_without_partial_rules_bypass_and_a_bare_allow_rule_ask_about_nothing() -> None:
    line = bash("eval $(date) > x")

    assert judge(line, mode=BYPASS).verdict is ALLOW
    assert judge(line, allow=("Bash",)).verdict is ALLOW
    assert judge(line, allow=("Bash",), deny=("WebFetch",)).verdict is ALLOW
    assert judge(line, allow=("Bash",), deny=("Bash(rm *)",)).verdict is ASK
    assert judge(line, allow=("Bash",), deny=("Read(./.env)",)).verdict is ASK
    assert judge(line, mode=BYPASS, ask=("Bash(rm *)",)).verdict is ASK


@pytest.mark.req("PRM-2")
def test_whatever_may_do_anything_is_read_as_a_command_line() -> None:
    run = Access(tool="run", risk=Risk.EXECUTE, target="pnpm a && rm x")

    assert judge(run, allow=("run(pnpm *)",)).verdict is ASK
    assert judge(run, mode=BYPASS, deny=("run(rm *)",)).verdict is DENY


@pytest.mark.req("PRM-2")
def test_addresses_are_judged_by_their_host() -> None:
    allow = ("WebFetch(domain:docs.python.org)",)

    assert judge(fetch("https://docs.python.org/3/"), allow=allow).verdict is ALLOW
    assert judge(fetch("https://evil.org/"), deny=("WebFetch(domain:evil.org)",)).verdict is DENY
    assert judge(fetch("ftp://x"), mode=DEFAULT).verdict is ASK


@pytest.mark.req("PRM-2")
def test_a_server_is_named_by_its_prefix() -> None:
    push = Access(tool="mcp__git__push", risk=Risk.UNKNOWN)

    assert judge(push, allow=("mcp__git__*",)).verdict is ALLOW
    assert judge(push, allow=("mcp__git",)).verdict is ALLOW
    assert judge(push, allow=("mcp__*",)).verdict is ASK
    assert judge(push, mode=BYPASS, deny=("mcp__*",)).verdict is DENY
    assert judge(push, mode=BYPASS, deny=("*",)).verdict is DENY
    assert judge(push, allow=("mcp__g",)).verdict is ASK


@pytest.mark.req("PRM-3")
def test_a_rule_that_asks_is_quieted_only_by_a_grant_for_the_very_call() -> None:
    first, second = bash("git push a"), bash("git push b")
    shape = (grant_for(first, HERE),)
    exact = (Grant("Bash", Risk.EXECUTE, (("exactly", "git push a"),)),)

    assert judge(second, grants=shape).verdict is ALLOW
    assert judge(second, ask=("Bash(git push:*)",), grants=shape).verdict is ASK
    assert judge(first, ask=("Bash(git push:*)",), grants=exact).verdict is ALLOW
    assert judge(second, ask=("Bash(git push:*)",), grants=exact).verdict is ASK


@pytest.mark.parametrize("rule", ["mcp__git", "mcp__git__*", "mcp__*", "ReadMcpResource"])
def test_a_rule_for_a_whole_server_holds_for_reading_from_it(rule: str) -> None:
    access = Access(
        tool="ReadMcpResource", risk=Risk.INSPECT, target="git:x://y", server="mcp__git__"
    )

    assert judge(access, deny=(rule,)).verdict is DENY
    assert judge(access, ask=(rule,)).verdict is ASK
    assert judge(access, deny=("mcp__git__push", "mcp__github")).verdict is ALLOW
