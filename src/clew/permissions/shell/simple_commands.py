"""Handlers of simple commands: words, redirections and variable assignments."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clew.permissions.shell.builtins import Assignment
from clew.permissions.shell.command_line import FileAccess, ShellWord
from clew.permissions.shell.expansion import CONTINUED
from clew.permissions.shell.quotes import parse_heredoc
from clew.permissions.shell.visitor import VALUE_NODES, BashVisitor, NodeHandler, SimpleCommand

if TYPE_CHECKING:
    from tree_sitter import Node

_REDIRECTS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_WRITE_OPERATORS = frozenset({">", ">>", ">|", "&>", "&>>", ">&"})
_CLOSE_OPERATORS = frozenset({">&-", "<&-"})
_DESCRIPTOR_COPY = re.compile(r"\d+-?|-")
_ARRAY_ELEMENT = re.compile(r"\w+\[\d+\]")
_INDEXED = re.compile(r"\[\d+\]")
_DECLARE_FLAGS = re.compile(r"-[xrgaAlu]+")
_UNKNOWN = ShellWord("", "", known=False)


def _visit_command(visitor: BashVisitor, node: "Node", beside: Sequence["Node"] = ()) -> None:
    """Visit a simple command; `beside` are words that follow its redirections."""
    assignments: list[Assignment] = []
    parts: list[Node] = []
    ends: set[int] = set()
    start = node.start_byte
    for part in _flatten_parts(node):
        visitor.check_gap(start, part.start_byte)
        if (
            start in ends
            and part.type not in _REDIRECTS
            and _are_adjacent(visitor, start, part.start_byte)
        ):
            visitor.doubts.append("it is uncertain where a redirection ends")
        if part.type == "variable_assignment" and not parts:
            assignments.append(_parse_assignment(visitor, part, exported=True))
            ends.add(part.end_byte)
        elif part.type in _REDIRECTS:
            _check_descriptor(visitor, part)
            parts += _visit_redirect(visitor, part)
            ends.add(part.end_byte)
        else:
            parts.append(part)
        start = part.end_byte
    parts += beside
    words = tuple(word for group in _group_words(visitor, parts) for word in visitor.words(group))
    if words:
        visitor.add_command(SimpleCommand(words, tuple(assignments)))
    for assigned in () if words else assignments:
        visitor.add_assignment(assigned)


def _flatten_parts(node: "Node") -> list["Node"]:
    return [
        part
        for child in node.children
        for part in (child.children if child.type == "command_name" else (child,))
    ]


def _are_adjacent(visitor: BashVisitor, start: int, end: int) -> bool:
    return bool(CONTINUED.fullmatch(visitor.source[start:end].decode(errors="replace")))


def _group_words(visitor: BashVisitor, parts: Sequence["Node"]) -> list[list["Node"]]:
    """Group adjacent nodes: nodes with nothing between them form one word."""
    groups: list[list[Node]] = []
    for part in parts:
        if groups:
            start = groups[-1][-1].end_byte
            if start <= part.start_byte and _are_adjacent(visitor, start, part.start_byte):
                groups[-1].append(part)
                continue
        groups.append([part])
    return groups


def _check_descriptor(visitor: BashVisitor, node: "Node") -> None:
    # The grammar takes the descriptor of `{name}>file`, and some numbers, for a word.
    start = node.start_byte
    while visitor.source[start - 2 : start] == b"\\\n":
        start -= 2
    before = visitor.source[max(start - 1, 0) : start]
    if before == b"}" or before.isdigit():
        visitor.doubts.append("it is uncertain which descriptor is redirected")


def _visit_redirected(visitor: BashVisitor, node: "Node") -> None:
    body: Node | None = None
    beside: list[Node] = []
    start = node.start_byte
    for child in node.children:
        visitor.check_gap(start, child.start_byte)
        if child.type in _REDIRECTS:
            _check_descriptor(visitor, child)
            beside += _visit_redirect(visitor, child)
        elif body is None:
            body = child
        else:
            visitor.reject_token(child)
            visitor.visit(child)
        start = child.end_byte
    if body is not None and body.type == "command":
        _visit_command(visitor, body, beside)
        return
    if body is not None:
        visitor.visit(body)
    if beside:
        visitor.doubts.append("there are words after a redirection")
        visitor.words(beside)


def _visit_redirect(visitor: BashVisitor, node: "Node") -> list["Node"]:
    """Visit a redirection; returns the words beside it that belong to its command."""
    if node.type == "file_redirect":
        return _visit_file_redirect(visitor, node)
    visitor.is_list = False
    visitor.inputs.append(visitor.text(node))
    if node.type == "herestring_redirect":
        parts = [child for child in node.children if child.type not in ("<<<", "file_descriptor")]
        visitor.words(parts) if parts else visitor.reject_token(node)
        return []
    document = parse_heredoc(node, visitor.source)
    if document.doubt:
        visitor.doubts.append(document.doubt)
    if document.expanded:
        visitor.words(document.expanded)
    words: list[Node] = []
    for child in document.beside:
        if child.type in _REDIRECTS:
            words += _visit_redirect(visitor, child)
        elif child.type in VALUE_NODES:
            words.append(child)
        else:
            visitor.visit(child)
    return words


def _visit_file_redirect(visitor: BashVisitor, node: "Node") -> list["Node"]:
    operator, start = "", node.start_byte
    parts: list[Node] = []
    for child in node.children:
        visitor.check_gap(start, child.start_byte)
        if operator:
            parts.append(child)
        elif child.type == "file_descriptor":
            if not visitor.text(child).isdecimal():
                visitor.doubts.append("it is uncertain which descriptor is redirected")
        else:
            operator = child.type
        start = child.end_byte
    if operator in _CLOSE_OPERATORS:
        return parts
    if not parts or operator not in _WRITE_OPERATORS | {"<", "<&"}:
        visitor.doubts.append("the parser does not understand a redirection")
        return parts
    first = _group_words(visitor, parts)[0]
    _add_target(visitor, operator, visitor.words(first))
    return parts[len(first) :]


def _add_target(visitor: BashVisitor, operator: str, words: Sequence[ShellWord]) -> None:
    if len(words) != 1:
        visitor.doubts.append("a redirection expands to several targets")
    for word in words:
        if operator in (">&", "<&") and _DESCRIPTOR_COPY.fullmatch(word.text):
            continue
        if operator == "<&" or (operator == ">&" and word.text[:1] in "-0123456789"):
            visitor.doubts.append("the parser does not understand a redirection")
        if word.text.startswith(("<(", ">(")) and not word.known:
            continue
        visitor.files.append(
            FileAccess(path=word, writes=operator in _WRITE_OPERATORS, redirected=True)
        )


def _parse_assignment(visitor: BashVisitor, node: "Node", *, exported: bool = False) -> Assignment:
    target, *values = node.children
    name = visitor.text(target)
    if target.type == "subscript" and not _ARRAY_ELEMENT.fullmatch(name):
        visitor.doubts.append("it computes the index of an array")
        visitor.visit_all(target.children)
    name = name.partition("[")[0]
    operator, values = values[:1], values[1:]
    if values and values[0].type == "array":
        for child in values[0].children:
            words = visitor.words([child]) if child.is_named else ()
            if any(word.text.startswith("[") and not _INDEXED.match(word.text) for word in words):
                visitor.doubts.append("it computes the index of an array")
        return Assignment(name, None, exported)
    if len(values) > 1 or (values and values[0].start_byte != operator[0].end_byte):
        visitor.doubts.append("the parser does not understand an assignment")
    words = visitor.words(values) if values else [ShellWord("", "")]
    value = words[0] if len(words) == 1 else _UNKNOWN
    if operator and visitor.text(operator[0]) != "=":
        visitor.variables.hide(name)
    # The shell does not expand file name patterns in an assignment.
    return Assignment(
        name, ShellWord(value.text, value.written) if value.globs else value, exported
    )


def _visit_assignments(visitor: BashVisitor, node: "Node") -> None:
    parts = [node] if node.type == "variable_assignment" else node.children
    start = node.start_byte
    for part in parts:
        visitor.check_gap(start, part.start_byte)
        visitor.add_assignment(_parse_assignment(visitor, part))
        start = part.end_byte


def _visit_declaration(visitor: BashVisitor, node: "Node") -> None:
    keyword, *parts = node.children
    exported, start = keyword.type == "export", keyword.end_byte
    if all(part.type == "word" for part in parts):
        # Without a name it prints all variables: a command of its own, which needs a rule.
        given = [visitor.text(part) for part in (keyword, *parts)]
        visitor.add_command(SimpleCommand(tuple(ShellWord(text, text) for text in given)))
    for part in parts:
        visitor.check_gap(start, part.start_byte)
        start = part.end_byte
        text = visitor.text(part)
        if part.type == "variable_assignment":
            visitor.add_assignment(_parse_assignment(visitor, part, exported=exported))
        elif part.type == "variable_name":
            visitor.add_assignment(Assignment(text, _UNKNOWN if exported else None, exported))
        elif part.type == "word" and _DECLARE_FLAGS.fullmatch(text):
            exported = exported or "x" in text
        else:
            visitor.doubts.append(f"it uses `{keyword.type}` in an unknown way")
            visitor.words([part])


def _visit_unset(visitor: BashVisitor, node: "Node") -> None:
    for part in node.children[1:]:
        if part.type != "variable_name":
            visitor.doubts.append("it uses `unset` in an unknown way")
            visitor.words([part])
        visitor.add_assignment(Assignment(visitor.text(part), None))


def _visit_lone_redirect(visitor: BashVisitor, node: "Node") -> None:
    if _visit_redirect(visitor, node):
        visitor.reject_token(node)


SIMPLE_COMMANDS: dict[str, NodeHandler] = {
    "command": _visit_command,
    "redirected_statement": _visit_redirected,
    "variable_assignment": _visit_assignments,
    "variable_assignments": _visit_assignments,
    "declaration_command": _visit_declaration,
    "unset_command": _visit_unset,
    **dict.fromkeys(_REDIRECTS, _visit_lone_redirect),
}
