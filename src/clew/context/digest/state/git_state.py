"""The state of the repository: branch, commits, pushes, pull requests and uncommitted files."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from clew.context.digest.steps.file_activity import shorten_path
from clew.core.ids import NO_ENTRY, EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit that was made in the conversation."""

    hash: str
    subject: str
    branch: str
    entry_id: EntryId
    place: int
    """The place of the step that made it."""
    paths: Sequence[str] = ()
    """Files that were changed in the conversation and are in it, as far as that is known."""


@dataclass(slots=True)
class Stash:
    """Changed files that `git stash` put aside."""

    paths: Sequence[str]
    place: int
    is_applied: bool = False
    """True if its changes are in the files again."""


NO_HEAD = (NO_ENTRY, "")


@dataclass(slots=True, kw_only=True)
class GitState:
    """What is known about the repository after the last step."""

    branch: str = ""
    commits: list[Commit] = field(default_factory=list)
    pushed: int = 0
    """Number of leading `commits` that were pushed."""
    push_id: EntryId = NO_ENTRY
    """The entry of the last successful push; 0 if there was none."""
    failed_push: str = ""
    """The output of a push that failed after the last successful one."""
    pull_requests: list[str] = field(default_factory=list)
    descriptions: dict[str, tuple[EntryId, str]] = field(default_factory=dict)
    """What the pull requests and issues say that were looked at, by kind and number."""
    head: tuple[EntryId, str] = NO_HEAD
    """The newest commit of the branch as `git log` last showed it, and the entry with that output;
    empty after a commit, a reset or a switch, which make it out of date."""
    events: list[tuple[EntryId, str]] = field(default_factory=list)
    """Merges, rebases, resets and the like, with their commands, oldest first."""
    uncommitted: dict[str, None] = field(default_factory=dict)
    """Files that were changed and not seen in a commit since."""
    created: set[str] = field(default_factory=set)
    """Those of them that were written first, and never added: git leaves them alone."""
    stashes: list[Stash] = field(default_factory=list)
    """Those that were not seen to be restored or dropped."""
    undone: dict[str, list[range]] = field(default_factory=dict)
    """The places at which a file was changed, if `git` discarded these changes."""
    untracked: list[str] = field(default_factory=list)
    """Files and folders that `git status` last showed as untracked."""
    tracking: str = ""
    """What `git status` said last about the remote branch, quoted."""
    staged: list[str] = field(default_factory=list)
    """Paths of `git add` since the last commit."""
    conflict: str = ""
    """The merge, rebase or the like that stopped at conflicts and was not seen to end."""
    conflicts: list[str] = field(default_factory=list)
    """Files with conflicts in it."""

    def list_tracked(self) -> list[str]:
        """Return the uncommitted files that git knows."""
        return [path for path in self.uncommitted if path not in self.created]

    def discard(self, paths: Iterable[str], place: int) -> None:
        """Note that the changes of files before a place are gone, except for committed ones."""
        for path in paths:
            commits = [
                commit.place
                for commit in self.commits
                if commit.place < place and any(_is_same(path, other) for other in commit.paths)
            ]
            since = max(commits, default=-1)
            self.undone.setdefault(path, []).append(range(since + 1, place + 1))

    def list_undone(self, root: str) -> dict[str, list[range]]:
        """Return `undone` with paths relative to `root`."""
        found: dict[str, list[range]] = {}
        for path, spans in self.undone.items():
            found.setdefault(shorten_path(path, root), []).extend(spans)
        return found


def _is_same(path: str, other: str) -> bool:
    """Return whether two paths may name one file: they are equal, or one is relative."""
    if path.startswith("/") == other.startswith("/"):
        return path == other
    return path.endswith(f"/{other}") or other.endswith(f"/{path}")
