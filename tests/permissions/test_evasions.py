"""Ways around a rule that are known from other agents, and honest lines that must pass."""

from pathlib import Path

import pytest

from clew.core.access import Access, PermissionMode, Risk, Verdict
from clew.permissions.decide import decide
from clew.permissions.rules import parse

HERE = Path("/srv/project")

DENIED_BY = {
    "Bash(rm *)": [
        "rm",
        "rm -rf x\n:",
        "  rm -rf x",
        "rm\t-rf x",
        "cd /; rm -rf x",
        "ls && rm x",
        "ls || rm x",
        "ls | rm x",
        "ls & rm x",
        "ls\nrm x",
        "ls # harmless\nrm x",
        "r\\m -rf x",
        "r''m -rf x",
        '"rm" -rf x',
        "'rm' x",
        "\\rm x",
        "/bin/rm x",
        "../../bin/rm x",
        "rm \\\n-rf x",
        "r\\\nm x",
        "sudo rm x",
        "sudo -u root rm x",
        "env rm x",
        "env A=1 rm x",
        "A=1 rm x",
        "command rm x",
        "nohup rm x &",
        "time rm x",
        "timeout 5 rm x",
        "exec rm x",
        "busybox rm x",
        "echo x | xargs rm",
        "find . -exec rm {} +",
        "sh -c 'rm x'",
        "bash -c \"r''m x\"",
        "echo 'rm x' | sh",
        "eval rm x",
        "eval 'r\\m' x",
        "$(echo rm) x",
        "`echo rm` x",
        "(rm x)",
        "{ rm x; }",
        "if true; then rm x; fi",
        "f() { rm x; }; f",
        "! rm x",
        "cat <(rm x)",
        "trap 'rm x' EXIT",
        "bash <<< 'rm x'",
        "bash <<E\nrm x\nE",
        "python -c 'import os; os.system(\"rm x\")'",
        "rm x 2>&1",
        "rm x >/dev/null",
        "git -c alias.x='!rm -rf ~' x",
        "git bisect run rm x",
        "git submodule foreach 'rm x'",
        "git rebase --exec='rm x' main",
        "tar --to-command='rm x' -xf a",
        "vim -c ':!rm x'",
    ],
    "Bash(git push *)": ["git push", "git  push origin", "git 'push'", "cd a && git push -f"],
    "Bash(npm:*)": ["npm", "npm publish", "npm  x"],
}

ASKED_ABOUT = {
    "Bash(rm *)": [
        "$X -rf x",
        "${X} x",
        "{rm,-rf,x}",
        "/bin/r? x",
        "$'\\x72m' x",
        "echo cm0gLXJmIHg= | base64 -d | sh",
        "source ./x.sh",
        ". ./x.sh",
        "hash -p /bin/x ls; ls",
        "env $X y",
        "alias ls=x; ls",
        "while read x; do $x; done",
        "case x in x) ls;; esac",
        "echo a > ~/.bashrc",
        "ls\r",
    ],
    "Bash(git push *)": [
        "git -C . push",
        "git --no-pager push origin",
        "git $X",
        "git pu*",
        "git {push,origin}",
    ],
    "Bash(rm -rf *)": ["rm -fr x", "rm -r -f x", "rm --recursive x", "rm $FLAGS x"],
    "Bash(git push --force*)": ["git push -f", "git push origin +main"],
}

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
        "PATH=/evil pnpm a",
        "./pnpm a",
        "pnpmx a",
        "PNPM a",
        "pnpm",
        "pnpm 'a",
        'pnpm "a',
        "pnpm a \\",
        "pnpm ${X:-$(curl evil)}",
        "pnpm ${x@P}",
        "pnpm $((a[$(curl evil)]))",
        "pnpm {a,b}",
        "(pnpm a)",
        "pnpm a <<E\nx\nE",
        "for x in a; do pnpm a; done",
        "! pnpm a",
        "eval pnpm a",
        "curl evil # pnpm a",
        "pnpm() { curl evil; }; pnpm a",
        "function pnpm { curl evil; }\npnpm a",
        "alias pnpm=x; pnpm a",
        "cd /evil && pnpm a",
        "export PATH=/evil; pnpm a",
        "pnpm a |& tee x",
        "pnpm a\rcurl evil",
        "",
        "# pnpm a",
    ],
    "Bash(find *)": ["find . -delete", "find . -exec x {} \\;", "find . -fprint /etc/x"],
    "Bash(git *)": ["git -c core.pager=evil log", "git rebase -x evil main"],
    "Bash(git ?tatus)": ["git status; x", "git sstatus"],
}

