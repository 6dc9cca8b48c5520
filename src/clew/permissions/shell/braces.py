"""Brace expansion: `a{b,c}` is two words, `{1..3}` three."""

import re
from enum import Enum
from itertools import pairwise, product
from typing import TypeAlias


class Mark(Enum):
    """What the shell still does to a piece of a word."""

    PLAIN = 0
    """Neither quoted nor escaped: braces and patterns count."""
    QUOTED = 1
    OPEN = 2
    """An expansion: its value is not known."""


Piece: TypeAlias = tuple[str, Mark]

MOST = 256
"""Words that one word may become."""
_MOST_GROUPS = 16
_RANGE = re.compile(r"(-?\d{1,6}|[A-Za-z])\.\.(-?\d{1,6}|[A-Za-z])")
_PADDED = re.compile(r"-?0\d")
_OPENS, _COMMA, _CLOSES = (("{", Mark.PLAIN), (",", Mark.PLAIN), ("}", Mark.PLAIN))


class TooMuch(Exception):
    """The words are too many, or not certain."""


def expand(pieces: list[Piece]) -> list[list[Piece]]:
    """Return the words that braces make of one word.

    Raises:
        TooMuch: They are more than `MOST`, or a range that is not understood.
    """
    if sum(text.count("{") for text, mark in pieces if mark is Mark.PLAIN) > _MOST_GROUPS:
        raise TooMuch
    cells = [
        (char, mark) for text, mark in pieces for char in (text if mark is Mark.PLAIN else (text,))
    ]
    return _expand(cells)


def _expand(cells: list[Piece]) -> list[list[Piece]]:
    for start, cell in enumerate(cells):
        if cell != _OPENS:
            continue
        found = _group(cells, start)
        if found is None:
            _check_rest(cells[start + 1 :])
            continue
        choices, end = found
        tails = _expand(cells[end + 1 :])
        if len(choices) * len(tails) > MOST:
            raise TooMuch
        return [cells[:start] + choice + tail for choice, tail in product(choices, tails)]
    return [cells]


def _check_rest(cells: list[Piece]) -> None:
    """Refuse a brace that stands for itself where the shell may pair it with a later one."""
    if _COMMA in cells and _CLOSES in cells[cells.index(_COMMA) :]:
        raise TooMuch


def _group(cells: list[Piece], start: int) -> tuple[list[list[Piece]], int] | None:
    """Return the alternatives of the group that starts here, and where it ends."""
    depth, marks = 0, [start]
    for at in range(start, len(cells)):
        if cells[at] == _OPENS:
            depth += 1
        elif cells[at] == _COMMA and depth == 1:
            marks.append(at)
        elif cells[at] == _CLOSES:
            depth -= 1
            if depth == 0:
                choices = _choices(cells, [*marks, at])
                return None if choices is None else (choices, at)
    return None


def _choices(cells: list[Piece], marks: list[int]) -> list[list[Piece]] | None:
    if len(marks) > 2:
        parts = [cells[one + 1 : other] for one, other in pairwise(marks)]
        choices = [word for part in parts for word in _expand(part)]
        if len(choices) > MOST:
            raise TooMuch
        return choices
    inside = cells[marks[0] + 1 : marks[1]]
    body = "".join(text for text, _ in inside)
    if ".." not in body:
        return None
    if any(mark is not Mark.PLAIN for _, mark in inside):
        raise TooMuch
    return [[(word, Mark.PLAIN)] for word in _sequence(body)]


def _sequence(body: str) -> list[str]:
    found = _RANGE.fullmatch(body)
    if not found or found[1].isalpha() != found[2].isalpha():
        raise TooMuch
    first, last = found[1], found[2]
    one, other = (ord(first), ord(last)) if first.isalpha() else (int(first), int(last))
    odd = first.isalpha() and first.islower() != last.islower()
    if odd or abs(other - one) >= MOST or _PADDED.match(first) or _PADDED.match(last):
        raise TooMuch
    step = 1 if other >= one else -1
    numbers = range(one, other + step, step)
    return [chr(number) if first.isalpha() else str(number) for number in numbers]
