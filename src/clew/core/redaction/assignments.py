"""Secrets that are recognised by the name beside them: `password = …`, `"token": …`, `--api-key …`.

The scan looks for the few words that every secret's name contains. It checks each name once
and reads at most `MAX_VALUE` bytes after it, so the time is linear.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from clew.core.redaction.classification import (
    MAX_NAME,
    SCHEME,
    SecretName,
    SecretSort,
    ValueForm,
    classify_name,
    classify_name_or_extra,
    find_secret_part,
    looks_random,
)
from clew.core.redaction.patterns import ScanText, Span

Place: TypeAlias = tuple[int, int]
"""Start and end."""

MAX_VALUE: Final = 8192
_TRIGGERS: Final = (
    *(b"secret", b"token", b"pass", b"pwd", b"key", b"auth", b"cred", b"cookie", b"connection"),
)
_OPERATOR = re.compile(
    rb"""
    (?P<quote> \\*["'`] )? \]?
    (?:
      (?P<tag> > )
    | ,?\s{0,16} \\*["']? value \\*["']? [ \t]* [:=] [ \t]*
    | (?P<comma> [ \t]*,[ \t]* )
    | [ \t]*:[ \t]* [A-Za-z_][\w.\[\]|, ]{0,40}? [ \t]+=(?!=)[ \t]*
    | (?P<tight> = )(?![ \t=])
    | (?P<encoded> %3D )
    | (?P<cell> [ \t]*\|[ \t]* | \t+ )(?=[^\s|])
    | [ \t]* (?: => | := | !?={1,3} | : ) [ \t]*
    | (?P<blank> [ \t]+ )
    )""",
    re.VERBOSE,
)
"""The operator between a name and its value."""
_OPENING = re.compile(rb"""[bBrRuUfF]{0,2}(\\*["'`])(?!\s*[,:\]}])""")
"""An opening quote, but not one that ends a string in JSON."""
_WORD = re.compile(rb"""[^\s"'`\\,;&<>]{1,4096}+(?![^\s"'`\\,;&<>])""")
_LINE_VALUE = re.compile(rb"""(?:[^\s"'`\\&]++|&(?![\w.-]+=))++(?<![,;)])(?=[\s\\&]|$)""")
_REST_OF_QUOTE = re.compile(rb"""[^\r\n"'`\\]{1,%d}""" % MAX_VALUE)
_REST_OF_LINE = re.compile(rb"[^\r\n\\]{1,%d}" % MAX_VALUE)
_TAGGED = re.compile(rb"""([^\s<>][^<>]{0,%d})</""" % MAX_VALUE)
_LINE_START = re.compile(
    rb"""(?:^|[\n\r"'`]|\\n)[ \t]*(?:-[ \t]+)?(?:(?:export|set|env|ENV|ARG)[ \t]+)?[\w.]*$"""
)
_PLAIN_START = re.compile(rb"""(?:^|\n)[^\n"'`]*$""")
_NETRC = re.compile(rb"(?:login[ \t]+\S{1,64}\s+|(?:^|\n)[ \t]+)$")
_LITERAL = re.compile(rb"(?:login[ \t]+\S{1,64}\s+|(?:setenv|setx|ENV|set(?:[ \t]+-\w+)+)[ \t]+)$")
"""What makes the word after a name a value and no prose: netrc, csh, fish, Windows, Docker."""
_LONGER_NAME = re.compile(rb"[^\s:]:\d{1,9}:$")
"""The output of grep before a match, in contrast to `arn:aws:…:secret:name`."""
_ENCODED_VALUE = re.compile(rb"(?:[^\s\"'`\\,;&<>%]|%(?!26|3B|0A))+", re.IGNORECASE)
_CONTEXT_LINE = re.compile(rb"[\w-]*?-\d{1,9}-(?=[A-Za-z_])")
"""The output of `grep -C` before a line, as in `a.env-12-DB_PASSWORD=…`."""
_YAML_PREFIX = re.compile(rb"(?:&[\w-]{1,64}|!{1,2}\w{1,64})[ \t]+(?=\S)")
"""An anchor or a tag before the value."""
_YAML_BLOCK = re.compile(rb"[|>][+-]?\d?[ \t]*\r?\n[ \t]+([^\s][^\r\n]{0,%d})" % MAX_VALUE)
_YAML_LIST = re.compile(rb"""["']?[ \t]*:[ \t]*\r?\n(?=[ \t]*-[ \t]+\S)""")
_YAML_ITEM = re.compile(
    rb"""[ \t]*-[ \t]+(\\*["'])?([^\s"'\\][^\r\n"'\\]{0,1000})(?:\\*["'])?[ \t]*(?:\r?\n|$)"""
)
_NEXT_FIELD = re.compile(rb"&[\w.-]{1,64}=")
_HEADER = re.compile(rb"[\w.%-]{1,128}=|" + SCHEME.encode(), re.IGNORECASE)


def find_assigned_secrets(text: ScanText, extra: Mapping[str, bytes]) -> Iterator[Span]:
    """Yield the secrets that have a name beside them.

    Args:
        text: The text to scan.
        extra: More names in normalized form, each with a word that all its spellings contain.
    """
    names = frozenset(extra)
    done = 0
    for place, end in sorted(_find_words(text, (*_TRIGGERS, *extra.values()))):
        context = _CONTEXT_LINE.match(text.data, place, end)
        start = context.end() if context else place
        name = _read_name(text, start, end, names) if start >= done else None
        if not name:
            continue
        value = _find_value(text, start, end, name)
        for span in (value,) if value else _find_listed(text.data, end, name):
            done = span[1]
            yield (*span, name.kind)


def _find_words(text: ScanText, triggers: Iterable[bytes]) -> set[Place]:
    """Return the places of all words that contain one of `triggers`."""
    found: set[Place] = set()
    for trigger in triggers:
        place = text.lower.find(trigger)
        while place >= 0:
            start, end = text.word_around(place, MAX_NAME)
            found.add((start, end))
            place = text.lower.find(trigger, max(end, place + len(trigger)))
    return found


def _read_name(text: ScanText, start: int, end: int, extra: frozenset[str]) -> SecretName | None:
    if text.data.endswith(b"redacted:", 0, start):
        return None
    name = text.data[start:end].decode("latin-1")
    found = classify_name_or_extra(name, extra)
    if found is None and text.data[start - 1 : start] == b" " and end - start <= 6:
        # `API key: …`
        before, _ = text.word_around(max(0, start - 2), MAX_NAME)
        found = classify_name(text.data[before:end].decode("latin-1"))
    return found


def _find_value(text: ScanText, start: int, end: int, name: SecretName) -> Place | None:
    data = text.data
    operator = _OPERATOR.match(data, end)
    if operator is None or _is_longer_name(data, start, operator):
        return None
    if operator["tag"]:
        return _find_tagged(data, start, operator.end(), name)
    opening = _OPENING.match(data, operator.end())
    if operator["comma"]:
        is_pair = operator["quote"] and data[start - 1 : start] == operator["quote"][-1:]
        if is_pair and opening and name.sort is not SecretSort.HINT:
            return _find_quoted(data, opening, name, strict=True)
        return None
    if operator["blank"] and not _may_follow_spaces(data, start, name):
        return None
    if opening:
        is_loose = operator["blank"] or opening[1].endswith(b"`")
        return _find_quoted(data, opening, name, strict=bool(is_loose))
    if operator["quote"]:
        return None  # a number, or a variable; and JSON must stay JSON
    return _find_bare(data, start, operator, name)


def _find_bare(
    data: bytes, start: int, operator: re.Match[bytes], name: SecretName
) -> Place | None:
    """Parse a value without quotes."""
    place = operator.end()
    if name.sort is SecretSort.HEADER and _HEADER.match(data, place):
        return _find_header(data, start, place, name)
    if operator["tight"]:
        return _find_assigned(data, start, place, name)
    if operator["encoded"]:
        found = _ENCODED_VALUE.match(data, place)
        return _check(data, found.span(), name, ValueForm.BARE) if found else None
    if b":" in operator[0]:
        if block := _YAML_BLOCK.match(data, place):
            return _check(data, block.span(1), name, ValueForm.QUOTED)
        if prefix := _YAML_PREFIX.match(data, place):
            place = prefix.end()
    found = _WORD.match(data, place)
    if found is None:
        return None
    if operator["cell"] and not looks_random(found[0].decode("latin-1"), 8):
        return None
    end = found.end()
    if data[start - 1 : start] == b"[" and found[0].endswith(b"]"):
        end -= 1  # a header as `curl -v` shows it: `[x-api-key: …]`
    is_literal = operator["blank"] and _LITERAL.search(data, max(0, start - 100), start)
    form = ValueForm.QUOTED if is_literal else ValueForm.BARE
    return _check(data, (place, end), name, form)


def _is_longer_name(data: bytes, start: int, operator: re.Match[bytes]) -> bool:
    """Is this a part of a longer name, such as `arn:aws:…:secret:name`?"""
    if data[start - 1 : start] != b":" or not operator[0].endswith(b":"):
        return False
    return not _LONGER_NAME.search(data, max(0, start - 256), start)


def _find_listed(data: bytes, end: int, name: SecretName) -> Iterator[Place]:
    """Yield the items of a YAML list below a name."""
    begin = _YAML_LIST.match(data, end) if name.sort is not SecretSort.HEADER else None
    place = begin.end() if begin else len(data)
    while item := _YAML_ITEM.match(data, place):
        form = ValueForm.QUOTED if item[1] else ValueForm.BARE
        if found := _check(data, item.span(2), name, form):
            yield found
        place = item.end()


def _may_follow_spaces(data: bytes, start: int, name: SecretName) -> bool:
    """Return whether a value may follow after spaces, as on a command line or in netrc."""
    if data[start : start + 1] == b"-":
        return True
    before = max(0, start - 100)
    if _LITERAL.search(data, before, start):
        return True
    return name.kind == "password" and bool(_NETRC.search(data, before, start))


def _find_tagged(data: bytes, start: int, place: int, name: SecretName) -> Place | None:
    found = _TAGGED.match(data, place)
    is_tag = data[start - 1 : start] in (b"<", b":")
    return _check(data, found.span(1), name, ValueForm.QUOTED) if is_tag and found else None


def _find_quoted(
    data: bytes, opening: re.Match[bytes], name: SecretName, *, strict: bool
) -> Place | None:
    start, end = opening.end(), _find_closing_quote(data, opening.end(), opening[1])
    if end < 0:
        # The closing quote is missing: take the rest of the word.
        found = _WORD.match(data, start)
        return _check(data, found.span(), name, ValueForm.BARE) if found else None
    if strict and not looks_random(data[start:end].decode("latin-1"), 6):
        return None
    return _check(data, (start, end), name, ValueForm.QUOTED)


def _find_closing_quote(data: bytes, start: int, opening: bytes) -> int:
    """Return the position of the closing quote for `opening`, or -1.

    In a nested string a quote is escaped with backslashes. A quote with more backslashes than
    the opening one is part of the value; one with fewer ends the outer string.
    """
    depth, quote = len(opening) - 1, opening[-1:]
    limit = _find_or_end(data, b"\n", start, start + MAX_VALUE)
    if quote != b'"':
        limit = _find_or_end(data, b'"', start, limit)
    place = start
    while (place := data.find(quote, place, limit)) >= 0:
        slashes = place
        while slashes > start and data[slashes - 1] == 0x5C:
            slashes -= 1
        if place - slashes < depth:
            return -1
        if (place - slashes) % (2 * (depth + 1)) == depth:
            return place - depth
        place += 1
    return -1


def _find_or_end(data: bytes, sign: bytes, start: int, end: int) -> int:
    """Return the first position of `sign` between two places, or `end`."""
    found = data.find(sign, start, end)
    return end if found < 0 else found


def _find_assigned(data: bytes, start: int, place: int, name: SecretName) -> Place | None:
    """Parse `NAME=value`, as in a settings file, a URL or a connection string."""
    named = data[start : place - 1]
    line = _LINE_START.search(data, max(0, start - 80), start) and _LINE_VALUE.match(data, place)
    found = line or _WORD.match(data, place)
    if found is None or found[0].endswith(named):
        return None  # password=self.password
    in_list = data[start - 1 : start] in (b"?", b"&", b";") or _NEXT_FIELD.match(data, found.end())
    is_set = (named.isupper() or named.startswith(b"-")) and not found[0].isupper()
    form = ValueForm.QUOTED if line or in_list or is_set else ValueForm.BARE
    return _check(data, found.span(), name, form)


def _find_header(data: bytes, start: int, place: int, name: SecretName) -> Place | None:
    """Parse a header value, which ends with its line or with the enclosing quote."""
    is_plain = _PLAIN_START.search(data, max(0, start - 256), start)
    rest = (_REST_OF_LINE if is_plain else _REST_OF_QUOTE).match(data, place)
    return _check(data, rest.span(), name, ValueForm.QUOTED) if rest else None


def _check(data: bytes, place: Place, name: SecretName, form: ValueForm) -> Place | None:
    start, end = place
    first, last = find_secret_part(data[start:end].decode("latin-1"), name, form)
    return (start + first, start + last) if last else None
