"""Options and operands of a program, parsed the way `getopt_long` parses them.

`-uo out` is `-u -o out`, `-oout` and `--output=out` are `-o out`, and `--outp` is `--output`. A
`Program` says which options take a value and what they do; one table per program is in `tables`.
"""

from collections.abc import Iterator, Sequence
from enum import Enum

from msgspec import Struct

from clew.permissions.shell.command_line import ShellWord

_EMPTY: frozenset[str] = frozenset()


class Operands(Enum):
    """What a program does with its operands."""

    READ = 0
    WRITE = 1
    LAST_WRITTEN = 2
    """Writes the last one, or into it if it is a folder; reads the others."""
    MOVED = 7
    """Like `LAST_WRITTEN`, and removes the others."""
    FIRST_WRITTEN = 3
    """Writes the first one, reads the others."""
    SECOND_WRITTEN = 4
    """Reads the first one, writes the second one."""
    NAMES = 5
    """Uses the names of files, not their content."""
    TEXT = 6
    """They are not files."""


class Program(Struct, frozen=True, kw_only=True):
    """What the options and operands of one program do.

    An option belongs to one of the sets. One that is in no set is unknown: it may have a value, may
    run it, and may change the operands, unless the program is `read_only`. Such programs change
    nothing as long as all of their options are in `flags`, `values`, `optional`, `reads` or
    `recurses`, and not in `follows`.
    """

    operands: Operands = Operands.READ
    text_operands: int = 0
    """Leading operands that are not files, such as a pattern."""
    text_options: frozenset[str] = _EMPTY
    """Options that replace those operands."""
    flags: frozenset[str] = _EMPTY
    """Options without a value that only change what is shown, or how."""
    values: frozenset[str] = _EMPTY
    """Options whose value is not a file."""
    pairs: frozenset[str] = _EMPTY
    """Options, also in another set, that take two words: a name and the value."""
    optional: frozenset[str] = _EMPTY
    """Options whose value, if there is one, is attached; it is not a file."""
    reads: frozenset[str] = _EMPTY
    """Options whose value is a file that is read."""
    reads_after_at: frozenset[str] = _EMPTY
    """Options whose value may contain the name of a file that is read, after `@` or `<`."""
    lists: frozenset[str] = _EMPTY
    """Options whose value is a file with the names of further files."""
    writes: frozenset[str] = _EMPTY
    """Options whose value is a file that is written."""
    folders: frozenset[str] = _EMPTY
    """Options whose value is a folder in which files are written."""
    modifies: frozenset[str] = _EMPTY
    """Options that make the program change or remove its operands."""
    executes: frozenset[str] = _EMPTY
    """Options whose value is code or a program to run."""
    recurses: frozenset[str] = _EMPTY
    """Options that make the program descend into folders."""
    follows: frozenset[str] = _EMPTY
    """Options, also in another set, that make it follow links or run its own helpers."""
    dereferences: frozenset[str] = _EMPTY
    """Options of `follows` that only make it follow the links below a folder."""
    recursive: bool = False
    """True if it always descends into folders."""
    follows_always: bool = False
    """True if it follows links below folders without an option."""
    default: str = ""
    """What it works on without operands."""
    writes_tree: str = ""
    """A folder in which it may change any file."""
    inspects: frozenset[str] = _EMPTY
    """First operands and options with which it changes nothing in that folder."""
    writes_beside: bool = False
    """True if it may write files whose names begin like those of its operands."""
    temporary: str = ""
    """The pattern of temporary files that it leaves beside its operands when it is interrupted."""
    reads_input_names: bool = False
    """True if it uses files that its standard input names."""
    lists_after_at: bool = False
    """True if an operand such as `@list` is a file with the names of further files."""
    expressions: bool = False
    """True if an operand may be an expression that loads files."""
    hosts: bool = False
    """True if an operand such as `host:path` is on another machine."""
    addresses: bool = False
    """True if its operands are URLs; those with the scheme `file` are files."""
    options_first: bool = False
    """True if everything after the first operand is an operand."""
    long_with_one_dash: bool = False
    """True if `-name` is one option, not a cluster."""
    read_only: bool = False
    """True if it changes nothing and runs nothing, with the options named above."""

    @property
    def valued(self) -> frozenset[str]:
        """The options that take the next word as their value."""
        return (
            self.values
            | self.reads
            | self.reads_after_at
            | self.lists
            | self.writes
            | self.folders
            | self.executes
        ) - self.optional

    @property
    def options(self) -> frozenset[str]:
        """All options that the table knows."""
        switches = self.flags | self.modifies | self.recurses | self.follows | self.inspects
        return self.valued | self.optional | switches

    @property
    def reading(self) -> frozenset[str]:
        """The options with which a `read_only` program changes nothing."""
        harmless = self.flags | self.values | self.optional | self.reads | self.recurses
        harmful = self.lists | self.writes | self.folders | self.modifies | self.executes
        return harmless - harmful - self.follows


