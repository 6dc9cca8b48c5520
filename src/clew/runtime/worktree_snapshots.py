"""Snapshots of worktrees: move the work of a task, committed or not, to another machine.

A snapshot is a commit behind a hidden ref, `refs/clew/<task>`. Its tree has every file as it is
on disk, new files too; files that git ignores are not in it. The index, `HEAD` and the branches
are not touched. The store keeps it as a small description and git bundles, each with only what
the bundle before or the repository itself does not have. Both are named by their content.

Restoring makes a worktree with the same commits and the same uncommitted changes, staged or not.
Git's file modes are kept (programs, links), an operation in progress such as a merge is not.
"""

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec.structs import replace

from clew.core.json_text import decode_json
from clew.runtime.git import Git, make_git_error
from clew.runtime.git_bundle import make_bundle, read_bundle
from clew.runtime.protocol import TaskRequest
from clew.runtime.worktree_files import (
    encode_commit,
    parse_blobs,
    parse_differences,
    read_changes,
    write_files,
)
from clew.runtime.worktree_records import Worktree
from clew.runtime.worktree_status import find_branch, list_changes, open_worktree
from clew.runtime.worktrees import GitWorktrees, snapshot_ref
from clew.stores.worktree_snapshot import WorktreeSnapshot

SNAPSHOT_LIMIT = 64_000_000
"""How many bytes a snapshot may add: more belongs into `.gitignore`, or into a remote."""
_MAX_BUNDLES = 16
"""Bundles that build on each other; then one with everything starts anew."""


class Blobs(Protocol):
    """Keeps bytes under the name of their content; a `TaskStore` is one."""

    async def put_blob(self, data: bytes) -> str:
        """Store bytes and return their name."""
        ...

    async def get_blob(self, name: str) -> bytes | None:
        """Return stored bytes."""
        ...


class WorktreeSnapshots:
    """Saves and restores the worktrees of one project."""

    def __init__(
        self, worktrees: GitWorktrees, blobs: Blobs, *, limit: int = SNAPSHOT_LIMIT
    ) -> None:
        self._worktrees = worktrees
        self._blobs = blobs
        self._limit = limit

    async def save(self, worktree: Worktree, previous: str = "") -> str:
        """Store the state of a worktree.

        Args:
            worktree: The worktree; nothing in it is changed.
            previous: The name of the snapshot before, so that only what is new is stored.

        Returns:
            The name of the snapshot: `previous` if nothing has changed since.

        Raises:
            BackgroundTaskError: It has more than `limit` new bytes (category `capacity`), or git
                failed.
        """
        git = await open_worktree(worktree)
        before = await self._read(previous) if previous else None
        made = await self._commit(git, worktree)
        if before is not None and replace(before, bundles=()) == made:
            return previous
        if before is not None and not await _can_extend(git, before):
            before = None
        name = await self._blobs.put_blob(
            await make_bundle(
                git,
                made.commit,
                since=[before.commit] if before else await _find_common(git, made),
                ref=snapshot_ref(worktree.task_id),
                limit=self._limit,
            )
        )
        earlier = before.bundles if before else ()
        made = replace(made, bundles=(*earlier, name))
        return await self._blobs.put_blob(msgspec.json.encode(made))

    async def restore(self, name: str, task_id: str, request: TaskRequest) -> Worktree:
        """Return a worktree with the state of a snapshot.

        A worktree of the task on this machine is used as it is if it was the last to be saved:
        it may have changes that came after the snapshot. Otherwise a new one is made.

        Args:
            name: The snapshot.
            task_id: The task.
            request: Its request, with a `cwd` on this machine.

        Raises:
            BackgroundTaskError: The snapshot or a commit that it builds on is missing here.
        """
        snapshot = await self._read(name)
        kept = self._worktrees.find_free(task_id)
        git = await Git.open(Path(request.cwd))
        newest = await git.run(
            "rev-parse", "--verify", "--quiet", snapshot_ref(task_id), check=False
        )
        if kept is not None and newest.line == snapshot.commit:
            return self._worktrees.take_over(kept)
        await self._fetch(git, snapshot, snapshot_ref(task_id))
        worktree = await self._worktrees.create(
            task_id, request, base=snapshot.base, start=snapshot.branch or snapshot.head
        )
        await _fill(worktree, snapshot)
        return worktree

    async def _read(self, name: str) -> WorktreeSnapshot:
        data = await self._blobs.get_blob(name)
        if data is None:
            raise make_git_error(f"the snapshot {name[:12]} is not in the store")
        return decode_json(data, type=WorktreeSnapshot)

    async def _commit(self, git: Git, worktree: Worktree) -> WorktreeSnapshot:
        """Commit all files behind the hidden ref; returns a description without bundles."""
        top = Path(worktree.path)
        found = await list_changes(git, top)
        changes = read_changes(top, found.paths, limit=self._limit)
        head = (await git.run("rev-parse", "--verify", "HEAD^{commit}")).line
        branch = await find_branch(git, worktree)
        index = await _commit_index(git, head)
        parents = list(dict.fromkeys(filter(None, [head, index, branch])))
        ref = snapshot_ref(worktree.task_id)
        script = encode_commit(ref, parents, changes.files)
        await git.run("fast-import", "--quiet", "--force", "--date-format=raw", data=script)
        checked_out = await git.run("symbolic-ref", "--quiet", "HEAD", check=False)
        return WorktreeSnapshot(
            commit=(await git.run("rev-parse", ref)).line,
            head=head,
            branch=branch,
            index=index,
            base=worktree.base,
            on_branch=checked_out.line == f"refs/heads/{worktree.branch}",
            left_out=changes.left_out,
            operation=found.operation,
        )

    async def _fetch(self, git: Git, snapshot: WorktreeSnapshot, ref: str) -> None:
        """Bring the commits of a snapshot into the repository."""
        for name in () if await _has(git, snapshot.commit) else snapshot.bundles:
            data = await self._blobs.get_blob(name)
            if data is None:
                raise make_git_error(f"the bundle {name[:12]} of the snapshot is not in the store")
            await read_bundle(git, data)
        await git.run("update-ref", ref, snapshot.commit)


