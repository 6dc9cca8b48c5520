"""What a tool call wants to touch, and what may be answered.

Tools declare an `Access`; permissions judge it; neither knows the other.
"""

from enum import StrEnum

from msgspec import Struct


class Risk(StrEnum):
    """What the worst outcome of a call is."""

    INSPECT = "inspect"
    """Reads only."""
    MODIFY = "modify"
    """Changes files through a tool that can show the change."""
    EXECUTE = "execute"
    """May do anything the user may."""


class PermissionMode(StrEnum):
    """How much runs without asking."""

    PLAN = "plan"
    DEFAULT = "default"
    ACCEPT_EDITS = "acceptEdits"
    BYPASS = "bypassPermissions"


class Access(Struct, frozen=True, kw_only=True):
    """One call's need."""

    tool: str
    risk: Risk
    target: str = ""
    """The argument that rules match: a command line, a path, an address."""
    is_path: bool = False
    """True when `target` is a file path, resolved before it is compared."""


class Verdict(StrEnum):
    """May the call run?"""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Decision(Struct, frozen=True):
    """A verdict and the sentence that explains it."""

    verdict: Verdict
    reason: str


class Approval(StrEnum):
    """A person's answer to a question about a call."""

    NO = "no"
    ONCE = "once"
    SESSION = "session"
    """This call and others of the same shape, until the session ends."""