class Argument(Struct, frozen=True, kw_only=True):
    """An option with its value, or an operand."""

    word: ShellWord
    """The word as given."""
    names: tuple[str, ...] = ()
    """The options of the table that it may mean; empty for an operand and an unknown option."""
    value: ShellWord | None = None
    """The value of an option, the operand itself."""
    is_option: bool = False


def parse_arguments(words: Sequence[ShellWord], program: Program) -> list[Argument]:
    """Separate the options of a program from its operands.

    Args:
        words: The words after the name of the program.
        program: Its table.
    """
    found: list[Argument] = []
    at, only_operands = 0, False
    while at < len(words):
        word, following = words[at], words[at + 1] if at + 1 < len(words) else None
        at += 1
        if only_operands or not word.text.startswith("-") or word.text == "-":
            found.append(Argument(word=word, value=word))
            only_operands = only_operands or program.options_first
        elif word.text == "--":
            only_operands = True
        else:
            if word.text in program.pairs:
                at += 1
                following = words[at] if at < len(words) else None
            given = _parse_option(word, following, program)
            at += bool(given) and following is not None and given[-1].value is following
            found += given
    return found


def split_bundle(words: Sequence[ShellWord], program: Program) -> list[ShellWord]:
    """Rewrite the arguments of `tar cfI a.tar xz x` as `-c -f a.tar -I xz x`."""
    given = list(words)
    if not given or given[0].text.startswith("-") or not given[0].known:
        return given
    made: list[ShellWord] = []
    rest = given[1:]
    for letter in given[0].text:
        made.append(ShellWord(f"-{letter}", f"-{letter}"))
        if f"-{letter}" in program.valued and rest:
            made.append(rest.pop(0))
    return made + rest


def _parse_option(word: ShellWord, following: ShellWord | None, program: Program) -> list[Argument]:
    is_long = word.text.startswith("--") or program.long_with_one_dash
    if is_long or (len(word.text) > 2 and word.text in program.options):
        return [_parse_long(word, following, program)]
    return list(_parse_cluster(word, following, program))


def _parse_long(word: ShellWord, following: ShellWord | None, program: Program) -> Argument:
    name, equals, attached = word.text.partition("=")
    names = (name,) if name in program.options else _expand_abbreviation(name, program)
    value = _part_of(word, attached) if equals else None
    if value is None and names and program.valued.issuperset(names):
        value = following
    return Argument(word=word, names=names, value=value, is_option=True)


def _expand_abbreviation(name: str, program: Program) -> tuple[str, ...]:
    """Return every option that an abbreviated long option may mean."""
    if len(name) < 3:
        return ()
    return tuple(sorted(option for option in program.options if option.startswith(name)))


def _parse_cluster(
    word: ShellWord, following: ShellWord | None, program: Program
) -> Iterator[Argument]:
    for at, letter in enumerate(word.text[1:], start=1):
        name, rest = f"-{letter}", word.text[at + 1 :]
        names = (name,) if name in program.options else ()
        if name in program.valued:
            value = _part_of(word, rest) if rest else following
            yield Argument(word=word, names=names, value=value, is_option=True)
            return
        if name in program.optional or not names:
            # The value of an unknown option may be what is attached to it.
            value = _part_of(word, rest) if rest else None
            yield Argument(word=word, names=names, value=value, is_option=True)
            if names:
                return
        else:
            yield Argument(word=word, names=names, is_option=True)


def _part_of(word: ShellWord, text: str) -> ShellWord:
    return ShellWord(text, text, known=word.known, globs=word.globs)


def letters(text: str) -> frozenset[str]:
    """Return short options, one for each letter."""
    return frozenset(f"-{letter}" for letter in text)
