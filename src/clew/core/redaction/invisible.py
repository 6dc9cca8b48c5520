"""Characters that a reader does not see, inside names and values: colours, zero-width characters.

A program that colours its output writes `password`, an escape sequence, `=`, another one and the
value. So a text with such characters is also scanned without them, and what is found there is
mapped back.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from msgspec import Struct

from clew.core.redaction.patterns import Span

_INVISIBLE = re.compile(
    rb"""
      \x1b\[[0-9;:?<=>]{0,64}[ -/]{0,4}[@-~]        # colours, cursor movements
    | \x1b\][^\x07\x1b\n]{0,2048}(?:\x07|\x1b\\)    # titles and links
    | \x1b[()*+#%][0-9A-Za-z]                       # character sets
    | \x1b[=>78cDEHMNOZ]
    | \xc2\x9b[0-9;:?]{0,64}[@-~]
    | \\\\{0,7}+(?:u001[bB]|x1[bB]|033|e)\[[0-9;:]{0,64}[mK]  # colours, escaped
    | \\\\{0,7}+u(?:200[b-fB-F]|20(?:2[a-eA-E]|6[0-4])|00[aA][dD]|[fF][eE][fF][fF])
    | \xc2\xad                                      # soft hyphen
    | \xcd\x8f                                      # grapheme joiner
    | \xe2\x80[\x8b-\x8f\xaa-\xae]                  # zero-width characters, directions
    | \xe2\x81[\xa0-\xaf]                           # word joiner, invisible operators
    | \xef\xbb\xbf                                  # byte order mark
    | \xef\xb8[\x80-\x8f]                           # variation selectors
    | \xf3\xa0[\x80-\x87][\x80-\xbf]                # tags
    | \x08\x08*+                                    # each erases the character before it
    | \x00
    """,
    re.VERBOSE,
)
"""Every alternative begins with a fixed byte, so `re` skips ordinary text fast."""
_REACH = 1_024
"""How far from an invisible character the text is scanned again, in addition to the line there."""
_MAX_LINE = 8_192


class VisibleText(Struct, frozen=True):
    """A part of a text without its invisible characters."""

    data: bytes
    starts: list[int]
    """Where each piece of the original text begins in `data`."""
    shifts: list[int]
    """What to add to a place in each piece to map it back."""

    def map_back(self, spans: Iterable[Span]) -> Iterator[Span]:
        """Yield spans of `data` as spans of the original text."""
        for start, end, kind in spans:
            first = start + self.shifts[bisect_right(self.starts, start) - 1]
            last = end - 1 + self.shifts[bisect_right(self.starts, end - 1) - 1]
            yield first, last + 1, kind


def find_visible_texts(data: bytes) -> Iterator[VisibleText]:
    """Yield the parts of a text that have invisible characters, as a reader sees them."""
    group: list[tuple[int, int]] = []
    for found in _INVISIBLE.finditer(data):
        if group and found.start() - group[-1][1] > 2 * (_REACH + _MAX_LINE):
            yield _remove(data, group)
            group = []
        group.append(found.span())
    if group:
        yield _remove(data, group)


def _remove(data: bytes, hidden: list[tuple[int, int]]) -> VisibleText:
    begin, end = _find_lines(data, hidden[0][0], hidden[-1][1])
    pieces, starts, shifts, size = list[bytes](), list[int](), list[int](), 0
    for start, after in (*hidden, (end, end)):
        erased = after - start if data[start:after].startswith(b"\b") else 0
        piece = data[begin : max(begin, start - erased)]
        if piece:
            pieces.append(piece)
            starts.append(size)
            shifts.append(begin - size)
            size += len(piece)
        begin = after
    return VisibleText(b"".join(pieces), starts, shifts)


def _find_lines(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Return where the lines around a part of the text begin and end."""
    first = data.rfind(b"\n", 0, max(0, start - _REACH)) + 1
    last = data.find(b"\n", end + _REACH)
    last = len(data) if last < 0 else last
    return max(first, start - _REACH - _MAX_LINE), min(last, end + _REACH + _MAX_LINE)
