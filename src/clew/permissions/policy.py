"""Everything that decides about a call, as one value."""

from pathlib import Path

from msgspec import Struct

from clew.core.access import PermissionMode, Risk
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
