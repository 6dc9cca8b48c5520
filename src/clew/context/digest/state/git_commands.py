"""Follows the `git` and `gh` commands of a conversation, and what they printed.

What happened outside of the conversation is unknown.
"""

import re
from collections.abc import Iterable, Sequence

from clew.context.digest.state.git_state import NO_HEAD, Commit, GitState, Stash
from clew.context.digest.state.pull_request_text import quote_pull_request, read_pull_request
from clew.context.digest.steps.shell_commands import skip_git_options, split_words
from clew.context.digest.steps.shell_edits import FileEdit, is_temporary
from clew.context.digest.steps.tool_steps import ToolStep

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
_ADDS_ALL = frozenset({"-A", "--all", ".", "*"})
_WITH_NEW = frozenset({"-u", "--include-untracked", "-a", "--all"})
_STASH = re.compile(r"(?:stash@\{)?(\d+)\}?")
_COMBINES = frozenset({"merge", "rebase", "cherry-pick", "revert", "pull", "stash", "am"})
_ENDS_CONFLICT = frozenset({"--abort", "--quit", "--continue", "--skip"})
_HISTORY = frozenset(
    {"merge", "rebase", "reset", "revert", "cherry-pick", "stash", "tag", "worktree"}
)
_LISTS = re.compile(r"list|show|-l|--list|--help|-h")
_LOG_LINE = re.compile(r"[0-9a-f]{7,40} \S.*")
_SELECTS = re.compile(r"--(?:all|grep|author|reverse|skip|before|until|remotes|branches|tags)\b")
"""Options with which the first line of a log need not be the newest commit of the branch."""
_LEFT_PROJECT = "Shell cwd was reset to"
"""Printed after a command that went to a folder outside of the project."""


def follow_repository(steps: Iterable[ToolStep]) -> GitState:
    """Return the state of the repository after `steps`."""
    state = GitState()
    seen: set[str] = set()
    for step in steps:
        for change in step.edits:
            _note_change(state, change, seen)
        command = step.command
        if command and step.ran and ("git" in command or "gh " in command):
            _follow_command(state, step)
    return state


def _note_change(state: GitState, change: FileEdit, seen: set[str]) -> None:
    path = change.path
    if not is_temporary(path):
        if change.kind == "write" and path not in seen:
            state.created.add(path)
        seen.add(path)
        state.uncommitted.pop(path, None)
        state.uncommitted[path] = None


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
            words, folder = skip_git_options(words[1:])
            if words and not is_temporary(folder):
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
        whole = _ADDS_ALL.intersection(rest)
        state.created -= {path for path in state.created if whole or _is_staged(path, rest)}
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
    elif verb in _HISTORY and not _LISTS.fullmatch("".join(rest[:1])):
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
    whole = not staged or any(word in _ADDS_ALL or word == "-u" for word in staged)
    whole = whole or any(word.startswith("-a") for word in rest)
    paths = [path for path in state.uncommitted if whole or _is_staged(path, staged)]
    _add_commits(state, step, paths, amended="--amend" in rest)
    for path in paths:
        del state.uncommitted[path]
    state.created.difference_update(paths)
    staged.clear()


def _add_commits(
    state: GitState, step: ToolStep, paths: Sequence[str], *, amended: bool = False
) -> None:
    """Add the commits that the output of a command tells of, with these changed files."""
    for branch, short, subject in _COMMITTED.findall(step.output):
        if short in {commit.hash for commit in state.commits}:
            continue
        state.head = NO_HEAD
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
    state.head = NO_HEAD
    target = next((word for word in rest if not word.startswith("-")), "HEAD")
    kept = _count_kept(state.commits, target)
    for commit in state.commits[kept:]:
        state.uncommitted.update(dict.fromkeys(commit.paths))
    del state.commits[kept:]
    state.pushed = min(state.pushed, kept)
    state.staged.clear()
    if "--hard" in rest:
        gone = state.list_tracked()
        state.discard(gone, step.place)
        for path in gone:
            del state.uncommitted[path]


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
    verb, *words = rest or ["push"]
    if verb.startswith("-") or not verb:
        verb, words = "push", list(rest)
    if verb == "clear":
        _drop_stashes(state, state.stashes)
    elif verb in {"pop", "apply", "drop"}:
        _follow_stashed(state, verb, _find_stash(state.stashes, words))
    elif "Saved working directory" in step.output and verb in {"push", "save"}:
        named = _list_named(words) if verb == "push" else []
        tracked = list(state.uncommitted) if _WITH_NEW.intersection(words) else state.list_tracked()
        paths = _select(state.uncommitted, named) if named else tracked
        state.stashes.append(Stash(paths, step.place))
        for path in paths:
            del state.uncommitted[path]


def _list_named(words: Sequence[str]) -> list[str]:
    """Return the paths that `git stash push` names."""
    if "--" in words:
        return list(words[words.index("--") + 1 :])
    messages = {place + 1 for place, word in enumerate(words) if word in {"-m", "--message"}}
    named = [word for place, word in enumerate(words) if place not in messages]
    return [word for word in named if word and not word.startswith("-")]


def _select(paths: Iterable[str], named: Iterable[str]) -> list[str]:
    """Return the paths that a command names: exactly, or else as the end or a folder of them."""
    known = list(paths)
    chosen: dict[str, None] = {}
    for word in named:
        name = word.removeprefix("./").rstrip("/")
        exact = [path for path in known if path == name]
        chosen |= dict.fromkeys(exact or [path for path in known if _is_staged(path, [name])])
    return list(chosen)


def _find_stash(stashes: Sequence[Stash], words: Sequence[str]) -> Stash | None:
    """Return the stash that a command names, such as `stash@{1}`; the newest if it names none."""
    number = next((int(found[1]) for word in words if (found := _STASH.fullmatch(word))), 0)
    return stashes[-1 - number] if number < len(stashes) else None


def _follow_stashed(state: GitState, verb: str, stash: Stash | None) -> None:
    if stash is None:
        return
    if verb != "drop":
        state.uncommitted.update(dict.fromkeys(stash.paths))
        stash.is_applied = True
    if verb != "apply":
        _drop_stashes(state, [stash])


def _drop_stashes(state: GitState, dropped: Sequence[Stash]) -> None:
    """Forget stashes; the changes of those that were never applied are gone."""
    for stash in list(dropped):
        state.stashes.remove(stash)
        if not stash.is_applied:
            state.discard(stash.paths, stash.place)


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
        state.branch, state.head = switched.group(1), NO_HEAD
    elif created:
        after = rest[rest.index(next(iter(created))) + 1 :]
        state.branch = after[0] if after else state.branch
    elif "--staged" not in rest and "-S" not in rest and "Already on" not in step.output:
        named = [word for word in rest if not word.startswith("-")]
        if words[0] == "checkout" and "--" not in rest:
            named = [word for word in named if word == "." or "." in word or "/" in word]
        paths = state.list_tracked() if "." in rest else _select(state.uncommitted, named)
        if paths:
            state.discard(paths, step.place)
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
