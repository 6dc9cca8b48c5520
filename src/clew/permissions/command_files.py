"""Matches rules against the files that a command line reads and writes."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from clew.core.permissions import Access, Risk, TargetKind
from clew.permissions import match_paths
from clew.permissions.paths import (
    allows_path,
    denies_path,
    denies_some,
    denies_within,
    find_fixed_folder,
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
from clew.permissions.shell.programs import NAME_ONLY

_MAX_FOLDERS = 16


class WorkingDirs(Struct, frozen=True):
    """The directories in which the relative paths of a command line may start."""

    cwd: Path
    folders: tuple[Path, ...]
    certain: bool = True

    def resolve(self, path: str) -> tuple[str, ...]:
        """Return the paths that a path in the line may refer to."""
        if path.startswith(("/", "~")):
            return (path,)
        return tuple(f"{folder}/{path}" for folder in self.folders)

    @property
    def inside(self) -> bool:
        """Does the line stay in the working directory?"""
        root = self.cwd.resolve()
        return self.certain and all(folder.is_relative_to(root) for folder in self.folders)


def follow_cd(line: CommandLine, cwd: Path) -> WorkingDirs:
    """Collect the directories that a line changes into."""
    folders = [cwd.resolve()]
    for move in line.cd_targets:
        targets = [resolve(move.text, folder) for folder in folders]
        if not move.known or None in targets or len(folders) > _MAX_FOLDERS:
            return WorkingDirs(cwd, tuple(folders), certain=False)
        folders += (target for target in targets if target is not None)
        folders = list(dict.fromkeys(folders))
    return WorkingDirs(cwd, tuple(folders))


def matches_guard(rule: Rule, line: CommandLine, dirs: WorkingDirs) -> bool:
    """Does a deny or ask rule match a file that the line uses?"""
    if rule.pattern is None:
        return any(
            rule.tool in EDITING if file.writes else rule.tool == "Read" for file in line.files
        )
    return any(
        denies_path(rule, place, dirs.cwd)
        for file in line.files
        if file.path.known and _applies_to(rule, file)
        for place in dirs.resolve(file.path.text)
    )


def find_doubt(line: CommandLine, guarding: Sequence[Rule], dirs: WorkingDirs) -> str:
    """Return why the line may use a file that a rule forbids, or an empty string."""
    for rule in guarding:
        if not guards_files(rule, "Write", Risk.MODIFY):
            continue
        touched = any(_may_touch(rule, file, dirs) for file in line.files)
        if touched or any(_may_reach(rule, each, dirs) for each in flatten(line.commands)):
            return f"this may use a file that the rule {rule} forbids"
    return ""


def find_refusal(line: CommandLine, policy: Policy, dirs: WorkingDirs) -> str:
    """Return why the files of a line with allowed commands need a question, or an empty string."""
    for file in line.files:
        if not (file.redirected or file.writes):
            continue
        word = file.path
        if not (word.known or (word.globs and not file.redirected)):
            return "it is uncertain which file this line reads or writes"
        if not dirs.certain and not word.text.startswith(("/", "~")):
            return "it is uncertain in which folder this line works"
        if reason := _refuse_file(file, policy, dirs):
            return reason
    return ""


def _file_access(file: FileAccess, targets: Sequence[str]) -> Access:
    tool, risk = ("Write", Risk.MODIFY) if file.writes else ("Read", Risk.INSPECT)
    first, *rest = targets
    return Access(tool=tool, risk=risk, target=first, kind=TargetKind.PATH, further=tuple(rest))


def _refuse_file(file: FileAccess, policy: Policy, dirs: WorkingDirs) -> str:
    word = file.path
    places = dirs.resolve(word.text if word.known else find_fixed_folder(word.text))
    access = _file_access(file, places)
    if file.redirected:
        found = match_paths.find_allow_rules(access, policy)
        return found if isinstance(found, str) else ""
    rules = [rule for rule in policy.allow if may_allow(rule, access.tool)]
    for place in places:
        problem = match_paths.special_location(access.risk, place, policy.cwd)
        if problem and not any(allows_path(rule, place, policy.cwd) for rule in rules):
            return f"{policy.mode} mode asks about {problem}"
    return ""


def _applies_to(rule: Rule, file: FileAccess) -> bool:
    access = _file_access(file, ("",))
    return guards_files(rule, access.tool, access.risk)


def _may_touch(rule: Rule, file: FileAccess, dirs: WorkingDirs) -> bool:
    if not _applies_to(rule, file):
        return False
    word = file.path
    if word.globs:
        return any(denies_some(rule, place, dirs.cwd) for place in dirs.resolve(word.text))
    return not word.known or (not dirs.certain and not word.text.startswith("/"))


def _may_reach(rule: Rule, command: ShellCommand, dirs: WorkingDirs) -> bool:
    """May a command reach a forbidden file by recursion, or through an unknown argument?"""
    words = command.words[1:]
    if _is_recursive(command):
        roots = [word.text for word in words if not word.text.startswith("-")]
        if not roots or (len(roots) == 1 and command.program in TAKES_PATTERN):
            roots.append(".")
        places = [place for root in roots for place in dirs.resolve(root)]
        if any(denies_within(rule, place, dirs.cwd) for place in places):
            return True
    if knows_files_of(command.program) or command.program in NAME_ONLY or command.inner:
        return False
    return any(
        mentions_path(rule, place, dirs.cwd)
        for word in words
        for part in _possible_paths(word)
        for place in dirs.resolve(part)
    )


def _is_recursive(command: ShellCommand) -> bool:
    if command.program in ALWAYS_RECURSIVE:
        return command.program not in ("find", "fd") or bool(command.inner)
    told = knows_files_of(command.program)
    return told and any(RECURSIVE.match(word.text) for word in command.words[1:])


def _possible_paths(word: ShellWord) -> Iterator[str]:
    """Yield the parts of a word that may be file names."""
    text = word.text
    if not text or not word.known or len(text) > 1_000:
        return
    if not text.startswith("-"):
        yield text
    elif len(text) > 2 and text[1] != "-":
        yield text[2:]
    for sign in "=:@,":
        yield from (part for part in text.split(sign)[1:] if part)
