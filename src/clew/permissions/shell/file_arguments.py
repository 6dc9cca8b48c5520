"""Finds the files that programs read and write, from their arguments.

`find_files` returns what a program certainly uses, `possible_files.find_possible_files` what else
it may use. Rules that forbid a file look at both; one that is only possible leads to a question.
"""

import re
from collections.abc import Iterator, Sequence

from clew.permissions.shell.arguments import (
    Argument,
    Operands,
    Program,
    parse_arguments,
    split_bundle,
)
from clew.permissions.shell.command_line import FileAccess, ShellWord, program_name
from clew.permissions.shell.names_in_words import (
    HOST,
    find_after_at,
    find_in_address,
    make_word,
)
from clew.permissions.shell.programs import NAME_ONLY, word_set
from clew.permissions.shell.tables import PROGRAMS
from clew.permissions.shell.tables.git import GLOBAL_VALUES, SUBCOMMANDS

_DEVICE = re.compile(r"/dev/(?:null|zero|full|u?random|stdin|stdout|stderr|tty|fd/\d+)")
_SYSTEM_FOLDERS = word_set("""
    /bin /sbin /usr/bin /usr/sbin /usr/local/bin /usr/local/sbin /opt/homebrew/bin
""")
_TAR_CREATES = word_set("-c -r -u -A --create --append --update --catenate --concatenate --delete")
INTO_LAST = (Operands.LAST_WRITTEN, Operands.MOVED)
"""What programs that copy into a folder do with their operands."""


def find_table(words: Sequence[ShellWord]) -> tuple[Program | None, Sequence[ShellWord]]:
    """Return the table of a program or a subcommand of git, and the words that it applies to.

    A program in a folder of its own is another program, even if it has a usual name.
    """
    program = program_name(words)
    if not is_system_program(words):
        return None, words[1:]
    if program == "git":
        name, rest = split_subcommand(words)
        return SUBCOMMANDS.get(name), rest
    return PROGRAMS.get(program), split_bundle(
        words[1:], PROGRAMS["tar"]
    ) if program == "tar" else words[1:]


def split_subcommand(words: Sequence[ShellWord]) -> tuple[str, Sequence[ShellWord]]:
    """Return the subcommand of git, empty if there is none, and the words after it."""
    at = 1
    while at < len(words) and words[at].text.startswith("-"):
        at += 2 if words[at].text in GLOBAL_VALUES else 1
    return (words[at].text if at < len(words) else ""), words[at + 1 :]


def is_system_program(words: Sequence[ShellWord]) -> bool:
    """Is the program found by its name, or in a folder of the system?"""
    folder, slash, _ = words[0].text.rpartition("/")
    return not slash or folder in _SYSTEM_FOLDERS


def knows_files_of(words: Sequence[ShellWord]) -> bool:
    """Do tables say which arguments of this program are files?"""
    if not is_system_program(words):
        return False
    return program_name(words) in NAME_ONLY | {"dd", "git"} or find_table(words)[0] is not None


def find_files(words: Sequence[ShellWord]) -> tuple[FileAccess, ...]:
    """Return the files that a command names, if there is a table for its program."""
    program = program_name(words)
    if program == "dd":
        return tuple(_dd_files(words[1:]))
    table, given = find_table(words)
    if table is None or program == "git":
        return ()
    arguments = parse_arguments(given, table)
    if program == "tar":
        found = _tar_files(arguments, table)
    else:
        found = [*list_option_files(arguments, table), *list_operand_files(arguments, table)]
    return tuple(file for file in found if not _is_no_file(file, table))


def is_device(word: ShellWord) -> bool:
    """Is this path a device such as `/dev/null`, rather than a file?"""
    return bool(_DEVICE.fullmatch(word.text))


def _is_no_file(file: FileAccess, table: Program) -> bool:
    text = file.path.text
    # Many programs that write take `-` for the name of a file.
    if (text == "-" and not file.writes) or is_device(file.path):
        return True
    return table.hosts and bool(HOST.match(text))


