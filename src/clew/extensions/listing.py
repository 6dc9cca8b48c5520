"""Lists that are not too long: what a model may call, and what a person is warned of."""

from collections.abc import Iterator, Sequence
from itertools import accumulate, takewhile

from clew.core.text import one_line

LONGEST = 1_024
"""Characters of one description."""
_SHORTEST = 24
"""A description that would be shorter than this is left out: names alone say as much."""


def format_list(entries: Sequence[tuple[str, str]], *, max_chars: int, things: str) -> str:
    """Return a line for each name and description, within `max_chars`.

    When they do not fit, all descriptions are shortened alike, then left out; then the last
    names go, and a closing line says how many `things` are not listed.
    """
    spoken = [(name, one_line(description[: 4 * LONGEST])) for name, description in entries]
    longest = _longest_that_fits(spoken, max_chars)
    lines = [_line(name, description, longest) for name, description in spoken]
    room = max_chars
    if _size(lines) > room:
        room -= len(_rest(len(lines), things)) + 1
    kept = list(takewhile(lambda line: line[1] <= room + 1, zip(lines, _ends(lines), strict=True)))
    left = len(lines) - len(kept)
    return "\n".join([line for line, _ in kept] + ([_rest(left, things)] if left else []))


def summarize_warnings(sentences: Sequence[str], most: int, what: str) -> tuple[str, ...]:
    """Return the first sentences, and one that says of how many more things `what` holds."""
    more = len(sentences) - most
    return (*sentences[:most], *([f"{more:,} more {what}."] if more > 0 else ()))


def _longest_that_fits(entries: Sequence[tuple[str, str]], max_chars: int) -> int:
    """Return how long descriptions may be, so that all fit; 0 where none may be there."""
    names = sum(len(_line(name, "", 0)) + 1 for name, _ in entries) - 1
    sizes = [len(description) for _, description in entries if description]
    low, high = _SHORTEST - 1, LONGEST
    while low < high:
        middle = (low + high + 1) // 2
        if names + sum(min(size, middle) + 2 for size in sizes) <= max_chars:
            low = middle
        else:
            high = middle - 1
    return low if low >= _SHORTEST else 0


def _line(name: str, description: str, longest: int) -> str:
    if not description or not longest:
        return f"- {name}"
    if len(description) > longest:
        description = description[: longest - 1].rstrip() + "…"
    return f"- {name}: {description}"


def _rest(count: int, things: str) -> str:
    return f"({count:,} more {things} are not listed)"


def _ends(lines: Sequence[str]) -> Iterator[int]:
    """Yield how long the text is after each line and its end."""
    return accumulate(len(line) + 1 for line in lines)


def _size(lines: Sequence[str]) -> int:
    return max(_ends(lines), default=1) - 1
