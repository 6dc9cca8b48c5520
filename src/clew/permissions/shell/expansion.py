"""Shell expansion: from syntax nodes to the words that a program would receive.

This module trusts the grammar for where a word begins, and for little else. It checks the
content of each part again, because a grammar that reads a quote differently from the shell
would hide a command.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from itertools import pairwise, product
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field

from clew.permissions.shell.command_line import ShellWord
from clew.permissions.shell.programs import word_set
from clew.permissions.shell.quotes import decode_ansi_c, unescape_double_quoted
from clew.permissions.shell.variables import Piece, trace_values

if TYPE_CHECKING:
    from tree_sitter import Node

_SIMPLE = re.compile(r"[A-Za-z0-9_./:=@%+,-]+")
_BARE = re.compile(r"(?s)(?:\\.|[^\s\\\"'`$;&|<>()])*")
_BARE_PIECE = re.compile(r"(?s)\\(.)|([^\\]+)")
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|[0-9@*#?$!_-])")
_EXPANDS = re.compile(r"[A-Za-z_0-9{(\[@*#?$!'-]")
_NUMBERS_ONLY = re.compile(r"\$\(\([\s\d+*/%()<>=!&|^~-]*\)\)")
_SAFE_VALUE = re.compile(r"\$\{#?(?:\w+|[@*#?$!-])\}|\$\{\w+\[[\d@*]+\]\}|\$\{\w+@Q\}")
_SEVERAL = re.compile(r"\$@|\$\{[^}]*@")
"""Expansions that are several words even between quotes."""
_GLOBS = frozenset("*?[")
_OTHER_HOME = re.compile(r"~[^/]|[A-Za-z_]\w*\+?=(?:.*:)?~")
"""Another user's home folder, or one inside a value: the parser does not expand these."""
_OPERATORS = word_set('${ } :- - :+ + :? ? % %% # ## / // /# /% : ^ ^^ , ,, "')
CONTINUED = re.compile(r"(?:\\\n)*")
"""Between two parts of one word: nothing, or a line continuation."""


class Quoting(Enum):
    """What the shell still does to a part of a word."""

    UNQUOTED = 0
    """Neither quoted nor escaped: the shell expands braces and patterns."""
    QUOTED = 1
    UNKNOWN = 2
    """An expansion whose value is known only at run time; the shell may split it."""
    UNKNOWN_QUOTED = 3
    """The same between double quotes: it is a part of one word."""


_OPEN = (Quoting.UNKNOWN, Quoting.UNKNOWN_QUOTED)
WordPart: TypeAlias = tuple[str, Quoting]


class WordBuilder(Struct):
    """Collects the parts of one word."""

    source: bytes
    parts: list[WordPart] = field(default_factory=list)
    nested: list["Node"] = field(default_factory=list)
    """Substitutions: they contain commands of their own."""
    doubts: list[str] = field(default_factory=list)

    quoted: bool = False
    """True between double quotes."""
    variables: Mapping[str, ShellWord] = field(default_factory=dict)
    """The variables that the line has set."""

    def start_of(self, node: "Node") -> int:
        """Return the start of a node; between quotes the grammar includes the blanks before it."""
        start = node.start_byte
        while self.quoted and self.source[start : start + 1] in (b" ", b"\t", b"\n"):
            start += 1
        return start

    def text(self, node: "Node") -> str:
        """Return the source text of a node."""
        return self.source[self.start_of(node) : node.end_byte].decode(errors="replace")

    def slice(self, start: int, end: int) -> str:
        """Return the source text between two offsets."""
        return self.source[start:end].decode(errors="replace")

    def add_unknown(self, node: "Node") -> None:
        """Add a node whose value is known only at run time."""
        text = self.text(node)
        whole = self.quoted and not _SEVERAL.match(text)
        self.parts.append((text, Quoting.UNKNOWN_QUOTED if whole else Quoting.UNKNOWN))


def expand_word(nodes: Sequence["Node"], builder: WordBuilder) -> list[ShellWord]:
    """Expand adjacent nodes that form one word; braces may make several words of it."""
    written = builder.slice(nodes[0].start_byte, nodes[-1].end_byte)
    if len(nodes) == 1 and nodes[0].type in ("word", "number") and _SIMPLE.fullmatch(written):
        return [ShellWord(written, written)]
    builder.parts = []
    for node in nodes:
        _expand_node(node, builder)
    if builder.parts and builder.parts[0][0][:1] == "#" and builder.parts[0][1] is Quoting.UNQUOTED:
        builder.doubts.append("a word starts like a comment")
    if not any("{" in text for text, quoting in builder.parts if quoting is Quoting.UNQUOTED):
        return [_build_word(builder.parts, written, builder.variables)]
    try:
        # The shell drops an empty word without quotes.
        return [_build_word(parts, written, {}) for parts in expand_braces(builder.parts) if parts]
    except TooManyWords:
        builder.doubts.append("its braces expand to too many words")
        return [ShellWord(written, written, known=False)]


