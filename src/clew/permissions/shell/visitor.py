"""A walk over the syntax tree of a command line that finds every simple command.

Each kind of node has a reader that knows all of its parts. A part that no reader knows,
and every byte that no node accounts for, puts the line in doubt; the walk goes on all the
same, because a command that is found may be denied.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field

from clew.permissions.shell.builtins import Assignment
from clew.permissions.shell.command_line import FileAccess, ShellWord
from clew.permissions.shell.expansion import WordBuilder, expand_word
from clew.permissions.shell.programs import table

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_DEPTH = 60
BLANK = re.compile(r"(?:[ \t]|\\\n)*")
BLANK_LINES = re.compile(r"(?:[ \t\n]|\\\n)*")
VALUE_NODES = table("""
    word number string string_content raw_string ansi_c_string translated_string concatenation
    simple_expansion expansion variable_name special_variable_name subscript regex array
    extglob_pattern brace_expression binary_expression unary_expression postfix_expression
    ternary_expression parenthesized_expression test_operator arithmetic_expansion command_name
    heredoc_start heredoc_body heredoc_content heredoc_end file_descriptor
""")
"""Nodes that are no statements, though statements may stand inside them."""
_IN_A_ROW = frozenset({"program", "list", "pipeline", "command", "redirected_statement", "comment"})


class SimpleCommand(Struct, frozen=True):
    """A simple command: its words, and the variables that are set for it alone."""

    words: tuple[ShellWord, ...]
    assigned: tuple[Assignment, ...] = ()


class BashVisitor(Struct):
    """What was found so far."""

    source: bytes
    readers: Mapping[str, "NodeHandler"]
    simples: list[SimpleCommand] = field(default_factory=list)
    touches: list[FileAccess] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    assigned: list[Assignment] = field(default_factory=list)
    in_a_row: bool = True
    """Commands in a row and nothing else."""
    depth: int = 0

    def visit(self, node: "Node") -> None:
        """Take in a node and all below it."""
        if self.depth >= MAX_DEPTH:
            self.doubts.append("it is nested too deeply")
            return
        self.depth += 1
        self.in_a_row = self.in_a_row and (node.type in _IN_A_ROW or not node.is_named)
        reader = self.readers.get(node.type)
        if node.is_error or node.is_missing:
            self.doubts.append("the shell grammar does not understand it")
            self.visit_all(node.children)
        elif reader is not None:
            reader(self, node)
        else:
            if node.is_named and node.type not in VALUE_NODES:
                self.doubts.append(f"it has a part that is not understood (`{node.type}`)")
            self.visit_all(node.children)
        self.depth -= 1

    def visit_all(self, nodes: Iterable["Node"]) -> None:
        """Take in nodes one by one."""
        for node in nodes:
            self.visit(node)

    def text(self, node: "Node") -> str:
        """Return the source of a node."""
        return self.source[node.start_byte : node.end_byte].decode(errors="replace")

    def gap(self, start: int, end: int, allowed: re.Pattern[str] = BLANK) -> None:
        """Doubt what stands between two nodes, unless it means nothing."""
        if start != end and not allowed.fullmatch(self.source[start:end].decode(errors="replace")):
            self.doubts.append("it has signs that the shell grammar passes over")

    def words(self, nodes: Sequence["Node"]) -> list[ShellWord]:
        """Evaluate the nodes of one word, and visit the commands in it."""
        reading = WordBuilder(self.source)
        found = expand_word(nodes, reading)
        self.doubts += reading.doubts
        self.visit_all(reading.nested)
        return found

    def odd(self, node: "Node") -> None:
        """Doubt a sign that does not belong where it stands."""
        self.doubts.append(f"`{node.type}` stands in an unusual place")


NodeHandler: TypeAlias = Callable[[BashVisitor, "Node"], None]
