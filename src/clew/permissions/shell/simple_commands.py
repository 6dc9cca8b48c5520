"""Readers of simple commands: their words, their redirections, and the variables they set."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clew.permissions.shell.builtins import Assignment
from clew.permissions.shell.command_line import FileAccess, ShellWord
from clew.permissions.shell.expansion import CONTINUED
from clew.permissions.shell.quoting import parse_heredoc
from clew.permissions.shell.visitor import VALUE_NODES, BashVisitor, NodeHandler, SimpleCommand

if TYPE_CHECKING:
    from tree_sitter import Node

_REDIRECTS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_WRITING = frozenset({">", ">>", ">|", "&>", "&>>", ">&"})
_CLOSING = frozenset({">&-", "<&-"})
_COPY = re.compile(r"\d+-?|-")
_ELEMENT = re.compile(r"\w+\[\d+\]")
_DECLARED = re.compile(r"-[xrgaAlu]+")
_UNKNOWN = ShellWord("", "", known=False)


def _command(walk: BashVisitor, node: "Node", beside: Sequence["Node"] = ()) -> None:
    """Read a simple command; `beside` are words that stand after its redirections."""
    assigned: list[Assignment] = []
    parts: list[Node] = []
    ends: set[int] = set()
    start = node.start_byte
    for part in _parts(node):
        walk.gap(start, part.start_byte)
        if start in ends and part.type not in _REDIRECTS and _touch(walk, start, part.start_byte):
            walk.doubts.append("where a redirection ends is not certain")
        if part.type == "variable_assignment" and not parts:
            assigned.append(_assigned(walk, part, exported=True))
            ends.add(part.end_byte)
        elif part.type in _REDIRECTS:
            _check_descriptor(walk, part)
            parts += _redirect(walk, part)
            ends.add(part.end_byte)
        else:
            parts.append(part)
        start = part.end_byte
    parts += beside
    words = tuple(word for group in _groups(walk, parts) for word in walk.words(group))
    if words:
        walk.simples.append(SimpleCommand(words, tuple(assigned)))
    else:
        walk.assigned += assigned


def _parts(node: "Node") -> list["Node"]:
    return [
        part
        for child in node.children
        for part in (child.children if child.type == "command_name" else (child,))
    ]


def _touch(walk: BashVisitor, start: int, end: int) -> bool:
    return bool(CONTINUED.fullmatch(walk.source[start:end].decode(errors="replace")))


def _groups(walk: BashVisitor, parts: Sequence["Node"]) -> list[list["Node"]]:
    """Put together the nodes that make one word: there is nothing between them."""
    groups: list[list[Node]] = []
    for part in parts:
        if groups:
            start = groups[-1][-1].end_byte
            if start <= part.start_byte and _touch(walk, start, part.start_byte):
                groups[-1].append(part)
                continue
        groups.append([part])
    return groups


def _check_descriptor(walk: BashVisitor, node: "Node") -> None:
    # The grammar takes the descriptor of `{name}>file`, and some numbers, for a word.
    start = node.start_byte
    while walk.source[start - 2 : start] == b"\\\n":
        start -= 2
    before = walk.source[max(start - 1, 0) : start]
    if before == b"}" or before.isdigit():
        walk.doubts.append("which descriptor is redirected is not certain")


def _redirected(walk: BashVisitor, node: "Node") -> None:
    body: Node | None = None
    beside: list[Node] = []
    start = node.start_byte
    for child in node.children:
        walk.gap(start, child.start_byte)
        if child.type in _REDIRECTS:
            _check_descriptor(walk, child)
            beside += _redirect(walk, child)
        elif body is None:
            body = child
        else:
            walk.odd(child)
            walk.visit(child)
        start = child.end_byte
    if body is not None and body.type == "command":
        _command(walk, body, beside)
        return
    if body is not None:
        walk.visit(body)
    if beside:
        walk.doubts.append("words stand after a redirection")
        walk.words(beside)


def _redirect(walk: BashVisitor, node: "Node") -> list["Node"]:
    """Read a redirection; returns words beside it that belong to its command."""
    if node.type == "file_redirect":
        return _file(walk, node)
    walk.in_a_row = False
    if node.type == "herestring_redirect":
        parts = [child for child in node.children if child.type not in ("<<<", "file_descriptor")]
        walk.words(parts) if parts else walk.odd(node)
        return []
    document = parse_heredoc(node, walk.source)
    if document.doubt:
        walk.doubts.append(document.doubt)
    if document.expanded:
        walk.words(document.expanded)
    words: list[Node] = []
    for child in document.beside:
        if child.type in _REDIRECTS:
            words += _redirect(walk, child)
        elif child.type in VALUE_NODES:
            words.append(child)
        else:
            walk.visit(child)
    return words


def _file(walk: BashVisitor, node: "Node") -> list["Node"]:
    operator, start = "", node.start_byte
    parts: list[Node] = []
    for child in node.children:
        walk.gap(start, child.start_byte)
        if operator:
            parts.append(child)
        elif child.type == "file_descriptor":
            if not walk.text(child).isdecimal():
                walk.doubts.append("which descriptor is redirected is not certain")
        else:
            operator = child.type
        start = child.end_byte
    if operator in _CLOSING:
        return parts
    if not parts or operator not in _WRITING | {"<", "<&"}:
        walk.doubts.append("a redirection is not understood")
        return parts
    first = _groups(walk, parts)[0]
    _destination(walk, operator, walk.words(first))
    return parts[len(first) :]


def _destination(walk: BashVisitor, operator: str, words: Sequence[ShellWord]) -> None:
    if len(words) != 1:
        walk.doubts.append("a redirection has several targets")
    for word in words:
        if operator in (">&", "<&") and _COPY.fullmatch(word.text):
            continue
        if operator == "<&" or (operator == ">&" and word.text[:1] in "-0123456789"):
            walk.doubts.append("a redirection is not understood")
        if word.text.startswith(("<(", ">(")) and not word.known:
            continue
        walk.touches.append(FileAccess(path=word, writes=operator in _WRITING, redirected=True))


def _assigned(walk: BashVisitor, node: "Node", *, exported: bool = False) -> Assignment:
    target, *values = node.children
    name = walk.text(target)
    if target.type == "subscript" and not _ELEMENT.fullmatch(name):
        walk.doubts.append("it calculates the index of a variable")
        walk.visit_all(target.children)
    name = name.partition("[")[0]
    operator, values = values[:1], values[1:]
    if values and values[0].type == "array":
        for child in values[0].children:
            if child.is_named:
                walk.words([child])
        return Assignment(name, None, exported)
    if len(values) > 1 or (values and values[0].start_byte != operator[0].end_byte):
        walk.doubts.append("an assignment is not understood")
    words = walk.words(values) if values else [ShellWord("", "")]
    value = words[0] if len(words) == 1 else _UNKNOWN
    # File name patterns are not looked up in an assignment.
    return Assignment(
        name, ShellWord(value.text, value.written) if value.globs else value, exported
    )


def _assignments(walk: BashVisitor, node: "Node") -> None:
    parts = [node] if node.type == "variable_assignment" else node.children
    start = node.start_byte
    for part in parts:
        walk.gap(start, part.start_byte)
        walk.assigned.append(_assigned(walk, part))
        start = part.end_byte


def _declaration(walk: BashVisitor, node: "Node") -> None:
    keyword, *parts = node.children
    exported, start = keyword.type == "export", keyword.end_byte
    for part in parts:
        walk.gap(start, part.start_byte)
        start = part.end_byte
        text = walk.text(part)
        if part.type == "variable_assignment":
            walk.assigned.append(_assigned(walk, part, exported=exported))
        elif part.type == "variable_name":
            walk.assigned.append(Assignment(text, _UNKNOWN if exported else None, exported))
        elif part.type == "word" and _DECLARED.fullmatch(text):
            exported = exported or "x" in text
        else:
            walk.doubts.append(f"it uses `{keyword.type}` in a way that is not understood")
            walk.words([part])


def _unset(walk: BashVisitor, node: "Node") -> None:
    for part in node.children[1:]:
        if part.type != "variable_name":
            walk.doubts.append("it uses `unset` in a way that is not understood")
            walk.words([part])
        walk.assigned.append(Assignment(walk.text(part), None))


def _lone_redirect(walk: BashVisitor, node: "Node") -> None:
    if _redirect(walk, node):
        walk.odd(node)


SIMPLE_COMMANDS: dict[str, NodeHandler] = {
    "command": _command,
    "redirected_statement": _redirected,
    "variable_assignment": _assignments,
    "variable_assignments": _assignments,
    "declaration_command": _declaration,
    "unset_command": _unset,
    **dict.fromkeys(_REDIRECTS, _lone_redirect),
}
