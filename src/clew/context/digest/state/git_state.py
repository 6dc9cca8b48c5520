"""The state of the repository: branch, commits, pushes, pull requests and uncommitted files.

It follows the `git` and `gh` commands of a conversation and what they printed. What happened
outside of the conversation is unknown.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from clew.context.digest.state.pull_request_text import quote_pull_request, read_pull_request
from clew.context.digest.steps.shell_commands import split_words
from clew.context.digest.steps.tool_steps import FileEdit, ToolStep, is_temporary
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


@dataclass(frozen=True, slots=True)
class Stash:
    """Changed files that `git stash` put aside."""

    paths: Sequence[str]
    place: int


_NO_HEAD = (NO_ENTRY, "")


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
    head: tuple[EntryId, str] = _NO_HEAD
    """The newest commit of the branch as `git log` last showed it, and the entry with that output;
    empty after a commit, a reset or a switch, which make it out of date."""
    events: list[tuple[EntryId, str]] = field(default_factory=list)
    """Merges, rebases, resets and the like, with their commands, oldest first."""
    uncommitted: dict[str, None] = field(default_factory=dict)
    """Files that were changed and not seen in a commit since."""
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


_COMMITTED = re.compile(r"^\[([^\s\]]+)(?: \([^)]*\))? ([0-9a-f]{7,40})\] (.+)$", re.MULTILINE)
_SWITCHED = re.compile(
    r"(?:^Switched to (?:a new )?branch '|^On branch |\bWIP on (?!\())([^\s':]+)", re.MULTILINE
)
_TRACKING = re.compile(r"^Your branch (?:is|and) [^\n]*", re.MULTILINE)
_UNTRACKED = re.compile(r"^(?:\t| {2,8})(?!\()(\S.*)$", re.MULTILINE)
_UNTRACKED_SHORT = re.compile(r"^\?\? (.+)$", re.MULTILINE)
_SHORT_BRANCH = re.compile(r"## ([\w/+@#-][\w./+@#-]*?)(?:\.{3}|\s|$)")
_PULL_REQUEST = re.compile(r"https://\S+/(?:pull|merge_requests|pullrequests)/\d+")
_BRANCH = re.compile(r"^[\w./+@#-]+$")
_CURRENT_BRANCH = re.compile(r"^\* ([\w./+@#-]+)(?:\s|$)", re.MULTILINE)
_CONFLICT = re.compile(r"^CONFLICT \([^)\n]*\): (?:Merge conflict in )?(\S+)", re.MULTILINE)
_ANCESTOR = re.compile(r"(?:HEAD|@)(?:~(\d+)|([~^]*))")
_COMBINES = frozenset({"merge", "rebase", "cherry-pick", "revert", "pull", "stash", "am"})
_ENDS_CONFLICT = frozenset({"--abort", "--quit", "--continue", "--skip"})
_HISTORY = frozenset(
    {"merge", "rebase", "reset", "revert", "cherry-pick", "stash", "tag", "worktree"}
)
_LISTS = re.compile(r"\b(?:list|show|-l|--list|--help|-h)\b")
_LOG_LINE = re.compile(r"[0-9a-f]{7,40} \S.*")
_SELECTS = re.compile(r"--(?:all|grep|author|reverse|skip|before|until|remotes|branches|tags)\b")
"""Options with which the first line of a log need not be the newest commit of the branch."""
_LEFT_PROJECT = "Shell cwd was reset to"
"""Printed after a command that went to a folder outside of the project."""


def follow_repository(steps: Iterable[ToolStep]) -> GitState:
    """Return the state of the repository after `steps`."""
    state = GitState()
    for step in steps:
        for change in step.edits:
            _note_change(state, change)
        command = step.command
        if command and step.ran and ("git" in command or "gh " in command):
            _follow_command(state, step)
    return state


def _note_change(state: GitState, change: FileEdit) -> None:
    if not is_temporary(change.path):
        state.uncommitted.pop(change.path, None)
        state.uncommitted[change.path] = None


def _follow_command(state: GitState, step: ToolStep) -> None:
    output = step.output
    elsewhere = False
    for simple, _ in step.simple_commands:
        if simple.startswith("cd "):
            elsewhere = is_temporary(simple[3:].strip("'\" ")) or _LEFT_PROJECT in output
        if elsewhere:
            continue
        words = split_words(simple) if simple.startswith(("git ", "gh ")) else []
        if words[:1] == ["git"]:
            words = _skip_options(words[1:])
            if words:
                _follow_git(state, step, words)
        elif words and not step.failed:
            _follow_gh(state, step, words[1:])


def _follow_gh(state: GitState, step: ToolStep, words: Sequence[str]) -> None:
    match words:
        case ["pr", "create", *_]:
            state.pull_requests += _PULL_REQUEST.findall(step.output)
        case ["pr", "merge", *_]:
            state.events.append((step.result_id, f"gh {' '.join(words)}"))
        case ["pr" | "issue" as kind, "view", *_]:
            shown = read_pull_request(step.output)
            if shown is not None:
                what = "pull request" if kind == "pr" else "issue"
                name = f"{what} {shown.number}" if shown.number else what
                state.descriptions[name] = (step.result_id, quote_pull_request(shown))
        case _:
            pass


def _follow_git(state: GitState, step: ToolStep, words: Sequence[str]) -> None:
    verb, rest = words[0], list(words[1:])
    _follow_conflicts(state, step, verb, rest)
    if verb == "commit":
        _follow_commit(state, step, rest)
    elif verb == "add":
        state.staged += rest
    elif verb == "push":
        _follow_push(state, step)
    elif verb in {"checkout", "switch", "restore"} and not step.failed:
        _follow_checkout(state, step, words)
    elif verb == "status" and not step.failed:
        _follow_status(state, step)
    elif verb == "log" and not step.failed:
        _follow_log(state, step, rest)
    elif verb in {"branch", "rev-parse"} and not step.failed:
        _follow_branch(state, step, rest)
    elif verb in _HISTORY and not _LISTS.search(" ".join(rest)):
        several = len(step.simple_commands) > 1
        failed = " (in a command that failed)" if several else " (failed)"
        failed = failed if step.failed else ""
        state.events.append((step.result_id, f"git {' '.join(words)}{failed}"))
        if not step.failed:
            _follow_history(state, step, verb, rest)


def _follow_conflicts(state: GitState, step: ToolStep, verb: str, rest: Sequence[str]) -> None:
    """Note where a merge or the like stopped, until it ends or a commit concludes it."""
    found = _CONFLICT.findall(step.output) if verb in _COMBINES else []
    if found:
        continues = state.conflict and _ENDS_CONFLICT.intersection(rest)
        state.conflict = state.conflict if continues else " ".join(["git", verb, *rest])
        state.conflicts = list(dict.fromkeys(found))
    elif state.conflict and not step.failed:
        ended = verb in _COMBINES and _ENDS_CONFLICT.intersection(rest)
        if ended or verb == "commit" or (verb == "reset" and "--hard" in rest):
            state.conflict, state.conflicts = "", []


def _follow_commit(state: GitState, step: ToolStep, rest: Sequence[str]) -> None:
    if not _COMMITTED.search(step.output):
        return
    staged = state.staged
    whole = not staged or any(word in {"-A", "--all", ".", "-u", "*"} for word in staged)
    whole = whole or any(word.startswith("-a") for word in rest)
    paths = [path for path in state.uncommitted if whole or _is_staged(path, staged)]
    _add_commits(state, step, paths, amended="--amend" in rest)
    for path in paths:
        del state.uncommitted[path]
    staged.clear()


def _add_commits(
    state: GitState, step: ToolStep, paths: Sequence[str], *, amended: bool = False
) -> None:
    """Add the commits that the output of a command tells of, with these changed files."""
    for branch, short, subject in _COMMITTED.findall(step.output):
        if short in {commit.hash for commit in state.commits}:
            continue
        state.head = _NO_HEAD
        if amended and state.commits:
            paths = [*state.commits.pop().paths, *paths]
            state.pushed = min(state.pushed, len(state.commits))
        state.commits.append(
            Commit(
                hash=short,
                subject=subject.strip(),
                branch=branch,
                entry_id=step.result_id,
                place=step.place,
                paths=paths,
            )
        )
        state.branch = state.branch if branch in {"detached", "HEAD"} else branch


def _follow_history(state: GitState, step: ToolStep, verb: str, rest: Sequence[str]) -> None:
    """Follow what a reset, a stash or a commit of `git` itself does to commits and changes."""
    if verb == "reset":
        _follow_reset(state, step, rest)
    elif verb == "stash":
        _follow_stash(state, step, rest)
    else:
        _add_commits(state, step, ())


def _follow_reset(state: GitState, step: ToolStep, rest: Sequence[str]) -> None:
    state.head = _NO_HEAD
    target = next((word for word in rest if not word.startswith("-")), "HEAD")
    kept = _count_kept(state.commits, target)
    for commit in state.commits[kept:]:
        state.uncommitted.update(dict.fromkeys(commit.paths))
    del state.commits[kept:]
    state.pushed = min(state.pushed, kept)
    state.staged.clear()
    if "--hard" in rest:
        _discard(state, state.uncommitted, step.place)
        state.uncommitted.clear()


def _count_kept(commits: Sequence[Commit], target: str) -> int:
    """Return how many of `commits` are left after a reset to `target`; all if that is unknown."""
    back = _ANCESTOR.fullmatch(target)
    if back is not None:
        return max(0, len(commits) - int(back.group(1) or len(back.group(2) or "")))
    same = (place for place, commit in enumerate(commits) if target.startswith(commit.hash[:7]))
    return next(same, len(commits) - 1) + 1


def _follow_branch(state: GitState, step: ToolStep, rest: Sequence[str]) -> None:
    """Note the branch that `git branch` or `git rev-parse` named."""
    if rest in (["--show-current"], ["--abbrev-ref", "HEAD"]):
        name = step.output.strip().splitlines()[:1]
        state.branch = name[0] if name and _BRANCH.match(name[0]) else state.branch
    elif current := _CURRENT_BRANCH.search(step.output):
        state.branch = current.group(1)


def _follow_log(state: GitState, step: ToolStep, rest: Sequence[str]) -> None:
    """Note the newest commit of the branch, if the output begins with it."""
    programs = [simple for simple, _ in step.simple_commands if not simple.startswith("cd ")]
    is_first = programs[0].startswith("git ") and " log" in programs[0]
    is_branch = all(word.startswith("-") or word.endswith("..HEAD") for word in rest)
    if is_first and is_branch and not _SELECTS.search(" ".join(rest)):
        newest = _LOG_LINE.match(step.output)
        state.head = (step.result_id, newest.group()) if newest else state.head


def _follow_stash(state: GitState, step: ToolStep, rest: Sequence[str]) -> None:
    found = _SWITCHED.search(step.output)
    state.branch = found.group(1) if found else state.branch
    if rest[:1] in (["pop"], ["apply"]) and state.stashes:
        state.uncommitted.update(dict.fromkeys(state.stashes[-1].paths))
    if rest[:1] in (["pop"], ["drop"]) and state.stashes:
        dropped = state.stashes.pop()
        if rest[0] == "drop":
            _discard(state, dropped.paths, dropped.place)
    elif "Saved working directory" in step.output:
        state.stashes.append(Stash(list(state.uncommitted), step.place))
        state.uncommitted.clear()


def _discard(state: GitState, paths: Iterable[str], place: int) -> None:
    """Note that the changes of these files before a place are gone, except for committed ones."""
    for path in paths:
        commits = [commit.place for commit in state.commits if path in commit.paths]
        since = max((earlier for earlier in commits if earlier < place), default=-1)
        state.undone.setdefault(path, []).append(range(since + 1, place + 1))


def _follow_push(state: GitState, step: ToolStep) -> None:
    if step.failed or "[rejected]" in step.output or "fatal:" in step.output:
        state.failed_push = step.output
    else:
        state.pushed, state.push_id, state.failed_push = len(state.commits), step.result_id, ""


def _follow_checkout(state: GitState, step: ToolStep, words: Sequence[str]) -> None:
    rest = words[1:]
    switched = _SWITCHED.search(step.output)
    created = {"-b", "-B", "-c", "-C"}.intersection(rest)
    if switched:
        state.branch, state.head = switched.group(1), _NO_HEAD
    elif created:
        after = rest[rest.index(next(iter(created))) + 1 :]
        state.branch = after[0] if after else state.branch
    elif "--staged" not in rest and "-S" not in rest and "Already on" not in step.output:
        whole = "." in rest
        paths = [path for path in state.uncommitted if whole or _is_staged(path, rest)]
        if paths:
            _discard(state, paths, step.place)
            for path in paths:
                del state.uncommitted[path]
            state.events.append((step.result_id, f"git {' '.join(words)}"))


def _follow_status(state: GitState, step: ToolStep) -> None:
    found = _SWITCHED.search(step.output) or _SHORT_BRANCH.match(step.output)
    state.branch = found.group(1) if found else state.branch
    tracking = _TRACKING.search(step.output)
    if tracking:
        cited = f" (#{step.result_id})" if step.result_id > 0 else ""
        state.tracking = f"{tracking.group()}{cited}"
    state.untracked = _UNTRACKED.findall(step.output.partition("Untracked files:")[2])
    state.untracked += _UNTRACKED_SHORT.findall(step.output)
    if "nothing to commit, working tree clean" in step.output:
        state.uncommitted.clear()


def _is_staged(path: str, staged: Sequence[str]) -> bool:
    return any(
        path == word or path.endswith(f"/{word}") or f"/{word.rstrip('/')}/" in f"/{path}"
        for word in staged
        if word and not word.startswith("-")
    )


def _skip_options(words: Sequence[str]) -> list[str]:
    """Return the words of a `git` command from its subcommand on; none for a scratch repository."""
    place = 0
    while place < len(words) and words[place].startswith("-"):
        if words[place] == "-C" and is_temporary("".join(words[place + 1 : place + 2])):
            return []
        place += 2 if words[place] in {"-C", "-c"} else 1
    return list(words[place:])
