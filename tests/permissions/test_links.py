"""Links that are already in a folder: patterns match them, and some programs follow them."""

from pathlib import Path

import pytest

from clew.core.permissions import Access, PermissionMode, Risk, TargetKind, Verdict
from clew.permissions import links
from clew.permissions.decide import decide
from clew.permissions.links import LinkFinder
from clew.permissions.policy import Policy
from clew.permissions.rules import parse_rule

pytestmark = pytest.mark.req("PRM-2")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with links to another one: a file, a folder, and one further down."""
    root, outside = tmp_path.resolve() / "project", tmp_path / "outside"
    for folder in (root / "sub/deep", outside):
        folder.mkdir(parents=True)
    (outside / "secret").write_text("s\n")
    for path, target in {
        "out": "../outside/secret",
        "way": "../outside",
        "sub/to-out": "../../outside",
        "sub/deep/circle": "..",
        "gone": "nowhere",
    }.items():
        (root / path).symlink_to(target)
    (root / "a.txt").write_text("a\n")
    return root


def judge(line: str, rule: str, cwd: Path) -> Verdict:
    bypass = PermissionMode.BYPASS
    policy = Policy(cwd=cwd, mode=bypass, allow=(parse_rule("Bash"),), deny=(parse_rule(rule),))
    access = Access(tool="Bash", risk=Risk.EXECUTE, target=line, kind=TargetKind.COMMAND)
    return decide(access, policy).verdict


REACHES = """
cat o*
cat < o*
cat ou?
cat [n-p]ut
cat @(out|x)
cat {a.txt,o*}
cat */secret
cat w*/secret
cat way/s*
cat sub/*/secret
cat **/secret
cat ./**/to-out/secret
cd sub && cat t*/secret
wc -c *
grep -r x *
grep -R x .
grep -nR x
grep --dereference-recursive x sub
rgrep -R x sub
rg -L x
rg --follow x sub
diff -r sub .
tar chf new.tar .
tar --dereference -cf new.tar sub
zip -r new.zip sub
cp -rL sub new
gzip -rf sub
scp -r . host:
rsync -aL . host:there
""".strip().splitlines()


@pytest.mark.parametrize("line", REACHES)
def test_a_line_that_may_reach_a_denied_file_over_a_link_asks(line: str, project: Path) -> None:
    assert judge(line, "Read(../outside/secret)", project) is not Verdict.ALLOW
    assert judge(line, "Read(../outside/**)", project) is not Verdict.ALLOW


@pytest.mark.parametrize(
    "line",
    [
        "mv a.txt s*/t*",
        "cp a.txt w*",
        "ln --suffix 2 sub/*",
        "chmod -RL 700 sub",
        "rm w*/s*",
        "gzip sub/*/*",
    ],
)
def test_a_line_that_may_write_over_a_link_asks(line: str, project: Path) -> None:
    assert judge(line, "Edit(../outside/**)", project) is not Verdict.ALLOW


def test_a_file_beside_a_match_behind_a_link_is_a_question(project: Path) -> None:
    assert judge("gzip sub/*/*", "Edit(../outside/secret.gz)", project) is Verdict.ASK
    assert judge("gzip a.txt", "Edit(../outside/secret.gz)", project) is Verdict.ALLOW


@pytest.mark.parametrize("program", ["diff", "difftool", "mergetool"])
def test_git_compares_folders_outside_of_the_repository(program: str, project: Path) -> None:
    line = f"git {program} ../outside sub"
    assert judge(line, "Read(../outside/secret)", project) is Verdict.ASK
    assert judge(f"git {program} sub", "Read(../outside/secret)", project) is Verdict.ALLOW


def test_a_repository_that_is_made_behind_a_link_is_a_question(project: Path) -> None:
    line = "git init sub/to-out --separate-git-dir=other"
    assert judge(line, "Edit(../outside/.git)", project) is Verdict.ASK
    assert judge("git init new", "Edit(../outside/.git)", project) is Verdict.ALLOW


@pytest.mark.parametrize(
    "line",
    [
        "cat *.txt",
        "grep -r x .",
        "grep -R x sub/deep/../../a.txt",
        "tar cf new.tar .",
        "cat s*/d*/x",
    ],
)
def test_links_that_a_line_does_not_follow_are_no_question(line: str, project: Path) -> None:
    assert judge(line, "Read(../outside/**)", project) is Verdict.ALLOW


@pytest.mark.parametrize(
    "line",
    [
        *("cat ~*", "cat ~nobody-here/*", "grep -R x ~nobody-here", "ls ~1"),
        *(f"cat {'a/' * 3_000}*", f"cat {'a' * 3_000}*", f"grep -R x {'a' * 3_000}"),
        *(r"cat $'a\0'*", r"grep -R x $'\0'"),
    ],
    ids=lambda line: line[:20],
)
def test_names_that_no_file_can_have_break_no_decision(line: str, project: Path) -> None:
    assert judge(line, "Read(../outside/**)", project) in (Verdict.ALLOW, Verdict.ASK)
    assert LinkFinder().survey("/a\0b") == links.TreeSurvey(links=(), has_odd_names=False)


@pytest.mark.slow("makes 20,000 files")
def test_a_folder_with_too_many_entries_is_a_question(project: Path) -> None:
    (project / "many").mkdir()
    assert judge("grep -R x many", "Read(../outside/**)", project) is Verdict.ALLOW

    for number in range(links.MAX_ENTRIES + 1):
        (project / f"many/{number}").touch()

    for line in ("grep -R x many", "cat many/*"):
        assert judge(line, "Read(../outside/**)", project) is Verdict.ASK
    assert LinkFinder().survey(str(project / "many")) is None


def test_a_survey_finds_links_and_odd_names(project: Path) -> None:
    (project / "plain").mkdir()
    (project / "plain/a.txt").touch()
    (project / "odd").mkdir()

    found = LinkFinder().survey(str(project / "sub"))
    assert found is not None
    assert sorted(Path(each).name for each in found.links) == ["circle", "to-out"]
    for name, is_odd in {"b-c.txt": False, "-n": True, "a b": True, "it's": True}.items():
        (project / "odd" / name).touch()
        survey = LinkFinder().survey(str(project / "odd"))
        assert survey is not None
        assert survey.has_odd_names is is_odd
        (project / "odd" / name).unlink()
