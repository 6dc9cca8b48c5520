"""Secrets that only the document around them shows: their own names say nothing.

`kubectl get secret -o yaml` prints values under any name, a JSON web key has letters for names, and
a PuTTY key is not in PEM form.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from clew.core.redaction.patterns import ScanText, Span

_KIND_SECRET = re.compile(rb"""kind\\*["']?[ \t]*:[ \t]*\\*["']?secret(?![\w-])""")
_DOCUMENT_START = re.compile(
    rb"^---|^[ \t]*-[ \t]+apiVersion:|\{\s*\\*[\"']apiVersion", re.MULTILINE
)
_YAML_DATA = re.compile(
    rb"^([ \t]*)(?:-[ \t]+)?(?:data|stringData):[ \t]*\r?\n((?:\1[ \t]+[^\n]*(?:\n|\Z))+)",
    re.MULTILINE,
)
_YAML_VALUE = re.compile(
    rb"""^[ \t]+["']?[\w.-]{1,253}["']?:[ \t]*["']?(?!\[redacted:)([^\s"'|>][^\r\n"']{3,})""",
    re.MULTILINE,
)
_YAML_LINES = re.compile(
    rb"^([ \t]+)[\w.-]{1,253}:[ \t]*[|>][+-]?[ \t]*\r?\n"
    rb"\1[ \t]++(?!\[redacted:)([^\n]*(?:\n\1[ \t]+[^\n]*)*)",
    re.MULTILINE,
)
_JSON_DATA = re.compile(rb"""["'](?:data|stringData)\\*["']\s*:\s*\{([^{}]{0,65536})\}""")
_JSON_VALUE = re.compile(rb""":\s*\\*"(?!\[redacted:)([^"\\]{4,})""")
_WEB_KEY = re.compile(rb""""kty\\*"\s*:""")
_WEB_KEY_PART = re.compile(rb""""(?:d|p|q|dp|dq|qi|k)\\*"\s*:\s*\\*"([\w-]{20,})""")
_MAX_WEB_KEY = 8_192
_MAX_DOCUMENT = 65_536
_PUTTY = re.compile(
    rb"private-lines:[ \t]*\d{1,3}(?:\s|\\[nr])+"
    rb"((?:[A-Za-z0-9+/=]{4,}+(?![^\s\\'\x22])(?:\s|\\[nr])*+)++)",
    re.IGNORECASE,
)


def find_document_secrets(text: ScanText) -> Iterator[Span]:
    """Yield the secrets of Kubernetes, JSON web keys and PuTTY keys."""
    yield from _find_kubernetes(text)
    if b'"kty' in text.data:
        yield from _find_web_keys(text.data)
    if b"private-lines:" in text.lower:
        for found in _PUTTY.finditer(text.data):
            yield *found.span(1), "private-key"


def _find_kubernetes(text: ScanText) -> Iterator[Span]:
    kinds = list(_find_kinds(text.lower))
    if not kinds:
        return
    data = text.data
    starts = [0, *(found.start() for found in _DOCUMENT_START.finditer(data)), len(data)]
    for first, last in pairwise(starts):
        inside = kinds[bisect_left(kinds, first) : bisect_left(kinds, last)]
        if not inside:
            continue
        start, end = max(first, inside[0] - _MAX_DOCUMENT), min(last, inside[-1] + _MAX_DOCUMENT)
        for block in _YAML_DATA.finditer(data, start, end):
            for pattern, group in ((_YAML_VALUE, 1), (_YAML_LINES, 2)):
                for found in pattern.finditer(data, *block.span(2)):
                    yield *found.span(group), "kubernetes-secret"
        for block in _JSON_DATA.finditer(data, start, end):
            for found in _JSON_VALUE.finditer(data, *block.span(1)):
                yield *found.span(1), "kubernetes-secret"


def _find_kinds(lower: bytes) -> Iterator[int]:
    """Yield the places of `kind: Secret`."""
    place = lower.find(b"kind")
    while place >= 0:
        if _KIND_SECRET.match(lower, place):
            yield place
        place = lower.find(b"kind", place + 1)


def _find_web_keys(data: bytes) -> Iterator[Span]:
    done = 0
    for key in _WEB_KEY.finditer(data):
        start, done = max(done, key.start() - _MAX_WEB_KEY), key.end() + _MAX_WEB_KEY
        for found in _WEB_KEY_PART.finditer(data, start, done):
            yield *found.span(1), "private-key"
