"""Git worktrees for tasks: make one, look whether it has work in it, remove it.

A worktree has a folder in Clew's folder of the project, outside of the user's files, and a branch
`clew/<task>-<8 hex digits>` from the commit that is checked out. Uncommitted changes of the user
are not in it.
"""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex

from anyio import CancelScope
from msgspec.structs import replace

from clew.core.tasks import TaskErrorCategory
from clew.runtime.git import Git, describe_failure, make_git_error
from clew.runtime.protocol import TaskRequest
from clew.runtime.worktree_records import Worktree, WorktreeRecords, find_parent_folder, find_user
from clew.runtime.worktree_status import (
    WorktreeStatus,
    find_branch,
    inspect_worktree,
    list_changes,
    open_repository,
    open_worktree,
    split_status,
)
from clew.stores.leases import current_holder

_TRIES = 5


class GitWorktrees:
    """Makes, inspects and removes the worktrees of one project."""

    def __init__(
        self,
        folder: Path,
        *,
        make_suffix: Callable[[], str] = lambda: token_hex(4),
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Keep the worktrees and their records in `folder`, which may not exist yet."""
        self.folder = Path(os.path.realpath(folder))
        self.records = WorktreeRecords(self.folder)
        self._make_suffix = make_suffix
        self._clock = clock

    async def prepare(self, task_id: str, request: TaskRequest) -> Worktree:
        """Make a worktree for a task, or return the one that was kept for it.

        Raises:
            BackgroundTaskError: The working folder is in no repository, in a bare one or in one
                without commits, or git failed. Nothing is left behind.
        """
        kept = self.find_free(task_id)
        if kept is not None:
            return self.take_over(kept)
        return await self.create(task_id, _leave_deleted(self.folder, request))

    async def create(
        self, task_id: str, request: TaskRequest, *, base: str = "", start: str = ""
    ) -> Worktree:
        """Make a worktree for a task.

        Args:
            task_id: The task.
            request: Its request; `cwd` is in the repository.
            base: What later commits are counted from; by default, the commit that is checked out.
            start: The commit to check out; `base` by default.

        Raises:
            BackgroundTaskError: As `prepare`.
        """
        git = await Git.open(Path(request.cwd))
        top, prefix = await _find_place(git)
        await self._check_place(git, top)
        head = base or await _find_commit(git)
        common = (await git.run("rev-parse", "--path-format=absolute", "--git-common-dir")).line
        status = await git.run("status", "--porcelain", "-z", "--ignore-submodules=dirty")
        plan = Worktree(
            name="",
            task_id=task_id,
            path="",
            branch="",
            base=head,
            repository=common,
            folder=prefix,
            parent=request.cwd,
            parent_changes=0 if base else len(split_status(status.out)),
            session_id=request.session_id,
            label=request.label or request.prompt.partition("\n")[0][:80],
            holder=current_holder(),
            created_at=self._clock(),
        )
        return await self._add(git, await self._choose_name(git, plan), start or head)

    def find_free(self, task_id: str) -> Worktree | None:
        """Return the newest worktree of a task, unless another process uses it."""
        kept = self.records.find(task_id)
        if kept is None or not kept.exists:
            return None
        is_mine = kept.holder is not None and kept.holder.process == current_holder().process
        return kept if is_mine or not find_user(kept) else None

    def take_over(self, kept: Worktree) -> Worktree:
        """Become the process that uses a worktree."""
        taken = replace(kept, holder=current_holder())
        self.records.save(taken)
        taken.make_folder()
        return taken

    async def adopt(self, worktree: Worktree, path: Path) -> Worktree:
        """Return the worktree that a hook made in place of `worktree`, which is discarded.

        Only the hook removes it. What it has is compared with its state now.
        """
        await self.discard(worktree)
        git = await Git.open(path)
        head = await git.run("rev-parse", "--verify", "--quiet", "HEAD", check=False)
        branch = await git.run("symbolic-ref", "--quiet", "--short", "HEAD", check=False)
        return replace(
            worktree,
            name=path.name,
            path=str(path),
            folder=str(path),
            branch=branch.line,
            base=head.line,
            git_dir="",
            is_foreign=True,
        )

    async def inspect(self, worktree: Worktree) -> WorktreeStatus:
        """Find out what would be lost with a worktree; a failure is part of the answer."""
        return await inspect_worktree(worktree)

    async def remove(self, worktree: Worktree) -> None:
        """Remove a clean worktree, its branch, its snapshots and its record.

        Looks once more for changes that appeared since the inspection.

        Raises:
            BackgroundTaskError: There is work in it, or git refuses; everything is kept.
        """
        git = await open_repository(worktree)
        tip = await find_branch(git, worktree)
        if worktree.exists:
            found = await list_changes(await open_worktree(worktree), Path(worktree.path))
            if found.paths or found.operation:
                raise make_git_error("it has changed since it was inspected")
            # Without force, git itself looks for changes, with filters that only the settings of
            # the worktree name.
            await git.run("worktree", "remove", "--force", worktree.path)
        else:
            # Not `prune`, which would forget the user's worktrees on disks that are not mounted.
            await git.run("worktree", "remove", worktree.path, check=False)
        if tip:
            # Only if it is still where it was.
            await git.run("update-ref", "-d", f"refs/heads/{worktree.branch}", tip, check=False)
        await git.run("update-ref", "-d", snapshot_ref(worktree.task_id), check=False)
        self.records.delete(worktree)

    def release(self, worktree: Worktree) -> None:
        """Note that the task has ended, and its worktree is kept."""
        if not worktree.is_foreign:
            self.records.save(replace(worktree, holder=None))

    async def discard(self, worktree: Worktree, start: str = "") -> None:
        """Remove a worktree that no task has used, whatever is in it."""
        git = await open_repository(worktree)
        await git.run("worktree", "remove", "--force", worktree.path, check=False)
        branch = f"refs/heads/{worktree.branch}"
        await git.run("update-ref", "-d", branch, start or worktree.base, check=False)
        self.records.delete(worktree)

    async def _check_place(self, git: Git, top: str) -> None:
        if not self.folder.is_relative_to(top):
            return
        ignored = await git.run("check-ignore", "-q", str(self.folder), check=False)
        if ignored.code:
            raise make_git_error(
                f"{self.folder}, the folder for worktrees, is in the work tree, and git"
                " does not ignore it; add it to .gitignore, or set CLEW_HOME to a folder elsewhere",
                TaskErrorCategory.VALIDATION,
            )

    async def _choose_name(self, git: Git, plan: Worktree) -> Worktree:
        """Return a plan with a name that is free; its `folder` is relative to the worktree."""
        for _ in range(_TRIES):
            name = f"{_simplify(plan.task_id)}-{self._make_suffix()}"
            path = self.folder / name
            worktree = replace(
                plan,
                name=name,
                path=str(path),
                branch=f"clew/{name}",
                folder=str(path / plan.folder),
            )
            if not worktree.exists and not await find_branch(git, worktree):
                return worktree
        raise make_git_error(f"no free name for the worktree in {_TRIES} attempts")

    async def _add(self, git: Git, worktree: Worktree, start: str) -> Worktree:
        try:
            self.records.save(worktree)
        except (OSError, UnicodeEncodeError) as error:
            raise make_git_error(f"cannot use {self.folder} for worktrees: {error}") from error
        made = False
        try:
            added = ("--no-track", "--no-checkout", "-b", worktree.branch, worktree.path, start)
            done = await git.run("worktree", "add", *added, check=False)
            if done.code:
                raise make_git_error(f"git cannot make a worktree: {describe_failure(done)}")
            # Settings may name filters for this folder or branch only, so it is opened anew.
            there = await Git.open(Path(worktree.path))
            done = await there.run("reset", "--hard", "--quiet", check=False)
            if done.code:
                raise make_git_error(f"git cannot make a worktree: {describe_failure(done)}")
            own = (await there.run("rev-parse", "--absolute-git-dir")).line
            worktree = replace(worktree, git_dir=own)
            self.records.save(worktree)
            worktree.make_folder()
            made = True
        finally:
            if not made:
                with CancelScope(shield=True):
                    await self.discard(worktree, start)
        return worktree


def _leave_deleted(records: Path, request: TaskRequest) -> TaskRequest:
    """Return a request whose folder exists, where the user deleted the worktree it was in."""
    folder = Path(request.cwd)
    if folder.is_dir():
        return request
    return replace(request, cwd=str(find_parent_folder(records, folder)))


async def _find_place(git: Git) -> tuple[str, str]:
    """Return the top of the work tree, and where git's folder is in it."""
    kind = await git.run("rev-parse", "--is-bare-repository", "--is-inside-work-tree", check=False)
    if kind.code:
        why = describe_failure(kind)
        found = "is in no git repository" if "not a git repository" in why else f"fails: {why}"
        raise make_git_error(
            f"a worktree needs a git repository, but {git.folder} {found}; run the agent without"
            " isolation, or run `git init` and commit",
            TaskErrorCategory.VALIDATION,
        )
    bare, inside = kind.line.split()
    if bare == "true" or inside != "true":
        what = "is a bare git repository" if bare == "true" else "is in git's own folder"
        raise make_git_error(
            f"{git.folder} {what}; start in a work tree of it", TaskErrorCategory.VALIDATION
        )
    top = (await git.run("rev-parse", "--show-toplevel")).line
    return top, (await git.run("rev-parse", "--show-prefix")).line


async def _find_commit(git: Git) -> str:
    head = await git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}", check=False)
    if head.code:
        raise make_git_error(
            f"the repository in {git.folder} has no commits yet, so there is nothing to make a"
            " worktree of; commit something first",
            TaskErrorCategory.VALIDATION,
        )
    return head.line


def snapshot_ref(task_id: str) -> str:
    """Return the hidden ref with the newest snapshot of a task's worktree."""
    return f"refs/clew/{_simplify(task_id)}"


def _simplify(task_id: str) -> str:
    """Return a task id as a part of the names of folders and branches."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", task_id)[:48].strip("-")
    return name or "task"
