"""Finds the files that programs read and write, from their arguments.

`find_files` returns what a program certainly uses, `find_possible_files` what else it may use: the
values of unknown options, names in other files, everything in a folder. Rules that forbid a file
look at both; a file that is only possible leads to a question.
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
    guess_files,
    make_word,
)
from clew.permissions.shell.programs import CONTAINER_PROGRAMS, NAME_ONLY, READS_FOLDER, word_set
from clew.permissions.shell.tables import PROGRAMS
from clew.permissions.shell.tables.git import GLOBAL_FOLDERS, GLOBAL_VALUES, SUBCOMMANDS

_DEVICE = re.compile(r"/dev/(?:null|zero|full|u?random|stdin|stdout|stderr|tty|fd/\d+)")
_SYSTEM_FOLDERS = word_set("""
    /bin /sbin /usr/bin /usr/sbin /usr/local/bin /usr/local/sbin /opt/homebrew/bin
""")
_UNKNOWN = ShellWord("", "", known=False)
_MAX_INNER = 20
_TAR_CREATES = word_set("-c -r -u -A --create --append --update --catenate --concatenate --delete")
_TAR_EXTRACTS = word_set("-x --extract --get")
_LINKS = word_set("-l -s --link --symbolic-link")
_BACKS_UP = word_set("-b --backup -S --suffix")
_INTO_LAST = (Operands.LAST_WRITTEN, Operands.MOVED)


def find_table(words: Sequence[ShellWord]) -> tuple[Program | None, Sequence[ShellWord]]:
    """Return the table of a program or a subcommand of git, and the words that it applies to.

    A program in a folder of its own is another program, even if it has a usual name.
    """
    program = program_name(words)
    if not is_system_program(words):
        return None, words[1:]
    if program == "git":
        rest = list(words[1:])
        while rest and rest[0].text.startswith("-"):
            del rest[: 2 if rest[0].text in GLOBAL_VALUES else 1]
        return (SUBCOMMANDS.get(rest[0].text) if rest else None), rest[1:]
    return PROGRAMS.get(program), split_bundle(
        words[1:], PROGRAMS["tar"]
    ) if program == "tar" else words[1:]


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
        found = [*_option_files(arguments, table), *_operand_files(arguments, table)]
    return tuple(file for file in found if not _is_no_file(file, table))


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
            yield from _files_of_inner(words)
            yield from _given_folders(words) if gives else ()
        return
    arguments = parse_arguments(given, table)
    if program == "git":
        yield from _git_folders(words)
        yield from _option_files(arguments, table)
        # Operands are names of commits more often than files.
        yield from (
            file for file in _operand_files(arguments, table) if file.path.known or file.path.globs
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
    if program == "tar" and _uses(arguments, _TAR_EXTRACTS):
        yield FileAccess(path=make_word("."), writes=True, tree=True)


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


def is_device(word: ShellWord) -> bool:
    """Is this path a device such as `/dev/null`, rather than a file?"""
    return bool(_DEVICE.fullmatch(word.text))


def _is_no_file(file: FileAccess, table: Program) -> bool:
    text = file.path.text
    # Many programs that write take `-` for the name of a file.
    if (text == "-" and not file.writes) or is_device(file.path):
        return True
    return table.hosts and bool(HOST.match(text))


def _uses(arguments: Sequence[Argument], options: frozenset[str]) -> bool:
    return any(options.intersection(each.names) for each in arguments)


def _only_inspects(arguments: Sequence[Argument], table: Program) -> bool:
    first = next((each.word.text for each in arguments if not each.is_option), "")
    return first in table.inspects or _uses(arguments, table.inspects)


def _dd_files(words: Sequence[ShellWord]) -> Iterator[FileAccess]:
    for word in words:
        key, equals, value = word.text.partition("=")
        path = make_word(value, word)
        if equals and key in ("if", "of") and not is_device(path):
            yield FileAccess(path=path, writes=key == "of")


def _option_files(arguments: Sequence[Argument], table: Program) -> Iterator[FileAccess]:
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


def _file_operands(arguments: Sequence[Argument], table: Program) -> list[ShellWord]:
    """Return the operands that are files."""
    words = [each.word for each in arguments if not each.is_option]
    skip = 0 if _uses(arguments, table.text_options) else table.text_operands
    files = [*filter(_may_be_several, words[:skip]), *words[skip:]]
    if table.addresses:
        return [path for word in files if (path := find_in_address(word, table))]
    return files


def _may_be_several(word: ShellWord) -> bool:
    """May the shell make several words of it, so that a file follows the text?"""
    return not word.known and (word.splits or not word.written.startswith('"'))


def _operand_files(arguments: Sequence[Argument], table: Program) -> Iterator[FileAccess]:
    operands, role = _file_operands(arguments, table), table.operands
    if role is Operands.TEXT:
        return
    if _uses(arguments, table.modifies):
        role = Operands.WRITE
    if role is Operands.NAMES:
        return
    if role is Operands.LAST_WRITTEN and _uses(arguments, table.folders):
        role = Operands.READ
    tree = table.recursive or _uses(arguments, table.recurses)
    last = len(operands) - 1
    for at, word in enumerate(operands):
        writes = {
            Operands.WRITE: True,
            Operands.MOVED: True,
            Operands.LAST_WRITTEN: at == last,
            Operands.FIRST_WRITTEN: at == 0,
            Operands.SECOND_WRITTEN: at == 1 or (at == 0 and _may_be_several(word)),
        }.get(role, False)
        whole = tree and not (at and at == last and role in _INTO_LAST)
        yield FileAccess(
            path=word, writes=writes, tree=whole, follows=whole and _follows(arguments, table)
        )


def _recursion(
    arguments: Sequence[Argument], table: Program, *, runs: bool
) -> Iterator[FileAccess]:
    """Yield the folders that a program searches, with or without operands."""
    recursive = table.recursive or _uses(arguments, table.recurses)
    modifies = _uses(arguments, table.modifies)
    if table.operands is Operands.NAMES and not (modifies or runs):
        return
    if not table.default or not (recursive or modifies or runs):
        return
    operands = _file_operands(arguments, table)
    # A pattern of files in place of a text may become exactly that text.
    texts = 0 if _uses(arguments, table.text_options) else table.text_operands
    if sum(not each.is_option for each in arguments) <= texts:
        operands.append(make_word(table.default))
    follows = _follows(arguments, table)
    for word in operands:
        yield FileAccess(path=word, writes=modifies, tree=True, follows=follows)


def _follows(arguments: Sequence[Argument], table: Program) -> bool:
    return table.follows_always or _uses(arguments, table.follows)


def _listed_files(arguments: Sequence[Argument], table: Program) -> Iterator[FileAccess]:
    if table.reads_input_names or _uses(arguments, table.lists):
        writes = table.operands is not Operands.READ
        yield FileAccess(path=_UNKNOWN, writes=writes)


def _copied_files(arguments: Sequence[Argument], table: Program) -> Iterator[FileAccess]:
    """Yield the files that copies and links make in a folder, and what a link refers to."""
    if table.operands not in _INTO_LAST:
        return
    operands = _file_operands(arguments, table)
    folders = [
        each.value for each in arguments if each.value and table.folders.intersection(each.names)
    ]
    if not folders:
        folders, operands = (operands[-1:], operands[:-1]) if len(operands) > 1 else ([], operands)
    links = table.recursive or _uses(arguments, _LINKS)  # A later command may write through them.
    yield from (FileAccess(path=each, writes=True, tree=True) for each in operands if links)
    merges = _uses(arguments, table.recurses)
    moves, backs_up = table.operands is Operands.MOVED, _uses(arguments, _BACKS_UP)
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
    for file in _operand_files(arguments, table):
        for up in re.finditer(r"/\.\.", file.path.text):
            yield FileAccess(path=make_word(file.path.text[: up.start()], file.path), writes=True)


def _files_beside(arguments: Sequence[Argument], table: Program) -> Iterator[FileAccess]:
    """Yield files with names such as `x~`, `x.gz` and `x.orig`."""
    if not (table.writes_beside or _uses(arguments, table.modifies)):
        return
    named = (file for file in _option_files(arguments, table) if not file.tree)
    for file in (*_operand_files(arguments, table), *named):
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


def _tar_files(arguments: Sequence[Argument], table: Program) -> list[FileAccess]:
    creates = _uses(arguments, _TAR_CREATES)
    found = [
        file if file.tree or not _is_archive(file, arguments) or creates else _as_read(file)
        for file in _option_files(arguments, table)
    ]
    if not creates:
        return found
    operands = list(_operand_files(arguments, table))
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
