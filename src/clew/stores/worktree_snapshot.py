"""A snapshot of a worktree as a store keeps it: a description, which names the blobs that it needs.

The description is a blob too, and a task names it. So a store knows which blobs are in use.
"""

import msgspec
from msgspec import Struct

from clew.core.json_text import decode_json


class WorktreeSnapshot(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A description of a worktree, as it is stored; encodes to JSON."""

    commit: str
    """Has the files; its parents are the three commits below."""
    head: str
    """The commit that was checked out."""
    branch: str
    """The tip of the worktree's branch; empty if there was none."""
    index: str = ""
    """A commit with the staged files; empty if they are those of `head`."""
    base: str
    """The commit that the task started from."""
    on_branch: bool = True
    """False when something else than its branch was checked out."""
    bundles: tuple[str, ...] = ()
    """The blobs to read, in this order."""
    left_out: tuple[str, ...] = ()
    """Paths with changes that a snapshot cannot have: repositories inside of the worktree."""
    operation: str = ""
    """What was in progress, such as `a merge`; it is not restored."""


class StoredBlob(Struct, frozen=True, kw_only=True):
    """A blob in a list."""

    name: str
    size: int
    """In bytes."""


BLOB_GRACE = 3_600.0
"""Seconds for which a new blob may be in no snapshot yet: its worker is about to name it."""


def list_blobs(name: str, description: bytes | None) -> set[str]:
    """Return the blobs of a snapshot: its description, and those that it names.

    Args:
        name: The name of the description.
        description: Its bytes; None if the store does not have it.
    """
    if not name or description is None:
        return set()
    try:
        return {name, *decode_json(description, type=WorktreeSnapshot).bundles}
    except msgspec.DecodeError:
        return {name}
