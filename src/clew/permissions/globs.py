"""Patterns with wildcards, compared in a time that no pattern can make long.

A regular expression tries one way after another, and for a rule such as `*a*a*a*a*a*ab` there
are more ways than anybody can wait for. Here all ways are followed at once. How far a text may
have been read is a set of places, kept as the bits of one number, and each step of a pattern
moves all of them in a few operations.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec import Struct


class GlobText:
    """A text that is compared, and where in it each letter stands."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.whole = (2 << len(text)) - 1
        """Every place: before each letter, and at the end."""
        self._places: dict[str, int] = {}

    def where(self, letter: str) -> int:
        """Return the places before this letter."""
        found = self._places.get(letter)
        if found is None:
            found = self._places[letter] = self._look_for(letter)
        return found

    def where_not(self, letter: str) -> int:
        """Return the places before every other letter."""
        return (self.whole >> 1) & ~self.where(letter)

    def _look_for(self, letter: str) -> int:
        digits = bytearray(b"0") * (len(self.text) + 1)
        place = self.text.find(letter)
        while place >= 0:
            digits[-1 - place] = ord("1")
            place = self.text.find(letter, place + 1)
        return int(digits, 2)


GlobStep: TypeAlias = Callable[[GlobText, int], int]
"""Takes the places before a piece of a pattern to those behind it."""


class Glob(Struct, frozen=True):
    """A pattern, ready to be compared."""

    start: str
    """What a text must begin with."""
    steps: tuple[GlobStep, ...]

    def matches(self, text: str) -> bool:
        """Does the pattern match the whole of `text`?"""
        if not text.startswith(self.start):
            return False
        if not self.steps:
            return text == self.start
        rest = GlobText(text[len(self.start) :])
        places = 1
        for step in self.steps:
            places = step(rest, places)
            if not places:
                return False
        return bool(places >> len(rest.text))


def build_glob(pieces: Iterable[str | GlobStep]) -> Glob:
    """Put a pattern together from texts that stand for themselves, and from steps."""
    start, steps = "", list[GlobStep]()
    for piece in pieces:
        if isinstance(piece, str):
            if steps:
                steps.append(literal(piece))
            else:
                start += piece
        else:
            steps.append(piece)
    return Glob(start, tuple(steps))


def literal(letters: str) -> GlobStep:
    """Return the step over these letters."""

    def step(text: GlobText, places: int) -> int:
        for letter in letters:
            places = (places & text.where(letter)) << 1
        return places

    return step


def any_text(text: GlobText, places: int) -> int:
    """Step over any number of letters."""
    return text.whole & -(places & -places)


def any_char(text: GlobText, places: int) -> int:
    """Step over one letter."""
    return text.whole & (places << 1)


def any_except(mark: str) -> GlobStep:
    """Return the step over any number of letters other than `mark`."""
    return lambda text, places: _spread(places, text.where_not(mark))


def char_except(mark: str) -> GlobStep:
    """Return the step over one letter other than `mark`."""
    return lambda text, places: (places & text.where_not(mark)) << 1


def segments(mark: str) -> GlobStep:
    """Return the step over one part or more, each with something in it and `mark` behind it."""

    def step(text: GlobText, places: int) -> int:
        marks, others = text.where(mark), text.where_not(mark)
        # A mark right behind another ends an empty part: there is no way over it.
        way = others | (marks & (others << 1))
        return _spread((places & others) << 1, way) & (marks << 1)

    return step


def optional_tail(mark: str) -> GlobStep:
    """Return the step over nothing, or over `mark` and all that is behind it."""
    return optional(lambda text, places: any_text(text, literal(mark)(text, places)))


def optional(inner: GlobStep) -> GlobStep:
    """Return the step over nothing, or over what `inner` steps over."""
    return lambda text, places: places | inner(text, places)


def alternatives(one: GlobStep, other: GlobStep) -> GlobStep:
    """Return the step over what one of the two steps over."""
    return lambda text, places: one(text, places) | other(text, places)


def char_class(is_meant: Callable[[str], bool]) -> GlobStep:
    """Return the step over one of the letters for which `is_meant` holds."""

    def step(text: GlobText, places: int) -> int:
        found = 0
        for letter in filter(is_meant, set(text.text)):
            found |= text.where(letter)
        return (places & found) << 1

    return step


def _spread(places: int, way: int) -> int:
    """Return `places` and all that can be come to from them, stepping on `way` alone.

    A sum carries through a row of ones: that row is the way, and where the carry ends is the
    first place behind it.
    """
    return (((places & way) + way) ^ way) | places
