"""Records of worktrees: one JSON file beside each, so that a crash leaves none unknown.

The record is written before the worktree is made and deleted after it is removed. It names the
process that uses the worktree, so others can tell whether its task is still alive.
"""

import os
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from clew.core.ids import SessionId
from clew.core.json_text import decode_json
from clew.files.atomic import replace_file
from clew.stores.leases import LeaseHolder, current_holder, has_restarted, is_dead


class Worktree(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A worktree that Clew made for a task; encodes to JSON."""

    name: str
    """The task and 8 random digits: the name of its folder, and of its branch after `clew/`."""
    task_id: str
    path: str
    branch: str
    base: str
    """The commit that it started from."""
    repository: str
    """The folder of git that all worktrees of the repository share."""
    git_dir: str = ""
    """The folder of git for this worktree; empty until it exists."""
    folder: str
    """Where the task works: the folder in the worktree that its own working folder maps to."""
    parent: str
    """The working folder of the task's session."""
    parent_changes: int = 0
    """Uncommitted changes in the parent's work tree, which the worktree does not have."""
    session_id: SessionId = SessionId("")
    label: str = ""
    holder: LeaseHolder | None = None
    """The process that uses it; None when its task has ended."""
    created_at: float = 0.0
    is_foreign: bool = False
    """True for a worktree that a hook made; only a hook removes it."""

    @property
    def exists(self) -> bool:
        """True when there is something at its path."""
        return os.path.lexists(self.path)

    def make_folder(self) -> None:
        """Make the folder for the task, if the commit has no files in it."""
        Path(self.folder).mkdir(parents=True, exist_ok=True)


class WorktreeRecords:
    """The records in one folder of worktrees."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, worktree: Worktree) -> None:
        """Write a record.

        Raises:
            OSError: It cannot be written.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(self._file(worktree), msgspec.json.encode(worktree), mode=0o600)

    def delete(self, worktree: Worktree) -> None:
        """Delete a record, if it is there."""
        self._file(worktree).unlink(missing_ok=True)

    def list(self) -> list[Worktree]:
        """Return all records, the oldest first; files that are not records are left out."""
        found = []
        for file in self.folder.glob("*.json"):
            with suppress(OSError, msgspec.DecodeError):
                found.append(decode_json(file.read_bytes(), type=Worktree))
        return sorted(found, key=lambda worktree: (worktree.created_at, worktree.name))

    def find(self, task_id: str) -> Worktree | None:
        """Return the newest worktree of a task."""
        return next((one for one in reversed(self.list()) if one.task_id == task_id), None)

    def _file(self, worktree: Worktree) -> Path:
        return self.folder / f"{worktree.name}.json"


def find_user(worktree: Worktree) -> str:
    """Return which process uses a worktree now, in words; empty when none does."""
    holder, me = worktree.holder, current_holder()
    if holder is None:
        return ""
    if has_restarted(holder, me=me) or is_dead(holder, me=me, silent=0.0):
        return ""
    where = "" if holder.machine == me.machine else f" on {holder.host}"
    return f"process {holder.pid}{where}"


def find_parent_folder(records: Path, folder: Path) -> Path:
    """Return the folder of the project that a folder in a worktree maps to, or that folder itself.

    Args:
        records: Where the worktrees and their records are.
        folder: The folder, of any worktree or of none.
    """
    place = Path(os.path.realpath(folder))
    for worktree in WorktreeRecords(records).list():
        if place.is_relative_to(worktree.folder):
            return Path(worktree.parent) / place.relative_to(worktree.folder)
    return folder
