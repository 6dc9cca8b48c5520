"""Commands that run a program on files which they find: `find -exec`, `find … | xargs`.

Such a command only reads if the search lists nothing but names, the program only reads, and Read
may use every file that the search may find. The folders are looked through for links, and for
names that `xargs` would split or the program would take for options.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from clew.permissions.command_files import WorkingDirs
from clew.permissions.links import LinkFinder, is_odd
from clew.permissions.policy import Policy
from clew.permissions.read_only import has_readable_links, only_reads
from clew.permissions.shell.arguments import Argument, parse_arguments
from clew.permissions.shell.command_line import ShellCommand, ShellWord
from clew.permissions.shell.file_arguments import find_table
from clew.permissions.shell.programs import FIND_EXEC, word_set
from clew.permissions.shell.wrappers import APPENDED

_PLACEHOLDER = "{}"
_EXPRESSION = ("-", "(", "!", ",")
_FIND_FORMATS = word_set("-printf -ls")
_NAMES_ONLY = word_set("-l -L --files-with-matches --files-without-match --files")
_FILTERS = {
    "head": word_set("-n --lines -q"),
    "tail": word_set("-n --lines -q"),
    "sort": word_set("-u -r -n -f -V --unique --reverse"),
    "uniq": frozenset[str](),
    "grep": word_set("-v -i -E -F -w -x -e --invert-match --ignore-case"),
}
"""Programs that pass whole lines on, with these options."""
_XARGS_FLAGS = word_set("-0 -r -t -x --null --no-run-if-empty --verbose")
_XARGS_VALUES = word_set("-n -P -L -s --max-args --max-procs --max-lines --max-chars")
_XARGS_REPLACES = "-I"
_MANY = 2


def runs_readers(command: ShellCommand, policy: Policy, dirs: WorkingDirs) -> bool:
    """Does the command run nothing but readers, on files that Read may use?

    Args:
        command: A command that runs others.
        policy: The rules and the mode.
        dirs: Where its relative paths start.
    """
    if not dirs.inside or not all(word.known for word in command.words):
        return False
    match command.program:
        case "find":
            return _find_runs_readers(command, policy, dirs)
        case "xargs":
            return _xargs_runs_readers(command, policy, dirs)
        case _:
            return False


def _find_runs_readers(command: ShellCommand, policy: Policy, dirs: WorkingDirs) -> bool:
    search, runs = _split_find(command.words)
    search_command = ShellCommand(words=search, sensitive_words=command.sensitive_words)
    if len(runs) != len(command.inner) or not only_reads(search_command, policy, dirs):
        return False
    folders = _find_folders(search)
    if not has_readable_links(folders, policy, dirs):
        return False
    for inner, (name, end) in zip(command.inner, runs, strict=True):
        filled = _fill(inner, _PLACEHOLDER, folders[:1] * (_MANY if end == "+" else 1))
        if name != "-exec" or not end or filled is None or not only_reads(filled, policy, dirs):
            return False
    return True


def _split_find(
    words: Sequence[ShellWord],
) -> tuple[tuple[ShellWord, ...], list[tuple[str, str]]]:
    """Return the words without the commands that find runs, and how it runs each."""
    rest: list[ShellWord] = []
    runs: list[tuple[str, str]] = []
    at = 0
    while at < len(words):
        if words[at].text in FIND_EXEC:
            ends = (end for end in range(at, len(words)) if words[end].text in (";", "+"))
            end = next(ends, len(words))
            runs.append((words[at].text, words[end].text if end < len(words) else ""))
            at = end
        else:
            rest.append(words[at])
        at += 1
    return tuple(rest), runs


def _find_folders(words: Sequence[ShellWord]) -> list[ShellWord]:
    """Return the folders in which find starts."""
    found: list[ShellWord] = []
    for word in words[1:]:
        if word.text.startswith(_EXPRESSION):
            break
        found.append(word)
    return found or [ShellWord(".", ".")]


def _fill(command: ShellCommand, mark: str, given: Sequence[ShellWord]) -> ShellCommand | None:
    """Return the command with the given words in place of the mark; None if they are no files."""
    words: list[ShellWord] = []
    for word in command.words:
        if word.known:
            words.append(word)
        elif word.text in (mark, APPENDED):
            words += given
        else:
            return None
    table, rest = find_table(words) if words else (None, ())
    # The settings of a repository that was found may run a program.
    if table is None or command.program == "git" or words[0] in given:
        return None
    arguments = parse_arguments(rest, table)
    texts = 0 if _names(arguments) & table.text_options else table.text_operands
    operands = [each.word for each in arguments if not each.is_option]
    if any(word in given for word in operands[:texts]):
        return None
    return replace(command, words=tuple(words))


def _names(arguments: Sequence[Argument]) -> set[str]:
    return {name for each in arguments for name in each.names}


def _xargs_runs_readers(command: ShellCommand, policy: Policy, dirs: WorkingDirs) -> bool:
    (inner,) = command.inner or (None,)
    if inner is None:
        return False
    own = command.words[1 : len(command.words) - len(inner.words) + 1]
    mark = _find_mark([word.text for word in own])
    folders = _find_source(command.source, policy, dirs)
    if mark is None or folders is None:
        return False
    if any(is_odd(part) for folder in folders for part in Path(folder.text).parts):
        return False
    finder = LinkFinder()
    surveys = [finder.survey(place) for each in folders for place in dirs.resolve(each.text)]
    if any(survey is None or survey.has_odd_names for survey in surveys):
        return False
    filled = _fill(inner, mark, folders[:1] * _MANY)
    return (
        filled is not None
        and only_reads(filled, policy, dirs)
        and has_readable_links(folders, policy, dirs, finder)
    )


def _find_mark(options: Sequence[str]) -> str | None:
    """Return the word that xargs replaces, empty if there is none; None for other options."""
    mark, at = "", 0
    while at < len(options):
        option = options[at]
        if option in _XARGS_VALUES:
            at += 1
        elif option == _XARGS_REPLACES and at + 1 < len(options):
            at += 1
            mark = options[at]
        elif option.startswith(_XARGS_REPLACES) and len(option) > len(_XARGS_REPLACES):
            mark = option.removeprefix(_XARGS_REPLACES)
        elif option not in _XARGS_FLAGS and not _is_number(option):
            return None
        at += 1
    return mark


def _is_number(option: str) -> bool:
    """Is it an option such as `-n1` or `-P4`?"""
    return option[:2] in _XARGS_VALUES and option[2:].isdecimal()


def _find_source(
    source: ShellCommand | None, policy: Policy, dirs: WorkingDirs
) -> list[ShellWord] | None:
    """Return the folders whose files a pipeline lists; None if it may print anything else."""
    while source is not None and _is_filter(source):
        source = source.source
    if source is None or source.variants or not only_reads(source, policy, dirs):
        return None
    table, given = find_table(source.words)
    if table is None:
        return None
    arguments = parse_arguments(given, table)
    names = _names(arguments)
    if source.program == "find":
        return None if names & _FIND_FORMATS else _find_folders(source.words)
    if source.program not in ("grep", "rg", "rgrep") or not names & _NAMES_ONLY:
        return None
    return list(_searched(arguments, texts=0 if names & table.text_options else 1))


def _searched(arguments: Sequence[Argument], *, texts: int) -> Iterator[ShellWord]:
    operands = [each.word for each in arguments if not each.is_option]
    yield from operands[texts:] or [ShellWord(".", ".")]


def _is_filter(command: ShellCommand) -> bool:
    """Does it pass some of the lines of its input on, unchanged?"""
    allowed = _FILTERS.get(command.name)
    if allowed is None or command.source is None or command.variants or command.opaque_reason:
        return False
    table, given = find_table(command.words)
    if table is None or not all(word.known for word in command.words):
        return False
    arguments = parse_arguments(given, table)
    options = [each for each in arguments if each.is_option]
    texts = table.text_operands if not any("-e" in each.names for each in options) else 0
    return len(arguments) - len(options) <= texts and all(
        each.names and (allowed.issuperset(each.names) or _is_count(command, each))
        for each in options
    )


def _is_count(command: ShellCommand, option: Argument) -> bool:
    """Is it a number of lines, as in `head -5`?"""
    return command.name in ("head", "tail") and option.word.text[1:].isdecimal()
