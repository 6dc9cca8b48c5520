"""What "allow for this session" and "allow for this project" cover."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from clew.core.permissions import Access, PermissionMode, Risk, TargetKind, Verdict
from clew.permissions.decide import decide
from clew.permissions.grants import (
    covers,
    describe_grant,
    exact_grant,
    grant_for,
    rules_for,
    session_grant,
)
from clew.permissions.policy import Grant, Policy
from clew.permissions.rules import parse_allow_rule, parse_rule
from tests.rows import each_row

pytestmark = pytest.mark.req("PRM-3")
HERE = Path("/srv/project")


def bash(command: str, *further: str) -> Access:
    return Access(
        tool="Bash", risk=Risk.EXECUTE, target=command, kind=TargetKind.COMMAND, further=further
    )


def write(path: str) -> Access:
    return Access(tool="Write", risk=Risk.MODIFY, target=path, kind=TargetKind.PATH)


def fetch(address: str) -> Access:
    return Access(tool="WebFetch", risk=Risk.INSPECT, target=address, kind=TargetKind.ADDRESS)


@each_row(
    ("granted", "asked", "covered"),
    [
        ("git status", "git status -s", True),
        ("git status", "git push", False),
        ("git status", "git status && git push", False),
        ("git add a && git status", "git add b && git status -s", True),
        ("git add a && git status", "git status && git add b", False),
        ("ls", "ls", True),
        ("ls", "ls -la", False),
        ("ls", "ls; rm x", False),
        ("ls 2>&1", "ls 2>/dev/null", True),
        ("echo $(date)", "echo $(date)", True),
        ("echo $(date)", "echo $(date) x", False),
        ("echo $(date)", "echo $(rm x)", False),
        ("rm a", "rm a", True),
        ("rm a", "rm a -rf /", False),
        ("sudo apt update", "sudo apt install x", False),
        ("python -c 'print(1)'", "python -c 'evil()'", False),
        ("git status", "git status > x", False),
        ("git status", "git status < x", False),
        ("git status", "git status $(x)", False),
        ("git status", "git status $X", False),
        ("git status", "git -c a=b status", False),
        ("git log", "git log --output=x", False),
        ("git status", "X=1 git status", False),
        ("git status", "cd x && git status", False),
        ("git status", "while true; do git status; done", False),
        ("git status", "(git status)", False),
        ("git status", "'git' status", True),
        ("git status", "./git status", False),
        ("cat a", "cat b", False),
        ("npm test 2>&1 | tail -50", "npm test -- x | grep -i fail | head -5", True),
        ("npm test 2>&1 | tail -50", "npm test", True),
        ("npm test", "npm test | tail -50", False),
        ("npm test | tail", "npm test | tail /etc/passwd", False),
        ("npm test | tail", "npm test | grep -r key .", False),
        ("npm test | tail", "npm test | tee x", False),
        ("npm test | tail", "npm test | sort -o x", False),
        ("npm test | tail", "npm test | sh", False),
        ("git fetch origin | tail && git push a", "git fetch b && git push c | head", True),
        ("make test", "make test -j4", True),
        ("make test", "make test SHELL=./x", False),
        ("make test", "make test -f x", False),
        ("python -m pytest a", "python -m pytest b -q", True),
        ("python -m pytest a", "python -m http.server", False),
        ("python -m timeit a", "python -m timeit b", False),
        ("uv run pytest a", "uv run python x", False),
        ("cd src && npm test", "cd src && npm test -- x", True),
        ("cd src && npm test", "npm test", False),
        ("cd src && npm test", "cd lib && npm test", False),
        ("cd /tmp && npm test a", "cd /tmp && npm test b", False),
        ("(npm test)", "(npm test -- x)", True),
        ("(npm test)", "npm test", True),
        ("(npm test)", "(npm test); (npm publish)", False),
        ("FOO=1 npm test", "FOO=2 npm test -- x", True),
        ("FOO=1 npm test", "PATH=. npm test", False),
        ("FOO=1 npm test", "NODE_OPTIONS=x npm test", False),
        ("npm test > log.txt 2>&1", "npm test -- x > log.txt", True),
        ("npm test > log.txt 2>&1", "npm test > other.txt", False),
        ("npm test > log.txt 2>&1", "npm test < log.txt", False),
        ("npm test > log.txt 2>&1", "npm test", False),
        ("npm test > ../log.txt", "npm test x > ../log.txt", False),
        ("npm test x > .git/config", "npm test y > .git/config", False),
        ("npm test > $X", "npm test a > $X", False),
        ("for f in a b; do npm run $f; done", "for f in c d e; do npm run $f; done", True),
        ("for f in a b; do npm run $f; done", "npm run c", True),
        ("for f in a b; do npm run $f; done", "for f in a b; do npm $f; done", False),
        ("for f in a b; do npm run $f; done", "for f in $(ls); do npm run $f; done", False),
        ("for f in a b; do rm $f; done", "for f in c; do rm $f; done", False),
        ("mysql db <<< 'select 1'", "mysql db <<< 'drop table x'", False),
        ("echo x > s.sh; ./s.sh a", "echo y > s.sh; ./s.sh a", False),
    ],
)
def test_a_command_grants_its_shape(granted: str, asked: str, *, covered: bool) -> None:
    assert covers(grant_for(bash(granted), HERE), bash(asked), HERE) is covered


def test_a_path_grants_its_folder_to_the_same_tool(tmp_path: Path) -> None:
    grant = grant_for(write("src/a.py"), tmp_path)
    edit = Access(tool="Edit", risk=Risk.MODIFY, target="src/b.py", kind=TargetKind.PATH)

    assert covers(grant, write("src/b.py"), tmp_path)
    assert covers(grant, write(str(tmp_path / "src/c.py")), tmp_path)
    assert not covers(grant, write("src/deep/b.py"), tmp_path)
    assert not covers(grant, write("src/../b.py"), tmp_path)
    assert not covers(grant, edit, tmp_path)


def test_a_searched_folder_grants_itself_and_not_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    search = Access(tool="Grep", risk=Risk.INSPECT, target="a", kind=TargetKind.PATH)
    other = Access(tool="Grep", risk=Risk.INSPECT, target="b", kind=TargetKind.PATH)
    grant = grant_for(search, tmp_path)

    assert covers(grant, search, tmp_path)
    assert not covers(grant, other, tmp_path)


def test_an_address_grants_its_host() -> None:
    grant = grant_for(fetch("https://a.org/b"), HERE)

    assert covers(grant, fetch("https://a.org/c"), HERE)
    assert not covers(grant, fetch("https://b.org/b"), HERE)
    assert not covers(grant_for(fetch("ftp://a.org"), HERE), fetch("ftp://a.org/b"), HERE)


def test_anything_else_grants_only_itself() -> None:
    one = Access(tool="Search", risk=Risk.INSPECT, target="a")
    other = Access(tool="Search", risk=Risk.INSPECT, target="b")

    assert covers(grant_for(one, HERE), one, HERE)
    assert not covers(grant_for(one, HERE), other, HERE)
    assert not covers(grant_for(write("\0"), HERE), write("\0x"), HERE)


def test_a_grant_never_holds_for_another_risk_or_for_more_targets() -> None:
    quiet = Access(tool="T", risk=Risk.INSPECT, target="x")
    loud = Access(tool="T", risk=Risk.EXECUTE, target="x")

    assert not covers(grant_for(quiet, HERE), loud, HERE)
    assert not covers(exact_grant(quiet), loud, HERE)
    assert not covers(grant_for(bash("git status"), HERE), bash("git status", "git push"), HERE)


def test_a_grant_can_be_shown() -> None:
    grant = grant_for(bash("git add a && git status"), HERE)

    assert str(grant) == "Bash: begins git add; begins git status"


@each_row(
    ("access", "rules"),
    [
        (bash("git status -s"), ("Bash(git status:*)",)),
        (bash("git add a && git status"), ("Bash(git add:*)", "Bash(git status:*)")),
        (bash("ls"), ("Bash(ls)",)),
        (bash("rm a"), ()),
        (bash("make test"), ("Bash(make test)",)),
        (bash("sudo apt update"), ("Bash(sudo apt update)",)),
        (bash("npm test || true"), ("Bash(npm test:*)",)),
        (bash("echo $HOME"), ()),
        (bash("eval ls"), ()),
        (bash("ls > x"), ()),
        (bash("(npm test)"), ("Bash(npm test:*)",)),
        (bash("FOO=1 npm test"), ("Bash(npm test:*)",)),
        (bash("for f in a b; do npm run $f; done"), ()),
        (bash("(npm test; sudo ls)"), ()),
        (bash("sudo ls && npm test"), ("Bash(sudo ls)", "Bash(npm test)")),
        (bash("python -c 'x'"), ("Bash(python -c x)",)),
        (bash("python -c 'x y'"), ()),
        (bash("git 'a b'"), ()),
        (bash("true"), ()),
        (write("src/a.py"), ("Write(/src/*)",)),
        (write("a.py"), ("Write(./*)",)),
        (write("/etc/x"), ("Write(//etc/*)",)),
        (write("a[1]/x"), ("Write(/a\\[1\\]/*)",)),
        (write("\0"), ()),
        (fetch("https://a.org/b"), ("WebFetch(domain:a.org)",)),
        (fetch("ftp://a.org/b"), ()),
        (Access(tool="T", risk=Risk.MODIFY, target="x"), ("T(x)",)),
        (Access(tool="T", risk=Risk.MODIFY, target="x*"), ()),
        (Access(tool="T", risk=Risk.UNKNOWN), ("T",)),
    ],
)
def test_a_project_gets_rules_that_allow_the_call_and_its_like(
    access: Access, rules: tuple[str, ...]
) -> None:
    assert rules_for(access, HERE) == rules
    if rules:
        policy = Policy(cwd=HERE, allow=tuple(map(parse_allow_rule, rules)))
        assert decide(access, policy).verdict is Verdict.ALLOW


WORDS = st.sampled_from(
    ["git", "status", "npm", "test", "rm", "-x", "a b", "$X", "*", "'", ">", ";"]
)


@given(st.lists(WORDS, min_size=1, max_size=5).map(" ".join))
def test_rules_for_a_project_always_allow_what_they_were_made_for(line: str) -> None:
    rules = rules_for(bash(line), HERE)

    policy = Policy(cwd=HERE, allow=tuple(map(parse_allow_rule, rules)))
    assert not rules or decide(bash(line), policy).verdict is Verdict.ALLOW


@given(st.lists(WORDS, min_size=1, max_size=5).map(" ".join))
def test_a_grant_always_covers_what_it_was_made_for_unless_it_is_denied(line: str) -> None:
    grants: tuple[Grant, ...] = (grant_for(bash(line), HERE),)
    allowed = Policy(cwd=HERE, grants=grants)
    planned = Policy(cwd=HERE, grants=grants, mode=PermissionMode.PLAN)

    assert decide(bash(line), allowed).verdict is Verdict.ALLOW
    assert decide(bash(line), planned).verdict is Verdict.DENY


@each_row(
    ("line", "scope"),
    [
        ("npm test 2>&1 | tail -50", "Bash `npm test …` and filters that only read"),
        ("git fetch a && git push b", "Bash `git fetch …` and `git push …`"),
        ("cd src && npm test", "Bash in src/ and `npm test …`"),
        ("python -m pytest -q x", "Bash `python -m pytest …`"),
        ("make test 2>&1 | tail -20", "Bash `make test …` and filters that only read"),
        ("eval ls", "just this call"),
        ("npm test > out", "Bash `npm test …` and writing out"),
        ("npm test < a/in", "Bash `npm test …` and reading a/in"),
        (
            "(npm test) | tail",
            "Bash `npm test …` and the same in groups and loops and with variables and filters "
            "that only read",
        ),
        ("npm test > ../out", "just this call"),
        ("npm test <<< x", "just this call"),
    ],
)
def test_the_question_says_what_the_grant_covers(line: str, scope: str) -> None:
    assert describe_grant(grant_for(bash(line), HERE), HERE) == scope


def test_a_call_without_a_target_is_told_apart_by_its_arguments_where_exactly_it_was_approved(
    tmp_path: Path,
) -> None:
    one = Access(tool="mcp__git__push", risk=Risk.EXECUTE, arguments={"branch": "a", "force": 0})
    same = Access(tool="mcp__git__push", risk=Risk.EXECUTE, arguments={"force": 0, "branch": "a"})
    other = Access(tool="mcp__git__push", risk=Risk.EXECUTE, arguments={"branch": "b"})
    exact = session_grant(one, tmp_path, exact=True)
    whole = session_grant(one, tmp_path, exact=False)

    assert covers(exact, same, tmp_path)
    assert not covers(exact, other, tmp_path)
    assert covers(whole, other, tmp_path)
    assert describe_grant(exact, tmp_path) == "just this call"
    assert describe_grant(whole, tmp_path) == "mcp__git__push with any arguments"


def test_a_grant_by_shape_does_not_reach_what_a_rule_guards(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("secret", encoding="utf-8")
    asked, guarded = bash("git show HEAD~1"), bash("git show HEAD:.env")
    policy = Policy(
        cwd=tmp_path,
        deny=(parse_rule("Read(./.env)"),),
        grants=(session_grant(asked, tmp_path, exact=False),),
    )

    assert decide(asked, policy).verdict is Verdict.ALLOW
    assert decide(bash("git show HEAD:a.py"), policy).verdict is Verdict.ALLOW
    assert decide(guarded, policy).verdict is not Verdict.ALLOW
    assert decide(guarded, replace(policy, deny=())).verdict is Verdict.ALLOW
