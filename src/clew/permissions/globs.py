"""Glob matching in linear time, whatever the pattern.

A backtracking regular expression tries one path after another, and a rule such as
`*a*a*a*a*a*ab` has exponentially many. This module follows all paths at once, as a
nondeterministic automaton does: the set of positions reached in the text is a bit mask in one
integer, and each step of the pattern moves all of them in a few operations.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec import Struct


class GlobText:
    """The text to match, with a bit mask of the positions of each character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.whole = (2 << len(text)) - 1
        """All positions: before each character, and at the end."""
        self._positions: dict[str, int] = {}

    def where(self, char: str) -> int:
        """Return the positions before this character."""
        found = self._positions.get(char)
        if found is None:
            found = self._positions[char] = self._find(char)
        return found

    def where_not(self, char: str) -> int:
        """Return the positions before every other character."""
        return (self.whole >> 1) & ~self.where(char)

    def _find(self, char: str) -> int:
        digits = bytearray(b"0") * (len(self.text) + 1)
        position = self.text.find(char)
        while position >= 0:
            digits[-1 - position] = ord("1")
            position = self.text.find(char, position + 1)
        return int(digits, 2)


GlobStep: TypeAlias = Callable[[GlobText, int], int]
"""Maps the positions before one element of a pattern to the positions after it."""


class Glob(Struct, frozen=True):
    """A compiled pattern."""

    start: str
    """The literal text at the start of the pattern."""
    steps: tuple[GlobStep, ...]

    def matches(self, text: str) -> bool:
        """Does the pattern match the whole of `text`?"""
        if not text.startswith(self.start):
            return False
        if not self.steps:
            return text == self.start
        rest = GlobText(text[len(self.start) :])
        positions = 1
        for step in self.steps:
            positions = step(rest, positions)
            if not positions:
                return False
        return bool(positions >> len(rest.text))


def build_glob(elements: Iterable[str | GlobStep]) -> Glob:
    """Compile a pattern from literal texts and steps."""
    start, steps = "", list[GlobStep]()
    for element in elements:
        if isinstance(element, str):
            if steps:
                steps.append(literal(element))
            else:
                start += element
        else:
            steps.append(element)
    return Glob(start, tuple(steps))


def literal(chars: str) -> GlobStep:
    """Match these characters."""

    def step(text: GlobText, positions: int) -> int:
        for char in chars:
            positions = (positions & text.where(char)) << 1
        return positions

    return step


def any_text(text: GlobText, positions: int) -> int:
    """Match any number of characters."""
    return text.whole & -(positions & -positions)


def any_char(text: GlobText, positions: int) -> int:
    """Match one character."""
    return text.whole & (positions << 1)


def any_except(mark: str) -> GlobStep:
    """Match any number of characters other than `mark`."""
    return lambda text, positions: _spread(positions, text.where_not(mark))


def char_except(mark: str) -> GlobStep:
    """Match one character other than `mark`."""
    return lambda text, positions: (positions & text.where_not(mark)) << 1


def segments(mark: str) -> GlobStep:
    """Match one or more segments that are not empty, each followed by `mark`."""

    def step(text: GlobText, positions: int) -> int:
        marks, others = text.where(mark), text.where_not(mark)
        # A mark right after another ends an empty segment, which does not match.
        way = others | (marks & (others << 1))
        return _spread((positions & others) << 1, way) & (marks << 1)

    return step


def optional_tail(mark: str) -> GlobStep:
    """Match nothing, or `mark` and everything after it."""
    return optional(lambda text, positions: any_text(text, literal(mark)(text, positions)))


def optional(inner: GlobStep) -> GlobStep:
    """Match nothing, or what `inner` matches."""
    return lambda text, positions: positions | inner(text, positions)


def alternatives(one: GlobStep, other: GlobStep) -> GlobStep:
    """Match what one of the two steps matches."""
    return lambda text, positions: one(text, positions) | other(text, positions)


def char_class(is_member: Callable[[str], bool]) -> GlobStep:
    """Match one character for which `is_member` is true."""

    def step(text: GlobText, positions: int) -> int:
        found = 0
        for char in filter(is_member, set(text.text)):
            found |= text.where(char)
        return (positions & found) << 1

    return step


def _spread(positions: int, way: int) -> int:
    """Return `positions` and all positions reachable from them through the ones in `way`.

    An addition carries through a run of ones: the run is the way, and the carry ends at the
    first position after it.
    """
    return (((positions & way) + way) ^ way) | positions
