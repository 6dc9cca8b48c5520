"""`clew doctor` for git worktrees: which ones agents left behind, and what to do about each.

Durable agents keep snapshots of their worktrees in the store. A worker that dies may leave some
that no agent has.
"""

import shlex
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio

from clew.core.errors import ConfigError, StoreError
from clew.core.text import one_line
from clew.runtime.worktree_cleanup import LeftWorktree, list_left, remove_clean
from clew.runtime.worktrees import GitWorktrees
from clew.sdk.folders import Homes
from clew.sdk.session_store import project_address
from clew.sdk.system_checks import Finding, Level, Machine
from clew.stores import open_store
from clew.stores.task_protocol import TaskStore
from clew.stores.worktree_snapshot import StoredBlob

_NAME = "worktrees"
_LABEL = 60


def check_worktrees(machine: Machine) -> Iterator[Finding]:
    """List the worktrees of agents in this project."""
    worktrees = _find_worktrees(machine)
    if worktrees.records.list():
        for left in anyio.run(list_left, worktrees):
            yield _describe(left)
    if unused := _find_unused_blobs(machine, delete=False):
        yield Finding(
            name=_NAME,
            level=Level.NOTE,
            text=f"the store has {_describe_blobs(unused)} of snapshots that no agent has",
            remedy="clew doctor --clean-worktrees",
        )


def clean_worktrees(machine: Machine) -> Iterator[Finding]:
    """Remove worktrees without work and snapshots without an agent, and say why others stay."""
    removed, kept = anyio.run(remove_clean, _find_worktrees(machine))
    for left in removed:
        text = f"removed {left.worktree.path} with its branch {left.worktree.branch}"
        yield Finding(name=_NAME, level=Level.OK, text=text)
    unused = _find_unused_blobs(machine, delete=True)
    if unused:
        text = f"removed {_describe_blobs(unused)} of snapshots that no agent has"
        yield Finding(name=_NAME, level=Level.OK, text=text)
    for left in kept:
        yield _describe(left)
    if not removed and not unused:
        yield Finding(name=_NAME, level=Level.OK, text="there is nothing to remove")


def _find_worktrees(machine: Machine) -> GitWorktrees:
    homes = Homes(user=machine.user_home, clew=machine.clew_home)
    return GitWorktrees(homes.project(machine.cwd) / "worktrees")


def _find_unused_blobs(machine: Machine, *, delete: bool) -> list[StoredBlob]:
    """Return the parts of snapshots in the store of the project that no agent has."""
    homes = {"CLEW_HOME": str(machine.clew_home)}
    address = project_address(machine.cwd, {**machine.environ, **homes})
    if "://" not in address and not Path(address).expanduser().exists():
        return []

    async def find() -> list[StoredBlob]:
        store = open_store(address)
        try:
            tasks: TaskStore | None = getattr(store, "tasks", None)
            return [] if tasks is None else await tasks.find_unused_blobs(delete=delete)
        except StoreError:
            # `check_store` says what is wrong with it.
            return []
        finally:
            await store.aclose()

    try:
        return anyio.run(find)
    except ConfigError:
        return []


def _describe_blobs(blobs: Sequence[StoredBlob]) -> str:
    count = "one part" if len(blobs) == 1 else f"{len(blobs)} parts"
    return f"{count} ({sum(blob.size for blob in blobs) / 1e6:.1f} MB)"


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
