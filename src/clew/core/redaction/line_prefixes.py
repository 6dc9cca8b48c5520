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
    rb"""\n(?!\d{4}-\d\d-\d\d)(?:
      [^\s:]{1,256}?[:-]\d{1,9}[:-]    # grep -n, and its context
    | (?=[^\s:]*[./])[^\s:]{1,256}:     # grep without numbers
    | [ \t]{0,8}\d{1,9}(?:[:-]|\t|\xe2\x86\x92)  # numbers alone, as of Read, cat -n and rg
    | [-+](?![-+]{2}[ ])                # diff -u
    | [<>*][ ]                          # diff, curl -v, quotes
    )(?=.)""",
    re.VERBOSE,
)
"""A line feed and the prefix of the next line: `re` looks for a fixed byte first, which is fast."""
_LINE_FEED = rb"\n"
_ESCAPED = re.compile(rb"\\+n")


class PlainLines(Struct, frozen=True):
    """Lines without their disguise, as one text."""

    data: bytes
    original: bytes

    def map_back(self, spans: Iterable[Span]) -> Iterator[Span]:
        """Yield spans of `data` as spans of the original text."""
        starts, shifts = list[int](), list[int]()
        for start, end, kind in spans:
            if not starts:
                starts, shifts = _map_lines(self.original)
            line, last = bisect_right(starts, start), bisect_right(starts, end - 1)
            first, after = start + shifts[line - 1], end + shifts[last - 1]
            if after <= first:
                # It goes on in a line that comes earlier in the original text: keep its first line.
                after = starts[line] - 1 + shifts[line - 1]
            yield first, after, kind


def find_plain_lines(data: bytes) -> PlainLines | None:
    """Return the lines of a text that are in disguise; None if it has none."""
    pieces = [data[start:end] for start, end in _find_prefixed(data)]
    for begin, end in _find_escaped(data):
        *lines, last = data[begin:end].split(_LINE_FEED)
        pieces += (line.rstrip(b"\\") for line in lines)
        pieces.append(last)
    return PlainLines(b"\n".join((*pieces, b"")), data) if pieces else None


def _map_lines(data: bytes) -> tuple[list[int], list[int]]:
    """Return where each plain line begins, and what to add to a place in it to map it back."""
    starts, shifts, size = list[int](), list[int](), 0
    for start, end in chain(_find_prefixed(data), _split_escaped(data)):
        starts.append(size)
        shifts.append(start - size)
        size += end - start + 1
    return starts, shifts


def _find_prefixed(data: bytes) -> Iterator[_Place]:
    last_end = 0
    for found in _PREFIX.finditer(b"\n" + data):
        # The line feed before the text moves every place by one.
        start, begin = found.span()
        end = data.find(b"\n", begin - 1)
        end = len(data) if end < 0 else end
        if start > last_end + 1:
            yield start, start  # an empty line: the others are no neighbours
        yield begin - 1, end
        last_end = end


def _find_escaped(data: bytes) -> Iterator[_Place]:
    """Yield the lines with two escaped line feeds; source code has many with one."""
    place = data.find(_LINE_FEED)
    while place >= 0:
        end = data.find(b"\n", place)
        end = len(data) if end < 0 else end
        if data.find(_LINE_FEED, place + 2, end) >= 0:
            yield data.rfind(b"\n", 0, place) + 1, end
        place = data.find(_LINE_FEED, end)


def _split_escaped(data: bytes) -> Iterator[_Place]:
    """Yield the escaped lines in those lines."""
    for begin, end in _find_escaped(data):
        start = begin
        for escape in _ESCAPED.finditer(data, begin, end):
            yield start, escape.start()
            start = escape.end()
        yield start, end