def uses_option(arguments: Sequence[Argument], options: frozenset[str]) -> bool:
    """Is one of the options among the arguments?"""
    return any(options.intersection(each.names) for each in arguments)


def _dd_files(words: Sequence[ShellWord]) -> Iterator[FileAccess]:
    for word in words:
        key, equals, value = word.text.partition("=")
        path = make_word(value, word)
        if equals and key in ("if", "of") and not is_device(path):
            yield FileAccess(path=path, writes=key == "of")


def list_option_files(arguments: Sequence[Argument], table: Program) -> Iterator[FileAccess]:
    """Yield the files that options name."""
    for each in arguments:
        if not each.is_option or each.value is None:
            continue
        names = set(each.names)
        if names & (table.writes | table.folders):
            tree = bool(names & table.folders)
            yield FileAccess(path=each.value, writes=True, tree=tree)
        elif names & (table.reads | table.lists | table.executes):
            yield FileAccess(path=each.value, writes=False, tree=True)
        elif names & table.reads_after_at:
            yield from find_after_at(each.value)


def list_file_operands(arguments: Sequence[Argument], table: Program) -> list[ShellWord]:
    """Return the operands that are files."""
    words = [each.word for each in arguments if not each.is_option]
    skip = 0 if uses_option(arguments, table.text_options) else table.text_operands
    files = [*filter(_may_be_several, words[:skip]), *words[skip:]]
    if table.addresses:
        return [path for word in files if (path := find_in_address(word, table))]
    return files


def _may_be_several(word: ShellWord) -> bool:
    """May the shell make several words of it, so that a file follows the text?"""
    return not word.known and (word.splits or not word.written.startswith('"'))


def list_operand_files(arguments: Sequence[Argument], table: Program) -> Iterator[FileAccess]:
    """Yield the operands as files that are read or written."""
    operands, role = list_file_operands(arguments, table), table.operands
    if role is Operands.TEXT:
        return
    if uses_option(arguments, table.modifies):
        role = Operands.WRITE
    if role is Operands.NAMES:
        return
    if role is Operands.LAST_WRITTEN and uses_option(arguments, table.folders):
        role = Operands.READ
    tree = table.recursive or uses_option(arguments, table.recurses)
    last = len(operands) - 1
    for at, word in enumerate(operands):
        writes = {
            Operands.WRITE: True,
            Operands.MOVED: True,
            Operands.LAST_WRITTEN: at == last,
            Operands.FIRST_WRITTEN: at == 0,
            Operands.SECOND_WRITTEN: at == 1 or (at == 0 and _may_be_several(word)),
        }.get(role, False)
        whole = tree and not (at and at == last and role in INTO_LAST)
        yield FileAccess(
            path=word, writes=writes, tree=whole, follows=whole and follows_links(arguments, table)
        )


def follows_links(arguments: Sequence[Argument], table: Program) -> bool:
    """Does the program follow links below a folder?"""
    return table.follows_always or uses_option(arguments, table.follows)


def _tar_files(arguments: Sequence[Argument], table: Program) -> list[FileAccess]:
    creates = uses_option(arguments, _TAR_CREATES)
    found = [
        file if file.tree or not _is_archive(file, arguments) or creates else _as_read(file)
        for file in list_option_files(arguments, table)
    ]
    if not creates:
        return found
    operands = list(list_operand_files(arguments, table))
    folders = [each.value for each in arguments if {"-C", "--directory"} & set(each.names)]
    for folder in filter(None, folders):
        operands += (
            FileAccess(
                path=make_word(f"{folder.text}/{file.path.text}", file.path), writes=file.writes
            )
            for file in list(operands)
        )
    return found + operands


def _is_archive(file: FileAccess, arguments: Sequence[Argument]) -> bool:
    return any(each.value is file.path and {"-f", "--file"} & set(each.names) for each in arguments)


def _as_read(file: FileAccess) -> FileAccess:
    return FileAccess(path=file.path, writes=False)
