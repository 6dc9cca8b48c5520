"""Shell quoting: escapes, and here-documents.

For a here-document this module checks where it really ends and what the shell expands in it.
"""

import re
from typing import TYPE_CHECKING

from msgspec import Struct

_ANSI = re.compile(
    r"\\(?:(?P<octal>[0-7]{1,3})|x(?P<hex>[0-9A-Fa-f]{1,2})"
    r"|u(?P<short>[0-9A-Fa-f]{1,4})|U(?P<long>[0-9A-Fa-f]{1,8})|(?P<plain>[abeEfnrtv\\'\"?]))"
    r"|(?P<other>\\.)|(?P<text>[^\\]+)",
    re.DOTALL,
)
_LETTERS = dict(zip("abeEfnrtv", "\a\b\x1b\x1b\f\n\r\t\v", strict=True))
_IN_DOUBLE_QUOTES = re.compile(r"\\([$`\"\\\n])")
_DOLLAR = r"\$(?![A-Za-z_0-9{(\[@*#?$!-])"
_DOUBLE_QUOTED = re.compile(rf"(?s)(?:\\.|[^\\\"`$]|{_DOLLAR})*")
_HERE_DOCUMENT = re.compile(rf"(?s)(?:\\.|[^\\`$]|{_DOLLAR})*")


def decode_ansi_c(body: str) -> str | None:
    """Decode the inside of `$'…'`; None if the result is uncertain."""
    found: list[str] = []
    at = 0
    for match in _ANSI.finditer(body):
        if match.start() != at or match["other"]:
            return None
        at = match.end()
        found.append(_decode_escape(match))
    text = "".join(found)
    return None if at != len(body) or "\0" in text else text


def _decode_escape(match: re.Match[str]) -> str:
    if match["text"]:
        return match["text"]
    if match["plain"]:
        return _LETTERS.get(match["plain"], match["plain"])
    if match["octal"]:
        code = int(match["octal"], 8) & 0xFF
    else:
        code = int(match["hex"] or match["short"] or match["long"], 16)
    # A byte above 127 is one part of a character, and this function does not join them.
    single = match["octal"] or match["hex"]
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF or (single and code > 0x7F):
        return "\0"
    return chr(code)


def unescape_double_quoted(literal: str) -> str | None:
    """Undo the escapes in a double-quoted text; None if the text has an expansion."""
    if not _DOUBLE_QUOTED.fullmatch(literal):
        return None
    return _IN_DOUBLE_QUOTES.sub(lambda match: match[1].strip("\n"), literal)


def is_plain_document(literal: str) -> bool:
    """Is this part of a here-document free of expansions?"""
    return bool(_HERE_DOCUMENT.fullmatch(literal))


if TYPE_CHECKING:
    from tree_sitter import Node

_START = re.compile(r"(?P<mark>['\"\\]?)(?P<name>[\w.+-]+)(?P<close>['\"]?)")
_AFTER_START = frozenset((b"", *(bytes([each]) for each in b" \t\n;|&<>)")))
_OWN = frozenset({"<<", "<<-", "heredoc_start", "heredoc_body", "heredoc_end", "file_descriptor"})


class HereDocument(Struct):
    """The parts of a here-document."""

    doubt: str = ""
    expanded: tuple["Node", ...] = ()
    """Nodes in the text that the shell expands."""
    beside: tuple["Node", ...] = ()
    """Nodes after it on the same line: words, redirections, further commands."""


def parse_heredoc(node: "Node", source: bytes) -> HereDocument:
    """Parse a `heredoc_redirect`, and check that it ends where the grammar says it does."""
    parts = {child.type: child for child in node.children}
    beside = tuple(child for child in node.children if child.type not in _OWN)
    start, end = parts.get("heredoc_start"), parts.get("heredoc_end")
    opening = None if start is None else _opening(start, source)
    if start is None or end is None or opening is None:
        return HereDocument("a here-document is not closed", tuple(node.children), beside)
    name, is_quoted = opening
    beyond = source[start.end_byte : start.end_byte + 1]
    head = max(child.end_byte for child in (start, *beside))
    span = _span(source, head, end, name=name, tabs="<<-" in parts)
    split = b"\n" in source[start.end_byte : head] or beyond not in _AFTER_START
    if span is None or split or (not is_quoted and b"\\\n" in source[span[0] : span[1]]):
        return HereDocument(
            "it is uncertain where a here-document ends", tuple(node.children), beside
        )
    if is_quoted:
        return HereDocument(beside=beside)
    body = parts.get("heredoc_body")
    children = () if body is None else body.children
    expanded = tuple(child for child in children if child.type != "heredoc_content")
    told = _is_told(source, span, expanded)
    return HereDocument(
        "" if told else "a here-document has an expansion that the parser does not know",
        expanded,
        beside,
    )


def _opening(start: "Node", source: bytes) -> tuple[str, bool] | None:
    """Return the delimiter of the document, and whether it is quoted."""
    found = _START.fullmatch(source[start.start_byte : start.end_byte].decode(errors="replace"))
    if not found or found["mark"].strip("\\") != found["close"]:
        return None
    return found["name"], bool(found["mark"])


def _span(
    source: bytes, head: int, end: "Node", *, name: str, tabs: bool
) -> tuple[int, int] | None:
    """Return the span of the text, or None if the shell would end it at another line."""
    first = source.find(b"\n", head) + 1
    last = source.rfind(b"\n", 0, end.start_byte) + 1
    if not first or source[head : first - 1].strip(b" \t") or last < first:
        return None
    closing = source[last : end.end_byte].decode(errors="replace")
    lines = source[first:last].decode(errors="replace").split("\n")
    if tabs:
        closing, lines = closing.lstrip("\t"), [line.lstrip("\t") for line in lines]
    after = source[end.end_byte : end.end_byte + 1]
    if closing != name or after not in (b"", b"\n") or name in lines:
        return None
    return first, last


def _is_told(source: bytes, span: tuple[int, int], expanded: tuple["Node", ...]) -> bool:
    """Is everything between the expansions plain text?"""
    start, end = span
    for node in expanded:
        if not is_plain_document(source[start : node.start_byte].decode(errors="replace")):
            return False
        start = node.end_byte
    return is_plain_document(source[start:end].decode(errors="replace"))