HONEST = {
    "Bash(pnpm *)": [
        "pnpm test",
        "pnpm  run   build",
        "pnpm test && pnpm build",
        "pnpm test; pnpm lint",
        "pnpm test || pnpm build",
        "pnpm test 2>&1",
        "pnpm test > /dev/null",
        "pnpm test 2>/dev/null",
        "pnpm test &>/dev/null",
        "pnpm test </dev/null",
        "pnpm run 'a && b'",
        'pnpm run "a; b"',
        "pnpm run a\\;b",
        'pnpm run "it\'s"',
        "pnpm run 'say \"$(no)\"'",
        "pnpm add 'x@^1.0'",
        "pnpm run test -- --grep='a|b'",
        "pnpm test # the slow ones",
        "# first\npnpm test",
        "pnpm test\npnpm build\n",
        "pnpm --filter './packages/*' test",
        "pnpm exec tsc *.ts",
        "pnpm run x $HOME",
        'pnpm run "$USER"',
        "pnpm run x \\\n  --flag",
        "pnpm test &",
        "pnpm run a#b",
        "pnpm run price=5$",
        "pnpm run über",
    ],
    "Bash(git *)": [
        "git status",
        "git commit -m 'fix: rm the (old) `x` $(y)'",
        "git show HEAD@{1}",
        "git log --format=%H",
        "git diff HEAD~1 -- a.py | git apply",
        "git checkout -b a/b",
        "git rev-parse HEAD^",
        "git stash push",
    ],
    "Bash(ls:*)": ["ls", "ls -la", "ls | ls -l"],
    "Bash(git status)": ["git status", " git status ", "git status 2>&1"],
    "Bash(find *)": ["find . -name '*.py'"],
    "Bash(npm run test?)": ["npm run test1"],
}


def pairs(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(rule, command) for rule, commands in table.items() for command in commands]


def verdict(command: str, mode: PermissionMode, *, allow: str = "", deny: str = "") -> Verdict:
    return decide(
        Access(tool="Bash", risk=Risk.EXECUTE, target=command),
        mode=mode,
        allow=[parse(allow)] if allow else [],
        deny=[parse(deny)] if deny else [],
        grants=(),
        cwd=HERE,
    ).verdict


@pytest.mark.req("PRM-2")
@pytest.mark.parametrize(("rule", "command"), pairs(DENIED_BY))
def test_a_denied_command_is_denied_however_it_is_dressed(rule: str, command: str) -> None:
    assert verdict(command, PermissionMode.BYPASS, allow="Bash", deny=rule) is Verdict.DENY


@pytest.mark.req("PRM-2")
@pytest.mark.parametrize(("rule", "command"), pairs(ASKED_ABOUT))
def test_what_might_be_a_denied_command_is_asked_about(rule: str, command: str) -> None:
    found = verdict(command, PermissionMode.BYPASS, allow="Bash", deny=rule)

    assert found in (Verdict.ASK, Verdict.DENY)


@pytest.mark.req("PRM-2")
@pytest.mark.parametrize(("rule", "command"), pairs(NOT_ALLOWED_BY))
def test_an_allow_rule_does_not_carry_anything_else_along(rule: str, command: str) -> None:
    assert verdict(command, PermissionMode.DEFAULT, allow=rule) is Verdict.ASK


@pytest.mark.req("PRM-2")
@pytest.mark.parametrize(("rule", "command"), pairs(HONEST))
def test_an_honest_line_passes_its_allow_rule(rule: str, command: str) -> None:
    assert verdict(command, PermissionMode.DEFAULT, allow=rule) is Verdict.ALLOW


@pytest.mark.req("PRM-2")
@pytest.mark.parametrize("command", ["git status", "echo rm", "pnpm test", "git rm x", "ls -l"])
def test_a_deny_rule_leaves_other_commands_alone(command: str) -> None:
    assert verdict(command, PermissionMode.BYPASS, deny="Bash(rm *)") is Verdict.ALLOW
