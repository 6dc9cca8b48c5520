"""Command lines under a deny rule."""

from pathlib import Path

from clew.core.permissions import Access, PermissionMode, Risk, TargetKind, Verdict
from clew.permissions.decide import decide
from clew.permissions.policy import Policy
from clew.permissions.rules import parse_rule


def pairs(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    """Return each rule with each of its lines."""
    return [(rule, command) for rule, commands in table.items() for command in commands]


def judge(command: str, rule: str, cwd: Path) -> Verdict:
    """Judge under a deny rule, where all else would be allowed."""
    policy = Policy(
        cwd=cwd, mode=PermissionMode.BYPASS, allow=(parse_rule("Bash"),), deny=(parse_rule(rule),)
    )
    access = Access(tool="Bash", risk=Risk.EXECUTE, target=command, kind=TargetKind.COMMAND)
    return decide(access, policy).verdict
