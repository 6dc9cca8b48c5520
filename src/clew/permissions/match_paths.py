"""Judging what touches files."""

from collections.abc import Sequence
from pathlib import Path

from clew.core.access import Access, PermissionMode, Risk, Verdict
from clew.permissions.paths import allows_path, denies_path, denies_within, resolve
from clew.permissions.policy import MODE_TABLE, Policy, describe_mode
from clew.permissions.rules import Rule, guards_files, may_allow, names_tool

_GUARDED_FOLDERS = frozenset({".git", ".clew", ".claude"})
"""What is written here can run later, or change these very rules."""


def forbids(rule: Rule, access: Access, cwd: Path) -> bool:
    """Does a rule that denies or asks match one of the paths?"""
    if not guards_files(rule, access.tool, access.risk):
        return False
    return any(denies_path(rule, target, cwd) for target in access.targets)


def concerns(rule: Rule, access: Access) -> bool:
    """Does a rule that denies or asks speak of what this call does to files?"""
    return guards_files(rule, access.tool, access.risk)


def doubt(access: Access, guarding: Sequence[Rule], policy: Policy) -> str:
    """Say why it is not certain that no rule forbids the call, or nothing."""
    for target in access.targets:
        if guarding and not target:
            return f"The rule {guarding[0]} cannot be compared with this call."
        if resolve(target, policy.cwd) is None:
            return "Where this path leads cannot be told."
        for rule in guarding:
            if _looks_into(rule, access) and denies_within(rule, target, policy.cwd):
                return f"This folder may hold what the rule {rule} forbids."
    return ""


def _looks_into(rule: Rule, access: Access) -> bool:
    # A list of names shows nothing of what is in the files.
    return names_tool(rule, access.tool) or access.tool != "Glob"


def allowing(access: Access, policy: Policy) -> tuple[Rule, ...] | str:
    """Return the rules that allow every path, or the reason why there are not enough.

    A path that no rule speaks of must be one that the mode allows.
    """
    found: list[Rule] = []
    rules = [rule for rule in policy.allow if may_allow(rule, access.tool)]
    for target in access.targets:
        rule = next((rule for rule in rules if allows_path(rule, target, policy.cwd)), None)
        if rule is not None:
            found.append(rule)
        elif reason := refusal(access, target, policy):
            return reason
    return tuple(dict.fromkeys(found))


def refusal(access: Access, target: str, policy: Policy) -> str:
    """Say why the mode asks about a path, or nothing when it does not."""
    mode = policy.mode
    if MODE_TABLE[mode][access.risk] is not Verdict.ALLOW:
        return describe_mode(mode, access.risk)
    if mode is not PermissionMode.BYPASS and (problem := beyond(access.risk, target, policy.cwd)):
        return f"The mode {mode} asks about {problem}."
    return ""


def beyond(risk: Risk, target: str, cwd: Path) -> str:
    """Say what is special about a path: it is outside the folder, or guards it."""
    path, root = resolve(target, cwd), cwd.resolve()
    if path is None or not path.is_relative_to(root):
        return "paths outside the working folder"
    parts = {part.casefold() for part in path.relative_to(root).parts}
    if risk is not Risk.INSPECT and _GUARDED_FOLDERS & parts:
        return "changes to settings and hooks"
    return ""
