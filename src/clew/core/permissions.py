"""The access that a tool call needs, and the decision about it.

Tools declare an `Access`; permissions decide on it; the session joins the two.
"""

from enum import StrEnum
from typing import Any

from msgspec import Struct


class Risk(StrEnum):
    """The worst that a call can do."""

    INSPECT = "inspect"
    """Reads only."""
    MODIFY = "modify"
    """Changes files through a tool that can show the change."""
    EXECUTE = "execute"
    """Can do anything that the user can."""
    UNKNOWN = "unknown"
    """Not declared, as with tools of an MCP server. Treated like `EXECUTE`."""


class TargetKind(StrEnum):
    """What a target is, which defines how rules match it."""

    TEXT = "text"
    """Any text, compared unchanged."""
    PATH = "path"
    """A file or folder, resolved before it is compared."""
    COMMAND = "command"
    """A shell command line, parsed; every command in it is checked."""
    ADDRESS = "address"
    """A URL, compared by its host."""


class PermissionMode(StrEnum):
    """How much runs without a question to the user."""

    PLAN = "plan"
    DEFAULT = "default"
    ACCEPT_EDITS = "acceptEdits"
    BYPASS = "bypassPermissions"


class Access(Struct, frozen=True, kw_only=True):
    """What one tool call would access."""

    tool: str
    risk: Risk
    target: str = ""
    """The argument that rules match: a command line, a path, a URL."""
    kind: TargetKind = TargetKind.TEXT
    further: tuple[str, ...] = ()
    """More targets of the same kind. All must be allowed; one denied target denies the call."""
    call_id: str = ""
    """The id of the call, for questions to the user; rules ignore it."""
    arguments: dict[str, Any] = {}
    """The arguments of the call after changes by hooks; rules ignore them."""
    server: str = ""
    """What the names of a server's tools begin with, such as `mcp__git__`, for a call that reads
    from it: rules that deny or ask about the whole server match too."""
    start: str = ""
    """The folder in which a command starts; empty for the working directory."""
    restores_secrets: bool = False
    """True when the tool itself replaces redaction marks in its arguments; rules ignore it."""
    question: str = ""
    """Why the user must be asked, whatever the mode allows; the tool gets the answer."""
    session_choice: str = ""
    """What `Approval.SESSION` means as the answer to that question."""

    @property
    def targets(self) -> tuple[str, ...]:
        """All targets of the call."""
        return (self.target, *self.further)


class Verdict(StrEnum):
    """Whether a call may run."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class DecidedBy(StrEnum):
    """Who or what decided about a call."""

    RULE = "rule"
    MODE = "mode"
    """The permission mode, because no rule matches or a line is uncertain."""
    HOOK = "hook"
    ANSWER = "answer"
    """The user was asked; a request that no one can answer is denied."""
    GRANT = "grant"
    """An earlier answer, for the rest of the session."""


class Approval(StrEnum):
    """The user's answer to a question about a call."""

    NO = "no"
    ONCE = "once"
    SESSION = "session"
    """This call and others of the same shape, until the session ends."""
    PROJECT = "project"
    """This call and others of the same shape, in every session of this project."""


class PermissionAnswer(Struct, frozen=True, kw_only=True):
    """An answer with a message for the model, such as what to do instead."""

    approval: Approval
    reply: str = ""


class Decision(Struct, frozen=True):
    """A verdict and the sentence that explains it."""

    verdict: Verdict
    reason: str
    by: DecidedBy = DecidedBy.MODE
    question: str = ""
    """Why the user was asked; empty if the user was not."""
    asked_by_rule: bool = False
    """True when an ask rule matches: then only a grant for exactly this call ends the asking."""
    session_scope: str = ""
    """In a question: the calls that an approval for the session covers, as `Write in src/`."""
    project_rules: tuple[str, ...] = ()
    """In a question: the allow rules that an approval for the project adds, none if it cannot."""
    answer: PermissionAnswer | None = None
    """The user's answer to a question that the tool itself asks (`Access.question`), or a no."""
    remember: tuple[str, ...] = ()
    """Rules to store in the project's settings, because the user approved for the project."""


class PermissionRecord(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What the journal keeps of a decision about a tool call."""

    verdict: Verdict
    by: DecidedBy
    reason: str
    question: str = ""
    sandboxed: bool | None = None
    """Whether its command ran in a sandbox; None if it ran no command."""


class DeniedPaths(Struct, frozen=True, kw_only=True):
    """Existing files and folders that deny rules forbid, for a sandbox to protect."""

    hidden: tuple[str, ...] = ()
    """Neither read nor written; a folder with everything in it."""
    read_only: tuple[str, ...] = ()
    """Read, but not written."""
    uncovered: tuple[str, ...] = ()
    """Rules whose files could not all be found: there are too many folders to search."""
