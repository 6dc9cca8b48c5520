"""Matches rules against the files that a command line reads and writes."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from clew.core.permissions import Access, Risk, TargetKind
from clew.permissions import match_paths
from clew.permissions.denied_paths import holds_denied
from clew.permissions.links import LinkFinder, TreeSurvey
from clew.permissions.paths import (
    allows_path,
    denies_path,
    denies_some,
    denies_within,
    expand_home,
    find_fixed_folder,
    resolve,
)
from clew.permissions.policy import Policy
from clew.permissions.rules import EDITING, READING, Rule, guards_files, select_allow_rules
from clew.permissions.shell.command_line import (
    CommandLine,
    FileAccess,
    ShellWord,
    flatten,
)
from clew.permissions.shell.file_arguments import knows_files_of
from clew.permissions.shell.names_in_words import guess_files
from clew.permissions.shell.possible_files import find_possible_files

_MAX_FOLDERS = 16
_NO_LINKS = TreeSurvey(links=(), has_odd_names=False)
_LIVE_FOLDER = re.compile(r"/proc/[^/]+/(?:cwd|root|fd|task|map_files)\b|/dev/fd/[^/]+/")
"""Paths whose meaning depends on the process that opens them."""


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
    def moved(self) -> bool:
        """May the line work in another folder than the working directory?"""
        return not self.certain or self.folders != (self.cwd.resolve(),)

    @property
    def inside(self) -> bool:
        """Does the line stay in the working directory?"""
        root = self.cwd.resolve()
        return self.certain and all(folder.is_relative_to(root) for folder in self.folders)


def follow_cd(line: CommandLine, cwd: Path, start: str = "") -> WorkingDirs:
    """Collect the directories that a line changes into.

    Args:
        line: The line.
        cwd: The working directory of the session.
        start: The folder in which the line starts, if that is another one.
    """
    folders = [Path(start or cwd).resolve()]
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
    rules = [rule for rule in guarding if guards_files(rule, "Write", Risk.MODIFY)]
    possible = list(dict.fromkeys(_possible_files(line))) if rules else []
    links = LinkFinder()
    for rule in rules:
        if (
            any(_may_touch(rule, file, dirs, certain=True) for file in line.files)
            or any(_may_touch(rule, file, dirs, certain=False) for file in possible)
            or any(_may_follow(rule, file, dirs, links) for file in (*line.files, *possible))
        ):
            return f"this may use a file that the rule {rule} forbids"
    return ""


def _possible_files(line: CommandLine) -> Iterator[FileAccess]:
    """Yield the files that the commands of a line may use besides those that they name."""
    for command in flatten(line.commands):
        yield from find_possible_files(command.words, runs=bool(command.inner))
    yield from guess_files(line.assigned)
    yield from guess_files([ShellWord(part, part) for part in find_input(line).split()])


def find_input(line: CommandLine) -> str:
    """Return the text that programs without a table get as their input; it may be commands."""
    if not line.inputs or all(
        command.inner or command.inert or knows_files_of(command.words)
        for command in flatten(line.commands)
    ):
        return ""
    return "\n".join(line.inputs)


def find_refusal(line: CommandLine, policy: Policy, dirs: WorkingDirs) -> str:
    """Return why the files of a line with allowed commands need a question, or an empty string."""
    for file in line.files:
        if not (file.redirected or file.writes):
            continue
        for word in file.path.values or (file.path,):
            # What a variable may be was looked up: see `list_patterns`.
            found = word.globs and (not file.redirected or not (word is file.path or file.writes))
            if not (word.known or found):
                return "it is uncertain which file this line reads or writes"
            if not dirs.certain and not word.text.startswith(("/", "~")):
                return "it is uncertain in which folder this line works"
            if reason := _refuse_file(replace(file, path=word), policy, dirs):
                return reason
    return ""


def list_patterns(line: CommandLine) -> list[ShellWord]:
    """Return the patterns whose matches the line uses through variables."""
    redirected = (file.path for file in line.files if file.redirected)
    return [*line.patterns, *(each for word in redirected for each in word.values if each.globs)]


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
    rules = select_allow_rules(policy.allow, access.tool)
    for place in places:
        problem = match_paths.special_location(access.risk, place, policy.cwd)
        if problem and not any(allows_path(rule, place, policy.cwd) for rule in rules):
            return f"{policy.mode} mode asks about {problem}"
    return ""


def _applies_to(rule: Rule, file: FileAccess) -> bool:
    access = _file_access(file, ("",))
    return guards_files(rule, access.tool, access.risk)


def _may_touch(rule: Rule, file: FileAccess, dirs: WorkingDirs, *, certain: bool) -> bool:
    """May a file be one that the rule forbids?

    Args:
        rule: The rule.
        file: The file, or a word that may name one.
        dirs: Where relative paths start.
        certain: Whether the word names a file for certain.
    """
    if not _applies_to(rule, file):
        return False
    word = file.path
    if file.guessed:
        return any(holds_denied(rule, place, dirs.cwd) for place in dirs.resolve(word.text))
    # Changes somewhere in a folder do not show what is there.
    tree = file.tree and not (file.writes and rule.tool in READING and not certain)
    if _LIVE_FOLDER.search(word.text):
        return True
    places = dirs.resolve(word.text)
    if word.globs:
        return any(denies_some(rule, place, dirs.cwd) for place in places)
    if not word.known:
        return True
    if certain and not dirs.certain and not word.text.startswith("/"):
        return True
    return any(
        denies_path(rule, place, dirs.cwd)
        or (tree and denies_within(rule, place, dirs.cwd, existing=not file.writes))
        for place in places
    )


def _may_follow(rule: Rule, file: FileAccess, dirs: WorkingDirs, links: LinkFinder) -> bool:
    """May a link lead from a pattern or a folder to a file that the rule forbids?"""
    if not _applies_to(rule, file):
        return False
    reached: list[str] = []
    for place in _absolute_places(file.path, dirs):
        found = links.find_matches(place) if file.path.globs else ()
        tree = links.survey(place) if file.follows and file.path.known else _NO_LINKS
        if found is None or tree is None:
            return True
        reached += (*found, *tree.links)
        if file.writes:
            # A backup or a compressed file is new, beside the one that a pattern matches.
            reached += {str(Path(each).parent) for each in found}
    return any(
        denies_path(rule, each, dirs.cwd)
        or denies_within(rule, each, dirs.cwd, existing=not file.writes)
        for each in reached
    )


def _absolute_places(word: ShellWord, dirs: WorkingDirs) -> Iterator[str]:
    if word.known or word.globs:
        for place in dirs.resolve(word.text):
            yield expand_home(place)
