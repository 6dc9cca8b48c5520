"""Matches rules against calls that use files."""

from collections.abc import Sequence
from pathlib import Path

from clew.core.permissions import Access, PermissionMode, Risk, Verdict
from clew.permissions.guarded_files import find_guarded_part, names_guarded_part
from clew.permissions.paths import allows_path, denies_path, denies_within, resolve
from clew.permissions.policy import MODE_TABLE, Policy, describe_mode
from clew.permissions.rules import Rule, guards_files, names_tool, select_allow_rules


def matches_guard(rule: Rule, access: Access, cwd: Path) -> bool:
    """Does a deny or ask rule match one of the paths?"""
    if not guards_files(rule, access.tool, access.risk):
        return False
    return any(denies_path(rule, target, cwd) for target in access.targets)


def applies_to(rule: Rule, access: Access) -> bool:
    """Can a deny or ask rule match what this call does to files?"""
    return guards_files(rule, access.tool, access.risk)


def find_doubt(access: Access, guarding: Sequence[Rule], policy: Policy) -> str:
    """Return why a rule may forbid the call, or an empty string."""
    for target in access.targets:
        if guarding and not target:
            return f"the rule {guarding[0]} cannot be compared with this call"
        if resolve(target, policy.cwd) is None:
            return "this path cannot be resolved"
        for rule in guarding:
            if _looks_into(rule, access) and denies_within(rule, target, policy.cwd):
                return f"this folder may contain files that the rule {rule} forbids"
    return ""


def _looks_into(rule: Rule, access: Access) -> bool:
    # A list of names does not show the content of the files.
    return names_tool(rule, access.tool) or access.tool != "Glob"


def find_allow_rules(access: Access, policy: Policy) -> tuple[Rule, ...] | str:
    """Return the rules that together allow every path, or the reason to ask.

    A path without a matching rule must be one that the mode allows. A pattern allows changes to
    settings and hooks only if it names them.
    """
    found: list[Rule] = []
    rules = select_allow_rules(policy.allow, access.tool)
    for target in access.targets:
        fitting = (rule for rule in rules if allows_path(rule, target, policy.cwd))
        rule = next(
            (rule for rule in fitting if names_guarded_part(rule, access, target, policy.cwd)), None
        )
        if rule is not None:
            found.append(rule)
        elif reason := find_refusal(access, target, policy):
            return reason
    return tuple(dict.fromkeys(found))


def find_refusal(access: Access, target: str, policy: Policy) -> str:
    """Return why the mode asks about a path, or an empty string."""
    mode = policy.mode
    if MODE_TABLE[mode][access.risk] is not Verdict.ALLOW:
        return describe_mode(mode, access.risk)
    if mode is not PermissionMode.BYPASS and (
        problem := special_location(access.risk, target, policy.cwd)
    ):
        return f"{mode} mode asks about {problem}"
    return ""


def special_location(risk: Risk, target: str, cwd: Path) -> str:
    """Return why a path needs a question: it is outside the working directory, or is guarded."""
    path, root = resolve(target, cwd), cwd.resolve()
    if path is None or not path.is_relative_to(root):
        return "paths outside the working directory"
    part = find_guarded_part(path, root) if risk is not Risk.INSPECT else ""
    return f"changes to settings and hooks ({part})" if part else ""
