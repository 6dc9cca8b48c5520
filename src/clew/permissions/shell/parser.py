"""Reading a command line: what it runs and touches, and what about it is not certain."""

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct, field

from clew.permissions.shell.builtins import find_risk, inspect_builtin
from clew.permissions.shell.command_line import (
    CommandLine,
    FileAccess,
    ShellCommand,
    ShellWord,
    program_name,
)
from clew.permissions.shell.compound_commands import COMPOUND_COMMANDS
from clew.permissions.shell.file_arguments import find_files, is_device
from clew.permissions.shell.interpreters import inspect_git, inspect_program
from clew.permissions.shell.simple_commands import SIMPLE_COMMANDS
from clew.permissions.shell.visitor import BashVisitor, SimpleCommand
from clew.permissions.shell.wrappers import unwrap

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_LINE_LENGTH = 20_000
"""Characters of a line that is still judged."""
_MOST_DOCUMENTS = 50
_MOST_COMMANDS = 500
_NESTED = 8
_READERS = {**SIMPLE_COMMANDS, **COMPOUND_COMMANDS}
_UNSEEN = re.compile(r"[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Signs that a terminal obeys or does not show."""
_SPLIT_OPERATOR = re.compile(r"[&|;<>$(){}`]\\\n[&|;<>$(){}`\"']")
_NAME = re.compile(r"[\w./+:@%,~-]+|\[", re.ASCII)


@lru_cache(maxsize=512)
def parse_line(source: str) -> CommandLine:
    """Take a command line apart.

    Never raises: what cannot be understood is in `Line.doubts`, and what was found all the
    same is in the rest.
    """
    return _read(source, 0)


def strip_quotes(source: str) -> str:
    """The line without quotes and backslashes: what words in it might come out as."""
    return re.sub(r"[\"'\\]", "", source)


def _read(source: str, depth: int) -> CommandLine:
    if len(source) > MAX_LINE_LENGTH or source.count("<<") > _MOST_DOCUMENTS:
        return CommandLine(doubts=("it is too long to be judged",), simple=False)
    if depth > _NESTED:
        return CommandLine(doubts=("it is nested too deeply",), simple=False)
    data = source.encode(errors="replace")
    root = parse_tree(data)
    walk = BashVisitor(data, _READERS)
    walk.doubts += _at_first_sight(source, data)
    if root.has_error or not _tokens_are_plain(root, data):
        walk.doubts.append("the shell grammar does not understand it")
    walk.visit(root)
    return _LineBuilder(depth=depth).line(walk)


def _tokens_are_plain(root: "Node", data: bytes) -> bool:
    """Is each sign of the grammar just this sign? Some swallow what stands before them."""
    cursor = root.walk()
    while True:
        node = cursor.node
        if node is not None and not node.is_named and not node.child_count:
            text = data[node.start_byte : node.end_byte].strip(b" \t\n")
            if text != node.type.strip(" \t\n").encode():
                return False
        if cursor.goto_first_child() or cursor.goto_next_sibling():
            continue
        while cursor.goto_parent():
            if cursor.goto_next_sibling():
                break
        else:
            return True


def _at_first_sight(source: str, data: bytes) -> list[str]:
    doubts = []
    if _UNSEEN.search(source):
        doubts.append("it has a control character")
    if data.count(b"?") != source.count("?"):
        doubts.append("it is not valid text")
    if _SPLIT_OPERATOR.search(source):
        doubts.append("a sign of the shell is split over two lines")
    return doubts


class _LineBuilder(Struct, kw_only=True):
    """Makes commands of words, and collects what they bring along."""

    depth: int
    doubts: list[str] = field(default_factory=list)
    touches: list[FileAccess] = field(default_factory=list)
    moves: list[ShellWord] = field(default_factory=list)

    def line(self, walk: BashVisitor) -> CommandLine:
        """Put together all that was found on a walk."""
        self.touches += (touch for touch in walk.touches if not is_device(touch.path))
        for assigned in walk.assigned:
            self.note(find_risk(assigned))
        if len(walk.simples) > _MOST_COMMANDS:
            self.note("it has too many commands")
        commands = tuple(self.simple(simple) for simple in walk.simples[:_MOST_COMMANDS])
        sets = walk.assigned or any(simple.assigned for simple in walk.simples)
        return CommandLine(
            commands=commands,
            touches=tuple(self.touches),
            doubts=tuple(dict.fromkeys((*walk.doubts, *self.doubts))),
            moves=tuple(self.moves),
            simple=walk.in_a_row and not sets,
        )

    def note(self, doubt: str) -> None:
        """Take in a doubt, if there is one."""
        if doubt:
            self.doubts.append(doubt)

    def simple(self, simple: SimpleCommand) -> ShellCommand:
        """Make a command of a simple one, and judge the variables set for it."""
        reads = simple.words[0].text == "read"
        for assigned in simple.assigned:
            if not (reads and assigned.name == "IFS"):
                self.note(find_risk(assigned))
        return self.command(simple.words, self.depth)

    def command(self, words: tuple[ShellWord, ...], depth: int) -> ShellCommand:
        """Make a command of words, with all that it runs."""
        if not words[0].known:
            self.note("its program is not named")
        elif not _NAME.fullmatch(words[0].text):
            self.note("its program has an unusual name")
        if depth > _NESTED:
            self.note("it is nested too deeply")
            return ShellCommand(words=words)
        inside, builtin = unwrap(words), inspect_builtin(words)
        code = inspect_git(words) if program_name(words) == "git" else inspect_program(words)
        self.note(inside.doubt)
        self.note(builtin.doubt)
        for assigned in inside.assigned:
            self.note(find_risk(assigned))
        inner = [self.command(argv, depth + 1) for argv in inside.argvs + code.argvs]
        for script in inside.scripts + code.scripts:
            inner += self.script(script, depth + 1, elsewhere=inside.elsewhere)
        self.touches += find_files(words)
        if builtin.moves is not None:
            self.moves.append(builtin.moves)
        return ShellCommand(
            words=words,
            inner=tuple(inner),
            transparent=inside.transparent and bool(inner),
            caution=inside.caution + code.caution,
            hides=code.hides,
            inert=inside.inert or builtin.inert,
        )

    def script(self, text: str, depth: int, *, elsewhere: bool) -> tuple[ShellCommand, ...]:
        """Read the text that is given to another shell."""
        line = _read(text, depth)
        self.doubts += line.doubts
        if not elsewhere:
            self.touches += line.touches
            self.moves += line.moves
        return line.commands


if TYPE_CHECKING:
    from tree_sitter import Language, Node


_OTHER_BYTES = bytes(ord("%") if byte > 0x7F else byte for byte in range(256))
"""For the shell every byte above 127 is a letter, but none that a name may have."""


def parse_tree(source: bytes) -> "Node":
    """Return the root of the syntax tree of `source`.

    The grammar gets a `%` for each byte above 127, so that all stays in its place: its
    scanner looks characters up in a table for bytes, and crashes with others.
    """
    from tree_sitter import Parser  # noqa: PLC0415 - only who judges a shell line pays for it

    # A parser must not be used by two threads at once; making one costs less than a lock.
    return Parser(_language()).parse(source.translate(_OTHER_BYTES)).root_node


@cache
def _language() -> "Language":
    import tree_sitter_bash  # noqa: PLC0415
    from tree_sitter import Language  # noqa: PLC0415

    return Language(tree_sitter_bash.language())
