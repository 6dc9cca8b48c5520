"""Reading a command line: what it runs and touches, and what about it is not certain."""

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct, field

from clew.permissions.shell.builtin import judge_builtin
from clew.permissions.shell.coding import judge_code
from clew.permissions.shell.files import is_device, touched
from clew.permissions.shell.git import judge_git
from clew.permissions.shell.grammar import parse
from clew.permissions.shell.line import Command, Line, Touch, Word, program_of
from clew.permissions.shell.names import problem_with
from clew.permissions.shell.runners import look_inside
from clew.permissions.shell.simple import SIMPLE
from clew.permissions.shell.statements import STATEMENTS
from clew.permissions.shell.walk import Simple, Walk

if TYPE_CHECKING:
    from tree_sitter import Node

LONGEST = 20_000
"""Characters of a line that is still judged."""
_MOST_DOCUMENTS = 50
_MOST_COMMANDS = 500
_NESTED = 8
_READERS = {**SIMPLE, **STATEMENTS}
_UNSEEN = re.compile(r"[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Signs that a terminal obeys or does not show."""
_SPLIT_OPERATOR = re.compile(r"[&|;<>$(){}`]\\\n[&|;<>$(){}`\"']")
_NAME = re.compile(r"[\w./+:@%,~-]+|\[", re.ASCII)


@lru_cache(maxsize=512)
def read(source: str) -> Line:
    """Take a command line apart.

    Never raises: what cannot be understood is in `Line.doubts`, and what was found all the
    same is in the rest.
    """
    return _read(source, 0)


def loose_text(source: str) -> str:
    """The line without quotes and backslashes: what words in it might come out as."""
    return re.sub(r"[\"'\\]", "", source)


def _read(source: str, depth: int) -> Line:
    if len(source) > LONGEST or source.count("<<") > _MOST_DOCUMENTS:
        return Line(doubts=("it is too long to be judged",), simple=False)
    if depth > _NESTED:
        return Line(doubts=("it is nested too deeply",), simple=False)
    data = source.encode(errors="replace")
    root = parse(data)
    walk = Walk(data, _READERS)
    walk.doubts += _at_first_sight(source, data)
    if root.has_error or not _tokens_are_plain(root, data):
        walk.doubts.append("the shell grammar does not understand it")
    walk.visit(root)
    return _Builder(depth=depth).line(walk)


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


class _Builder(Struct, kw_only=True):
    """Makes commands of words, and collects what they bring along."""

    depth: int
    doubts: list[str] = field(default_factory=list)
    touches: list[Touch] = field(default_factory=list)
    moves: list[Word] = field(default_factory=list)

    def line(self, walk: Walk) -> Line:
        """Put together all that was found on a walk."""
        self.touches += (touch for touch in walk.touches if not is_device(touch.path))
        for assigned in walk.assigned:
            self.note(problem_with(assigned))
        if len(walk.simples) > _MOST_COMMANDS:
            self.note("it has too many commands")
        commands = tuple(self.simple(simple) for simple in walk.simples[:_MOST_COMMANDS])
        sets = walk.assigned or any(simple.assigned for simple in walk.simples)
        return Line(
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

    def simple(self, simple: Simple) -> Command:
        """Make a command of a simple one, and judge the variables set for it."""
        reads = simple.words[0].text == "read"
        for assigned in simple.assigned:
            if not (reads and assigned.name == "IFS"):
                self.note(problem_with(assigned))
        return self.command(simple.words, self.depth)

    def command(self, words: tuple[Word, ...], depth: int) -> Command:
        """Make a command of words, with all that it runs."""
        if not words[0].known:
            self.note("its program is not named")
        elif not _NAME.fullmatch(words[0].text):
            self.note("its program has an unusual name")
        if depth > _NESTED:
            self.note("it is nested too deeply")
            return Command(words=words)
        inside, builtin = look_inside(words), judge_builtin(words)
        code = judge_git(words) if program_of(words) == "git" else judge_code(words)
        self.note(inside.doubt)
        self.note(builtin.doubt)
        for assigned in inside.assigned:
            self.note(problem_with(assigned))
        inner = [self.command(argv, depth + 1) for argv in inside.argvs + code.argvs]
        for script in inside.scripts + code.scripts:
            inner += self.script(script, depth + 1, elsewhere=inside.elsewhere)
        self.touches += touched(words)
        if builtin.moves is not None:
            self.moves.append(builtin.moves)
        return Command(
            words=words,
            inner=tuple(inner),
            transparent=inside.transparent and bool(inner),
            caution=inside.caution + code.caution,
            hides=code.hides,
            inert=inside.inert or builtin.inert,
        )

    def script(self, text: str, depth: int, *, elsewhere: bool) -> tuple[Command, ...]:
        """Read the text that is given to another shell."""
        line = _read(text, depth)
        self.doubts += line.doubts
        if not elsewhere:
            self.touches += line.touches
            self.moves += line.moves
        return line.commands
