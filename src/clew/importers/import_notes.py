"""Decode the lines of a recording, and collect notes about it.

A damaged line adds a note and is skipped; it never fails the whole import.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from clew.core.json_text import JsonDecoder

_T = TypeVar("_T")

_SHOWN = 20
_LONE_HALF = re.compile(
    rb"(?<!\\)((?:\\\\)*)(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
"""JavaScript tools that cut text leave half of an emoji; JSON has no such character."""


class ImportNotes:
    """Collects what was repaired, skipped or not understood in a recording."""

    def __init__(self) -> None:
        self._notes: list[str] = []
        self._damaged: list[str] = []
        self._silent: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()

    def add(self, text: str) -> None:
        """Add a note."""
        self._notes.append(text)

    def add_count(self, number: int, one: str, many: str) -> None:
        """Add a note about `number` things, unless it is zero."""
        if number:
            self.add(one if number == 1 else many.format(number))

    def add_damage(self, number: int, error: Exception) -> None:
        """Add a line that could not be read."""
        how = (
            "has an unexpected shape"
            if isinstance(error, msgspec.ValidationError)
            else "is torn or not JSON"
        )
        self._damaged.append(f"line {number} {how} and was skipped: {error}")

    def count_silent(self, kind: str) -> None:
        """Count a line of a known kind without a message."""
        self._silent[kind] += 1

    def count_unknown(self, kind: str) -> None:
        """Count a line or block of an unknown kind."""
        self._unknown[kind or "(no type)"] += 1

    def to_list(self) -> tuple[str, ...]:
        """Return all notes, damaged lines first."""
        lines = self._damaged[:_SHOWN]
        if len(self._damaged) > _SHOWN:
            lines.append(f"{len(self._damaged) - _SHOWN} more lines could not be read")
        lines += self._notes
        if self._unknown:
            lines.append(f"skipped, of unknown kind: {_join_counts(self._unknown)}")
        if self._silent:
            lines.append(f"without a message: {_join_counts(self._silent)}")
        return tuple(lines)


def read_lines(
    lines: Iterable[bytes], decoder: JsonDecoder[_T], notes: ImportNotes
) -> Iterator[tuple[int, _T]]:
    """Yield each decoded line with its number; blank lines are skipped, damaged ones noted."""
    for number, line in enumerate(lines, 1):
        if not line or line.isspace():
            continue
        try:
            yield number, _decode(line, decoder)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            notes.add_damage(number, error)


def _decode(line: bytes, decoder: JsonDecoder[_T]) -> _T:
    try:
        return decoder.decode(line)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError):
        repaired = _LONE_HALF.sub(rb"\1\\ufffd", line)
        if repaired == line:
            raise
        return decoder.decode(repaired)


def _join_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{kind} {number}" for kind, number in counts.most_common())
