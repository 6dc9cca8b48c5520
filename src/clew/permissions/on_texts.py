"""Judging texts and addresses."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from clew.core.access import Access, Kind, Verdict
from clew.permissions.addresses import allows_address, denies_address, host_of
from clew.permissions.modes import TABLE, wording
from clew.permissions.policy import Policy
from clew.permissions.rules import Rule, names, permits
from clew.permissions.texts import denies_text, matches_text

_Match: TypeAlias = Callable[[Rule, str], bool]


def forbids(rule: Rule, access: Access, cwd: Path) -> bool:  # noqa: ARG001
    """Does a rule that denies or asks match one of the targets?"""
    match: _Match = denies_address if access.kind is Kind.ADDRESS else denies_text
    return names(rule, access.tool) and any(match(rule, target) for target in access.targets)


def concerns(rule: Rule, access: Access) -> bool:
    """Does a rule that denies or asks name this tool?"""
    return names(rule, access.tool)


def doubt(access: Access, guarding: Sequence[Rule], policy: Policy) -> str:  # noqa: ARG001
    """Say why it is not certain that no rule forbids the call, or nothing."""
    if guarding and not all(access.targets):
        return f"The rule {guarding[0]} cannot be compared with this call."
    if access.kind is Kind.ADDRESS and any(host_of(each) is None for each in access.targets):
        return "Which host this address leads to cannot be told."
    return ""


def allowing(access: Access, policy: Policy) -> tuple[Rule, ...] | str:
    """Return the rules that allow every target, or the reason why there are not enough."""
    match: _Match = allows_address if access.kind is Kind.ADDRESS else matches_text
    rules = [rule for rule in policy.allow if permits(rule, access.tool)]
    found: list[Rule] = []
    for target in access.targets:
        rule = next((rule for rule in rules if match(rule, target)), None)
        if rule is not None:
            found.append(rule)
        elif TABLE[policy.mode][access.risk] is not Verdict.ALLOW:
            return wording(policy.mode, access.risk)
    return tuple(dict.fromkeys(found))
