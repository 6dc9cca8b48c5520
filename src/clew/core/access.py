"""What a tool call wants to touch, and what may be answered.

Tools declare an `Access`; permissions judge it; neither knows the other.
"""

from enum import StrEnum
from typing import Any

from msgspec import Struct


class Risk(StrEnum):
    """What the worst outcome of a call is."""

    INSPECT = "inspect"
    """Reads only."""
    MODIFY = "modify"
    """Changes files through a tool that can show the change."""
    EXECUTE = "execute"
    """May do anything the user may."""
    UNKNOWN = "unknown"
    """Nobody said, as with a tool of somebody else's server. Judged like the worst."""


class TargetKind(StrEnum):
    """What a target is, and so how rules are compared with it."""

    TEXT = "text"
    """Any text: compared as it is."""
    PATH = "path"
    """A file or a folder: resolved before it is compared."""
    COMMAND = "command"
    """A line for the shell: taken apart, and each command in it judged."""
    ADDRESS = "address"
    """A URL: compared by its host."""


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
    kind: TargetKind = TargetKind.TEXT
    further: tuple[str, ...] = ()
    """More targets of the same kind: each must be allowed, and any may be denied."""
    call_id: str = ""
    """The call, for whoever is asked about it; rules do not look at it."""
    arguments: dict[str, Any] = {}
    """What the call would run with, hooks' changes included; likewise."""

    @property
    def targets(self) -> tuple[str, ...]:
        """All that the call touches."""
        return (self.target, *self.further)


class Verdict(StrEnum):
    """May the call run?"""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Decision(Struct, frozen=True):
    """A verdict and the sentence that explains it."""

    verdict: Verdict
    reason: str
    asked_by_rule: bool = False
    """True when an ask rule matches: then only a grant for exactly this call ends the asking."""
    session_scope: str = ""
    """In a question: the calls that an approval for the session covers, as `Write in src/`."""
    project_rules: tuple[str, ...] = ()
    """In a question: the allow rules that an approval for the project adds, none if it cannot."""
    remember: tuple[str, ...] = ()
    """Rules to store in the project's settings, because the user approved for the project."""


class Approval(StrEnum):
    """A person's answer to a question about a call."""

    NO = "no"
    ONCE = "once"
    SESSION = "session"
    """This call and others of the same shape, until the session ends."""
    PROJECT = "project"
    """This call and others of the same shape, in every session of this project."""
