"""Command lines that only read run without a question; anything that may do more asks."""

import subprocess
from pathlib import Path

import pytest

from clew.core.permissions import (
    Access,
    DecidedBy,
    Decision,
    PermissionMode,
    Risk,
    TargetKind,
    Verdict,
)
from clew.permissions.decide import decide
from clew.permissions.policy import Policy
from clew.permissions.rules import parse_rule
from tests.rows import each_row

pytestmark = pytest.mark.req("PRM-2", "PRM-7")

READ_ONLY = """
set -euo pipefail; ls
export CI=1; ls
echo a > /dev/stderr
echo a > /dev/tty
ls -la
ls -la src/*.py 2>/dev/null
git status
git status --short --branch
git diff
git diff --stat HEAD -- src
git log --oneline -5
git log --format='%h %s' -n 3 | cat
git show --stat HEAD
git branch -a
git stash list
git rev-parse --abbrev-ref HEAD
git --no-pager log -p -S main
cat x | head
cat x && echo "---" && cat src/a.py
cat src/a.py 2>/dev/null || echo missing
grep -rn foo src 2>&1 | tail -20
grep -rn --include='*.py' 'def ' . | wc -l
wc -l *.py
wc -l src/*
find . -name '*.py'
find . -type f -not -path './.git/*' | sort | head -50
pwd
echo hi
ls missing; echo "exit: $?"
which python
du -sh .
rg -n foo src
sort x | uniq -c | sort -rn | head -5
jq . a.json
jq -r '.a[] | .b' a.json
sed -n 1,20p x
awk '{print $1}' x
cut -d: -f1 x | tr a-z A-Z
cd src && ls
cd src && git status && git diff --stat
head -20 x; tail -n +5 x
timeout 5 ls
bash -c 'ls | wc -l'
test -f x && cat x
date +%F
stat x
python --version
diff x src/a.py
cat < x
NO_COLOR=1 ls
VAR=1 grep foo x
for f in a b; do echo same; done
[ -d src ]
[ -f x ] && cat x || echo missing
[[ -f x && 1 -eq 1 ]] && cat x
x=1
echo *.json
echo $(git rev-parse HEAD)
echo "$(date +%F): $(wc -l < x)"
printf '%s' "$(pwd)"
v=$(git rev-parse HEAD); echo "$v"
v=$(git rev-parse HEAD) && echo $v
v=$(cat x); echo "$v"
n=$(ls | wc -l); if [ "$n" -gt 3 ]; then echo "$n files"; fi
base=$(git merge-base HEAD main) && git diff $base..HEAD --stat
base=$(git merge-base HEAD main); git log $base HEAD
for f in *.py; do wc -l "$f"; done
for f in src/*.py; do echo "== $f: $(wc -l < "$f")"; done
for f in x src/a.py; do grep -n foo ./$f | head -3; done
for i in {1..3}; do sed -n "${i}p" x; done
for d in src; do ls "$d"; done
f=x; while read -r line; do echo "$line"; done < "$f"
while IFS= read -r line; do echo "$line"; done < x
git log --oneline | while read h rest; do echo "$h"; done
git -C . log
git -C src log --oneline -3
git fsck --full 2>&1 | head -5
git check-ignore -v x || echo no
echo HEAD | git cat-file --batch-check
find src -name '*.py' -exec grep -l foo {} ';'
find src -name '*.py' -exec wc -l {} + | sort -n
find src -type f | xargs grep -n foo
find src -type f -print0 | xargs -0 wc -l | tail -1
find src -name '*.py' 2>/dev/null | grep -v test | sort | head -5 | xargs -n1 head -3
find src | xargs -I{} head -1 {}
grep -rl foo src | xargs sed -n 1,5p
rg -l foo src | xargs -P 2 head -3
grep -R foo src
diff -r src src
timeout 5 git log -1
awk 'NR>=2 && NR<=5 {printf "%d: %s", NR, $0}' x
awk 'NR>2 || /a/' x
awk '$1 > 10 {print $2}' x
env LC_ALL=C sort x
env ls
""".strip().splitlines()

