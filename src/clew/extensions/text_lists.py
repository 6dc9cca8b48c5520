"""Lists with a limited length: skills and commands for a model, warnings for people."""

from collections.abc import Iterator, Sequence
from itertools import accumulate, takewhile

from clew.core.text import one_line

MAX_DESCRIPTION = 1_024
"""Characters of one description."""
_MIN_DESCRIPTION = 24
"""Descriptions are omitted rather than truncated below this length."""


def format_list(entries: Sequence[tuple[str, str]], *, max_chars: int, things: str) -> str:
    """Return a line for each name and description, within `max_chars`.

    If they do not fit, all descriptions are truncated to the same length, then omitted. Then the
    last names are dropped, and a closing line says how many `things` are not listed.
    """
    cleaned = [
        (name, one_line(description[: 4 * MAX_DESCRIPTION])) for name, description in entries
    ]
    longest = _longest_that_fits(cleaned, max_chars)
    lines = [_line(name, description, longest) for name, description in cleaned]
    room = max_chars
    if _size(lines) > room:
        room -= len(_rest(len(lines), things)) + 1
    kept = list(takewhile(lambda line: line[1] <= room + 1, zip(lines, _ends(lines), strict=True)))
    left = len(lines) - len(kept)
    return "\n".join([line for line, _ in kept] + ([_rest(left, things)] if left else []))


def summarize_warnings(sentences: Sequence[str], most: int, what: str) -> tuple[str, ...]:
    """Return the first sentences, and one that counts the others."""
    more = len(sentences) - most
    return (*sentences[:most], *([f"{more:,} more {what}."] if more > 0 else ()))


def _longest_that_fits(entries: Sequence[tuple[str, str]], max_chars: int) -> int:
    """Return the length of descriptions with which all names fit; 0 to omit them."""
    names = sum(len(_line(name, "", 0)) + 1 for name, _ in entries) - 1
    sizes = [len(description) for _, description in entries if description]
    low, high = _MIN_DESCRIPTION - 1, MAX_DESCRIPTION
    while low < high:
        middle = (low + high + 1) // 2
        if names + sum(min(size, middle) + 2 for size in sizes) <= max_chars:
            low = middle
        else:
            high = middle - 1
    return low if low >= _MIN_DESCRIPTION else 0


def _line(name: str, description: str, longest: int) -> str:
    if not description or not longest:
        return f"- {name}"
    if len(description) > longest:
        description = description[: longest - 1].rstrip() + "…"
    return f"- {name}: {description}"


def _rest(count: int, things: str) -> str:
    return f"({count:,} more {things} are not listed)"


def _ends(lines: Sequence[str]) -> Iterator[int]:
    """Yield the length of the text after each line."""
    return accumulate(len(line) + 1 for line in lines)


def _size(lines: Sequence[str]) -> int:
    return max(_ends(lines), default=1) - 1
