"""Quotes and escapes of the shell, undone."""

import re

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


def ansi(body: str) -> str | None:
    """Return what stands for the inside of `$'…'`, or None if it is not certain."""
    found: list[str] = []
    at = 0
    for match in _ANSI.finditer(body):
        if match.start() != at or match["other"]:
            return None
        at = match.end()
        found.append(_one(match))
    text = "".join(found)
    return None if at != len(body) or "\0" in text else text


def _one(match: re.Match[str]) -> str:
    if match["text"]:
        return match["text"]
    if match["plain"]:
        return _LETTERS.get(match["plain"], match["plain"])
    if match["octal"]:
        code = int(match["octal"], 8) & 0xFF
    else:
        code = int(match["hex"] or match["short"] or match["long"], 16)
    # A byte above 127 is a piece of a character, which is not put together here.
    single = match["octal"] or match["hex"]
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF or (single and code > 0x7F):
        return "\0"
    return chr(code)


def double_quoted(literal: str) -> str | None:
    """Undo the escapes of text between double quotes; None if it holds more than text."""
    if not _DOUBLE_QUOTED.fullmatch(literal):
        return None
    return _IN_DOUBLE_QUOTES.sub(lambda match: match[1].strip("\n"), literal)


def is_plain_document(literal: str) -> bool:
    """Is this stretch of a here-document nothing but text?"""
    return bool(_HERE_DOCUMENT.fullmatch(literal))