MORE_THAN_READING = """
set
set | head
(set)
export
export -p
export | grep PATH
declare
declare -x
declare -p
typeset
typeset -x
readonly
compgen -v
builtin set
jq -n -f x
jq --from-file x data.json
strings @x
cat /etc/passwd
cat ../x
cat ~/.ssh/id_rsa
cat < /etc/passwd
cat $FILE
cat link
cat l*
grep a l*
head -5 lin?
ls ..
ls /
cd /tmp && ls
cd .. && cat x
echo $HOME
echo hi > out
ls >> out
ls | tee out
env
printenv
ls $(touch y)
cat <(touch y)
./ls
src/cat x
xargs cat < x
ls | xargs cat
find . -delete
find . -exec cat {} +
find src -exec rm {} ';'
find src -exec sed -i s/a/b/ {} ';'
find src -exec sed {} x ';'
find src -exec awk {} x ';'
find src -exec jq {} x ';'
find src -exec uniq {} +
find src -exec {} ';'
find src -exec cat {}.bak ';'
find src -exec cat {} /etc/passwd ';'
find src -exec git -C {} log ';'
find src -exec sh -c 'cat {}' ';'
find src -execdir cat {} ';'
find src -exec sort {} -o {} ';'
find src -exec cat {} ';' -exec rm {} ';'
find src -exec cat {} ';' -delete
find / -name x -exec cat {} ';'
find -L src -exec cat {} ';'
find src -exec cat
find src -printf /etc/passwd | xargs cat
find src | sed s/a/b/ | xargs cat
find src | xargs rm
find src | xargs -a x cat
find src | xargs -d/ cat
find src | xargs sort -o
find src | xargs -I{} sort -o {} x
find src | xargs uniq
find src | xargs jq
find src | xargs cat /etc/passwd
find src | xargs
find src |& xargs cat
find src 2>&1 | xargs cat
(find src; echo /etc/passwd) | xargs cat
for f in src; do find "$f"; done | xargs cat
echo /etc/passwd | xargs cat
cat x | xargs cat
find src | head -c 5 | xargs cat
find src | cat - x | xargs cat
find src | sort x | xargs cat
find src | $X | xargs cat
find src; xargs cat
find . | xargs cat
grep -R foo .
find . -fprint y
find -L . -name x
find / -name x
sort -o y x
sort -uo y x
sort --outp y x
sort --compress-program=sh x
sed -i s/a/b/ x
sed -n 'w y' x
sed '1e touch y' x
sed 's/a/b/w y' x
sed -f x x
uniq x y
xxd x y
awk '{print > "y"}' x
awk 'BEGIN{system("touch y")}'
awk 'BEGIN{while((getline l < "/etc/passwd")>0) print l}'
awk -f x
awk '{print >"y"}' x
awk '{print>>=y}' x
awk 'NR>1{print>FILENAME}' x
awk '{a ||| "sh"}' x
awk '/}/{print > "y"}' x
awk '"{" {print > "y"}' x
awk '{print | "sh"}' x
awk 'NR>1 {print $0 > $1}' x
awk 'x > 1 || "id" | getline' x
rg --pre ./evil foo
rg -z foo
rg --follow foo
grep -R foo .
grep -f /etc/passwd x
diff . src
diff -r . src
tree -o y
tree -R
du -L .
file -C -m x
file -p x
wc --files0-from=x
md5sum -c x
date 01010000
date -s now
jq -n env
jq -n '$ENV'
jq -L / . a.json
jq 'import "x" as x; .' a.json
ls --col=always
python -c 'print(1)'
python x
less x
man ls
git -c core.pager=x log
git -C /tmp log
git --git-dir=x log
git -p log
git --paginate log
git --exec-path=. log
GIT_PAGER=x git log
GIT_EXTERNAL_DIFF=./x git diff
PAGER=x git log
LD_PRELOAD=./x ls
PATH=. ls
git diff --ext-diff
git diff --textconv
git diff --no-index x /etc/passwd
git diff /etc/passwd /etc/hosts
git diff --output=y
git diff --submodule=diff
git log --show-signature
git log --format=%G?
git grep -O a
git grep -Oless a
git grep --no-index a
git stash
git stash -p list
git stash drop
git branch new
git branch -D main
git branch -l new
git tag v2
git tag -d v1
git remote add a b
git remote show origin
git reflog expire --all
git reflog delete HEAD
git worktree add y
git config --list
git config core.pager x
git fetch
git cat-file --filters HEAD:x
git cat-file --textconv HEAD:x
git status -x
git alias
git submodule status
git fsck --lost-found
git -C .. log
git -C /etc status
git -C $X log
echo /etc/*
echo $(echo '/etc/*')
x='/etc/*'; echo $x
x=$(cat x); echo $x
v=$HOME; echo "$v"
x=$(touch y); echo "$x"
for f in /etc/*; do echo "$f"; done
for f in /etc/*; do echo same; done
bash -c 'for f in /etc/*; do echo "$f"; done'
for f in $(echo '/etc/*'); do echo "$f"; done
for f in l*; do cat "$f"; done
for f in .*; do ls "$f"; done
ls .*
ls src/.?/x
for f in src/../link; do wc -l < "$f"; done
for f in "$@"; do cat "$f"; done
while read f; do cat "$f"; done < x
f=/etc/passwd; cat "$f"
f=x; f=/etc/passwd; cat "$f"
f=x; read f < x; cat "$f"
f=x; f+=/../../y; cat "$f"
f=x; unset f; cat "$f"
f=x; printf -v f /etc/passwd; cat "$f"
f=x; { f=/etc/passwd; }; cat "$f"
f=x; if true; then f=/etc/passwd; fi; cat "$f"
f=x; for i in 1 2; do cat "$f"; f=/etc/passwd; done
f=x; while cat "$f"; do f=/etc/passwd; done
f=x; case a in a) f=/etc/passwd;; esac; cat "$f"
false && f=x; cat "$f"
f=x | true; cat "$f"
f=x & cat "$f"
F=x cat "$F"
declare -l f=X; cat "$f"
select f in x; do cat "$f"; done
o=-o; sort $o y x
o='-o y'; sort $o x
for o in -o; do sort $o y x; done
o=-delete; find . "$o"
b=$(git merge-base HEAD main); git log -S $b -S --output=y
b=$(git merge-base HEAD main); cat "$b/etc/passwd"
cat "$(git rev-parse HEAD)"
x=-v; test "$x" 'a[$(touch y)]'
x=-v; y='a[$(touch y)]'; test "$x" "$y"
y='a[$(touch y)]'; test a = a -o -v "$y"
x='-v a[$(touch$IFS./y)] -o 1'; [ $x = 1 ]
test *
y='a[$(touch y)]'; [[ 1 -eq y ]]
[[ 1 -eq 'a[$(touch y)]' ]]
y='a[$(touch y)]'; z=([y]=1)
y='a[$(touch y)]'; RANDOM=y
for SECONDS in 'a[$(touch y)]'; do ls; done
x=-v; printf "$x" PATH ./evil; ls
sleep 1 & wait -n -p 'a[$(touch y)]'
""".strip().splitlines()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repository(tmp_path_factory.mktemp("repository"))


