"""What a session and its client get to see of checkpoints.

Most sessions keep no files, so nothing is imported here that only the keeping needs.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from clew.core.ids import EntryId

Cause: TypeAlias = Literal["turn", "rewind"]
Change: TypeAlias = Literal["created", "changed", "deleted"]


class Limits(Struct, frozen=True, kw_only=True):
    """What the checkpoints of one session may take."""

    checkpoints: int = 100
    total_bytes: int = 500_000_000
    """All kept contents together, each counted once."""
    file_bytes: int = 64_000_000
    """A larger file is not kept; whoever changes it is not stopped, but told."""


DEFAULT_LIMITS = Limits()


class FileChange(Struct, frozen=True, kw_only=True):
    """What a checkpoint would take back at one path."""

    path: str
    change: Change
    added: int | None
    """Lines; None for what has none, such as a picture."""
    removed: int | None
    note: str = ""
    """Why it cannot be restored, if so."""


class Summary(Struct, frozen=True, kw_only=True):
    """One checkpoint."""

    number: int
    entry: EntryId
    """What to give to `Session.rewind` to get to the state before it."""
    cause: Cause
    """A prompt, or an earlier rewind, which can be taken back too."""
    at: float
    words: str
    """The first words of the prompt."""
    files: tuple[FileChange, ...]


class Skipped(Struct, frozen=True, kw_only=True):
    """One path that stays as it is, and why."""

    path: str
    why: str
    forceable: bool = False
    """True when a restore that is forced would restore it."""


class Restored(Struct, frozen=True, kw_only=True):
    """What a restore did, path by path."""

    restored: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
