"""What is in a worktree: changes, commits, operations in progress."""

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from clew.core.errors import BackgroundTaskError
from clew.core.text import pluralize
from clew.runtime.git import Git
from clew.runtime.worktree_records import Worktree

_OPERATIONS = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "BISECT_LOG": "a bisection",
}
GITLINK = "160000"


class WorktreeStatus(Struct, frozen=True, kw_only=True):
    """What a worktree has that would be lost with it."""

    exists: bool = True
    changes: int = 0
    """Files that differ from its last commit, and new files that git does not ignore."""
    commits: int = 0
    """Commits since its start, on its branch or where it is now."""
    operation: str = ""
    """What is in progress, such as `a rebase`."""
    problem: str = ""
    """Why it cannot be inspected; then it counts as having work."""
    ignored: tuple[str, ...] = ()
    """Files and folders that git ignores; they do not count as work."""

    @property
    def is_clean(self) -> bool:
        """True when nothing is lost with it but ignored files."""
        return not (self.changes or self.commits or self.operation or self.problem)

    def describe(self) -> str:
        """Return it in words, such as `2 commits, 1 uncommitted change`."""
        parts = [
            pluralize(self.commits, "commit") if self.commits else "",
            pluralize(self.changes, "uncommitted change") if self.changes else "",
            f"{self.operation} in progress" if self.operation else "",
            self.problem,
        ]
        gone = "" if self.exists else "its folder is gone"
        return ", ".join(filter(None, [gone, *parts])) or "no changes"


async def inspect_worktree(worktree: Worktree, *, count_merged: bool = True) -> WorktreeStatus:
    """Find out what would be lost with a worktree; a failure is part of the answer.

    Args:
        worktree: The worktree; its folder may be gone.
        count_merged: Whether commits count that branches of the user have too.
    """
    try:
        if worktree.exists:
            git = await open_worktree(worktree)
            found = await list_changes(git, Path(worktree.path))
            status = WorktreeStatus(
                changes=len(found.paths), operation=found.operation, ignored=found.ignored
            )
        else:
            git, status = await open_repository(worktree), WorktreeStatus(exists=False)
        commits = await _count_commits(git, worktree, count_merged=count_merged)
        return replace(status, commits=commits)
    except (BackgroundTaskError, OSError) as error:
        return WorktreeStatus(problem=f"it cannot be inspected: {error}")


class WorktreeChanges(Struct, frozen=True, kw_only=True):
    """The files of a worktree that differ from its last commit."""

    paths: tuple[str, ...]
    """Sorted; a repository inside of the worktree ends with `/`."""
    ignored: tuple[str, ...]
    operation: str


async def list_changes(git: Git, top: Path) -> WorktreeChanges:
    """Find the changes in a worktree, including those that `git status` is configured to hide."""
    listed = await git.run(
        *("status", "--porcelain", "-z", "--untracked-files=all", "--ignored=traditional"),
        *("--ignore-submodules=dirty", "--no-renames"),
    )
    status = split_status(listed.out)
    changed = {path for code, path in status if code != "!!"}
    files = await git.run("ls-files", "--stage", "-v", "-z")
    changed |= _find_hidden_changes(files.out, top)
    return WorktreeChanges(
        paths=tuple(sorted(changed)),
        ignored=tuple(path for code, path in status if code == "!!"),
        operation=_find_operation(Path(git.env["GIT_DIR"])),
    )


async def open_repository(worktree: Worktree) -> Git:
    """Open git for the repository of a worktree.

    Raises:
        BackgroundTaskError: It is gone.
    """
    return await Git.open(Path(worktree.repository), {"GIT_DIR": worktree.repository})


async def open_worktree(worktree: Worktree) -> Git:
    """Open git for a worktree, whatever a task has written into its `.git` file."""
    own = worktree.git_dir
    if not own:
        found = await (await Git.open(Path(worktree.path))).run("rev-parse", "--absolute-git-dir")
        own = found.line
    return await Git.open(Path(worktree.path), {"GIT_DIR": own, "GIT_WORK_TREE": worktree.path})


async def find_branch(git: Git, worktree: Worktree) -> str:
    """Return the commit of a worktree's branch; empty without the branch."""
    name = f"refs/heads/{worktree.branch}"
    return (await git.run("rev-parse", "--verify", "--quiet", name, check=False)).line


async def _count_commits(git: Git, worktree: Worktree, *, count_merged: bool) -> int:
    branch = f"refs/heads/{worktree.branch}"
    tips = [
        *(["HEAD"] if worktree.exists else []),
        *([branch] if await find_branch(git, worktree) else []),
    ]
    if not tips:
        return 0
    # Branches of other agents do not count, because they may be removed too.
    known = [] if count_merged else ["--exclude=clew/*", "--branches", "--remotes", "--tags"]
    counted = await git.run("rev-list", "--count", *tips, "--not", worktree.base, *known)
    return int(counted.line)


def _find_hidden_changes(files: bytes, top: Path) -> set[str]:
    """Return files whose changes git does not show: marked as unchanged, or in submodules."""
    found = set()
    for entry in files.split(b"\0"):
        facts, _, path = os.fsdecode(entry).partition("\t")
        flag, _, mode = facts.partition(" ")
        is_hidden = flag.islower() or (flag == "S" and os.path.lexists(top / path))
        is_submodule = mode.startswith(GITLINK) and os.path.lexists(top / path / ".git")
        if is_hidden or is_submodule:
            found.add(path)
    return found


def _find_operation(git_dir: Path) -> str:
    return next((text for name, text in _OPERATIONS.items() if (git_dir / name).exists()), "")


def split_status(out: bytes) -> list[tuple[str, str]]:
    """Return code and path of each entry of `git status --porcelain -z`."""
    return list(_iter_status(out))


def _iter_status(out: bytes) -> Iterator[tuple[str, str]]:
    entries = iter(os.fsdecode(entry) for entry in out.split(b"\0") if entry)
    for entry in entries:
        if "R" in entry[:2] or "C" in entry[:2]:
            next(entries, "")  # the path before it was renamed
        yield entry[:2], entry[3:]
