"""Scan of one text: find its secrets and replace them.

The scan looks for secrets by form, by the name beside them, and by a few special signs (PEM
keys, passwords in URLs). Each search begins with a plain search for bytes that ordinary text
rarely contains, so text without secrets costs almost nothing.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from clew.core.redaction import assignments
from clew.core.redaction.classification import is_placeholder
from clew.core.redaction.documents import find_document_secrets
from clew.core.redaction.invisible import find_visible_texts
from clew.core.redaction.line_prefixes import find_plain_lines
from clew.core.redaction.marks import (
    MARK,
    ByteMark,
    RedactedText,
    decode_marks,
    merge_spans,
    replace_spans,
)
from clew.core.redaction.patterns import BOUNDARY, MIN_RUN, ScanText, Span, match_token

_SHORTEST = 8
"""A shorter text cannot contain a name with a value."""
_MAX_ROUNDS = 8
_REACH = 8_192
"""How far from a mark the text is scanned again: no name or value is longer."""
_MAX_DEPTH = 3
"""Levels of prefixes and escapes, as in the output of grep on a diff."""
_RUN = b"a" * MIN_RUN
_INNER = 512
"""Bytes of a long run whose parts are checked, after its beginning."""
_SEPARATOR = re.compile(rb"[-_]")
_HAS_PARTS = re.compile(rb"(?=[A-Za-z_-]*+[0-9])[A-Za-z0-9]*+[-_]")

_PEM = re.compile(
    rb"-----BEGIN (?:(?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?|OpenVPN Static key V1)-----"
)
_PEM_END = re.compile(
    rb"-----END (?:[A-Z0-9 ]{0,50}PRIVATE KEY(?: BLOCK)?|OpenVPN Static key V1)-----"
)
_PEM_BODY = re.compile(
    rb"""(?:\s|\\[nr])*+ (?:[A-Za-z][A-Za-z-]{2,20}:\ [^\n]{0,200}\n\s*+)*+
    (?:[A-Za-z0-9+/=]{16,}+(?:\s|\\[nr])*+)*+ (?:[A-Za-z0-9+/=]{1,15}\s*$)?""",
    re.VERBOSE,
)
_PEM_PROOF = re.compile(rb"[A-Za-z0-9+/=]{32}")
_MAX_PEM = 65_536


class _Sign(Struct, frozen=True):
    """Bytes that ordinary text rarely contains, and patterns of secrets around them."""

    sign: bytes
    """In lower case."""
    patterns: tuple[tuple[str, re.Pattern[bytes]], ...]
    """Pairs of kind and pattern; the group of the pattern is redacted."""
    back: int = 0
    """Bytes before the sign where the patterns begin."""


def _make_sign(sign: bytes, *, back: int = 0, **patterns: bytes) -> _Sign:
    compiled = [(kind, re.compile(how, re.IGNORECASE)) for kind, how in patterns.items()]
    return _Sign(sign, tuple((kind.replace("_", "-"), how) for kind, how in compiled), back)


_SIGNS = (
    _make_sign(
        b"://",
        url_password=rb"""://(?!\[redacted:)[^\s:/@"'<>\\]{0,128}:(?!(?:pass|passwd|password|pwd|pw)@)"""
        rb"""([^\s/"'<>\\]{1,256})@""",
        url_token=rb"""://(?=[^\s:/@]*\d)([\w.~%-]{20,256})@""",
        slack_webhook=rb"://hooks\.slack\.com/\w+/([\w/-]{20,256})",
        discord_webhook=rb"://[\w.]{0,20}\bdiscord(?:app)?\.com/api/webhooks/\d+/([\w-]{30,256})",
        teams_webhook=rb"://[\w.-]{1,60}/webhookb2/([\w@/-]{40,512})",
    ),
    _make_sign(b":5432:", password=rb":5432:[^\s:]{1,64}:[^\s:]{1,64}:(\S{4,256})"),
    _make_sign(
        b"curl ",
        password=rb"curl [^\n]{0,300}?(?-i:-u|-U|--user|--proxy-user)[ =]?[\"']?[^\s:\"'/]{0,64}:"
        rb"([^\s\"'$]{3,256})",
    ),
    _make_sign(b"sshpass ", password=rb"sshpass (?-i:-p) ?[\"']?([^\s\"'$]{3,256})"),
    _make_sign(
        b"mysql",
        password=rb"mysql(?:dump|admin)?(?= )[^\n]{0,200}? (?-i:-p)([^\s\"'$-][^\s\"']{2,128})",
    ),
    _make_sign(
        b"docker login ",
        password=rb"docker login [^\n]{0,200}?(?-i:-p)[ =]([^\s\"'$]{3,256})",
    ),
    _make_sign(b"redis-cli ", password=rb"redis-cli [^\n]{0,200}?(?-i:-a) ([^\s\"'$]{3,256})"),
    _make_sign(
        b"identified by ", password=rb"identified by (?:password )?[\"']([^\"'\s]{3,256})[\"']"
    ),
    _make_sign(b"password '", password=rb"password '([^'\s]{4,256})'"),
    *(
        _make_sign(name, password=name + rb"[ \t]+[\"']?([^\s\"'#$]{4,256})")
        for name in (b"requirepass", b"masterauth", b"bindpw", b"rootpw")
    ),
    *(
        _make_sign(
            sign,
            password_hash=re.escape(sign) + rb"(?:rounds=\d+\$)?[\w./-]{1,64}\$([\w./]{22,128})",
        )
        for sign in (b"$1$", b"$5$", b"$6$", b"$y$", b"$apr1$")
    ),
    *(
        _make_sign(sign, password_hash=re.escape(sign) + rb"\d\d\$([\w./]{53})")
        for sign in (b"$2a$", b"$2b$", b"$2y$")
    ),
    _make_sign(b"$argon2", password_hash=rb"\$argon2\w{1,2}\$[\w=,$+/]{8,128}\$([\w+/]{20,256})"),
    _make_sign(b"-signature=", signature=rb"-signature=([\w%+/=-]{20,1024})"),
    _make_sign(b"sig=", back=1, signature=rb"[?&;]sig=([\w%+/=-]{16,512})"),
    _make_sign(
        b"bearer ", bearer_token=rb"(?<![\w-])bearer[ \t]+(?=\D{0,64}\d)([\w.~+/=-]{16,4096})"
    ),
    _make_sign(
        b"iqojb3jpz2lux2vj", aws_session_token=rb"(IQoJb3JpZ2luX2Vj[A-Za-z0-9/+=]{60,4096})"
    ),
    _make_sign(
        b"ogzxivyxdz", back=2, aws_session_token=rb"(F[wQ]oGZXIvYXdz[A-Za-z0-9/+=]{60,4096})"
    ),
    _make_sign(b"q~", back=4, azure_secret=BOUNDARY + rb"([\w~.]{3}\dQ~[\w~.-]{31,34})(?![\w~])"),
)


