"""Whether the value beside a secret's name is one, or a variable, a type, a label, a blank.

What is written in quotes is a value. What stands there bare may just as well be code, so it
must look random before it is taken for a secret.
"""

import re
from enum import Enum, auto

from clew.core.redaction.names import Name, Sort

MARK = "[redacted:"
"""How every replacement begins; what holds it is left alone, so that redacting twice is once."""

_EMPTY_WORDS = frozenset(
    (
        *("any", "bool", "boolean", "bytes", "false", "int", "nil", "no", "none", "null"),
        *("number", "object", "optional", "str", "string", "true", "undefined", "void", "yes"),
    )
)
_PLACEHOLDER = re.compile(
    r"""\$[{(] | \$[A-Za-z_]\w*$ | <[^<>]*>?$ | [#{]?\{[^{}]*\}{1,2}$ | %\( | %\w*%$ | %[a-z]$
    | \[redacted | [*•.…_x-]+$ | [\w-]{0,8}(?:\.\.\.|…)$
    | your[-_\ ] | example | placeholder | change[-_\ ]?me | redacted
    | [A-Za-z_][\w.]*\( | (?:os|process|import\.meta)\.env""",
    re.IGNORECASE | re.VERBOSE,
)
"""How blanks, variables, templates and calls begin."""
_TEMPLATE = re.compile(r"\{\w*\}|%\(\w+\)|%[sdr](?!\w)")
_WORDY = re.compile(r"[A-Za-z]+(?:[-_./:\\ ][A-Za-z]+)*[-_.]?\d{0,4}")
_DOTTED = re.compile(r"[A-Za-z_$][\w$]{0,18}(?:\.[A-Za-z_$][\w$]{0,30})+")
_CODE = re.compile(r"[()\[\]{}<>|]")
_DIGIT = re.compile(r"[0-9]")
_DIGITS = re.compile(r"[0-9].*[0-9]", re.DOTALL)
_LETTER = re.compile(r"[A-Za-z]")
_BLANK = re.compile(r"\s")
SCHEME = r"(?:Basic|Bearer|Token|Digest|Negotiate|ApiKey|Key|Bot|AWS4-HMAC-SHA256)[ \t]+"
_SCHEME = re.compile(SCHEME, re.IGNORECASE)
_PARAMETER = re.compile(r"""[A-Za-z]\w*=["\w]""")
"""Credentials such as `username="…", response="…"` go to the end of the line."""
_IDENTIFIER = re.compile(r"[A-Za-z]+(?:[-_][A-Za-z]+)+")
_REFERENCE = re.compile(r"[a-z][a-z0-9+.-]*://|arn:|[.~]{0,2}(?:/[A-Za-z._-]+\d{0,3})+/?$")
"""An address or a path: it says where the secret is."""
_LONG_WORD = 16
"""Below this, letters alone are a word."""


class Form(Enum):
    """How sure it is that something is a value."""

    FIELD = auto()
    """A field of a document, known by its key."""
    QUOTED = auto()
    """In quotes, somewhere in a text."""
    BARE = auto()
    """A word without quotes."""


def is_secret(value: str, name: Name, form: Form) -> bool:
    """Is `value`, found beside `name`, to be hidden?"""
    if not value or value.lower() in _EMPTY_WORDS or is_placeholder(value):
        return False
    if form is Form.FIELD:
        return _is_field(value, name)
    if _REFERENCE.match(value) or _TEMPLATE.search(value):
        return False
    return _is_quoted(value, name) if form is Form.QUOTED else _is_bare(value, name)


def is_placeholder(value: str) -> bool:
    """Does `value` only stand for a secret, or for one that was hidden already?"""
    return MARK in value or _PLACEHOLDER.match(value) is not None


def _is_field(value: str, name: Name) -> bool:
    if name.sort is Sort.KEY:
        return _BLANK.search(value) is None
    return _is_quoted(value, name)


def _is_quoted(value: str, name: Name) -> bool:
    has_blank = _BLANK.search(value) is not None
    odd = has_blank or _CODE.search(value) is not None
    match name.sort:
        case Sort.PHRASE:
            # `"password": "Enter your password"` is the label of a field.
            return not (name.kind in value.lower() and (has_blank or len(value) == len(name.kind)))
        case Sort.HEADER:
            is_long = len(value) >= _LONG_WORD and not has_blank
            return is_long or "=" in value or _DIGIT.search(value) is not None
        case Sort.KEY:
            return len(value) >= 4 and not odd and not _IDENTIFIER.fullmatch(value)
        case Sort.TOKEN:
            is_word = len(value) < _LONG_WORD and value.isalpha() and value.islower()
            return len(value) >= 8 and not odd and not is_word and not _IDENTIFIER.fullmatch(value)
        case Sort.HINT:
            return not odd and looks_random(value, 16)


def _is_bare(value: str, name: Name) -> bool:
    if _CODE.search(value):
        return False
    match name.sort:
        case Sort.PHRASE if name.kind == "password":
            return len(value) >= 5 and _DIGIT.search(value) is not None
        case Sort.PHRASE | Sort.HEADER | Sort.KEY:
            return looks_random(value, 8)
        case Sort.TOKEN:
            return looks_random(value, 10)
        case Sort.HINT:
            return looks_random(value, 16)


def looks_random(value: str, least: int) -> bool:
    """Does `value` have letters and some digits, `least` in all or more, and not read as words?"""
    return (
        len(value) >= least
        and _DIGITS.search(value) is not None
        and _LETTER.search(value) is not None
        and not _WORDY.fullmatch(value)
        and not _DOTTED.fullmatch(value)
    )


def secret_part(value: str, name: Name, form: Form) -> tuple[int, int]:
    """Return from where to where `value` is to be hidden; twice 0 when it is not.

    The scheme in front of credentials stays, as does what follows them in prose.
    """
    scheme = _SCHEME.match(value) if name.sort is Sort.HEADER else None
    if scheme is None:
        return (0, len(value)) if is_secret(value, name, form) else (0, 0)
    rest = value[scheme.end() :]
    if not _PARAMETER.match(rest):
        rest, name = rest.partition(" ")[0], Name(name.kind, Sort.TOKEN)
    start, end = scheme.end(), scheme.end() + len(rest)
    return (start, end) if is_secret(rest, name, Form.QUOTED) else (0, 0)