def make_repository(root: Path) -> Path:
    (root / "src").mkdir()
    for name in ("x", "a.json", "src/a.py"):
        (root / name).write_text("{}\n")
    (root / "link").symlink_to("/etc/passwd")
    git(root, "init -q")
    git(root, "add -A")
    git(root, "-c user.name=a -c user.email=a@b.c commit -q --no-verify -m first")
    return root


def git(root: Path, arguments: str) -> None:
    subprocess.run(["git", *arguments.split()], cwd=root, check=True)


def judge(
    line: str,
    cwd: Path,
    *,
    tool: str = "Bash",
    mode: str = "default",
    deny: str = "",
    ask: str = "",
) -> Decision:
    access = Access(tool=tool, risk=Risk.EXECUTE, target=line, kind=TargetKind.COMMAND)
    policy = Policy(
        cwd=cwd,
        mode=PermissionMode(mode),
        deny=(parse_rule(deny),) if deny else (),
        ask=(parse_rule(ask),) if ask else (),
    )
    return decide(access, policy)


@each_row("line", READ_ONLY)
def test_a_line_that_only_reads_runs_without_a_question(line: str, repository: Path) -> None:
    for mode in ("default", "acceptEdits"):
        decision = judge(line, repository, mode=mode)

        assert decision.verdict is Verdict.ALLOW
        assert decision.reason == f"{mode} mode allows commands that only read"
        assert decision.by is DecidedBy.MODE
    assert judge(line, repository, mode="plan").verdict is Verdict.DENY


@each_row("line", MORE_THAN_READING)
def test_a_line_that_may_do_more_is_a_question(line: str, repository: Path) -> None:
    for mode in ("default", "acceptEdits"):
        assert judge(line, repository, mode=mode).verdict is Verdict.ASK


def test_deny_and_ask_rules_come_before_the_table(repository: Path) -> None:
    assert judge("cat x", repository, deny="Read(./x)").verdict is Verdict.DENY
    assert judge("ls | cat x", repository, deny="Bash(cat:*)").verdict is Verdict.DENY
    assert judge("git log", repository, ask="Bash(git:*)").verdict is Verdict.ASK
    assert judge("grep -r a .", repository, deny="Read(./src/**)").verdict is Verdict.ASK


def test_only_the_tool_that_runs_lines_in_a_shell_uses_the_table(repository: Path) -> None:
    assert judge("ls", repository, tool="deploy").verdict is Verdict.ASK


