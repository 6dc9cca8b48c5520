"""Everything that decides about a call, as one value."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from clew.core.access import PermissionMode, Risk, Verdict
from clew.permissions.rules import Rule


class Grant(Struct, frozen=True):
    """A shape of calls that need not be asked about again in this session."""

    tool: str
    risk: Risk
    shape: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        return f"{self.tool}: " + "; ".join(" ".join(part) for part in self.shape)


class Policy(Struct, frozen=True, kw_only=True):
    """Rules, grants and a mode."""

    cwd: Path
    """The working folder: relative paths start here."""
    mode: PermissionMode = PermissionMode.DEFAULT
    allow: tuple[Rule, ...] = ()
    """What runs without asking; in plan mode only what inspects."""
    ask: tuple[Rule, ...] = ()
    """What a person is asked about, also where an allow rule matches."""
    deny: tuple[Rule, ...] = ()
    """What never runs, in any mode."""
    grants: tuple[Grant, ...] = ()
    """What a person allowed for this session."""


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
"""Mode by risk. A path outside the working folder is asked about, except in bypass."""

_MAY = {
    Risk.INSPECT: "inspect",
    Risk.MODIFY: "modify",
    Risk.EXECUTE: "execute",
    Risk.UNKNOWN: "do what nobody declared",
}


def describe_mode(mode: PermissionMode, risk: Risk) -> str:
    """Say in a sentence what the table says."""
    match MODE_TABLE[mode][risk]:
        case Verdict.ALLOW:
            return f"The mode {mode} lets a call {_MAY[risk]}."
        case Verdict.ASK:
            return f"The mode {mode} asks before a call that may {_MAY[risk]}."
        case Verdict.DENY:
            return f"{mode.capitalize()} mode only inspects; nothing is changed or run."
