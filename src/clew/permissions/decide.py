"""The order in which deny rules, the mode, ask rules, grants and allow rules decide a call.

A deny rule comes first and always holds. Next comes a mode that forbids the call, then the ask
rules, then what the user granted. A call in doubt becomes a question, unless exactly this call was
granted; then come the allow rules, and the mode decides the rest. Nothing here runs or asks
anything; the only access to the disk resolves symbolic links.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from clew.core.permissions import (
    Access,
    DecidedBy,
    Decision,
    PermissionMode,
    TargetKind,
    Verdict,
)
from clew.permissions import match_commands, match_paths, match_text
from clew.permissions.grants import covers, exact_grant, is_command
from clew.permissions.policy import MODE_TABLE, Policy, describe_mode
from clew.permissions.rules import Rule, select_allow_rules


class _Matcher(Struct, frozen=True, kw_only=True):
    """How one kind of target is matched against rules."""

    applies_to: Callable[[Rule, Access], bool]
    """Can a deny or ask rule match such calls at all?"""
    matches_guard: Callable[[Rule, Access, Path], bool]
    find_doubt: Callable[[Access, Sequence[Rule], Policy], str]
    find_allow_rules: Callable[[Access, Policy], tuple[Rule, ...] | str]
    """The matching allow rules, none if the mode allows the call, or the reason to ask.

    The mode also allows a command line that only reads."""


_COMMANDS = _Matcher(
    applies_to=match_commands.applies_to,
    matches_guard=match_commands.matches_guard,
    find_doubt=match_commands.find_doubt,
    find_allow_rules=match_commands.find_allow_rules,
)
_PATHS = _Matcher(
    applies_to=match_paths.applies_to,
    matches_guard=match_paths.matches_guard,
    find_doubt=match_paths.find_doubt,
    find_allow_rules=match_paths.find_allow_rules,
)
_TEXTS = _Matcher(
    applies_to=match_text.applies_to,
    matches_guard=match_text.matches_guard,
    find_doubt=match_text.find_doubt,
    find_allow_rules=match_text.find_allow_rules,
)


def decide(access: Access, policy: Policy) -> Decision:
    """Judge one call.

    Returns:
        The verdict, with a reason that names the rule or the mode behind it.
    """
    matcher = _matcher_for(access)
    if rule := _first_match(matcher, policy.deny, access, policy.cwd):
        return Decision(Verdict.DENY, f"the rule {_cite(rule)} forbids this", DecidedBy.RULE)
    asking = _first_match(matcher, policy.ask, access, policy.cwd)
    decision = _not_denied(matcher, access, policy, asking)
    return replace(decision, asked_by_rule=True) if asking else decision


def _not_denied(matcher: _Matcher, access: Access, policy: Policy, asking: Rule | None) -> Decision:
    """Judge a call that no deny rule matches."""
    if MODE_TABLE[policy.mode][access.risk] is Verdict.DENY:
        return Decision(Verdict.DENY, describe_mode(policy.mode, access.risk))
    if access.question:
        return Decision(Verdict.ASK, access.question)
    if asking and exact_grant(access) not in policy.grants:
        return Decision(Verdict.ASK, f"the rule {_cite(asking)} asks about this", DecidedBy.RULE)
    if _is_granted(matcher, access, policy):
        return Decision(
            Verdict.ALLOW, "the user allowed calls like this one for this session", DecidedBy.GRANT
        )
    return _without_grant(matcher, access, policy)


def _is_granted(matcher: _Matcher, access: Access, policy: Policy) -> bool:
    """Return whether the user granted the call.

    A grant for calls of a shape does not cover one that may touch what a rule guards.
    """
    if exact_grant(access) in policy.grants:
        return True
    if not any(covers(grant, access, policy.cwd) for grant in policy.grants):
        return False
    guarding = _list_guards(matcher, access, policy)
    return not (guarding and matcher.find_doubt(access, guarding, policy))


def _list_guards(matcher: _Matcher, access: Access, policy: Policy) -> list[Rule]:
    """Return the deny and ask rules for a part of such calls."""
    return [
        rule
        for rule in (*policy.deny, *policy.ask)
        if not rule.covers_all and matcher.applies_to(rule, access)
    ]


def _without_grant(matcher: _Matcher, access: Access, policy: Policy) -> Decision:
    guarding = _list_guards(matcher, access, policy)
    doubt = matcher.find_doubt(access, guarding, policy)
    if doubt and guarding:
        return Decision(Verdict.ASK, doubt)
    allowing = select_allow_rules(policy.allow, access.tool)
    if rule := next((rule for rule in allowing if rule.covers_all), None):
        return Decision(Verdict.ALLOW, f"the rule {_cite(rule)} allows every call", DecidedBy.RULE)
    if policy.mode is PermissionMode.BYPASS:
        return Decision(Verdict.ALLOW, f"{policy.mode} mode allows everything")
    if doubt:
        return Decision(Verdict.ASK, doubt)
    return _from_allow_rules(matcher.find_allow_rules(access, policy), access, policy)


def _from_allow_rules(found: tuple[Rule, ...] | str, access: Access, policy: Policy) -> Decision:
    match found:
        case str():
            return Decision(Verdict.ASK, found)
        case () if MODE_TABLE[policy.mode][access.risk] is Verdict.ASK:
            reason = f"{policy.mode} mode allows commands that only read"
            return Decision(Verdict.ALLOW, reason)
        case ():
            return Decision(Verdict.ALLOW, describe_mode(policy.mode, access.risk))
        case (rule,):
            return Decision(Verdict.ALLOW, f"the rule {_cite(rule)} allows this", DecidedBy.RULE)
        case _:
            shown = ", ".join(map(_cite, found))
            return Decision(Verdict.ALLOW, f"the rules {shown} allow this", DecidedBy.RULE)


def _matcher_for(access: Access) -> _Matcher:
    if is_command(access):
        return _COMMANDS
    return _PATHS if access.kind is TargetKind.PATH else _TEXTS


def _first_match(
    matcher: _Matcher, rules: Iterable[Rule], access: Access, cwd: Path
) -> Rule | None:
    return next((rule for rule in rules if matcher.matches_guard(rule, access, cwd)), None)


def _cite(rule: Rule) -> str:
    return f"{rule} ({rule.source})" if rule.source else str(rule)
