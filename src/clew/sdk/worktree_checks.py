"""`clew doctor` for git worktrees: which ones agents left behind, and what to do about each."""

import shlex
import time
from collections.abc import Iterator

import anyio

from clew.core.text import one_line
from clew.runtime.worktree_cleanup import LeftWorktree, list_left, remove_clean
from clew.runtime.worktrees import GitWorktrees
from clew.sdk.folders import Homes
from clew.sdk.system_checks import Finding, Level, Machine

_NAME = "worktrees"
_LABEL = 60


def check_worktrees(machine: Machine) -> Iterator[Finding]:
    """List the worktrees of agents in this project."""
    worktrees = _find_worktrees(machine)
    if worktrees.records.list():
        for left in anyio.run(list_left, worktrees):
            yield _describe(left)


def clean_worktrees(machine: Machine) -> Iterator[Finding]:
    """Remove the worktrees that have no work in them, and explain why the others stay."""
    removed, kept = anyio.run(remove_clean, _find_worktrees(machine))
    for left in removed:
        text = f"removed {left.worktree.path} with its branch {left.worktree.branch}"
        yield Finding(name=_NAME, level=Level.OK, text=text)
    for left in kept:
        yield _describe(left)
    if not removed:
        yield Finding(name=_NAME, level=Level.OK, text="there is nothing to remove")


def _find_worktrees(machine: Machine) -> GitWorktrees:
    homes = Homes(user=machine.user_home, clew=machine.clew_home)
    return GitWorktrees(homes.project(machine.cwd) / "worktrees")


def _describe(left: LeftWorktree) -> Finding:
    worktree = left.worktree
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(worktree.created_at))
    who = f"{worktree.task_id} ({one_line(worktree.label, _LABEL)}), since {since}"
    what = f"{worktree.path}: {left.status.describe()}; {who}"
    if left.user:
        return Finding(name=_NAME, level=Level.OK, text=f"{what}, in use by {left.user}")
    return Finding(name=_NAME, level=Level.NOTE, text=f"{what}, ended", remedy=_advise(left))


def _advise(left: LeftWorktree) -> str:
    if left.is_removable:
        return "clew doctor --clean-worktrees"
    path, branch = shlex.quote(left.worktree.path), shlex.quote(left.worktree.branch)
    if not left.status.exists:
        return f"merge it with `git merge {branch}`, or delete it with `git branch -D {branch}`"
    return (
        f"look at it with `git -C {path} status`, commit, and merge {branch};"
        f" or delete it with `git worktree remove --force {path} && git branch -D {branch}`"
    )