def _build_word(
    parts: Sequence[WordPart], written: str, variables: Mapping[str, ShellWord]
) -> ShellWord:
    text = "".join(text for text, _ in parts)
    pieces = [
        Piece(text, is_open=quoting in _OPEN, quoted=quoting is not Quoting.UNKNOWN)
        for text, quoting in parts
    ]
    is_open = any(piece.is_open for piece in pieces)
    globs = any(_GLOBS & set(text) for text, quoting in parts if quoting is Quoting.UNQUOTED)
    homes = text if parts and parts[0][1] is Quoting.UNQUOTED else ""
    other_home = bool(_OTHER_HOME.match(homes))
    word = ShellWord(
        text,
        written,
        known=not (is_open or globs or other_home),
        globs=globs and not (is_open or other_home),
        splits=not all(piece.quoted for piece in pieces),
    )
    return word if globs or other_home or not is_open else trace_values(word, pieces, variables)


def _expand_node(node: "Node", builder: WordBuilder) -> None:
    expander = _NODE_EXPANDERS.get(node.type)
    if expander is None:
        builder.doubts.append(f"it has syntax that the parser does not know (`{node.type}`)")
        builder.add_unknown(node)
        builder.nested.append(node)
    else:
        expander(node, builder)


def _expand_bare(node: "Node", builder: WordBuilder) -> None:
    text = builder.text(node)
    if node.child_count or not _BARE.fullmatch(text):
        builder.doubts.append("a word has a character that the shell may interpret")
        builder.add_unknown(node)
        builder.nested += node.children
        return
    for escaped, plain in _BARE_PIECE.findall(text):
        if plain:
            builder.parts.append((plain, Quoting.UNQUOTED))
        elif escaped != "\n":
            builder.parts.append((escaped, Quoting.QUOTED))


def _expand_operator(node: "Node", builder: WordBuilder) -> None:
    builder.parts.append((builder.text(node), Quoting.QUOTED))


def _expand_dollar(node: "Node", builder: WordBuilder) -> None:
    """Expand a lone dollar; before a quoted text it requests a translation."""
    following = builder.source[node.end_byte : node.end_byte + 1].decode(errors="replace")
    if following == '"':
        return
    if _EXPANDS.match(following):
        builder.doubts.append("it has an expansion that the parser does not know")
    builder.parts.append((builder.text(node), Quoting.QUOTED))


def _expand_raw_string(node: "Node", builder: WordBuilder) -> None:
    text = builder.text(node)
    if len(text) < 2 or text[0] != "'" or text[-1] != "'" or "'" in text[1:-1]:
        builder.doubts.append("a quote is not closed")
    builder.parts.append((text[1:-1], Quoting.QUOTED))


def _expand_ansi_c(node: "Node", builder: WordBuilder) -> None:
    text = decode_ansi_c(builder.text(node)[2:-1])
    if text is None:
        builder.doubts.append("it has an escape that the parser does not know")
        builder.add_unknown(node)
    else:
        builder.parts.append((text, Quoting.QUOTED))


def _expand_string(node: "Node", builder: WordBuilder) -> None:
    """Expand a double-quoted text; the grammar has no nodes for some of it."""
    children = node.children
    text = builder.text(node)
    if len(children) < 2 or len(text) < 2 or not (text[0] == text[-1] == '"'):
        builder.doubts.append("a quote is not closed")
        builder.add_unknown(node)
        builder.nested += children
        return
    start, outside = builder.start_of(node) + 1, builder.quoted
    builder.quoted = True
    for child in children[1:-1]:
        if child.type in ("string_content", "$"):
            continue
        _add_quoted(builder.slice(start, builder.start_of(child)), builder)
        _expand_node(child, builder)
        start = child.end_byte
    _add_quoted(builder.slice(start, node.end_byte - 1), builder)
    builder.quoted = outside


def _add_quoted(literal: str, builder: WordBuilder) -> None:
    text = unescape_double_quoted(literal)
    if text is None:
        builder.doubts.append("a quoted text has an expansion that the parser does not know")
    builder.parts.append((literal, Quoting.UNKNOWN) if text is None else (text, Quoting.QUOTED))


def _expand_concatenation(node: "Node", builder: WordBuilder) -> None:
    start = node.start_byte
    for child in node.children:
        if not CONTINUED.fullmatch(builder.slice(start, child.start_byte)):
            builder.doubts.append("a word has a gap")
        _expand_node(child, builder)
        start = child.end_byte


def _expand_variable(node: "Node", builder: WordBuilder) -> None:
    if not _VARIABLE.fullmatch(builder.text(node)):
        builder.doubts.append("it has an expansion that the parser does not know")
        builder.nested += node.children
    builder.add_unknown(node)


def _expand_parameter(node: "Node", builder: WordBuilder) -> None:
    """Expand `${…}`; an assignment, or the evaluation of a variable's value, is a doubt."""
    text = builder.text(node)
    builder.add_unknown(node)
    if _SAFE_VALUE.fullmatch(text):
        return
    if text[2:3] == "!" or not all(_is_safe_part(child, builder) for child in node.children):
        builder.doubts.append("it has an expansion that may do more than read a variable")
    builder.nested += node.children


