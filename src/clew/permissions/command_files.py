"""Judging the files that a command line reads and writes."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from clew.core.access import Access, Risk, TargetKind
from clew.permissions import match_paths
from clew.permissions.paths import (
    allows_path,
    denies_path,
    denies_some,
    denies_within,
    fixed_folder,
    mentions_path,
    resolve,
)
from clew.permissions.policy import Policy
from clew.permissions.rules import EDITING, Rule, guards_files, may_allow
from clew.permissions.shell.command_line import (
    CommandLine,
    FileAccess,
    ShellCommand,
    ShellWord,
    flatten,
)
from clew.permissions.shell.file_arguments import (
    ALWAYS_RECURSIVE,
    RECURSIVE,
    TAKES_PATTERN,
    knows_files_of,
)
from clew.permissions.shell.programs import NAMING

_MOST_FOLDERS = 16


class WorkingDirs(Struct, frozen=True):
    """Where the relative paths of a line may start."""

    cwd: Path
    folders: tuple[Path, ...]
    certain: bool = True

    def places(self, path: str) -> tuple[str, ...]:
        """Return what a path of the line may mean, seen from the working folder."""
        if path.startswith(("/", "~")):
            return (path,)
        return tuple(f"{folder}/{path}" for folder in self.folders)

    @property
    def inside(self) -> bool:
        """Does the line stay in the working folder?"""
        root = self.cwd.resolve()
        return self.certain and all(folder.is_relative_to(root) for folder in self.folders)


def follow_cd(line: CommandLine, cwd: Path) -> WorkingDirs:
    """Follow the changes of folder in a line."""
    folders = [cwd.resolve()]
    for move in line.moves:
        targets = [resolve(move.text, folder) for folder in folders]
        if not move.known or None in targets or len(folders) > _MOST_FOLDERS:
            return WorkingDirs(cwd, tuple(folders), certain=False)
        folders += (target for target in targets if target is not None)
        folders = list(dict.fromkeys(folders))
    return WorkingDirs(cwd, tuple(folders))


def forbids(rule: Rule, line: CommandLine, ground: WorkingDirs) -> bool:
    """Does a rule that denies or asks about files match one that the line touches?"""
    if rule.pattern is None:
        return any(
            rule.tool in EDITING if touch.writes else rule.tool == "Read" for touch in line.touches
        )
    return any(
        denies_path(rule, place, ground.cwd)
        for touch in line.touches
        if touch.path.known and _speaks_of(rule, touch)
        for place in ground.places(touch.path.text)
    )


def doubt(line: CommandLine, guarding: Sequence[Rule], ground: WorkingDirs) -> str:
    """Say why the line may touch a file that a rule forbids, or nothing."""
    for rule in guarding:
        if not guards_files(rule, "Write", Risk.MODIFY):
            continue
        touched = any(_may_touch(rule, touch, ground) for touch in line.touches)
        if touched or any(_may_reach(rule, each, ground) for each in flatten(line.commands)):
            return f"This may touch what the rule {rule} forbids."
    return ""


def refusal(line: CommandLine, policy: Policy, ground: WorkingDirs) -> str:
    """Say why a person is asked about the files of a line whose commands are allowed."""
    for touch in line.touches:
        if not (touch.redirected or touch.writes):
            continue
        word = touch.path
        if not (word.known or (word.globs and not touch.redirected)):
            return "Which file this line writes or reads is not certain."
        if not ground.certain and not word.text.startswith(("/", "~")):
            return "Which folder this line works in is not certain."
        if reason := _refused(touch, policy, ground):
            return reason
    return ""


def _access(touch: FileAccess, targets: Sequence[str]) -> Access:
    tool, risk = ("Write", Risk.MODIFY) if touch.writes else ("Read", Risk.INSPECT)
    first, *rest = targets
    return Access(tool=tool, risk=risk, target=first, kind=TargetKind.PATH, further=tuple(rest))


def _refused(touch: FileAccess, policy: Policy, ground: WorkingDirs) -> str:
    word = touch.path
    places = ground.places(word.text if word.known else fixed_folder(word.text))
    access = _access(touch, places)
    if touch.redirected:
        found = match_paths.allowing(access, policy)
        return found if isinstance(found, str) else ""
    rules = [rule for rule in policy.allow if may_allow(rule, access.tool)]
    for place in places:
        problem = match_paths.beyond(access.risk, place, policy.cwd)
        if problem and not any(allows_path(rule, place, policy.cwd) for rule in rules):
            return f"The mode {policy.mode} asks about {problem}."
    return ""


def _speaks_of(rule: Rule, touch: FileAccess) -> bool:
    access = _access(touch, ("",))
    return guards_files(rule, access.tool, access.risk)


def _may_touch(rule: Rule, touch: FileAccess, ground: WorkingDirs) -> bool:
    if not _speaks_of(rule, touch):
        return False
    word = touch.path
    if word.globs:
        return any(denies_some(rule, place, ground.cwd) for place in ground.places(word.text))
    return not word.known or (not ground.certain and not word.text.startswith("/"))


def _may_reach(rule: Rule, command: ShellCommand, ground: WorkingDirs) -> bool:
    """Does a command go through a folder, or name a file without our knowing what for?"""
    words = command.words[1:]
    if _is_recursive(command):
        roots = [word.text for word in words if not word.text.startswith("-")]
        if not roots or (len(roots) == 1 and command.program in TAKES_PATTERN):
            roots.append(".")
        places = [place for root in roots for place in ground.places(root)]
        if any(denies_within(rule, place, ground.cwd) for place in places):
            return True
    if knows_files_of(command.program) or command.program in NAMING or command.inner:
        return False
    return any(
        mentions_path(rule, place, ground.cwd)
        for word in words
        for part in _mentioned(word)
        for place in ground.places(part)
    )


def _is_recursive(command: ShellCommand) -> bool:
    if command.program in ALWAYS_RECURSIVE:
        return command.program not in ("find", "fd") or bool(command.inner)
    told = knows_files_of(command.program)
    return told and any(RECURSIVE.match(word.text) for word in command.words[1:])


def _mentioned(word: ShellWord) -> Iterator[str]:
    """Yield what in a word may be the name of a file."""
    text = word.text
    if not text or not word.known or len(text) > 1_000:
        return
    if not text.startswith("-"):
        yield text
    elif len(text) > 2 and text[1] != "-":
        yield text[2:]
    for sign in "=:@,":
        yield from (part for part in text.split(sign)[1:] if part)
