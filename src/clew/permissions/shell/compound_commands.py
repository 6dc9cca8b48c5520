"""Handlers of compound commands: lists, groups, loops, conditionals, functions, comments."""

import re
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from clew.permissions.shell.builtins import OPERATORS_DOUBT, Assignment, may_be_operators
from clew.permissions.shell.command_line import ShellWord
from clew.permissions.shell.programs import word_set
from clew.permissions.shell.variables import choose
from clew.permissions.shell.visitor import (
    BLANK_LINES,
    MAX_DEPTH,
    VALUE_NODES,
    BashVisitor,
    NodeHandler,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_SEPARATORS = frozenset({";", "&", "\n"})
_OWN_VARIABLES = word_set("pipeline subshell command_substitution process_substitution")
_LOOPS = word_set("while_statement for_statement c_style_for_statement")
_CONDITIONAL = _LOOPS | word_set("list if_statement elif_clause else_clause case_statement")
_TOKENS: dict[str, frozenset[str]] = {
    kind: _SEPARATORS | set(tokens.split())
    for kind, tokens in {
        "program": "",
        "list": "&& ||",
        "pipeline": "| |&",
        "subshell": "( )",
        "compound_statement": "{ }",
        "do_group": "do done",
        "if_statement": "if then fi",
        "elif_clause": "elif then",
        "else_clause": "else",
        "while_statement": "while until",
        "negated_command": "!",
        "command_substitution": "$( ) `",
        "process_substitution": "<( >( )",
    }.items()
}
_INTEGER = re.compile(r"[-+]?\d+|\$[?#]", re.ASCII)
_ARITHMETIC_TESTS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_VARIABLE_TESTS = frozenset({"-v", "-R"})
_IN_BRACKETS = frozenset({"[", "]", "!", "=", "==", "!="})
_IN_DOUBLE_BRACKETS = frozenset({"[[", "]]", "!", "=", "==", "!=", "=~", "&&", "||", *"<>()"})
_SUBSTITUTIONS = frozenset({"((", "`", "$(", "<(", ">("})
_DOCUMENT = re.compile(r"(?<!<)<<(?!<)")
_ALONE = ["redirected_statement"]
_REGEX = re.compile(r"(?:[^\s`\"'\\$<>]|\$(?![({]))*")
_EXPRESSIONS = frozenset({"binary_expression", "unary_expression", "parenthesized_expression"})


def _visit_list(visitor: BashVisitor, node: "Node") -> None:
    """Visit a list of commands and the operators or keywords between them."""
    children = node.children
    if children and children[0].type in _SUBSTITUTIONS:
        _check_substitution(visitor, node)
    whole = node.type == "program"
    start = 0 if whole else node.start_byte
    scope = _Scope.enter(visitor, node)
    pipe = _Pipe(visitor, len(visitor.commands)) if node.type == "pipeline" else None
    for child in children:
        visitor.check_gap(start, child.start_byte, BLANK_LINES)
        start = child.end_byte
        if child.type in VALUE_NODES or not (child.is_named or child.type in _TOKENS[node.type]):
            visitor.reject_token(child)
        scope.begin(child)
        visitor.visit(child)
        if pipe is not None:
            pipe.follow(child)
    visitor.check_gap(start, len(visitor.source) if whole else node.end_byte, BLANK_LINES)
    scope.leave()


class _Scope(Struct):
    """Which variables are known in the parts of a compound command, and after it."""

    visitor: BashVisitor
    kind: str
    before: dict[str, ShellWord]
    """The variables at its start."""
    earlier: dict[str, ShellWord]
    """The variables before the part that was visited last."""
    chained: bool

    @classmethod
    def enter(cls, visitor: BashVisitor, node: "Node") -> "_Scope":
        """Start a compound command."""
        variables = visitor.variables
        if node.type in _LOOPS:
            variables.forget_mentioned(visitor.text(node))
        chained = node.type == "list" and _is_first_of_and(node)
        return cls(visitor, node.type, variables.known, variables.known, chained)

    def begin(self, child: "Node") -> None:
        """Start a part of it, or an operator."""
        variables = self.visitor.variables
        if child.type == "&":
            # A background command sets its own variables.
            variables.known = self.earlier
        elif self.kind == "pipeline":
            variables.known = self.before
        elif child.type in ("elif_clause", "else_clause", "case_item"):
            variables.forget_changes(self.before)
        if child.is_named:
            self.earlier = variables.known
            variables.known = dict(variables.known)

    def leave(self) -> None:
        """End it: what only a part of it may have set is no longer known."""
        if self.kind in _OWN_VARIABLES:
            self.visitor.variables.known = self.before
        elif self.kind in _CONDITIONAL and not self.chained:
            self.visitor.variables.forget_changes(self.before)


class _Pipe(Struct):
    """Connects the simple commands of a pipeline."""

    visitor: BashVisitor
    seen: int
    """The number of commands before the part that is visited next."""
    source: int | None = None
    """The command whose output that part gets."""

    def follow(self, child: "Node") -> None:
        """Connect the part that was visited last to the part before it."""
        commands = self.visitor.commands
        if not child.is_named:
            self.source = self.source if child.type == "|" else None
            self.seen = len(commands)
            return
        is_simple = len(commands) == self.seen + 1 and self._is_simple(child)
        own = self.seen if is_simple else None
        if own is not None:
            commands[own] = replace(commands[own], source=self.source)
        self.source = own

    def _is_simple(self, child: "Node") -> bool:
        """Is it one command that prints to the pipe, at most with its errors discarded?"""
        if child.type == "redirected_statement":
            body, *redirects = child.children
            texts = {"".join(self.visitor.text(each).split()) for each in redirects}
            return body.type == "command" and texts == {"2>/dev/null"}
        return child.type == "command"


def _is_first_of_and(node: "Node") -> bool:
    """Is it the first part of `a && b && c`? Then all of it was run when the last part is."""
    parent = node.parent
    if parent is None or parent.type != "list" or parent.children[0] != node:
        return False
    operators = [child.type for each in (node, parent) for child in each.children]
    return "&&" in operators and not {"||", "&", ";"} & set(operators)


def _check_substitution(visitor: BashVisitor, node: "Node") -> None:
    text = visitor.text(node)
    if text.startswith("(("):
        visitor.doubts.append("it has shell arithmetic")
    elif text.startswith("`") and ("\\" in text or text.count("`") != 2):
        visitor.doubts.append("it has an escape or a nested substitution between backquotes")
    elif (
        _DOCUMENT.search(text)
        and [child.type for child in node.children if child.is_named] != _ALONE
    ):
        # Some versions of bash lose a character when they rebuild such a substitution.
        visitor.doubts.append("a substitution has other commands beside a here-document")


def _visit_comment(visitor: BashVisitor, node: "Node") -> None:
    before = visitor.source[max(node.start_byte - 1, 0) : node.start_byte]
    after = visitor.source[node.end_byte : node.end_byte + 1]
    text = visitor.text(node)
    if before.strip(b" \t\n;&|()") or after.strip(b"\n") or "\n" in text or text[:1] != "#":
        visitor.doubts.append("it is uncertain where a comment ends")


def _visit_parts(
    visitor: BashVisitor, node: "Node", tokens: frozenset[str], inside: frozenset[str]
) -> None:
    """Visit the parts of a loop or a `case`: its keywords, its words, and its command groups."""
    start = node.start_byte
    scope, name, words = _Scope.enter(visitor, node), "", list[ShellWord]()
    for child in node.children:
        visitor.check_gap(start, child.start_byte, BLANK_LINES)
        start = child.end_byte
        scope.begin(child)
        if child.type in inside or child.is_error or child.type == "comment":
            if child.type in inside and name and node.children[0].type == "for":
                visitor.variables.assign(name, choose(words))
            visitor.visit(child)
        elif child.type == "variable_name":
            name = visitor.text(child)
            visitor.add_assignment(Assignment(name, None))
        elif child.is_named:
            words += visitor.words([child])
        elif child.type not in tokens:
            visitor.reject_token(child)
    visitor.patterns += (word for word in words if word.globs)
    scope.leave()


def _visit_loop(visitor: BashVisitor, node: "Node") -> None:
    tokens = _SEPARATORS | {"for", "select", "in"}
    _visit_parts(visitor, node, tokens, frozenset({"do_group", "compound_statement"}))


def _visit_case(visitor: BashVisitor, node: "Node") -> None:
    _visit_parts(visitor, node, _SEPARATORS | {"case", "in", "esac"}, frozenset({"case_item"}))


def _visit_case_item(visitor: BashVisitor, node: "Node") -> None:
    in_patterns, start = True, node.start_byte
    for child in node.children:
        visitor.check_gap(start, child.start_byte, BLANK_LINES)
        start = child.end_byte
        if in_patterns and child.is_named and not child.is_error:
            visitor.words([child])
        elif child.type == ")":
            in_patterns = False
        elif child.is_named or child.is_error:
            visitor.visit(child)
        elif child.type not in _SEPARATORS | {"(", "|", ";;", ";&", ";;&"}:
            visitor.reject_token(child)


def _visit_function(visitor: BashVisitor, node: "Node") -> None:
    visitor.doubts.append("it defines a function")
    visitor.visit_all(child for child in node.children if child.child_count)


def _visit_arithmetic(visitor: BashVisitor, node: "Node") -> None:
    visitor.doubts.append("it has shell arithmetic")
    visitor.visit_all(node.children)


class _Condition(Struct):
    """The operators and words of a condition."""

    tokens: frozenset[str]
    evaluates: bool
    """True for `[[ … ]]`, where numbers are expressions."""
    operators: set[str] = field(default_factory=set)
    words: list[ShellWord] = field(default_factory=list)


def _visit_test(visitor: BashVisitor, node: "Node") -> None:
    """Visit `[ … ]`, a command that ends with its line, or `[[ … ]]`, which may span lines."""
    opening = node.children[0].type
    if opening not in ("[", "[[") or (opening == "[" and "\n" in visitor.text(node)):
        visitor.doubts.append("the parser does not understand a condition")
    found = _Condition(
        _IN_BRACKETS if opening == "[" else _IN_DOUBLE_BRACKETS, evaluates=opening != "["
    )
    _visit_condition(visitor, node, found)
    if opening == "[" and any(map(may_be_operators, found.words)):
        visitor.doubts.append(OPERATORS_DOUBT)
    if found.operators & _VARIABLE_TESTS:
        visitor.doubts.append("it looks up a variable by a computed name")


def _visit_condition(visitor: BashVisitor, node: "Node", found: _Condition) -> None:
    visitor.depth += 1
    start, first = node.start_byte, len(found.words)
    for child in node.children:
        visitor.check_gap(start, child.start_byte, BLANK_LINES)
        start = child.end_byte
        if child.type in _EXPRESSIONS and visitor.depth < MAX_DEPTH:
            _visit_condition(visitor, child, found)
        elif child.type == "test_operator":
            found.operators.add(visitor.text(child))
        elif child.type == "regex":
            if not _REGEX.fullmatch(visitor.text(child)):
                visitor.doubts.append("a regular expression has an expansion")
        elif child.is_error or child.is_missing:
            visitor.visit(child)
        elif child.is_named:
            found.words += visitor.words([child])
        elif child.type not in found.tokens:
            visitor.reject_token(child)
    own = {visitor.text(child) for child in node.children if child.type == "test_operator"}
    # `[[ x -eq 1 ]]` evaluates the value of `x`, and an index in it may run commands.
    numeric = all(_INTEGER.fullmatch(word.text) for word in found.words[first:])
    if found.evaluates and own & _ARITHMETIC_TESTS and not numeric:
        visitor.doubts.append("it has shell arithmetic on variables")
    visitor.depth -= 1


COMPOUND_COMMANDS: dict[str, NodeHandler] = {
    **dict.fromkeys(_TOKENS, _visit_list),
    "comment": _visit_comment,
    "for_statement": _visit_loop,
    "c_style_for_statement": _visit_arithmetic,
    "case_statement": _visit_case,
    "case_item": _visit_case_item,
    "function_definition": _visit_function,
    "test_command": _visit_test,
}
