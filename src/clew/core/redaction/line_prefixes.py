"""Lines in disguise: behind the prefixes of other programs, or escaped in a string of JSON.

Grep, diff, `cat -n` and `curl -v` put something before each line, and JSON escapes line feeds. Both
hide what the beginning of a line and the line before it say about a secret. So such lines are
also scanned as plain lines, and what is found there is mapped back.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TypeAlias

from msgspec import Struct

from clew.core.redaction.patterns import Span

_Place: TypeAlias = tuple[int, int]
"""Start and end of a line without its prefix, in the original text."""

_PREFIX = re.compile(
    rb"""^(?!\d{4}-\d\d-\d\d)(?:
      [^\s:]{1,256}?[:-]\d{1,9}[:-]    # grep -n, and its context
    | (?=[^\s:]*[./])[^\s:]{1,256}:     # grep without numbers
    | [ \t]{0,8}\d{1,9}(?:[:-]|\t|\xe2\x86\x92)  # numbers alone, as of Read, cat -n and rg
    | [-+](?![-+]{2}[ ])                # diff -u
    | [<>*][ ]                          # diff, curl -v, quotes
    )(?=.)""",
    re.VERBOSE | re.MULTILINE,
)
_LINE_FEED = rb"\n"
_ESCAPED = re.compile(rb"\\+n")


class PlainLines(Struct, frozen=True):
    """Lines without their disguise, as one text."""

    data: bytes
    starts: list[int]
    """Where each line begins in `data`, in order."""
    shifts: list[int]
    """What to add to a place in that line to get the place in the original text."""

    def map_back(self, spans: Iterable[Span]) -> Iterator[Span]:
        """Yield spans of `data` as spans of the original text."""
        for start, end, kind in spans:
            yield self._original(start), self._original(end - 1) + 1, kind

    def _original(self, place: int) -> int:
        return place + self.shifts[bisect_right(self.starts, place) - 1]


def find_plain_lines(data: bytes) -> PlainLines | None:
    """Return the lines of a text that are in disguise; None if it has none."""
    pieces, starts, shifts, size = list[bytes](), list[int](), list[int](), 0
    for start, end in chain(_find_prefixed(data), _find_escaped(data)):
        starts.append(size)
        shifts.append(start - size)
        pieces += (data[start:end], b"\n")
        size += end - start + 1
    return PlainLines(b"".join(pieces), starts, shifts) if pieces else None


def _find_prefixed(data: bytes) -> Iterator[_Place]:
    last_end = 0
    for found in _PREFIX.finditer(data):
        end = data.find(b"\n", found.end())
        end = len(data) if end < 0 else end
        if found.start() > last_end + 1:
            yield found.start(), found.start()  # an empty line: the others are no neighbours
        yield found.end(), end
        last_end = end


def _find_escaped(data: bytes) -> Iterator[_Place]:
    """Yield the lines in strings with two escaped line feeds; source code has many with one."""
    place = data.find(_LINE_FEED)
    while place >= 0:
        end = data.find(b"\n", place)
        end = len(data) if end < 0 else end
        if data.find(_LINE_FEED, place + 2, end) >= 0:
            begin = data.rfind(b"\n", 0, place) + 1
            for escape in _ESCAPED.finditer(data, begin, end):
                yield begin, escape.start()
                begin = escape.end()
            yield begin, end
        place = data.find(_LINE_FEED, end)
