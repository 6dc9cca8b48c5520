"""Finds the files that a command may use besides those that it names for certain.

These are the values of unknown options, names in other files, copies in a folder, backups, and
everything in a folder that an unknown program gets. A rule that forbids such a file asks.
"""

import re
from collections.abc import Iterator, Sequence

from clew.permissions.shell.arguments import Argument, Operands, Program, parse_arguments
from clew.permissions.shell.command_line import FileAccess, ShellWord, program_name
from clew.permissions.shell.file_arguments import (
    INTO_LAST,
    find_files,
    find_table,
    follows_links,
    knows_files_of,
    list_file_operands,
    list_operand_files,
    list_option_files,
    split_subcommand,
    uses_option,
)
from clew.permissions.shell.names_in_words import guess_files, guess_folders, make_word
from clew.permissions.shell.programs import CONTAINER_PROGRAMS, READS_FOLDER, word_set
from clew.permissions.shell.tables.git import GLOBAL_FOLDERS, LEAVES_FILES

_UNKNOWN = ShellWord("", "", known=False)
_MAX_INNER = 20
_TAR_EXTRACTS = word_set("-x --extract --get")
_LINKS = word_set("-l -s --link --symbolic-link")
_BACKS_UP = word_set("-b --backup -S --suffix")


def find_possible_files(words: Sequence[ShellWord], *, runs: bool = False) -> Iterator[FileAccess]:
    """Yield the files that a command may use besides those of `find_files`.

    With `runs`, it runs other commands on what it finds.
    """
    program = program_name(words)
    table, given = find_table(words)
    if table is None:
        if not runs and (not knows_files_of(words) or program == "git"):
            gives = program in CONTAINER_PROGRAMS
            yield from guess_files(words[1:], tree=gives)
            yield from _guess_folders(words)
            yield from _files_of_inner(words)
            yield from _given_folders(words) if gives else ()
        return
    arguments = parse_arguments(given, table)
    if program == "git":
        yield from _git_folders(words)
        yield from list_option_files(arguments, table)
        # Operands are names of commits more often than files.
        yield from (
            file
            for file in list_operand_files(arguments, table)
            if file.path.known or file.path.globs
        )
        yield from guess_files([each.word for each in arguments if not each.is_option])
    yield from _guess_options(arguments, table)
    yield from _recursion(arguments, table, runs=runs)
    yield from _listed_files(arguments, table)
    yield from _copied_files(arguments, table)
    yield from _files_beside(arguments, table)
    if program in ("mkdir", "install"):
        yield from _passed_folders(arguments, table)
    if table.writes_tree and not _only_inspects(arguments, table):
        yield FileAccess(path=make_word(table.writes_tree), writes=True, tree=True)
    if program == "tar" and uses_option(arguments, _TAR_EXTRACTS):
        yield FileAccess(path=make_word("."), writes=True, tree=True)


def _guess_folders(words: Sequence[ShellWord]) -> Iterator[FileAccess]:
    """Yield the folders in which an unknown program, or subcommand of git, may use any file."""
    if program_name(words) != "git":
        yield from guess_folders(words[1:])
        return
    name, _ = split_subcommand(words)
    if name and name not in LEAVES_FILES:
        yield FileAccess(path=make_word("."), writes=True, tree=True, guessed=True)


def _given_folders(words: Sequence[ShellWord]) -> Iterator[FileAccess]:
    """Yield folders that a container or another machine may get, though the line names none."""
    if any(word.text in READS_FOLDER for word in (words[0], *words[1:3])):
        yield FileAccess(path=make_word("."), writes=False, tree=True)
    if not all(word.known or word.globs for word in words):
        yield FileAccess(path=_UNKNOWN, writes=False)


def _files_of_inner(words: Sequence[ShellWord]) -> Iterator[FileAccess]:
    """Yield the files of a command that an unknown program may run from its arguments."""
    for at in range(1, min(len(words), _MAX_INNER)):
        inner = words[at:]
        if inner[0].known and inner[0].text and knows_files_of(inner):
            files = (*find_files(inner), *find_possible_files(inner))
            yield from (file for file in files if file.path.known or file.path.globs)
            return


def _only_inspects(arguments: Sequence[Argument], table: Program) -> bool:
    first = next((each.word.text for each in arguments if not each.is_option), "")
    return first in table.inspects or uses_option(arguments, table.inspects)


def _recursion(
    arguments: Sequence[Argument], table: Program, *, runs: bool
) -> Iterator[FileAccess]:
    """Yield the folders that a program searches, with or without operands."""
    recursive = table.recursive or uses_option(arguments, table.recurses)
    modifies = uses_option(arguments, table.modifies)
    if table.operands is Operands.NAMES and not (modifies or runs):
        return
    if not table.default or not (recursive or modifies or runs):
        return
    operands = list_file_operands(arguments, table)
    # A pattern of files in place of a text may become exactly that text.
    texts = 0 if uses_option(arguments, table.text_options) else table.text_operands
    if sum(not each.is_option for each in arguments) <= texts:
        operands.append(make_word(table.default))
    follows = follows_links(arguments, table)
    for word in operands:
        yield FileAccess(path=word, writes=modifies, tree=True, follows=follows)


