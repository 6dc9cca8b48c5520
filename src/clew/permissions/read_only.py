"""Whether a command only reads, and only what may be read without a question.

A command only reads when a table says so for its program and for each of its options. Every path
must be one that Read may use in this mode. Whatever is known only at run time is no read-only
command: a word may turn out to be an option. File name patterns are looked up, because a folder
may contain a file that is named like an option, or a link to elsewhere.
"""

import glob
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from clew.core.permissions import Access, Risk, TargetKind
from clew.permissions import git_repository, match_paths
from clew.permissions.command_files import WorkingDirs
from clew.permissions.links import LinkFinder
from clew.permissions.paths import resolve
from clew.permissions.policy import Policy
from clew.permissions.shell.arguments import Argument, Operands, Program, parse_arguments
from clew.permissions.shell.command_line import ShellCommand, ShellWord
from clew.permissions.shell.file_arguments import find_table, is_device, is_system_program
from clew.permissions.shell.tables.git_readers import GIT_FLAGS, GIT_READERS, GitReader

_MAX_MATCHES = 1_000
_MAX_WILD_FOLDERS = 2
_VERSIONS = frozenset({"python", "python3", "node"})
_MAY_MATCH_ABOVE = re.compile(r"\.[*?]+|\.\.?\*+")
"""Patterns for which some versions of bash take `..` for a match."""
_SPLIT_NAME = re.compile(r"[\s*?\[\\]")
"""What the shell splits or expands in the value of a variable without quotes."""
_WILD = re.compile(r"[*?\[]")
_JQ_READS_ELSEWHERE = re.compile(r"\b(?:import|include|env|ENV|input_filename|modulemeta)\b")
_JQ_FILES = frozenset({"-f", "--from-file"})
_GIT_VERIFIES = re.compile(r"%G|signature")
"""Parts of a format for which git runs the program that checks signatures."""


def only_reads(command: ShellCommand, policy: Policy, dirs: WorkingDirs) -> bool:
    """Does the command change nothing, run nothing else, and read only what Read may?

    Args:
        command: A simple command; not a wrapper.
        policy: The rules and the mode.
        dirs: Where its relative paths start.
    """
    if command.variants:
        return all(only_reads(variant, policy, dirs) for variant in command.variants)
    # `git -C` is sensitive because of the settings of another repository, which are looked at.
    sensitive = set(command.sensitive_words) - ({"-C"} if command.program == "git" else set())
    if command.inner or sensitive or command.opaque_reason or not dirs.inside:
        return False
    words = command.words
    if not is_system_program(words) or not all(word.known or word.globs for word in words):
        return False
    if not all(_expands_to_operands(word, dirs) for word in words if not word.known):
        return False
    if _is_in_project(command.program, dirs):
        return False
    if command.program in _VERSIONS:
        return [word.text for word in words[1:]] in (["--version"], ["-V"])
    if command.program == "git":
        return _git_only_reads(words, policy, dirs)
    if command.name in ("echo", "printf"):
        return _may_read((word for word in words if word.globs), policy, dirs)
    table, given = find_table(words)
    if table is None or not table.read_only:
        return False
    arguments = parse_arguments(given, table)
    return (
        _has_reading_options(arguments, table)
        and _has_reading_form(command, arguments)
        and _may_read(_paths(arguments, table), policy, dirs)
        and _may_follow(arguments, table, policy, dirs)
    )


def _is_in_project(program: str, dirs: WorkingDirs) -> bool:
    """Would the shell find the program in the working directory, where a model can write?"""
    found = shutil.which(program)
    return found is not None and Path(found).absolute().is_relative_to(dirs.cwd.resolve())


def _has_reading_options(arguments: Sequence[Argument], table: Program) -> bool:
    options = [each for each in arguments if each.is_option]
    return all(
        each.names
        and (table.reading | table.dereferences).issuperset(each.names)
        # An abbreviation may mean an option that the table does not know.
        and (not each.word.text.startswith("--") or _name(each) in each.names)
        for each in options
    )


def _name(option: Argument) -> str:
    return option.word.text.partition("=")[0]


def _has_reading_form(command: ShellCommand, arguments: Sequence[Argument]) -> bool:
    """Check programs whose operands decide what they do."""
    operands = [each.word for each in arguments if not each.is_option]
    match command.program:
        case "date":
            return all(word.text.startswith("+") for word in operands)
        case "uniq" | "xxd":
            return len(operands) < 2 and all(word.known for word in operands)
        case "strings":
            return not any(word.text.startswith("@") for word in operands)
        case "jq":
            from_file = any(_JQ_FILES.intersection(each.names) for each in arguments)
            return not (from_file or _JQ_READS_ELSEWHERE.search(command.plain))
        case _:
            return True


def _paths(arguments: Sequence[Argument], table: Program) -> Iterator[ShellWord]:
    """Yield the operands that are files, and the files that options name."""
    operands = [each.word for each in arguments if not each.is_option]
    skipped = table.text_operands
    if any(table.text_options.intersection(each.names) for each in arguments):
        skipped = 0
    if table.operands is not Operands.TEXT:
        # A file pattern may expand to several words; only the first is text.
        yield from (word for word in operands[:skipped] if not word.known)
        yield from operands[skipped:]
    for each in arguments:
        if each.value is not None and each.is_option and table.reads.intersection(each.names):
            yield each.value


