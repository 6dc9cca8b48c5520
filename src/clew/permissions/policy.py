"""What decides about calls: rules, session grants, and the table of permission modes."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from clew.core.permissions import PermissionMode, Risk, Verdict
from clew.permissions.rules import Rule


class Grant(Struct, frozen=True):
    """A shape of calls that the user allowed for the rest of the session."""

    tool: str
    risk: Risk
    shape: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        return f"{self.tool}: " + "; ".join(" ".join(part) for part in self.shape)


class Policy(Struct, frozen=True, kw_only=True):
    """The rules, the grants and the mode that apply to a call, as one value."""

    cwd: Path
    """The working directory: relative paths start here."""
    mode: PermissionMode = PermissionMode.DEFAULT
    allow: tuple[Rule, ...] = ()
    """Calls that run without a question; in plan mode only those that read."""
    ask: tuple[Rule, ...] = ()
    """Calls that need an answer from the user, even where an allow rule matches."""
    deny: tuple[Rule, ...] = ()
    """Calls that never run, in any mode."""
    grants: tuple[Grant, ...] = ()
    """Calls that the user allowed for this session."""


_ALLOW, _ASK, _DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY


def _row(
    inspect: Verdict, modify: Verdict, execute: Verdict, unknown: Verdict
) -> Mapping[Risk, Verdict]:
    verdicts = (inspect, modify, execute, unknown)
    risks = (Risk.INSPECT, Risk.MODIFY, Risk.EXECUTE, Risk.UNKNOWN)
    return MappingProxyType(dict(zip(risks, verdicts, strict=True)))


MODE_TABLE: Mapping[PermissionMode, Mapping[Risk, Verdict]] = MappingProxyType(
    {
        PermissionMode.PLAN: _row(_ALLOW, _DENY, _DENY, _DENY),
        PermissionMode.DEFAULT: _row(_ALLOW, _ASK, _ASK, _ASK),
        PermissionMode.ACCEPT_EDITS: _row(_ALLOW, _ALLOW, _ASK, _ASK),
        PermissionMode.BYPASS: _row(_ALLOW, _ALLOW, _ALLOW, _ALLOW),
    }
)
"""The verdict of each mode by risk. Except in bypass, a path outside the working directory is a
question whatever this table says, and so is a request to a host that no rule allows."""

_EFFECTS = {
    Risk.INSPECT: "only read",
    Risk.MODIFY: "change files",
    Risk.EXECUTE: "run commands",
    Risk.UNKNOWN: "have unknown effects",
}


@lru_cache
def describe_mode(mode: PermissionMode, risk: Risk) -> str:
    """Return the table's rule for a risk, as a clause."""
    match MODE_TABLE[mode][risk]:
        case Verdict.ALLOW:
            return f"{mode} mode allows calls that {_EFFECTS[risk]}"
        case Verdict.ASK:
            return f"{mode} mode asks before calls that {_EFFECTS[risk]}"
        case Verdict.DENY:
            return f"{mode} mode forbids calls that {_EFFECTS[risk]}"
