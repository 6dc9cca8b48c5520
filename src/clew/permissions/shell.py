"""What a command line runs, as far as that can be known without running it.

A line is split into simple commands only where this is certain. Anything that could run
something else than it shows (substitution, redirection into files, compound commands,
`eval`) makes the line doubtful, and a doubtful line is never allowed by a pattern.
"""

import re
from pathlib import PurePosixPath

from msgspec import Struct, field

from clew.permissions.programs import GIT_RUNS, HIDING, KEYWORDS, SHELLS

_SEPARATORS = ("&&", "||", "|&", ";", "|", "&", "\n")
_HARMLESS_REDIRECT = re.compile(
    r"(?:[<>]&(?:\d+|-)|(?:&>>?|>>?|<)[ \t]*/dev/null)(?=[\s;&|]|$)",
)
_PLAIN_VARIABLE = re.compile(r"\$(?:\w+|\{\w+\}|[?#@*$!-])")
_INERT_BRACES = re.compile(r"\{[\w-]*\}")
_ASSIGNMENT = re.compile(r"\w+(\[[^\]]*\])?\+?=")
_AFTER_PLAIN_DOLLAR = frozenset(("", *" \t\n/.,:%=|&;)"))
_GLOBS = frozenset("*?[")


class Command(Struct, frozen=True, kw_only=True):
    """One simple command."""

    text: str
    """As written, blanks between words made one, harmless redirections left out."""
    words: tuple[str, ...]
    """Without quotes."""
    expands: bool = False
    """True when a word stands for something that only the shell will know."""

    @property
    def program(self) -> str:
        """The name of what runs, without its folder."""
        return PurePosixPath(self.words[0]).name or self.words[0]

    @property
    def plain(self) -> str:
        """The words with one blank between them."""
        return " ".join(self.words)

    @property
    def called(self) -> str:
        """Like `plain`, but the program without its folder."""
        return " ".join((self.program, *self.words[1:]))


class Line(Struct, frozen=True, kw_only=True):
    """A command line taken apart, or the reason why it cannot be."""

    commands: tuple[Command, ...] = ()
    doubt: str = ""


class _Doubt(Exception):
    """The line holds something whose effect is not certain."""


class _Reader(Struct):
    """Walks over a line once, collecting words and commands."""

    source: str
    at: int = 0
    commands: list[Command] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    word: str | None = None
    piece: str = ""
    expands: bool = False

    def rest(self) -> str:
        return self.source[self.at :]

    def take(self, source: str, meaning: str) -> None:
        self.word = (self.word or "") + meaning
        self.piece += source
        self.at += len(source)

    def end_word(self) -> None:
        if self.word is not None:
            if not self.words and self.expands:
                raise _Doubt("its program is not named")
            self.words.append(self.word)
            self.pieces.append(self.piece)
        self.word, self.piece = None, ""

    def end_command(self) -> None:
        self.end_word()
        if self.words:
            command = Command(
                text=" ".join(self.pieces), words=tuple(self.words), expands=self.expands
            )
            _refuse_hiding(command)
            self.commands.append(command)
        self.words, self.pieces, self.expands = [], [], False


def split(source: str) -> Line:
    """Take a command line apart, or say why that is not safe."""
    reader = _Reader(source)
    try:
        while reader.at < len(source):
            _step(reader)
        reader.end_command()
    except _Doubt as doubt:
        return Line(doubt=str(doubt))
    return Line(commands=tuple(reader.commands))


def loose_text(source: str) -> str:
    """The line without quotes and backslashes: what words in it might come out as."""
    return re.sub(r"[\"'\\]", "", source)


def _step(reader: _Reader) -> None:
    char = reader.source[reader.at]
    if char in " \t":
        reader.end_word()
        reader.at += 1
    elif char == "#" and reader.word is None:
        end = reader.source.find("\n", reader.at)
        reader.at = len(reader.source) if end < 0 else end
    elif char in "<>" or reader.rest().startswith("&>"):
        _redirect(reader)
    elif mark := next((mark for mark in _SEPARATORS if reader.rest().startswith(mark)), ""):
        reader.end_command()
        reader.at += len(mark)
    elif char in "\"'\\":
        _quoted(reader, char)
    else:
        _plain(reader, char)


def _plain(reader: _Reader, char: str) -> None:
    if char == "$":
        _variable(reader)
    elif char in "`()":
        raise _Doubt("it has a substitution or a subshell")
    elif char in "{}":
        inert = _INERT_BRACES.match(reader.source, reader.at)
        if not inert:
            raise _Doubt("it has braces")
        reader.take(inert[0], inert[0])
    elif not char.isprintable():
        raise _Doubt("it has a control character")
    else:
        reader.expands = reader.expands or char in _GLOBS
        reader.take(char, char)


def _variable(reader: _Reader, *, quoted: bool = False) -> None:
    variable = _PLAIN_VARIABLE.match(reader.source, reader.at)
    if variable:
        reader.expands = True
        reader.take(variable[0], variable[0])
    elif reader.rest()[1:2] in _AFTER_PLAIN_DOLLAR or (quoted and reader.rest()[1:2] == '"'):
        reader.take("$", "$")
    else:
        raise _Doubt("it has a substitution")


def _quoted(reader: _Reader, char: str) -> None:
    if char == "\\":
        following = reader.rest()[1:2]
        if not following:
            raise _Doubt("it ends in a backslash")
        if following == "\n":
            reader.at += 2
        else:
            reader.take("\\" + following, following)
        return
    if char == "'":
        end = reader.source.find("'", reader.at + 1)
        if end < 0:
            raise _Doubt("a quote is not closed")
        text = reader.source[reader.at + 1 : end]
        reader.take(f"'{text}'", text)
        return
    _double_quoted(reader)


def _double_quoted(reader: _Reader) -> None:
    reader.take('"', "")
    while (char := reader.rest()[:1]) != '"':
        if not char:
            raise _Doubt("a quote is not closed")
        following = reader.rest()[1:2]
        if char == "`":
            raise _Doubt("it has a substitution")
        if char == "$":
            _variable(reader, quoted=True)
        elif char == "\\" and following == "\n":
            reader.at += 2
        elif char == "\\" and following in ("$", "`", '"', "\\"):
            reader.take(char + following, following)
        else:
            reader.take(char, char)
    reader.take('"', "")


def _redirect(reader: _Reader) -> None:
    harmless = _HARMLESS_REDIRECT.match(reader.source, reader.at)
    if not harmless:
        raise _Doubt("it redirects to or from a file")
    if reader.source[reader.at] != "&" and reader.piece.isdecimal():
        reader.word, reader.piece = None, ""
    reader.end_word()
    reader.at = harmless.end()


def _refuse_hiding(command: Command) -> None:
    first, *rest = command.words
    if _ASSIGNMENT.match(first):
        raise _Doubt("it sets a variable for a command")
    if first in KEYWORDS or first in HIDING:
        raise _Doubt(f"it uses `{first}`")
    if command.program in SHELLS and (not rest or rest[0].startswith(("-", "+"))):
        raise _Doubt(f"it gives commands to `{command.program}`")
    if command.program == "find" and any(
        word.startswith(("-exec", "-ok", "-delete", "-fprint", "-fls")) for word in rest
    ):
        raise _Doubt("it uses `find` to do more than find")
    if command.program == "git" and GIT_RUNS & {word.partition("=")[0] for word in rest}:
        raise _Doubt("it may make `git` run something")