def _listed_files(arguments: Sequence[Argument], table: Program) -> Iterator[FileAccess]:
    listed = table.lists_after_at and any(each.word.text.startswith("@") for each in arguments)
    if listed or table.reads_input_names or uses_option(arguments, table.lists):
        writes = table.operands is not Operands.READ
        yield FileAccess(path=_UNKNOWN, writes=writes)


def _copied_files(arguments: Sequence[Argument], table: Program) -> Iterator[FileAccess]:
    """Yield the files that copies and links make in a folder, and what a link refers to."""
    if table.operands not in INTO_LAST:
        return
    operands = list_file_operands(arguments, table)
    folders = [
        each.value for each in arguments if each.value and table.folders.intersection(each.names)
    ]
    if not folders:
        folders, operands = (operands[-1:], operands[:-1]) if len(operands) > 1 else ([], operands)
    links = table.recursive or uses_option(
        arguments, _LINKS
    )  # A later command may write through them.
    yield from (FileAccess(path=each, writes=True, tree=True) for each in operands if links)
    merges = uses_option(arguments, table.recurses)
    moves, backs_up = table.operands is Operands.MOVED, uses_option(arguments, _BACKS_UP)
    for folder in folders or [make_word(".")]:
        if merges:
            yield FileAccess(path=folder, writes=True, tree=True)
        for source in operands:
            copy = f"{folder.text}/{source.text.rstrip('/').rpartition('/')[2]}"
            yield FileAccess(path=make_word(copy, source), writes=True, tree=moves)
            if backs_up:
                backup = ShellWord(f"{copy}*", source.written, known=False, globs=True)
                yield FileAccess(path=backup, writes=True)
            if not source.text.startswith("/") and not merges:
                # The target of a symbolic link starts in the folder of the link.
                for start in (folder.text, folder.text.rpartition("/")[0] or "."):
                    path = make_word(f"{start}/{source.text}", source)
                    for writes in {False, links}:
                        yield FileAccess(path=path, writes=writes, tree=True)


def _passed_folders(arguments: Sequence[Argument], table: Program) -> Iterator[FileAccess]:
    """Yield the folders that `mkdir -p a/../b` makes on its way."""
    for file in list_operand_files(arguments, table):
        for up in re.finditer(r"/\.\.", file.path.text):
            yield FileAccess(path=make_word(file.path.text[: up.start()], file.path), writes=True)


def _files_beside(arguments: Sequence[Argument], table: Program) -> Iterator[FileAccess]:
    """Yield files with names such as `x~`, `x.gz` and `x.orig`."""
    if not (table.writes_beside or uses_option(arguments, table.modifies)):
        return
    named = (file for file in list_option_files(arguments, table) if not file.tree)
    for file in (*list_operand_files(arguments, table), *named):
        if file.writes:
            text = file.path.text
            patterns = [f"{text}*"]
            if table.temporary:
                patterns.append(text[: text.rfind("/") + 1] + table.temporary)
            for pattern in patterns:
                path = ShellWord(pattern, text, known=False, globs=True)
                yield FileAccess(path=path, writes=True)
            stem = text.rpartition(".")[0]
            if stem.rpartition("/")[2]:
                yield FileAccess(path=make_word(stem, file.path), writes=True)


def _git_folders(words: Sequence[ShellWord]) -> Iterator[FileAccess]:
    for at, word in enumerate(words[1:], start=1):
        name, equals, value = word.text.partition("=")
        if name in GLOBAL_FOLDERS:
            path = make_word(value, word) if equals else (*words, _UNKNOWN)[at + 1]
            if path.text != ".":
                yield FileAccess(path=path, writes=True, tree=True)


def _guess_options(arguments: Sequence[Argument], table: Program) -> Iterator[FileAccess]:
    """Yield the values of unknown options, and values that may be operands in other versions."""
    certain = table.values | table.executes
    for each in arguments:
        names = set(each.names)
        if not each.is_option or each.value is None:
            continue
        if not names or names & table.optional - certain:
            yield from guess_files([each.value])
        elif names & table.values and each.value.known and " " not in each.value.text:
            yield FileAccess(path=each.value, writes=True)
    operands = [each.word for each in arguments if not each.is_option]
    if table.expressions:
        yield from guess_files(operands, tree=True)
    if not table.read_only and any(_is_unknown(each) for each in arguments):
        yield from guess_files(operands)


def _is_unknown(argument: Argument) -> bool:
    return argument.is_option and not argument.names


def find_unknown_values(words: Sequence[ShellWord]) -> list[str]:
    """Return the texts that options which no table knows may run."""
    table, given = find_table(words)
    if table is None:
        return []
    arguments = parse_arguments(given, table)
    following = [*arguments[1:], None][: len(arguments)]
    found = [
        (one.value, after.word if after is not None and not after.is_option else None)
        for one, after in zip(arguments, following, strict=True)
        if _is_unknown(one)
    ]
    return [word.text for pair in found for word in pair if word is not None]
