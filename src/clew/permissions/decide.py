"""The order in which rules, grants and modes are asked.

Deny comes first and always holds. A mode that forbids comes next, then the rules that
ask, then what a person granted. What cannot be judged is asked about; then come the allow
rules, and the mode decides the rest. Nothing here runs or asks anything; the disk is
looked at only to see where links lead.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from clew.core.access import Access, Decision, PermissionMode, TargetKind, Verdict
from clew.permissions import match_commands, match_paths, match_text
from clew.permissions.grants import covers, exact_grant, is_command
from clew.permissions.policy import MODE_TABLE, Policy, describe_mode
from clew.permissions.rules import Rule, may_allow


class _Judge(Struct, frozen=True, kw_only=True):
    """How one kind of target is compared with rules."""

    concerns: Callable[[Rule, Access], bool]
    """Does a rule that denies or asks speak of such calls at all?"""
    forbids: Callable[[Rule, Access, Path], bool]
    doubt: Callable[[Access, Sequence[Rule], Policy], str]
    allowing: Callable[[Access, Policy], tuple[Rule, ...] | str]
    """The rules that allow, none when the mode does, or the reason to ask."""


_LINES = _Judge(
    concerns=match_commands.concerns,
    forbids=match_commands.forbids,
    doubt=match_commands.doubt,
    allowing=match_commands.allowing,
)
_PATHS = _Judge(
    concerns=match_paths.concerns,
    forbids=match_paths.forbids,
    doubt=match_paths.doubt,
    allowing=match_paths.allowing,
)
_TEXTS = _Judge(
    concerns=match_text.concerns,
    forbids=match_text.forbids,
    doubt=match_text.doubt,
    allowing=match_text.allowing,
)


def decide(access: Access, policy: Policy) -> Decision:
    """Judge one call.

    Returns:
        The verdict, with a sentence that names the rule or the mode behind it.
    """
    judge = _judge_for(access)
    if rule := _first(judge, policy.deny, access, policy.cwd):
        return Decision(Verdict.DENY, f"The rule {_shown(rule)} forbids this.")
    asking = _first(judge, policy.ask, access, policy.cwd)
    decision = _not_denied(judge, access, policy, asking)
    return replace(decision, asked_by_rule=True) if asking else decision


def _not_denied(judge: _Judge, access: Access, policy: Policy, asking: Rule | None) -> Decision:
    """Judge a call that no deny rule matches."""
    if MODE_TABLE[policy.mode][access.risk] is Verdict.DENY:
        return Decision(Verdict.DENY, describe_mode(policy.mode, access.risk))
    if asking and exact_grant(access) not in policy.grants:
        return Decision(Verdict.ASK, f"The rule {_shown(asking)} asks about this.")
    if any(covers(grant, access, policy.cwd) for grant in policy.grants):
        return Decision(Verdict.ALLOW, "Calls of this shape were allowed for this session.")
    return _beyond_grants(judge, access, policy)


def _beyond_grants(judge: _Judge, access: Access, policy: Policy) -> Decision:
    guarding = [
        rule
        for rule in (*policy.deny, *policy.ask)
        if not rule.covers_all and judge.concerns(rule, access)
    ]
    doubt = judge.doubt(access, guarding, policy)
    if doubt and guarding:
        return Decision(Verdict.ASK, doubt)
    bare = (rule for rule in policy.allow if rule.covers_all and may_allow(rule, access.tool))
    if rule := next(bare, None):
        return Decision(Verdict.ALLOW, f"The rule {_shown(rule)} allows every call.")
    if policy.mode is PermissionMode.BYPASS:
        return Decision(Verdict.ALLOW, f"The mode {policy.mode} allows everything.")
    if doubt:
        return Decision(Verdict.ASK, doubt)
    return _allowed(judge.allowing(access, policy), access, policy)


def _allowed(found: tuple[Rule, ...] | str, access: Access, policy: Policy) -> Decision:
    match found:
        case str():
            return Decision(Verdict.ASK, found)
        case ():
            return Decision(Verdict.ALLOW, describe_mode(policy.mode, access.risk))
        case (rule,):
            return Decision(Verdict.ALLOW, f"The rule {_shown(rule)} allows this.")
        case _:
            shown = ", ".join(map(_shown, found))
            return Decision(Verdict.ALLOW, f"The rules {shown} allow this.")


def _judge_for(access: Access) -> _Judge:
    if is_command(access):
        return _LINES
    return _PATHS if access.kind is TargetKind.PATH else _TEXTS


def _first(judge: _Judge, rules: Iterable[Rule], access: Access, cwd: Path) -> Rule | None:
    return next((rule for rule in rules if judge.forbids(rule, access, cwd)), None)


def _shown(rule: Rule) -> str:
    return f"{rule} ({rule.source})" if rule.source else str(rule)
