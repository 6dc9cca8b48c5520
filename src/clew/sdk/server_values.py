"""What a server says about sessions as a whole, and what it is asked: values for JSON."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from clew.core.ids import EntryId, SessionId
from clew.core.permissions import PermissionMode

BASE = "/api/v1"
"""Where the routes of a server begin."""
TOKEN_FILE = "server.token"  # noqa: S105 - the name of a file
"""The token of the server of this machine, in the user's folder."""


class SessionSummary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session in a list."""

    id: SessionId
    cwd: str
    created_at: float
    updated_at: float
    name: str = ""
    title: str = ""
    """The user's first words."""
    last_words: str = ""
    """The newest words of the user or the model."""
    model: str = ""
    parent: SessionId | None = None
    """The session that it was forked from."""
    entries: int = 0
    messages: int = 0
    is_open: bool = False
    """The server has it open."""
    executing: bool = False
    questions: int = 0
    """Permission requests that wait for an answer."""

    @property
    def heading(self) -> str:
        """The name of the session, or else its first words."""
        return self.name or self.title


class SessionPage(Struct, frozen=True, kw_only=True):
    """A page of the list of sessions."""

    sessions: tuple[SessionSummary, ...]
    next: SessionId | None
    """Pass it as `after` to get the next page; null on the last page."""


class FoundSession(Struct, frozen=True, kw_only=True):
    """A session that a search found."""

    session: SessionSummary
    entry_id: EntryId | None
    """The newest entry that matches; null when only the name does."""
    matches: int
    excerpt: str


class SessionRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session to create; what is left out is as `clew serve` was started."""

    cwd: str = ""
    """The folder; relative to the one that is served."""
    model: str = ""
    name: str = ""
    permission_mode: PermissionMode | None = None
    language: str = ""
    effort: Literal["", "low", "medium", "high"] = ""
    agent: str = ""
    """Be this agent of the project instead of the usual assistant."""
    append_system_prompt: str = ""
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    max_turns: Annotated[int, Meta(ge=1)] | None = None
    budget_usd: Annotated[float, Meta(gt=0)] | None = None


class ForkSession(Struct, frozen=True, kw_only=True):
    """How a session is copied."""

    at: Annotated[EntryId, Meta(ge=1)] | None = None
    """The last entry to copy; by default all."""
    name: str = ""
