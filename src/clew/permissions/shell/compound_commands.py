"""Readers of what holds commands: lists, groups, loops, conditions, functions."""

import re
from typing import TYPE_CHECKING

from msgspec import Struct, field

from clew.permissions.shell.builtins import Assignment
from clew.permissions.shell.command_line import ShellWord
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
_CALCULATING = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_LOOKS_UP = frozenset({"-v", "-R"})
_COUNTS = re.compile(r"\$[?#]")
_IN_BRACKETS = frozenset({"[", "]", "!", "=", "==", "!="})
_IN_DOUBLE_BRACKETS = frozenset({"[[", "]]", "!", "=", "==", "!=", "=~", "&&", "||", *"<>()"})
_DELICATE = frozenset({"((", "`", "$(", "<(", ">("})
_DOCUMENT = re.compile(r"(?<!<)<<(?!<)")
_ALONE = ["redirected_statement"]
_REGEX = re.compile(r"(?:[^\s`\"'\\$<>]|\$(?![({]))*")
_EXPRESSIONS = frozenset({"binary_expression", "unary_expression", "parenthesized_expression"})


def _row(walk: BashVisitor, node: "Node") -> None:
    """Read commands in a row, with the words of the shell that belong between them."""
    children = node.children
    if children and children[0].type in _DELICATE:
        _delicate(walk, node)
    whole = node.type == "program"
    start = 0 if whole else node.start_byte
    for child in children:
        walk.gap(start, child.start_byte, BLANK_LINES)
        start = child.end_byte
        if child.type in VALUE_NODES or not (child.is_named or child.type in _TOKENS[node.type]):
            walk.odd(child)
        walk.visit(child)
    walk.gap(start, len(walk.source) if whole else node.end_byte, BLANK_LINES)


def _delicate(walk: BashVisitor, node: "Node") -> None:
    text = walk.text(node)
    if text.startswith("(("):
        walk.doubts.append("it calculates")
    elif text.startswith("`") and ("\\" in text or text.count("`") != 2):
        walk.doubts.append("it has an escape between backquotes")
    elif (
        _DOCUMENT.search(text)
        and [child.type for child in node.children if child.is_named] != _ALONE
    ):
        # Some versions of bash put such a substitution together again with a sign missing.
        walk.doubts.append("a substitution has more than a here-document")


def _comment(walk: BashVisitor, node: "Node") -> None:
    before = walk.source[max(node.start_byte - 1, 0) : node.start_byte]
    after = walk.source[node.end_byte : node.end_byte + 1]
    text = walk.text(node)
    if before.strip(b" \t\n;&|()") or after.strip(b"\n") or "\n" in text or text[:1] != "#":
        walk.doubts.append("where a comment ends is not certain")


def _parts(walk: BashVisitor, node: "Node", tokens: frozenset[str], inside: frozenset[str]) -> None:
    """Read the parts of a loop or a `case`: its own words, and what holds commands."""
    start = node.start_byte
    for child in node.children:
        walk.gap(start, child.start_byte, BLANK_LINES)
        start = child.end_byte
        if child.type in inside or child.is_error or child.type == "comment":
            walk.visit(child)
        elif child.type == "variable_name":
            walk.assigned.append(Assignment(walk.text(child), None))
        elif child.is_named:
            walk.words([child])
        elif child.type not in tokens:
            walk.odd(child)


def _loop(walk: BashVisitor, node: "Node") -> None:
    tokens = _SEPARATORS | {"for", "select", "in"}
    _parts(walk, node, tokens, frozenset({"do_group", "compound_statement"}))


def _case(walk: BashVisitor, node: "Node") -> None:
    _parts(walk, node, _SEPARATORS | {"case", "in", "esac"}, frozenset({"case_item"}))


def _case_item(walk: BashVisitor, node: "Node") -> None:
    in_patterns, start = True, node.start_byte
    for child in node.children:
        walk.gap(start, child.start_byte, BLANK_LINES)
        start = child.end_byte
        if in_patterns and child.is_named and not child.is_error:
            walk.words([child])
        elif child.type == ")":
            in_patterns = False
        elif child.is_named or child.is_error:
            walk.visit(child)
        elif child.type not in _SEPARATORS | {"(", "|", ";;", ";&", ";;&"}:
            walk.odd(child)


def _function(walk: BashVisitor, node: "Node") -> None:
    walk.doubts.append("it defines a function")
    walk.visit_all(child for child in node.children if child.child_count)


def _calculation(walk: BashVisitor, node: "Node") -> None:
    walk.doubts.append("it calculates")
    walk.visit_all(node.children)


class _Condition(Struct):
    """What a condition is made of."""

    tokens: frozenset[str]
    operators: set[str] = field(default_factory=set)
    words: list[ShellWord] = field(default_factory=list)


def _test(walk: BashVisitor, node: "Node") -> None:
    """Read `[ … ]`, which is a command and ends with the line, or `[[ … ]]`, which does not."""
    opening = node.children[0].type
    if opening not in ("[", "[[") or (opening == "[" and "\n" in walk.text(node)):
        walk.doubts.append("a condition is not understood")
    found = _Condition(_IN_BRACKETS if opening == "[" else _IN_DOUBLE_BRACKETS)
    _condition(walk, node, found)
    told = all(word.known or _COUNTS.fullmatch(word.text) for word in found.words)
    if opening != "[" and found.operators & _CALCULATING and not told:
        walk.doubts.append("it calculates with more than numbers")
    if found.operators & _LOOKS_UP:
        walk.doubts.append("it looks up a variable by its name")


def _condition(walk: BashVisitor, node: "Node", found: _Condition) -> None:
    walk.depth += 1
    start = node.start_byte
    for child in node.children:
        walk.gap(start, child.start_byte, BLANK_LINES)
        start = child.end_byte
        if child.type in _EXPRESSIONS and walk.depth < MAX_DEPTH:
            _condition(walk, child, found)
        elif child.type == "test_operator":
            found.operators.add(walk.text(child))
        elif child.type == "regex":
            if not _REGEX.fullmatch(walk.text(child)):
                walk.doubts.append("a pattern holds more than a pattern")
        elif child.is_error or child.is_missing:
            walk.visit(child)
        elif child.is_named:
            found.words += walk.words([child])
        elif child.type not in found.tokens:
            walk.odd(child)
    walk.depth -= 1


COMPOUND_COMMANDS: dict[str, NodeHandler] = {
    **dict.fromkeys(_TOKENS, _row),
    "comment": _comment,
    "for_statement": _loop,
    "c_style_for_statement": _calculation,
    "case_statement": _case,
    "case_item": _case_item,
    "function_definition": _function,
    "test_command": _test,
}