def redact_text(
    text: str, *, names: Mapping[str, bytes] | None = None, values: Iterable[str] = ()
) -> str:
    """Return `text` with its secrets replaced; the same object if it has none.

    Args:
        text: The text to scan.
        names: More names of secrets; see `find_assigned_secrets`.
        values: Texts to redact everywhere.
    """
    return hide_secrets(text, names=names, values=values).text


def hide_secrets(
    text: str, *, names: Mapping[str, bytes] | None = None, values: Iterable[str] = ()
) -> RedactedText:
    """Redact `text` like `redact_text`, and keep the originals behind the marks."""
    if len(text) < _SHORTEST and not values:
        return RedactedText(text)
    found, rounds = ScanText(text), _MAX_ROUNDS
    spans = sorted(_find_everywhere(found, names or {}, values))
    data, hidden = found.data, list[ByteMark]()
    while spans and rounds:
        data, hidden = replace_spans(data, merge_spans(spans), hidden)
        spans, rounds = sorted(_find_beside(data, hidden, names or {}, values)), rounds - 1
    return decode_marks(data, hidden) if hidden else RedactedText(text)


def _find_beside(
    data: bytes, marks: Iterable[ByteMark], names: Mapping[str, bytes], values: Iterable[str]
) -> Iterator[Span]:
    """Yield secrets near marks: replacing a secret can change how the text beside it is parsed."""
    start, end = 0, 0
    for first, last, _ in (*marks, (len(data) + 3 * _REACH, 0, b"")):
        if first - 2 * _REACH <= end:
            end = last
            continue
        # Beyond the reach, text is scanned only for what it says about the text within.
        begin = max(0, start - 2 * _REACH)
        near = ScanText(data[begin : end + 2 * _REACH]) if end else ScanText(b"")
        for one, other, kind in _find_everywhere(near, names, values):
            if start - _REACH <= begin + one and begin + other <= end + _REACH:
                yield begin + one, begin + other, kind
        start, end = first, last


