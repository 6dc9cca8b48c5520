"""What each mode says about a call that no rule speaks of."""

from collections.abc import Mapping
from types import MappingProxyType

from clew.core.access import PermissionMode, Risk, Verdict

_ALLOW, _ASK, _DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY


def _row(
    inspect: Verdict, modify: Verdict, execute: Verdict, unknown: Verdict
) -> Mapping[Risk, Verdict]:
    verdicts = (inspect, modify, execute, unknown)
    risks = (Risk.INSPECT, Risk.MODIFY, Risk.EXECUTE, Risk.UNKNOWN)
    return MappingProxyType(dict(zip(risks, verdicts, strict=True)))


TABLE: Mapping[PermissionMode, Mapping[Risk, Verdict]] = MappingProxyType(
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


def wording(mode: PermissionMode, risk: Risk) -> str:
    """Say in a sentence what the table says."""
    match TABLE[mode][risk]:
        case Verdict.ALLOW:
            return f"The mode {mode} lets a call {_MAY[risk]}."
        case Verdict.ASK:
            return f"The mode {mode} asks before a call that may {_MAY[risk]}."
        case Verdict.DENY:
            return f"{mode.capitalize()} mode only inspects; nothing is changed or run."
