"""The section of a digest about the repository: branch, commits, pushes and pull requests."""

from collections.abc import Iterator

from clew.context.digest.sections import cite_entry, join_some
from clew.context.digest.state.git_state import GitState
from clew.context.digest.steps.file_activity import shorten_path
from clew.core.text import one_line, pluralize

_UNCOMMITTED = 8
_MOST_CONFLICT = 120


def write_repository(git: GitState, root: str) -> Iterator[str]:
    """Yield a line for each fact about the repository; paths are relative to `root`."""
    if git.branch:
        yield f"- branch: {git.branch}"
    if git.conflict:
        paths = [shorten_path(path, root) for path in git.conflicts]
        stopped = one_line(git.conflict, _MOST_CONFLICT)
        yield f"- {stopped} stopped at conflicts: {join_some(paths, _UNCOMMITTED)}"
    yield from _write_changes(git, root)
    yield from _write_pushes(git)
    for place in range(len(git.commits) - 1, -1, -1):
        commit = git.commits[place]
        local = "" if place < git.pushed else " (local)"
        yield f"- {cite_entry(commit.entry_id)}commit {commit.hash} {commit.subject}{local}"
    if git.tracking:
        yield f"- git status said: {git.tracking}"
    yield from _write_head(git)
    for name, (entry_id, text) in reversed(git.descriptions.items()):
        yield f"- {cite_entry(entry_id)}{name} says: {text}"
    for entry_id, event in reversed(git.events):
        yield f"- {cite_entry(entry_id)}{one_line(event, 200)}"


def _write_changes(git: GitState, root: str) -> Iterator[str]:
    """Write which changed files are not committed."""
    if git.uncommitted and not git.commits:
        yield "- no commit of the changed files was seen"
    elif git.uncommitted:
        paths = list(dict.fromkeys(shorten_path(p, root) for p in reversed(git.uncommitted)))
        yield f"- changed and not seen in a commit: {join_some(paths, _UNCOMMITTED)}"
    elif git.commits:
        yield "- no changes since the last commit"
    if git.untracked:
        yield f"- untracked in git status: {join_some(git.untracked, _UNCOMMITTED)}"
    for stashed in git.stashes:
        names = [shorten_path(path, root) for path in stashed.paths]
        yield f"- in the stash: {join_some(names, _UNCOMMITTED) or 'changes'}"


def _write_head(git: GitState) -> Iterator[str]:
    """Write the newest commit, unless it was made in the conversation."""
    entry_id, newest = git.head
    if newest and not any(newest.startswith(commit.hash[:7]) for commit in git.commits):
        yield f"- {cite_entry(entry_id)}newest commit in git log: {one_line(newest, 200)}"


def _write_pushes(git: GitState) -> Iterator[str]:
    if git.failed_push:
        yield f"- the last push failed: {one_line(git.failed_push, 300)}"
    if git.pushed < len(git.commits):
        yield f"- not pushed: {pluralize(len(git.commits) - git.pushed, 'commit')}"
    elif git.push_id:
        what = "all commits are pushed" if git.commits else "pushed"
        yield f"- {cite_entry(git.push_id)}{what}"
    for url in reversed(git.pull_requests):
        yield f"- pull request: {url}"