def _find_everywhere(
    text: ScanText, names: Mapping[str, bytes], values: Iterable[str]
) -> Iterator[Span]:
    """Yield the secrets of a text, and those that invisible characters or prefixes hide.

    They are in no order, and may overlap.
    """
    yield from _find_seen(text, names, values)
    for visible in find_visible_texts(text.data):
        yield from visible.map_back(_find_seen(ScanText(visible.data), names, values))


def _find_seen(text: ScanText, names: Mapping[str, bytes], values: Iterable[str]) -> Iterator[Span]:
    yield from _find_literals(text.data, values)
    # Lines without their disguise contain no other signs than the text.
    yield from _find_in_lines(text, names, [each for each in _SIGNS if each.sign in text.lower])


def _find_in_lines(
    text: ScanText, names: Mapping[str, bytes], signs: Sequence[_Sign], depth: int = _MAX_DEPTH
) -> Iterator[Span]:
    yield from _find_tokens(text)
    yield from _find_signed(text, signs)
    yield from _find_private_keys(text.data)
    yield from find_document_secrets(text)
    yield from assignments.find_assigned_secrets(text, names)
    if depth and (plain := find_plain_lines(text.data)):
        inner = _find_in_lines(ScanText(plain.data), names, signs, depth - 1)
        yield from plain.map_back(inner)


def _find_literals(data: bytes, values: Iterable[str]) -> Iterator[Span]:
    for value in values:
        wanted = value.encode("utf-8", "surrogatepass")
        place = data.find(wanted)
        while place >= 0:
            end = place + len(wanted)
            if not _in_mark(data, place, end):
                yield place, end, "value"
            place = data.find(wanted, end)


def _in_mark(data: bytes, start: int, end: int) -> bool:
    """Return whether this place is inside an earlier replacement."""
    mark = data.rfind(MARK.encode(), max(0, start - 40), end + len(MARK) - 1)
    return mark >= 0 and data.find(b"]", mark, start) < 0


def _find_tokens(text: ScanText) -> Iterator[Span]:
    data, shape = text.data, text.shape
    place = shape.find(_RUN)
    while place >= 0:
        end = shape.find(b" ", place + MIN_RUN)
        end = len(data) if end < 0 else end
        begin = place + _escape_length(data, place)
        found = match_token(data, begin)
        if found is None and data[place - 1 : place] == b"%":
            found = match_token(data, place + 2)
        if found is None and _HAS_PARTS.match(data, begin):
            found = _find_token_in_parts(data, begin, min(end, begin + _INNER))
        if found:
            yield found
            end = found[1]
        place = shape.find(_RUN, end)


def _escape_length(data: bytes, place: int) -> int:
    """Return how many bytes of a run belong to a JSON escape sequence."""
    first = data[place]
    if data[place - 1 : place] != b"\\" or first not in b"nrtbfu":
        return 0
    slashes = place
    while slashes and data[slashes - 1] == 0x5C:
        slashes -= 1
    if (place - slashes) % 2 == 0:
        return 0
    return 5 if first == 0x75 else 1


def _find_token_in_parts(data: bytes, start: int, end: int) -> Span | None:
    """Look for a secret after each `-` and `_`."""
    for separator in _SEPARATOR.finditer(data, start, end):
        if found := match_token(data, separator.end()):
            return found
    return None


def _find_signed(text: ScanText, signs: Iterable[_Sign]) -> Iterator[Span]:
    for sign in signs:
        place = text.lower.find(sign.sign)
        while place >= 0:
            for kind, pattern in sign.patterns:
                found = pattern.match(text.data, max(0, place - sign.back))
                if found and not is_placeholder(found[1].decode("latin-1")):
                    yield *found.span(1), kind
            place = text.lower.find(sign.sign, place + len(sign.sign))


def _find_private_keys(data: bytes) -> Iterator[Span]:
    place, close = data.find(b"-----BEGIN "), -1
    while place >= 0:
        after = place + 1
        if head := _PEM.match(data, place):
            if close < head.end():
                close = data.find(b"-----END ", head.end())
                close = len(data) if close < 0 else close
            after = _find_key_end(data, head.end(), close)
            if _PEM_PROOF.search(data, head.end(), min(after, head.end() + 512)):
                yield place, after, "private-key"
        place = data.find(b"-----BEGIN ", after)


def _find_key_end(data: bytes, start: int, close: int) -> int:
    end = _PEM_END.match(data, close) if close - start <= _MAX_PEM else None
    if end and data.find(b"-----BEGIN ", start, close) < 0:
        return end.end()
    # The end is missing: redact everything that still looks like a key.
    body = _PEM_BODY.match(data, start)
    return body.end() if body else start
