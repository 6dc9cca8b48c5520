"""What a session and its clients see of checkpoints: limits, summaries, results of a restore.

Most sessions have no checkpoints, so this module imports nothing that only `FileCheckpoints`
needs.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

from clew.core.ids import EntryId

CheckpointCause: TypeAlias = Literal["turn", "rewind"]
ChangeKind: TypeAlias = Literal["created", "changed", "deleted"]


class CheckpointLimits(Struct, frozen=True, kw_only=True):
    """How much space the checkpoints of one session may use."""

    checkpoints: int = 100
    total_bytes: int = 500_000_000
    """All kept contents together, each counted once."""
    file_bytes: int = 64_000_000
    """A larger file is not kept: tools may change it, and the session warns about it."""


DEFAULT_CHECKPOINT_LIMITS = CheckpointLimits()


class CheckpointChange(Struct, frozen=True, kw_only=True):
    """What a checkpoint can restore at one path."""

    path: str
    change: ChangeKind
    added: int | None
    """Lines; None for binary files and folders."""
    removed: int | None
    note: str = ""
    """Why it cannot be restored, if so."""


class CheckpointSummary(Struct, frozen=True, kw_only=True):
    """One checkpoint, as lists show it."""

    number: int
    entry: EntryId
    """Pass it to `Session.rewind` to return to the state before the checkpoint."""
    cause: CheckpointCause
    """A prompt, or an earlier rewind, which can be undone too."""
    at: float
    words: str
    """The first words of the prompt."""
    files: tuple[CheckpointChange, ...]


class FileVersions(Struct, frozen=True, kw_only=True):
    """A file before a session changed it, and now."""

    path: str
    before: bytes | None
    """None if there was no file."""
    after: bytes | None
    """None if there is no file now."""
    note: str = ""
    """Why the contents are not here, if so."""


class SkippedFile(Struct, frozen=True, kw_only=True):
    """One path that a restore did not change, and why."""

    path: str
    why: str
    forceable: bool = False
    """True when a restore with `force` would restore it."""


class RestoreResult(Struct, frozen=True, kw_only=True):
    """What a restore did, path by path."""

    restored: tuple[str, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()
