"""Git bundles: the commits that another repository lacks, as bytes.

The bytes depend only on the commits and on what the other side has, so the same work has the same
name in a store. `git fetch FILE` reads them too.
"""

from collections.abc import Sequence

from clew.core.errors import BackgroundTaskError
from clew.core.tasks import TaskErrorCategory
from clew.runtime.git import Git, make_git_error

_SHA1_DIGITS = 40
_MAGIC = b"# v"


async def make_bundle(
    git: Git, commit: str, *, since: Sequence[str], ref: str, limit: int
) -> bytes:
    """Return a bundle with a commit and all that it needs beyond other commits.

    Args:
        git: The repository.
        commit: What to bundle.
        since: Commits that the other side has.
        ref: The name of the commit in the bundle.
        limit: How many bytes it may have.

    Raises:
        BackgroundTaskError: It would be longer than `limit` (category `capacity`).
    """
    # Git looks into the trees of ancestors only, and a commit before need not be one.
    known = [f"^{one}{tree}" for one in since for tree in ("", "^{tree}")]
    revisions = "".join(f"{line}\n" for line in [commit, *known])
    try:
        pack = await git.run(
            *("pack-objects", "-q", "--revs", "--thin", "--stdout", "--delta-base-offset"),
            # What git has stored so far must not change the bytes.
            *("--no-reuse-delta", "--no-reuse-object", "--threads=1", "--compression=6"),
            data=revisions.encode(),
            limit=limit,
        )
    except BackgroundTaskError as error:
        if error.category is TaskErrorCategory.CAPACITY:
            raise make_git_error(
                f"the work in the worktree is longer than {limit / 1e6:,.0f} MB; add large files to"
                " .gitignore, or push the commits",
                TaskErrorCategory.CAPACITY,
            ) from error
        raise
    is_sha1 = len(commit) == _SHA1_DIGITS
    head = ["# v2 git bundle"] if is_sha1 else ["# v3 git bundle", "@object-format=sha256"]
    lines = [*head, *(f"-{one} " for one in since), f"{commit} {ref}", "", ""]
    return "\n".join(lines).encode() + pack.out


async def read_bundle(git: Git, data: bytes) -> None:
    """Add the commits of a bundle to a repository; no ref is changed.

    Raises:
        BackgroundTaskError: The repository lacks a commit that the bundle builds on.
    """
    head, separator, pack = data.partition(b"\n\n")
    if not separator or not head.startswith(_MAGIC):
        raise make_git_error("the bundle is damaged")
    needed = [line[1:].split()[0].decode() for line in head.splitlines() if line.startswith(b"-")]
    for commit in needed:
        if (await git.run("cat-file", "-e", f"{commit}^{{commit}}", check=False)).code:
            raise make_git_error(
                f"the commit {commit[:12]}, which the work builds on, is not in the repository in"
                f" {git.folder}; run `git fetch` there, or push the commit where it was made"
            )
    await git.run("index-pack", "--stdin", "--fix-thin", data=pack)
