"""Lines of styled text: wrapped between words, chopped, truncated, and written as ANSI text.

Terminals disagree about emoji sequences. Every character counts with the most columns that a
terminal gives it, so a line that fits by this count fits everywhere.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple, TypeAlias

TAB_STOPS = 4
_JOINER = "\u200d"
_EMOJI_STYLE = "\ufe0f"
"""Makes the character before it an emoji, which is wide."""
_ZERO = frozenset({"Mn", "Me", "Cf"})
_SOFT_HYPHEN = "\u00ad"
_PIECES = re.compile(r"[ ]+|[^ ]+")


class Span(NamedTuple):
    """Text of one style. It is clean: without control characters, tabs and line breaks."""

    text: str
    sgr: str = ""
    """SGR parameters, such as `1;31`; empty for none."""


Line: TypeAlias = tuple[Span, ...]


def count_line(line: Iterable[Span]) -> int:
    """Return the columns of a line."""
    return sum(count_columns(span.text) for span in line)


def write_line(line: Iterable[Span]) -> str:
    """Return a line as ANSI text; each style is reset at its end."""
    made: list[str] = []
    for sgr, spans in groupby(line, key=attrgetter("sgr")):
        text = "".join(span.text for span in spans)
        made.append(f"\x1b[{sgr}m{text}\x1b[0m" if sgr and text else text)
    return "".join(made)


def write_lines(lines: Iterable[Line]) -> str:
    """Return lines as ANSI text; each ends with a line break."""
    return "".join(f"{write_line(strip_end(line))}\n" for line in lines)


def strip_end(line: Sequence[Span]) -> Line:
    """Return a line without the spaces at its end that have no style."""
    kept = list(line)
    while kept and not kept[-1].sgr and not kept[-1].text.rstrip(" "):
        kept.pop()
    if kept and not kept[-1].sgr:
        kept[-1] = kept[-1]._replace(text=kept[-1].text.rstrip(" "))
    return tuple(kept)


def wrap_line(line: Iterable[Span], width: int, *, first: Line = (), rest: Line = ()) -> list[Line]:
    """Wrap a line between words; words that are too long are divided.

    Args:
        line: The spans of the line.
        width: The maximum number of columns, with `first` and `rest`.
        first: What the first line begins with.
        rest: What the other lines begin with.
    """
    made: list[Line] = []
    row: list[Span] = list(first)
    used = start = count_line(first)
    spaces: list[Span] = []
    """Spaces that are written only if another word follows on the same line."""
    for word in _split_words(line):
        size = count_line(word)
        gap = count_line(spaces)
        if word[0].text.startswith(" "):
            spaces += word
            continue
        if used + gap + size > width and used > start:
            made.append(tuple(row))
            row, used = list(rest), count_line(rest)
            start, spaces, gap = used, [], 0
        if used + gap + size > width:
            gap = max(0, min(gap, width - used - 1))
            spaces = [Span(" " * gap)]
        row += spaces
        used, spaces = used + gap, []
        if used + size <= width:
            row += word
            used += size
            continue
        for piece in _divide(word, width, used, count_line(rest)):
            if piece is None:
                made.append(tuple(row))
                row, used = list(rest), count_line(rest)
                start = used
            else:
                row.append(piece)
                used += count_columns(piece.text)
    return [*made, tuple(row)]


def chop_line(line: Iterable[Span], width: int, *, rest: Line = ()) -> list[Line]:
    """Split a line at `width` columns wherever that is; for output and code."""
    made: list[Line] = []
    row: list[Span] = []
    used = 0
    for span in line:
        for piece in _divide((span,), width, used, count_line(rest)):
            if piece is None:
                made.append(tuple(row))
                row, used = list(rest), count_line(rest)
            else:
                row.append(piece)
                used += count_columns(piece.text)
    return [*made, tuple(row)]


def truncate_line(line: Iterable[Span], width: int, mark: str = "…") -> Line:
    """Return the beginning of a line in at most `width` columns."""
    made: list[Span] = []
    room = width
    spans = list(line)
    if count_line(spans) <= width:
        return tuple(spans)
    for span in spans:
        size = count_columns(span.text)
        if size > room - count_columns(mark):
            made.append(span._replace(text=truncate_columns(f"{span.text}{mark * 2}", room, mark)))
            break
        made.append(span)
        room -= size
    return tuple(made)


def fit_lines(lines: Iterable[Line], width: int) -> Iterator[Line]:
    """Yield lines, with those that are too wide chopped."""
    for line in lines:
        if count_line(line) <= width:
            yield line
        else:
            yield from chop_line(line, width)


def _split_words(line: Iterable[Span]) -> Iterator[list[Span]]:
    """Yield the words and the gaps of a line; a word may have several styles."""
    word: list[Span] = []
    for span in line:
        for piece in _split_pieces(span.text):
            is_gap = piece.startswith(" ")
            if word and (is_gap or word[0].text.startswith(" ") or _can_break(word, piece)):
                yield word
                word = []
            word.append(Span(piece, span.sgr))
    if word:
        yield word


def _split_pieces(text: str) -> Iterator[str]:
    """Split text into gaps, words and wide characters, which stand alone."""
    for found in _PIECES.findall(text):
        if found.isascii():
            yield found
            continue
        start = 0
        for at in range(1, len(found)):
            if _is_break(found[at - 1], found[at]):
                yield found[start:at]
                start = at
        yield found[start:]


def _can_break(word: list[Span], piece: str) -> bool:
    return _is_break(word[-1].text[-1], piece[0])


def _is_break(before: str, after: str) -> bool:
    """Return whether a line may be broken between two characters that are no spaces."""
    if before == _JOINER or not count_character(after) or after == _EMOJI_STYLE:
        return False
    return is_wide(before) or is_wide(after)


def _divide(word: Iterable[Span], width: int, used: int, start: int) -> Iterator[Span | None]:
    """Yield the pieces of a word; None where a new line begins, of which `start` is used."""
    for span in word:
        text = span.text
        while text:
            room = width - used
            piece = next(split_columns(text, max(1, room)))
            size = count_columns(piece)
            if size > room and used > start:
                yield None
                used = start
                continue
            yield Span(piece, span.sgr)
            text = text[len(piece) :]
            used += size


@lru_cache(maxsize=8192)
def count_character(character: str) -> int:
    """Return the columns of one character: 0, 1 or 2."""
    if character in (_EMOJI_STYLE, _SOFT_HYPHEN):
        return 1
    if unicodedata.category(character) in _ZERO:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def count_columns(text: str) -> int:
    """Return the columns of a sanitized line."""
    if text.isascii():
        return len(text)
    return sum(map(count_character, text))


def is_wide(character: str) -> bool:
    """Return whether a line may be broken before and after this character, as in Chinese."""
    return not character.isascii() and unicodedata.east_asian_width(character) in "WF"


def split_columns(text: str, width: int) -> Iterator[str]:
    """Split text into pieces of at most `width` columns; at least one, each with a character."""
    if text.isascii():
        yield from (text[at : at + width] for at in range(0, len(text) or 1, width))
        return
    start = used = 0
    for at, character in enumerate(text):
        size = count_character(character)
        if used + size > width and at > start:
            yield text[start:at]
            start, used = at, 0
        used += size
    yield text[start:]


def truncate_columns(text: str, width: int, mark: str = "…") -> str:
    """Return the beginning of a line in at most `width` columns, with a mark if it is cut."""
    if count_columns(text) <= width:
        return text
    room = width - count_columns(mark)
    return next(split_columns(text, room)) + mark if room > 0 else next(split_columns(mark, width))
