"""What must not be remembered: secrets, and numbers that belong to a person.

Whoever asks learns what kind of thing was found, never the thing itself.
"""

import re
import unicodedata
from collections.abc import Iterator

from clew.core.redaction import redact
from clew.core.text import one_line
from clew.extensions.memory.numbers import CARD, personal_number

_MARK = re.compile(r"\[redacted:([\w-]+)\]")
_UNSEEN = re.compile(r"[\u00ad\u034f\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_NAMED = re.compile(
    r"""\b(?:(?P<word>pass(?:word|phrase|code|wd)|pwd)|pin(?:[ ](?:code|number))?|secret(?:[ ]key)?
    |(?:api|access|private|secret|auth)[ _-]?(?:key|token)|token|credentials?)\b
    (?:[ ](?:for|of|to|on)(?:[ ][\w.@-]+){1,4})?
    (?:[ ](?:is|was|are|will[ ]be|equals)[ ]|[ ]?(?:[:=]|->)[ ]?|(?(word)[ ]|(?!)))
    ["'`]?(?P<value>[^\s"'`]{4,})""",
    re.VERBOSE | re.IGNORECASE,
)
"""A secret as people say it: `the password for the router is …`."""
_ORDINARY = re.compile(
    r"[A-Za-z]+(?:['’-][A-Za-z]+)*|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|v?\d+(?:\.\d+)*"
)
_IDENTITY = re.compile(
    r"""(?:\b(?:ssn|social[ ]security|national[ ]id(?:entity|entification)?|passport|tax[ ]id
    |driver'?s?[ ]licen[cs]e|aadhaar|resident[ ]registration)\b|(?:주민등록|여권|운전면허)번호)
    [^\d\n]{0,40}?(?P<value>[A-Z]{0,3}\d[\dA-Z -]{4,})""",
    re.VERBOSE | re.IGNORECASE,
)
_CARD_NAMED = re.compile(
    r"(?:card[ ]number|credit[ ]card|카드번호)[^\d\n]{0,30}?\d(?:[ -]?\d){11,18}", re.IGNORECASE
)


def why_sensitive(text: str) -> str:
    """Return what makes `text` unfit to be remembered, such as `github-token`; else nothing."""
    for form in _forms(text):
        if found := _secret(form) or _said(form) or _identity(form) or personal_number(form):
            return found
    return ""


def _forms(text: str) -> Iterator[str]:
    """Yield the text as it is, and as it reads without what nobody sees."""
    yield text
    plain = unicodedata.normalize("NFKC", _UNSEEN.sub("", text))
    digits = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in plain)
    yield one_line(digits)


def _secret(text: str) -> str:
    cleaned = redact(text)
    if cleaned == text:
        return ""
    before = _MARK.findall(text)
    kinds = [kind for kind in _MARK.findall(cleaned) if kind not in before]
    return kinds[0] if kinds else "secret"


def _said(text: str) -> str:
    for found in _NAMED.finditer(text):
        value = found["value"].rstrip(".,;:!?)")
        if len(value) >= 4 and _looks_secret(found, value):
            return "password or key"
    return ""


def _looks_secret(found: re.Match[str], value: str) -> bool:
    if found[0].lower().startswith(("pin", "passcode")):
        return value.isdigit() or not _ORDINARY.fullmatch(value)
    has_digit = any(c.isdigit() for c in value)
    has_letter = any(c.isalpha() for c in value)
    is_path = "/" in value or value.startswith(("$", "<", "{", "["))
    return has_digit and has_letter and not is_path and not _ORDINARY.fullmatch(value)


def _identity(text: str) -> str:
    if _CARD_NAMED.search(text):
        return CARD
    for found in _IDENTITY.finditer(text):
        if sum(c.isdigit() for c in found["value"]) >= 5:
            return "number of an identity document"
    return ""
