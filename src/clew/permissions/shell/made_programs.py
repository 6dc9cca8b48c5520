"""Finds lines that make a program or a script and run it: its content is not looked at.

`cp /bin/rm q; ./q x` runs `rm`, and `echo 'cat .env' > s.sh; bash s.sh` reads a file, though no
word of the command that runs says so.
"""

import posixpath
from collections.abc import Iterator, Sequence

from clew.permissions.shell.command_line import (
    CommandLine,
    FileAccess,
    ShellCommand,
    ShellWord,
    flatten,
)
from clew.permissions.shell.file_arguments import (
    find_files,
    find_table,
    is_system_program,
    knows_files_of,
)
from clew.permissions.shell.possible_files import find_possible_files
from clew.permissions.shell.programs import (
    INTERPRETER_FLAGS,
    INTERPRETERS,
    OTHER_SHELLS,
    RUNNERS,
    RUNS_INPUT,
    SHELLS,
    word_set,
)
from clew.permissions.shell.tables import PROGRAMS
from clew.permissions.shell.tables.archives import ARCHIVES

_RUNS_FILES = (RUNNERS | RUNS_INPUT) - PROGRAMS.keys() | word_set("""
    source . go tsx ts-node pytest py.test gcc cc g++ c++ clang rustc javac java kotlin scala julia
    R runghc swift dart elixir psql mysql sqlite3 bc dc m4 cargo just task rake gradle ant mvn cmake
    npm pnpm yarn
""")
"""Programs that run a file which is among their arguments, or compile it."""
_SHELLS = SHELLS | OTHER_SHELLS
_BUILD_FILES = {
    "make": word_set("Makefile makefile GNUmakefile"),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), word_set("package.json .npmrc")),
    "pytest": word_set("conftest.py pytest.ini"),
    "cargo": word_set("build.rs Cargo.toml config.toml"),
    "just": word_set("justfile"),
    "rake": word_set("Rakefile"),
    "git": word_set("config pre-commit post-checkout post-commit pre-push .gitattributes"),
}
"""Files with commands that a program runs without naming them."""
_UNPACKING = ARCHIVES.keys() | {"wget", "patch"}
_NOT_MAKING = word_set("mkdir rmdir rm touch unlink shred truncate")
_COPIES = word_set("cp mv ln link install ditto rsync scp")


def find_made_program(line: CommandLine) -> str:
    """Return the name of a file that the line writes and then runs, or an empty string."""
    if len(line.commands) < 2 and not any(command.inner for command in line.commands):
        return ""
    commands = list(flatten(line.commands))
    made = {_as_path(file.path.text) for file in _list_made(line.files, commands)}
    unpacks = any(map(_unpacks, commands))
    if not made and not unpacks:
        return ""
    for command in commands:
        for name, is_path in _list_run(command):
            if any(_may_be_same(name, each) for each in made) or (unpacks and is_path):
                return name
        expected = _BUILD_FILES.get(command.program, frozenset())
        if found := expected & {posixpath.basename(each) for each in made}:
            return min(found)
    return ""


def _list_made(
    files: Sequence[FileAccess], commands: Sequence[ShellCommand]
) -> Iterator[FileAccess]:
    yield from (file for file in files if file.writes and file.redirected)
    for command in commands:
        if command.program in _NOT_MAKING:
            continue
        yield from (file for file in find_files(command.words) if file.writes)
        if command.program in _COPIES:
            possible = find_possible_files(command.words)
            yield from (file for file in possible if file.writes and file.path.known)


def _unpacks(command: ShellCommand) -> bool:
    """Does the command write files that an archive or another machine names?"""
    if not is_system_program(command.words):
        return False
    if command.program == "tar":
        return any(file.writes and file.tree for file in find_possible_files(command.words))
    table, _ = find_table(command.words)
    return table is not None and bool(table.writes_tree) and command.program in _UNPACKING


def _list_run(command: ShellCommand) -> Iterator[tuple[str, bool]]:
    """Yield the files that a command may run, and whether it names them with a folder."""
    words = command.words
    if "/" in command.name and not is_system_program(words):
        yield _as_path(command.name), True
    elif command.program in _RUNS_FILES or INTERPRETERS.fullmatch(command.program):
        takes_script = command.program in _SHELLS or INTERPRETERS.fullmatch(command.program)
        given = _until_script(words[1:]) if takes_script else words[1:]
        yield from ((_as_path(text), True) for text in _list_scripts(given))
    elif not (command.inert or knows_files_of(words)):
        yield _as_path(command.name), False


def _until_script(words: Sequence[ShellWord]) -> Sequence[ShellWord]:
    """Return the words up to the script: those after it are its arguments."""
    before = ""
    for at, word in enumerate(words):
        takes_word = before.startswith("-") and before not in INTERPRETER_FLAGS
        if not (word.text.startswith("-") or takes_word):
            return words[: at + 1]
        before = word.text
    return words


def _list_scripts(words: Sequence[ShellWord]) -> Iterator[str]:
    before = ""
    for word in words:
        for each in (word, *word.values):
            text = each.text.partition("=")[2] if each.text.startswith("-") else each.text
            if text:
                yield text
            if before == "-m":
                yield f"{text.replace('.', '/')}.py"
        before = word.text


def _as_path(text: str) -> str:
    """Return a path that begins with a slash, without what leads up or stays."""
    path = posixpath.normpath(text or ".")
    while path.startswith("../"):
        path = path[3:]
    return path if path.startswith("/") else f"/{path}"


def _may_be_same(one: str, other: str) -> bool:
    """May two paths be the same file, seen from different folders?"""
    return one.endswith(other) or other.endswith(one)
