"""Redaction marks: how secrets are replaced, and what is behind each mark.

`[redacted:kind]` stands for a secret. A text with marks and its originals is a `RedactedText`,
so that an edit of the redacted text can be applied to the original one.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from clew.core.redaction.patterns import Span

MARK: Final = "[redacted:"
"""Prefix of every mark. Values that contain it are skipped, so redaction is idempotent."""
MARK_PATTERN: Final = re.compile(r"\[redacted:([a-z0-9-]{1,60})\]")
"""A mark; its group is the kind of secret."""
_LOOSE = frozenset({"password", "secret", "key", "token", "authorization", "cookie", "credentials"})

ByteMark: TypeAlias = tuple[int, int, bytes]
"""Start and end of a mark in redacted bytes, and the bytes behind it."""


class HiddenText(Struct, frozen=True):
    """A mark in a redacted text, and the text that it stands for."""

    start: int
    end: int
    original: str


class RedactedText(Struct, frozen=True):
    """A text without secrets, with the originals behind its marks."""

    text: str
    hidden: tuple[HiddenText, ...] = ()


def find_mark(value: object) -> str:
    """Return the first mark in a text or in the texts of a document; empty without one."""
    todo = [value]
    while todo:
        match todo.pop():
            case str() as text if found := MARK_PATTERN.search(text):
                return found[0]
            case dict() as fields:
                todo += [*fields.keys(), *fields.values()]
            case list() | tuple() as items:
                todo += items
    return ""


def merge_spans(spans: Iterable["Span"]) -> Iterator["Span"]:
    """Yield spans without overlaps; `spans` are sorted, and at least one."""
    start, end, kind = 0, 0, ""
    for span in spans:
        if span[0] < end:
            # Two searches found the same secret: the kind by form is more precise.
            kind = span[2] if kind in _LOOSE else kind
            end = max(end, span[1])
            continue
        if kind:
            yield start, end, kind
        start, end, kind = span
    yield start, end, kind


def replace_spans(
    data: bytes, spans: Iterable["Span"], hidden: Iterable[ByteMark]
) -> tuple[bytes, list[ByteMark]]:
    """Replace spans by marks.

    Args:
        data: The bytes, which may have marks already.
        spans: What to replace: sorted, without overlaps, and no part of a mark.
        hidden: The marks of `data`.

    Returns:
        The new bytes and their marks.
    """
    pieces, marks, done, size = list[bytes](), list[ByteMark](), 0, 0
    earlier = deque(hidden)

    def copy_until(place: int) -> None:
        nonlocal done, size
        while earlier and earlier[0][1] <= place:
            start, end, original = earlier.popleft()
            marks.append((start - done + size, end - done + size, original))
        pieces.append(data[done:place])
        done, size = place, size + place - done

    for start, end, kind in spans:
        copy_until(start)
        mark = f"{MARK}{kind}]".encode()
        marks.append((size, size + len(mark), data[start:end]))
        pieces.append(mark)
        done, size = end, size + len(mark)
    copy_until(len(data))
    return b"".join(pieces), marks


def decode_marks(data: bytes, hidden: Iterable[ByteMark]) -> RedactedText:
    """Return redacted bytes and their marks as text."""
    pieces, marks, done, size = list[str](), list[HiddenText](), 0, 0
    for start, end, original in hidden:
        pieces += (_decode(data[done:start]), _decode(data[start:end]))
        first = size + len(pieces[-2])
        done, size = end, first + len(pieces[-1])
        marks.append(HiddenText(first, size, _decode(original)))
    pieces.append(_decode(data[done:]))
    return RedactedText("".join(pieces), tuple(marks))


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