async def _commit_index(git: Git, head: str) -> str:
    """Return a commit with the staged files; empty if they are those of `head`, or in conflict."""
    index = Path(git.env["GIT_DIR"], "index")
    with tempfile.TemporaryDirectory(prefix="clew-index-") as folder:
        copy = Path(folder, "index")
        with suppress(FileNotFoundError):
            shutil.copyfile(index, copy)
        tree = await git.add_variables(GIT_INDEX_FILE=str(copy)).run("write-tree", check=False)
    committed = (await git.run("rev-parse", f"{head}^{{tree}}")).line
    if tree.code or tree.line == committed:
        return ""
    author = git.add_variables(
        **{
            f"GIT_{role}_{what}": value
            for role in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", "Clew"), ("EMAIL", "clew@localhost"), ("DATE", "@1 +0000"))
        }
    )
    return (await author.run("commit-tree", "-p", head, "-m", "staged", tree.line)).line


async def _find_common(git: Git, made: WorktreeSnapshot) -> list[str]:
    """Return commits that a clone on another machine has: those that remotes have.

    Without remotes, this is the commit that the task started from.
    """
    alone = await git.run("rev-list", "--max-count=1", made.base, "--not", "--remotes")
    remotes = await git.run("for-each-ref", "--count=1", "refs/remotes")
    if not alone.out or not remotes.out:
        return [made.base]
    edges = await git.run("rev-list", "--boundary", made.commit, "--not", "--remotes")
    return [line[1:] for line in edges.line.split() if line.startswith("-")]


async def _can_extend(git: Git, before: WorktreeSnapshot) -> bool:
    return len(before.bundles) < _MAX_BUNDLES and await _has(git, before.commit)


async def _has(git: Git, commit: str) -> bool:
    return not (await git.run("cat-file", "-e", f"{commit}^{{commit}}", check=False)).code


async def _fill(worktree: Worktree, snapshot: WorktreeSnapshot) -> None:
    """Bring a new worktree into the state of a snapshot: commit, files, index."""
    git, top = await open_worktree(worktree), Path(worktree.path)
    if not snapshot.on_branch:
        await git.run("checkout", "--quiet", "--detach", snapshot.head)
    listed = await git.run(
        *("diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index"),
        *(snapshot.head, snapshot.commit),
    )
    changes = parse_differences(listed.out)
    wanted = "".join(f"{change.blob}\n" for change in changes if change.blob)
    blobs = await git.run("cat-file", "--batch", data=wanted.encode())
    write_files(top, changes, parse_blobs(blobs.out))
    if snapshot.index:
        await git.run("read-tree", snapshot.index)
    await git.run("update-index", "-q", "--refresh", check=False)
    worktree.make_folder()
