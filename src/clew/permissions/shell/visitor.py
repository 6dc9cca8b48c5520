"""A visitor of the syntax tree of a command line that finds every simple command.

Each node type has a handler that knows all of its children. A child without a handler, and
every byte that belongs to no node, is a doubt. The visitor continues after a doubt, because a
rule may deny a command that it finds later.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field

from clew.permissions.shell.builtins import Assignment
from clew.permissions.shell.command_line import FileAccess, ShellWord
from clew.permissions.shell.expansion import WordBuilder, expand_word
from clew.permissions.shell.programs import word_set
from clew.permissions.shell.variables import Variables

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_DEPTH = 60
BLANK = re.compile(r"(?:[ \t]|\\\n)*")
BLANK_LINES = re.compile(r"(?:[ \t\n]|\\\n)*")
VALUE_NODES = word_set("""
    word number string string_content raw_string ansi_c_string translated_string concatenation
    simple_expansion expansion variable_name special_variable_name subscript regex array
    extglob_pattern brace_expression binary_expression unary_expression postfix_expression
    ternary_expression parenthesized_expression test_operator arithmetic_expansion command_name
    heredoc_start heredoc_body heredoc_content heredoc_end file_descriptor
""")
"""Nodes that are not statements, though statements may occur inside them."""
_IN_A_ROW = frozenset({"program", "list", "pipeline", "command", "redirected_statement", "comment"})


class SimpleCommand(Struct, frozen=True):
    """A simple command: its words, and the variables set for this command only."""

    words: tuple[ShellWord, ...]
    assignments: tuple[Assignment, ...] = ()
    source: int | None = None
    """The number of the command before it in a pipeline, if that prints all of its input."""


class BashVisitor(Struct):
    """Collects commands, files, assignments and doubts while it visits nodes."""

    source: bytes
    handlers: Mapping[str, "NodeHandler"]
    variables: Variables
    commands: list[SimpleCommand] = field(default_factory=list)
    files: list[FileAccess] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    patterns: list[ShellWord] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    is_list: bool = True
    """True while there is nothing but a list of commands."""
    depth: int = 0

    def visit(self, node: "Node") -> None:
        """Visit a node and everything below it."""
        if self.depth >= MAX_DEPTH:
            self.doubts.append("it is nested too deeply")
            return
        self.depth += 1
        self.is_list = self.is_list and (node.type in _IN_A_ROW or not node.is_named)
        handler = self.handlers.get(node.type)
        if node.is_error or node.is_missing:
            self.doubts.append("the shell grammar cannot parse it")
            self.visit_all(node.children)
        elif handler is not None:
            handler(self, node)
        else:
            if node.is_named and node.type not in VALUE_NODES:
                self.doubts.append(f"it has syntax that the parser does not know (`{node.type}`)")
            self.visit_all(node.children)
        self.depth -= 1

    def visit_all(self, nodes: Iterable["Node"]) -> None:
        """Visit nodes in order."""
        for node in nodes:
            self.visit(node)

    def text(self, node: "Node") -> str:
        """Return the source text of a node."""
        return self.source[node.start_byte : node.end_byte].decode(errors="replace")

    def check_gap(self, start: int, end: int, allowed: re.Pattern[str] = BLANK) -> None:
        """Add a doubt if the text between two nodes is more than whitespace."""
        if start != end and not allowed.fullmatch(self.source[start:end].decode(errors="replace")):
            self.doubts.append("it has characters that the shell grammar skips")

    def words(self, nodes: Sequence["Node"]) -> list[ShellWord]:
        """Expand the nodes of one word, and visit the commands in its substitutions."""
        builder = WordBuilder(self.source, variables=self.variables.known)
        found = expand_word(nodes, builder)
        self.doubts += builder.doubts
        self.visit_all(builder.nested)
        return found

    def add_command(self, command: SimpleCommand) -> None:
        """Add a command, and follow what it does to variables."""
        self.commands.append(command)
        self.variables.run(command.words)

    def add_assignment(self, assigned: Assignment) -> None:
        """Add an assignment, and remember its value."""
        self.assignments.append(assigned)
        self.variables.assign(assigned.name, assigned.value)

    def reject_token(self, node: "Node") -> None:
        """Add a doubt about a token in an unexpected position."""
        self.doubts.append(f"`{node.type}` is in an unexpected position")


NodeHandler: TypeAlias = Callable[[BashVisitor, "Node"], None]
