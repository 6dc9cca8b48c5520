"""From syntax nodes to the words a program would get.

The grammar is trusted for where a word begins, and for little else: what a piece may hold
is checked again here, because a grammar that reads a quote otherwise than the shell does
would hide a command.
"""

import re
from collections.abc import Callable, Sequence
from enum import Enum
from itertools import pairwise, product
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field

from clew.permissions.shell.command_line import ShellWord
from clew.permissions.shell.programs import table
from clew.permissions.shell.quoting import decode_ansi_c, unescape_double_quoted

if TYPE_CHECKING:
    from tree_sitter import Node

_SIMPLE = re.compile(r"[A-Za-z0-9_./:=@%+,-]+")
_BARE = re.compile(r"(?s)(?:\\.|[^\s\\\"'`$;&|<>()])*")
_BARE_PIECE = re.compile(r"(?s)\\(.)|([^\\]+)")
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|[0-9@*#?$!_-])")
_EXPANDS = re.compile(r"[A-Za-z_0-9{(\[@*#?$!'-]")
_NUMBERS_ONLY = re.compile(r"\$\(\([\s\d+*/%()<>=!&|^~-]*\)\)")
_SAFE_VALUE = re.compile(r"\$\{#?(?:\w+|[@*#?$!-])\}|\$\{\w+\[[\d@*]+\]\}|\$\{\w+@Q\}")
_GLOBS = frozenset("*?[")
_OTHER_HOME = re.compile(r"~[^/]|[A-Za-z_]\w*\+?=(?:.*:)?~")
"""A home folder that is not told from here, at the beginning of a word or of a value."""
_OPERATORS = table('${ } :- - :+ + :? ? % %% # ## / // /# /% : ^ ^^ , ,, "')
CONTINUED = re.compile(r"(?:\\\n)*")
"""Between two pieces of one word: nothing, or a line that goes on."""


class Quoting(Enum):
    """What the shell still does to a piece of a word."""

    PLAIN = 0
    """Neither quoted nor escaped: braces and patterns count."""
    QUOTED = 1
    OPEN = 2
    """An expansion: its value is not known."""


WordPart: TypeAlias = tuple[str, Quoting]


class WordBuilder(Struct):
    """What came of a word so far."""

    source: bytes
    pieces: list[WordPart] = field(default_factory=list)
    nested: list["Node"] = field(default_factory=list)
    """Substitutions: they hold commands of their own."""
    doubts: list[str] = field(default_factory=list)

    quoted: bool = False
    """True between double quotes."""

    def begin(self, node: "Node") -> int:
        """Return where a node begins: between quotes the grammar counts blanks before it in."""
        start = node.start_byte
        while self.quoted and self.source[start : start + 1] in (b" ", b"\t", b"\n"):
            start += 1
        return start

    def text(self, node: "Node") -> str:
        """Return the source of a node."""
        return self.source[self.begin(node) : node.end_byte].decode(errors="replace")

    def between(self, start: int, end: int) -> str:
        """Return a stretch of the source."""
        return self.source[start:end].decode(errors="replace")

    def open(self, node: "Node") -> None:
        """Take a node for something that only the shell will know."""
        self.pieces.append((self.text(node), Quoting.OPEN))


def expand_word(nodes: Sequence["Node"], reading: WordBuilder) -> list[ShellWord]:
    """Evaluate adjacent nodes that make one word; braces may make several of it."""
    written = reading.between(nodes[0].start_byte, nodes[-1].end_byte)
    if len(nodes) == 1 and nodes[0].type in ("word", "number") and _SIMPLE.fullmatch(written):
        return [ShellWord(written, written)]
    reading.pieces = []
    for node in nodes:
        _piece(node, reading)
    if reading.pieces and reading.pieces[0][0][:1] == "#" and reading.pieces[0][1] is Quoting.PLAIN:
        reading.doubts.append("a word begins like a comment")
    if not any("{" in text for text, mark in reading.pieces if mark is Quoting.PLAIN):
        return [_word(reading.pieces, written)]
    try:
        # An empty word that no quotes hold is none.
        return [_word(pieces, written) for pieces in expand_braces(reading.pieces) if pieces]
    except TooManyWords:
        reading.doubts.append("its braces stand for too much")
        return [ShellWord(written, written, known=False)]


def _word(pieces: Sequence[WordPart], written: str) -> ShellWord:
    text = "".join(text for text, _ in pieces)
    is_open = any(mark is Quoting.OPEN for _, mark in pieces)
    globs = any(_GLOBS & set(text) for text, mark in pieces if mark is Quoting.PLAIN)
    homes = text if pieces and pieces[0][1] is Quoting.PLAIN else ""
    other_home = bool(_OTHER_HOME.match(homes))
    known = not (is_open or globs or other_home)
    return ShellWord(text, written, known=known, globs=globs and not (is_open or other_home))


def _piece(node: "Node", reading: WordBuilder) -> None:
    reader = _NODE_READERS.get(node.type)
    if reader is None:
        reading.doubts.append(f"it has a part that is not understood (`{node.type}`)")
        reading.open(node)
        reading.nested.append(node)
    else:
        reader(node, reading)


def _bare(node: "Node", reading: WordBuilder) -> None:
    text = reading.text(node)
    if node.child_count or not _BARE.fullmatch(text):
        reading.doubts.append("a word holds a sign that the shell may obey")
        reading.open(node)
        reading.nested += node.children
        return
    for escaped, plain in _BARE_PIECE.findall(text):
        if plain:
            reading.pieces.append((plain, Quoting.PLAIN))
        elif escaped != "\n":
            reading.pieces.append((escaped, Quoting.QUOTED))


def _sign(node: "Node", reading: WordBuilder) -> None:
    reading.pieces.append((reading.text(node), Quoting.QUOTED))


def _dollar(node: "Node", reading: WordBuilder) -> None:
    """Read a dollar that expands nothing; before a quoted text it asks for a translation."""
    following = reading.source[node.end_byte : node.end_byte + 1].decode(errors="replace")
    if following == '"':
        return
    if _EXPANDS.match(following):
        reading.doubts.append("it has an expansion that is not understood")
    reading.pieces.append((reading.text(node), Quoting.QUOTED))


def _raw(node: "Node", reading: WordBuilder) -> None:
    text = reading.text(node)
    if len(text) < 2 or text[0] != "'" or text[-1] != "'" or "'" in text[1:-1]:
        reading.doubts.append("a quote is not closed")
    reading.pieces.append((text[1:-1], Quoting.QUOTED))


def _ansi(node: "Node", reading: WordBuilder) -> None:
    text = decode_ansi_c(reading.text(node)[2:-1])
    if text is None:
        reading.doubts.append("it has an escape that is not understood")
        reading.open(node)
    else:
        reading.pieces.append((text, Quoting.QUOTED))


def _string(node: "Node", reading: WordBuilder) -> None:
    """Read text between double quotes; the grammar leaves out some of it between its nodes."""
    children = node.children
    text = reading.text(node)
    if len(children) < 2 or len(text) < 2 or not (text[0] == text[-1] == '"'):
        reading.doubts.append("a quote is not closed")
        reading.open(node)
        reading.nested += children
        return
    start, outside = reading.begin(node) + 1, reading.quoted
    reading.quoted = True
    for child in children[1:-1]:
        if child.type in ("string_content", "$"):
            continue
        _quoted(reading.between(start, reading.begin(child)), reading)
        _piece(child, reading)
        start = child.end_byte
    _quoted(reading.between(start, node.end_byte - 1), reading)
    reading.quoted = outside


def _quoted(literal: str, reading: WordBuilder) -> None:
    text = unescape_double_quoted(literal)
    if text is None:
        reading.doubts.append("a quoted text holds more than text")
    reading.pieces.append((literal, Quoting.OPEN) if text is None else (text, Quoting.QUOTED))


def _joined(node: "Node", reading: WordBuilder) -> None:
    start = node.start_byte
    for child in node.children:
        if not CONTINUED.fullmatch(reading.between(start, child.start_byte)):
            reading.doubts.append("a word has a gap")
        _piece(child, reading)
        start = child.end_byte


def _variable(node: "Node", reading: WordBuilder) -> None:
    if not _VARIABLE.fullmatch(reading.text(node)):
        reading.doubts.append("it has an expansion that is not understood")
        reading.nested += node.children
    reading.open(node)


def _braced(node: "Node", reading: WordBuilder) -> None:
    """Read `${…}`: anything that assigns, or evaluates what a variable holds, is in doubt."""
    text = reading.text(node)
    reading.open(node)
    if _SAFE_VALUE.fullmatch(text):
        return
    if text[2:3] == "!" or not all(_is_safe_part(child, reading) for child in node.children):
        reading.doubts.append("it has an expansion that may do more than read a variable")
    reading.nested += node.children


def _is_safe_part(node: "Node", reading: WordBuilder) -> bool:
    text = reading.text(node)
    if not node.is_named:
        return node.type in _OPERATORS
    if node.type in ("variable_name", "special_variable_name", "word", "number", "regex"):
        return not node.child_count and not set("`$[<>(\"'\\") & set(text)
    if node.type in ("string", "raw_string", "simple_expansion"):
        inside = WordBuilder(reading.source)
        _piece(node, inside)
        return not inside.doubts
    return node.type == "command_substitution"


def _substitution(node: "Node", reading: WordBuilder) -> None:
    reading.open(node)
    reading.nested.append(node)


def _arithmetic(node: "Node", reading: WordBuilder) -> None:
    # A variable in arithmetic is evaluated in its turn, and an index in it may run commands.
    if not _NUMBERS_ONLY.fullmatch(reading.text(node)):
        reading.doubts.append("it calculates with more than numbers")
    _substitution(node, reading)


def _brace_group(node: "Node", reading: WordBuilder) -> None:
    reading.pieces.append((reading.text(node), Quoting.PLAIN))


_NODE_READERS: dict[str, Callable[["Node", WordBuilder], None]] = {
    **dict.fromkeys(("word", "number", "extglob_pattern", "variable_name", "test_operator"), _bare),
    **dict.fromkeys(("==", "=~"), _sign),
    "$": _dollar,
    "brace_expression": _brace_group,
    "raw_string": _raw,
    "ansi_c_string": _ansi,
    "string": _string,
    "translated_string": _joined,
    "concatenation": _joined,
    "simple_expansion": _variable,
    "expansion": _braced,
    "command_substitution": _substitution,
    "process_substitution": _substitution,
    "arithmetic_expansion": _arithmetic,
}


MAX_WORDS = 256
"""Words that one word may become."""
_MOST_GROUPS = 16
_RANGE = re.compile(r"(-?\d{1,6}|[A-Za-z])\.\.(-?\d{1,6}|[A-Za-z])")
_PADDED = re.compile(r"-?0\d")
_OPENS, _COMMA, _CLOSES = (("{", Quoting.PLAIN), (",", Quoting.PLAIN), ("}", Quoting.PLAIN))


class TooManyWords(Exception):
    """The words are too many, or not certain."""


def expand_braces(pieces: list[WordPart]) -> list[list[WordPart]]:
    """Return the words that braces make of one word.

    Raises:
        TooMuch: They are more than `MAX_WORDS`, or a range that is not understood.
    """
    if sum(text.count("{") for text, mark in pieces if mark is Quoting.PLAIN) > _MOST_GROUPS:
        raise TooManyWords
    cells = [
        (char, mark)
        for text, mark in pieces
        for char in (text if mark is Quoting.PLAIN else (text,))
    ]
    return _expand(cells)


def _expand(cells: list[WordPart]) -> list[list[WordPart]]:
    for start, cell in enumerate(cells):
        if cell != _OPENS:
            continue
        found = _group(cells, start)
        if found is None:
            _check_rest(cells[start + 1 :])
            continue
        choices, end = found
        tails = _expand(cells[end + 1 :])
        if len(choices) * len(tails) > MAX_WORDS:
            raise TooManyWords
        return [cells[:start] + choice + tail for choice, tail in product(choices, tails)]
    return [cells]


def _check_rest(cells: list[WordPart]) -> None:
    """Refuse a brace that stands for itself where the shell may pair it with a later one."""
    if _COMMA in cells and _CLOSES in cells[cells.index(_COMMA) :]:
        raise TooManyWords


def _group(cells: list[WordPart], start: int) -> tuple[list[list[WordPart]], int] | None:
    """Return the alternatives of the group that starts here, and where it ends."""
    depth, marks = 0, [start]
    for at in range(start, len(cells)):
        if cells[at] == _OPENS:
            depth += 1
        elif cells[at] == _COMMA and depth == 1:
            marks.append(at)
        elif cells[at] == _CLOSES:
            depth -= 1
            if depth == 0:
                choices = _choices(cells, [*marks, at])
                return None if choices is None else (choices, at)
    return None


def _choices(cells: list[WordPart], marks: list[int]) -> list[list[WordPart]] | None:
    if len(marks) > 2:
        parts = [cells[one + 1 : other] for one, other in pairwise(marks)]
        choices = [word for part in parts for word in _expand(part)]
        if len(choices) > MAX_WORDS:
            raise TooManyWords
        return choices
    inside = cells[marks[0] + 1 : marks[1]]
    body = "".join(text for text, _ in inside)
    if ".." not in body:
        return None
    if any(mark is not Quoting.PLAIN for _, mark in inside):
        raise TooManyWords
    return [[(word, Quoting.PLAIN)] for word in _sequence(body)]


def _sequence(body: str) -> list[str]:
    found = _RANGE.fullmatch(body)
    if not found or found[1].isalpha() != found[2].isalpha():
        raise TooManyWords
    first, last = found[1], found[2]
    one, other = (ord(first), ord(last)) if first.isalpha() else (int(first), int(last))
    odd = first.isalpha() and first.islower() != last.islower()
    if odd or abs(other - one) >= MAX_WORDS or _PADDED.match(first) or _PADDED.match(last):
        raise TooManyWords
    step = 1 if other >= one else -1
    numbers = range(one, other + step, step)
    return [chr(number) if first.isalpha() else str(number) for number in numbers]
