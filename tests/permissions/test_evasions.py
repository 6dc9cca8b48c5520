"""Lines that evade a comparison of words: without a sandbox, each is at least a question."""

from pathlib import Path

import pytest

from attacks.evasions import EVASIONS, fill
from clew.core.permissions import Verdict
from clew.permissions.denied_paths import MAX_GUESSED
from tests.permissions.command_lines import judge, pairs
from tests.rows import each_row

pytestmark = pytest.mark.req("PRM-2")


@pytest.mark.parametrize("rule", EVASIONS)
def test_a_line_that_may_evade_a_deny_rule_never_runs_without_a_question(
    rule: str, project: Path
) -> None:
    (project / "x").write_text("a")
    (project / "conf/x").write_text("a")

    run = [
        line
        for line in EVASIONS[rule]
        if judge(fill(line, project), rule, project) is Verdict.ALLOW
    ]

    assert run == []


@each_row(
    ("rule", "command"),
    pairs(
        {
            "Read(./.env)": [
                "git status",
                "git diff HEAD~1 -- src/a.py | head -50",
                "git log --oneline -20",
                "git commit -m 'load .env at start'",
                "git push origin main",
                "grep -n '.env' src/x.py",
                "grep -c x < src/x.py",
                "sort -t: -k2 src/x.py | uniq -c",
                "tail -n 20 src/x.py",
                "sed -n '1,5p' src/x.py",
                "curl -s https://example.com/.env.example",
                "curl -s -o out.json https://example.com/a",
                "npm run build",
                "pytest -q tests/test_a.py",
                "make -j4 test",
                "tar czf src.tgz src",
                "cp src/a.py src/b.py",
                "mv src/a.py src/b.py",
                "ln -s a.py src/b.py",
                "find . -name '*.py' -mtime -1",
                "ls -la",
                "du -sh src",
                "echo .env >> .gitignore",
                "mkdir -p build/out",
                "mkdir -p build && cmake -B build && make -C build",
                "npm test > log.txt 2>&1; tail log.txt",
                "python3 src/gen.py > out.txt && wc -l out.txt",
                "echo hi > a.txt && cat a.txt",
                "python3 src/gen.py > out.json && python3 src/use.py out.json",
                "echo hi > a.txt && bash -x build.sh a.txt",
                "cp src/a.py src/b.py && git add src/b.py",
                "git pull && ./build.sh",
                "mytool src",
                "pytest -q src",
                "zip -qr src.zip src",
                "strings src/x.py",
                "bash build.sh",
            ],
            "Edit(./conf/**)": [
                "cat conf/x",
                "grep -r a conf",
                "diff conf/x src/x.py",
                "cp conf/x src/x",
                "sort -u conf/x",
                "sed s/a/b/ conf/x",
                "git status",
                "git add -A",
                "git commit -m 'conf/x is new'",
                "npm test",
                "tar czf c.tgz src",
                "wc -l conf/x",
                "find conf -name x",
                "black src",
                "bat -p conf/x",
                "yq -r .a conf/x",
                "less -N conf/x",
                "git branch new",
                "git remote add a b",
                "git -C src branch -a",
                "mytool --fix=src",
                "touch src/new",
            ],
            "Bash(rm *)": [
                "git rm x",
                "grep rm x.py",
                "git commit -m 'rm the old x'",
                "npm run build -- --rm",
                "docker run --rm image",
                "sort -o out x",
                "tar xf a.tar",
                "curl -s https://example.com",
                "sed -i s/rm/mv/ x",
                "pytest -q",
                "bat --style=plain x",
                "./build.sh x",
                "cp x y; ./build.sh",
                "cargo test",
            ],
        }
    ),
)
def test_ordinary_lines_need_no_question(rule: str, command: str, project: Path) -> None:
    assert judge(command, rule, project) is Verdict.ALLOW


@pytest.mark.parametrize("rule", ["Read(**/*.pem)", "Edit(**/*.pem)", "Read(*.pem)"])
def test_an_unknown_program_asks_about_a_folder_only_if_a_denied_file_is_in_it(
    rule: str, tmp_path: Path
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/x.py").touch()
    (tmp_path / "keys/deep").mkdir(parents=True)
    (tmp_path / "keys/deep/a.pem").touch()

    for line in ("mytool .", "mytool keys", "mytool keys/deep/", "mytool --in=keys"):
        assert judge(line, rule, tmp_path) is Verdict.ASK, line
    for line in ("mytool src", "mytool missing", "mytool src/x.py", "mytool"):
        assert judge(line, rule, tmp_path) is Verdict.ALLOW, line


def test_a_folder_that_is_too_large_to_search_is_a_question(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    for name in range(MAX_GUESSED + 1):
        (tmp_path / f"src/{name}").touch()

    assert judge("mytool src", "Read(**/*.pem)", tmp_path) is Verdict.ASK
    assert judge("mytool src", "Read(./.env)", tmp_path) is Verdict.ALLOW