def _is_safe_part(node: "Node", builder: WordBuilder) -> bool:
    text = builder.text(node)
    if not node.is_named:
        return node.type in _OPERATORS
    if node.type in ("variable_name", "special_variable_name", "word", "number", "regex"):
        return not node.child_count and not set("`$[<>(\"'\\") & set(text)
    if node.type in ("string", "raw_string", "simple_expansion"):
        inside = WordBuilder(builder.source)
        _expand_node(node, inside)
        return not inside.doubts
    return node.type == "command_substitution"


def _expand_substitution(node: "Node", builder: WordBuilder) -> None:
    builder.add_unknown(node)
    builder.nested.append(node)


def _expand_arithmetic(node: "Node", builder: WordBuilder) -> None:
    # Arithmetic evaluates the value of a variable again, and an index in it may run commands.
    if not _NUMBERS_ONLY.fullmatch(builder.text(node)):
        builder.doubts.append("it has shell arithmetic on variables")
    _expand_substitution(node, builder)


def _expand_brace_expression(node: "Node", builder: WordBuilder) -> None:
    builder.parts.append((builder.text(node), Quoting.UNQUOTED))


_NODE_EXPANDERS: dict[str, Callable[["Node", WordBuilder], None]] = {
    **dict.fromkeys(
        ("word", "number", "extglob_pattern", "variable_name", "test_operator"), _expand_bare
    ),
    **dict.fromkeys(("==", "=~"), _expand_operator),
    "$": _expand_dollar,
    "brace_expression": _expand_brace_expression,
    "raw_string": _expand_raw_string,
    "ansi_c_string": _expand_ansi_c,
    "string": _expand_string,
    "translated_string": _expand_concatenation,
    "concatenation": _expand_concatenation,
    "simple_expansion": _expand_variable,
    "expansion": _expand_parameter,
    "command_substitution": _expand_substitution,
    "process_substitution": _expand_substitution,
    "arithmetic_expansion": _expand_arithmetic,
}


MAX_WORDS = 256
"""The limit of words that brace expansion may make of one word."""
_MAX_GROUPS = 16
_RANGE = re.compile(r"(-?\d{1,6}|[A-Za-z])\.\.(-?\d{1,6}|[A-Za-z])")
_PADDED = re.compile(r"-?0\d")
_OPENS, _COMMA, _CLOSES = (
    ("{", Quoting.UNQUOTED),
    (",", Quoting.UNQUOTED),
    ("}", Quoting.UNQUOTED),
)


class TooManyWords(Exception):
    """A brace expansion has too many words, or is uncertain."""


def expand_braces(parts: list[WordPart]) -> list[list[WordPart]]:
    """Return the words that brace expansion makes of one word.

    Raises:
        TooManyWords: There are more than `MAX_WORDS`, or a range has an unknown form.
    """
    if sum(text.count("{") for text, quoting in parts if quoting is Quoting.UNQUOTED) > _MAX_GROUPS:
        raise TooManyWords
    cells = [
        (char, quoting)
        for text, quoting in parts
        for char in (text if quoting is Quoting.UNQUOTED else (text,))
    ]
    return _expand_cells(cells)


def _expand_cells(cells: list[WordPart]) -> list[list[WordPart]]:
    for start, cell in enumerate(cells):
        if cell != _OPENS:
            continue
        found = _parse_group(cells, start)
        if found is None:
            _check_unpaired(cells[start + 1 :])
            continue
        choices, end = found
        tails = _expand_cells(cells[end + 1 :])
        if len(choices) * len(tails) > MAX_WORDS:
            raise TooManyWords
        return [cells[:start] + choice + tail for choice, tail in product(choices, tails)]
    return [cells]


def _check_unpaired(cells: list[WordPart]) -> None:
    """Reject a literal brace if the shell may pair it with a later one."""
    if _COMMA in cells and _CLOSES in cells[cells.index(_COMMA) :]:
        raise TooManyWords


def _parse_group(cells: list[WordPart], start: int) -> tuple[list[list[WordPart]], int] | None:
    """Return the alternatives of the group that starts here, and the index of its end."""
    depth, marks = 0, [start]
    for at in range(start, len(cells)):
        if cells[at] == _OPENS:
            depth += 1
        elif cells[at] == _COMMA and depth == 1:
            marks.append(at)
        elif cells[at] == _CLOSES:
            depth -= 1
            if depth == 0:
                choices = _alternatives(cells, [*marks, at])
                return None if choices is None else (choices, at)
    return None


def _alternatives(cells: list[WordPart], marks: list[int]) -> list[list[WordPart]] | None:
    if len(marks) > 2:
        parts = [cells[one + 1 : other] for one, other in pairwise(marks)]
        choices = [word for part in parts for word in _expand_cells(part)]
        if len(choices) > MAX_WORDS:
            raise TooManyWords
        return choices
    inside = cells[marks[0] + 1 : marks[1]]
    body = "".join(text for text, _ in inside)
    if ".." not in body:
        return None
    if any(quoting is not Quoting.UNQUOTED for _, quoting in inside):
        raise TooManyWords
    return [[(word, Quoting.UNQUOTED)] for word in _expand_range(body)]


def _expand_range(body: str) -> list[str]:
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
