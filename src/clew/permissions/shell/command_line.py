"""A command line taken apart: commands, the files they touch, and what is not certain."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct


class ShellWord(Struct, frozen=True):
    """One word of a command, as the program would get it."""

    text: str
    """Without quotes. What only the shell will know stands here as it is written."""
    written: str
    known: bool = True
    """False when a part of it is found out only when the line runs."""
    globs: bool = False
    """True when it is not known only because it is a pattern of file names."""


class ShellCommand(Struct, frozen=True, kw_only=True):
    """One simple command, and the commands that it would run in its turn."""

    words: tuple[ShellWord, ...]
    inner: tuple["ShellCommand", ...] = ()
    transparent: bool = False
    """True for a runner such as `timeout` that changes nothing about what it runs."""
    caution: tuple[str, ...] = ()
    """Words that only a rule which spells them may allow, such as `-delete` of `find`."""
    hides: str = ""
    """Why its effect cannot be known, such as code given to an interpreter."""
    inert: bool = False
    """True when it touches nothing: it needs no rule of its own."""

    @property
    def name(self) -> str:
        """What runs, as it is called."""
        return self.words[0].text

    @property
    def program(self) -> str:
        """What runs, without its folder."""
        return program_name(self.words)

    @property
    def plain(self) -> str:
        """The words with one blank between them."""
        return " ".join(word.text for word in self.words)

    @property
    def called(self) -> str:
        """Like `plain`, but the program without its folder."""
        return " ".join((self.program, *(word.text for word in self.words[1:])))

    @property
    def written(self) -> str:
        """The words as they stand in the line, quotes and all, one blank between them."""
        return " ".join(word.written for word in self.words)

    @property
    def expands(self) -> bool:
        """Does a word stand for something that only the shell will know?"""
        return not all(word.known for word in self.words)


class FileAccess(Struct, frozen=True, kw_only=True):
    """A file that a line reads or writes."""

    path: ShellWord
    writes: bool
    redirected: bool = False
    """True for the file of a redirection, False for an argument of a program."""


class CommandLine(Struct, frozen=True, kw_only=True):
    """What a command line holds."""

    commands: tuple[ShellCommand, ...] = ()
    touches: tuple[FileAccess, ...] = ()
    doubts: tuple[str, ...] = ()
    """Why the commands above may not be all, or may not be what they seem."""
    moves: tuple[ShellWord, ...] = ()
    """Folders that the line changes into: relative paths may start there."""
    simple: bool = True
    """False when there is more than commands in a row: loops, groups, substitutions, settings."""


def program_name(words: Sequence[ShellWord]) -> str:
    """Return the name of what runs, without its folder."""
    name = words[0].text
    return name.rstrip("/").rpartition("/")[2] or name


def flatten(commands: Iterable[ShellCommand]) -> Iterator[ShellCommand]:
    """Yield the commands and all that they run."""
    for command in commands:
        yield command
        yield from flatten(command.inner)
