"""A parsed command line: its commands, the files they use, and what the parser is unsure of."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct


class ShellWord(Struct, frozen=True):
    """One word of a command, as the program would receive it."""

    text: str
    """The word without quotes. An expansion that only the shell can evaluate stays as written."""
    written: str
    known: bool = True
    """False when part of the word is known only at run time."""
    globs: bool = False
    """True when the word is unknown only because it is a file name pattern."""
    splits: bool = False
    """True when an expansion without quotes may make several words of it, or none."""
    computed: bool = False
    """True when only commands and variables of the line itself make it unknown."""
    plain: bool = False
    """True when what makes it unknown contains no file name patterns."""
    values: tuple["ShellWord", ...] = ()
    """The words that it may become, if the line says which."""


class ShellCommand(Struct, frozen=True, kw_only=True):
    """One simple command, and the commands that it would run itself."""

    words: tuple[ShellWord, ...]
    inner: tuple["ShellCommand", ...] = ()
    transparent: bool = False
    """True for a wrapper such as `timeout` that does not change what it runs."""
    sensitive_words: tuple[str, ...] = ()
    """Words that only a rule which spells them out may allow, such as `find`'s `-delete`."""
    opaque_reason: str = ""
    """Why its effect is unknown, for example because it passes code to an interpreter."""
    inert: bool = False
    """True when it has no effect on files or processes: it needs no rule of its own."""
    variants: tuple["ShellCommand", ...] = ()
    """The commands that it may be, if the line says which values its variables have."""
    source: "ShellCommand | None" = None
    """The command before it in a pipeline, if its output is all that this one gets."""

    @property
    def name(self) -> str:
        """The program as the line calls it."""
        return self.words[0].text

    @property
    def program(self) -> str:
        """The program without its folder."""
        return program_name(self.words)

    @property
    def plain(self) -> str:
        """The words, separated by single spaces."""
        return " ".join(word.text for word in self.words)

    @property
    def called(self) -> str:
        """Like `plain`, with the program without its folder."""
        return " ".join((self.program, *(word.text for word in self.words[1:])))

    @property
    def written(self) -> str:
        """The words as written in the line, with quotes, separated by single spaces."""
        return " ".join(word.written for word in self.words)

    @property
    def expands(self) -> bool:
        """Does a word depend on an expansion that only the shell can evaluate?"""
        return not all(word.known for word in self.words)


class FileAccess(Struct, frozen=True, kw_only=True):
    """A file that a command line reads or writes."""

    path: ShellWord
    writes: bool
    redirected: bool = False
    """True for the target of a redirection, False for an argument of a program."""
    tree: bool = False
    """True if everything below the path may be used too."""
    follows: bool = False
    """True if that includes what links below the path lead to."""
    guessed: bool = False
    """True if the program may also use none of it: only what exists there counts."""


class CommandLine(Struct, frozen=True, kw_only=True):
    """The result of parsing one command line."""

    commands: tuple[ShellCommand, ...] = ()
    files: tuple[FileAccess, ...] = ()
    doubts: tuple[str, ...] = ()
    """Why the line may run other commands than those listed here."""
    cd_targets: tuple[ShellWord, ...] = ()
    """Directories that the line changes into: relative paths may start there."""
    assigned: tuple[ShellWord, ...] = ()
    """Values that the line assigns to variables."""
    inputs: tuple[str, ...] = ()
    """Texts that commands get as their input: here-documents, and what `echo` pipes to them."""
    patterns: tuple[ShellWord, ...] = ()
    """File name patterns whose matches a variable gets."""
    made_program: str = ""
    """A file that the line writes and then runs."""
    is_list: bool = True
    """False when there is more than a list of commands: loops, groups, substitutions, variables."""


def program_name(words: Sequence[ShellWord]) -> str:
    """Return the name of the program, without its folder."""
    name = words[0].text
    return name.rstrip("/").rpartition("/")[2] or name


def flatten(commands: Iterable[ShellCommand]) -> Iterator[ShellCommand]:
    """Yield the commands and, recursively, the commands that they run."""
    for command in commands:
        yield command
        yield from flatten(command.inner)