def test_names_that_xargs_would_split_and_links_to_elsewhere_are_a_question(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").touch()
    lines = ("find src | xargs cat", "rg -l a src | xargs cat", "find src -exec cat {} +")
    assert all(judge(line, tmp_path).verdict is Verdict.ALLOW for line in lines)

    (tmp_path / "src/x -f").mkdir()
    (tmp_path / "src/x -f/y").touch()
    assert [judge(line, tmp_path).verdict for line in lines] == [
        Verdict.ASK,
        Verdict.ASK,
        Verdict.ALLOW,
    ]

    (tmp_path / "src/x -f/y").unlink()
    (tmp_path / "src/x -f").rmdir()
    (tmp_path / "src/link").symlink_to("/etc/passwd")
    assert all(judge(line, tmp_path).verdict is Verdict.ASK for line in (*lines, "grep -R a src"))


def test_a_file_that_is_named_like_an_option_is_a_question(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    assert judge("rg foo *", tmp_path).verdict is Verdict.ALLOW

    (tmp_path / "--pre=evil").touch()

    assert judge("rg foo *", tmp_path).verdict is Verdict.ASK
    assert judge("rg foo ./*", tmp_path).verdict is Verdict.ASK
    assert judge("rg foo *.txt", tmp_path).verdict is Verdict.ALLOW


def test_a_program_in_the_working_directory_is_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ls").write_text("#!/bin/sh\n")
    (tmp_path / "ls").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    assert judge("ls", tmp_path).verdict is Verdict.ASK
    assert judge("cat x", tmp_path).verdict is Verdict.ALLOW


HOSTILE_SETTINGS = """
core.fsmonitor ./evil
core.pager ./evil
core.hooksPath hooks
core.worktree /
diff.external ./evil
diff.x.textconv ./evil
filter.x.clean ./evil
gpg.program ./evil
include.path ../evil
extensions.worktreeConfig true
remote.origin.promisor true
""".strip().splitlines()


@pytest.mark.parametrize("setting", HOSTILE_SETTINGS)
def test_git_asks_where_a_setting_of_the_repository_may_run_a_program(
    setting: str, tmp_path: Path
) -> None:
    root = make_repository(tmp_path)
    assert judge("git status", root).verdict is Verdict.ALLOW

    git(root, f"config {setting}")

    for line in ("git status", "git diff", "cd src && git log -p"):
        assert judge(line, root).verdict is Verdict.ASK


def test_git_asks_about_settings_in_an_unusual_form(tmp_path: Path) -> None:
    root = make_repository(tmp_path)
    config = root / ".git/config"
    usual = config.read_text()

    for text in ("[core] fsmonitor = x\n", "[user]\nname = a\\\n", "[core\n", "fsmonitor = x\n"):
        config.write_text(usual + text)
        assert judge("git status", root).verdict is Verdict.ASK


def test_git_asks_in_a_repository_that_uses_another_one(tmp_path: Path) -> None:
    other, root = make_repository(_folder(tmp_path / "other")), _folder(tmp_path / "root")
    (root / ".git").symlink_to(other / ".git")
    assert judge("git log", root).verdict is Verdict.ASK

    (root / ".git").unlink()
    (root / ".git").write_text(f"gitdir: {other}/.git\n")
    assert judge("git log", root).verdict is Verdict.ASK

    (root / ".git").unlink()
    git(root, "init -q")
    assert judge("git log", root).verdict is Verdict.ALLOW
    (root / ".git/objects/info/alternates").write_text(f"{other}/.git/objects\n")
    assert judge("git log", root).verdict is Verdict.ASK


def test_git_asks_outside_of_a_repository_and_in_one_around_the_working_directory(
    tmp_path: Path,
) -> None:
    assert judge("git log", _folder(tmp_path / "none")).verdict is Verdict.ASK
    root = make_repository(_folder(tmp_path / "some"))
    assert judge("git log", root / "src").verdict is Verdict.ASK


def test_git_asks_in_a_folder_that_is_itself_a_repository(tmp_path: Path) -> None:
    git(tmp_path, "init -q --bare .")

    assert judge("git log", tmp_path).verdict is Verdict.ASK


def test_git_asks_where_a_hook_or_a_submodule_may_run_a_program(tmp_path: Path) -> None:
    root = make_repository(tmp_path)
    hook = root / ".git/hooks/post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.touch()
    assert judge("git status", root).verdict is Verdict.ASK

    hook.unlink()
    assert judge("git status", root).verdict is Verdict.ALLOW
    git(root, f"update-index --add --cacheinfo 160000,{'1' * 40},sub")
    assert judge("git status", root).verdict is Verdict.ASK


def test_git_reads_in_a_worktree_that_its_repository_knows(tmp_path: Path) -> None:
    root, copy = make_repository(_folder(tmp_path / "root")), tmp_path / "copy"
    git(root, f"worktree add -q {copy}")
    assert judge("git status", copy).verdict is Verdict.ALLOW

    stranger = _folder(tmp_path / "stranger")
    (stranger / ".git").write_text((copy / ".git").read_text())

    assert judge("git status", stranger).verdict is Verdict.ASK


def _folder(path: Path) -> Path:
    path.mkdir()
    return path