def _may_read(words: Iterable[ShellWord], policy: Policy, dirs: WorkingDirs) -> bool:
    for word in words:
        if word.text == "-" or is_device(word):
            continue
        places = dirs.resolve(word.text) if word.known else _expand(word, dirs)
        if places is None or not all(_is_readable(place, policy) for place in places):
            return False
    return True


def _may_follow(
    arguments: Sequence[Argument], table: Program, policy: Policy, dirs: WorkingDirs
) -> bool:
    """May Read use what the links lead to, if the program follows those below a folder?"""
    used = any(table.dereferences.intersection(each.names) for each in arguments)
    if not (used or table.follows_always):
        return True
    words = list(_paths(arguments, table)) or [ShellWord(table.default or ".", "")]
    return has_readable_links(words, policy, dirs)


def has_readable_links(
    folders: Iterable[ShellWord],
    policy: Policy,
    dirs: WorkingDirs,
    finder: LinkFinder | None = None,
) -> bool:
    """May Read use what the links below folders lead to? False if a folder is too large."""
    finder = finder or LinkFinder()
    for word in folders:
        for place in dirs.resolve(word.text) if word.known else _expand(word, dirs) or ("/",):
            survey = finder.survey(place)
            if survey is None or not all(_is_readable(each, policy) for each in survey.links):
                return False
    return True


def may_expand(patterns: Iterable[ShellWord], policy: Policy, dirs: WorkingDirs) -> bool:
    """May the names of the files that patterns match be shown?"""
    return all(dirs.inside and _may_read((word,), policy, dirs) for word in patterns)


def _is_readable(place: str, policy: Policy) -> bool:
    access = Access(tool="Read", risk=Risk.INSPECT, target=place, kind=TargetKind.PATH)
    return not isinstance(match_paths.find_allow_rules(access, policy), str)


def _expands_to_operands(word: ShellWord, dirs: WorkingDirs) -> bool:
    """Is no file that a pattern matches named like an option?"""
    if word.text.startswith("-"):
        return not _WILD.search(word.text.partition("=")[0])
    matches = _expand(word, dirs)
    return matches is not None and not any("/-" in match for match in matches)


def _expand(word: ShellWord, dirs: WorkingDirs) -> tuple[str, ...] | None:
    """Return the files that a pattern matches; None if it is too complex or has too many."""
    *folders, _ = word.text.split("/")
    wild = sum(bool(_WILD.search(folder)) for folder in folders)
    if set("[\\~") & set(word.text) or wild > _MAX_WILD_FOLDERS:
        return None
    if any(_MAY_MATCH_ABOVE.fullmatch(part) for part in word.text.split("/")):
        return None
    found: list[str] = []
    for folder in dirs.folders:
        matches = islice(glob.iglob(word.text, root_dir=folder), _MAX_MATCHES + 1)  # noqa: PTH207
        found += (str(folder / match) for match in matches)
    if word.splits and any(_SPLIT_NAME.search(match) for match in found):
        return None
    return tuple(found) if len(found) <= _MAX_MATCHES else None


def _git_only_reads(words: Sequence[ShellWord], policy: Policy, dirs: WorkingDirs) -> bool:
    rest = list(words[1:])
    while rest and rest[0].text.startswith("-"):
        option = rest.pop(0)
        if option.text == "-C" and rest and rest[0].known:
            dirs = _enter(rest.pop(0).text, dirs)
        elif option.text not in GIT_FLAGS:
            return False
    if not dirs.inside:
        return False
    if not rest:
        return True
    reader = GIT_READERS.get(rest[0].text)
    if reader is None:
        return False
    arguments = parse_arguments(rest[1:], reader.table)
    operands = [each.word for each in arguments if not each.is_option]
    return (
        _has_reading_options(arguments, reader.table)
        and _has_reader_form(reader, arguments)
        and not any(_GIT_VERIFIES.search(word.text) for word in rest)
        # An operand is a commit or a path. With a path elsewhere, git compares any two files.
        and _may_read((*operands, *_paths(arguments, reader.table)), policy, dirs)
        and not any(_find_git_risk(dirs))
    )


def _enter(folder: str, dirs: WorkingDirs) -> WorkingDirs:
    """Return where paths start after `git -C folder`."""
    found = [resolve(place, dirs.cwd) for place in dirs.resolve(folder or ".")]
    places = tuple(place for place in found if place is not None)
    return WorkingDirs(dirs.cwd, places, certain=dirs.certain and len(places) == len(found))


def _has_reader_form(reader: GitReader, arguments: Sequence[Argument]) -> bool:
    operands = [each.word.text for each in arguments if not each.is_option]
    if not operands:
        return reader.alone
    if reader.first:
        # Options before the word have another meaning: `git stash -p list` is a change.
        return arguments[0].word.text in reader.first
    lists = any(reader.lists_with.intersection(each.names) for each in arguments)
    return lists or not reader.lists_with


def _find_git_risk(dirs: WorkingDirs) -> Iterator[str]:
    root = resolve(str(dirs.cwd), dirs.cwd) or dirs.cwd
    for folder in dirs.folders:
        yield git_repository.find_risk(folder, root)
