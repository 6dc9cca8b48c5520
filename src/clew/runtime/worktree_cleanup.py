"""Worktrees that tasks left behind: list them, and remove those without work in them."""

from msgspec import Struct

from clew.core.errors import BackgroundTaskError
from clew.runtime.worktree_records import Worktree, find_user
from clew.runtime.worktree_status import WorktreeStatus, inspect_worktree
from clew.runtime.worktrees import GitWorktrees


class LeftWorktree(Struct, frozen=True, kw_only=True):
    """A worktree that exists now, or the branch that is left of it."""

    worktree: Worktree
    status: WorktreeStatus
    """Commits that a branch of the user or a remote has too do not count: they are merged."""
    user: str
    """The process that uses it, in words; empty when its task has ended."""

    @property
    def is_removable(self) -> bool:
        """True when it is unused and nothing is lost with it."""
        return not self.user and self.status.is_clean


async def list_left(worktrees: GitWorktrees) -> list[LeftWorktree]:
    """Return the worktrees of a project, the oldest first."""
    return [
        LeftWorktree(
            worktree=worktree,
            status=await inspect_worktree(worktree, count_merged=False),
            user=find_user(worktree),
        )
        for worktree in worktrees.records.list()
    ]


async def remove_clean(worktrees: GitWorktrees) -> tuple[list[LeftWorktree], list[LeftWorktree]]:
    """Remove the worktrees that are unused and have no work in them.

    Returns:
        Those that were removed, and all others.
    """
    removed, kept = [], []
    for left in await list_left(worktrees):
        try:
            if not left.is_removable:
                kept.append(left)
                continue
            await worktrees.remove(left.worktree)
            removed.append(left)
        except BackgroundTaskError as error:
            status = WorktreeStatus(problem=f"it cannot be removed: {error}")
            kept.append(LeftWorktree(worktree=left.worktree, status=status, user=""))
    return removed, kept
