"""What an importer notices on its way through a file, and the reading of its lines.

A damaged line is noted and passed over: a recording is never refused for one.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

_T = TypeVar("_T")

_SHOWN = 20
_LONE_HALF = re.compile(
    rb"(?<!\\)((?:\\\\)*)(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
"""Tools that cut text in JavaScript leave half of an emoji behind; JSON has no such character."""


class Findings:
    """Collects what is worth telling about a recording."""

    def __init__(self) -> None:
        self._notes: list[str] = []
        self._damaged: list[str] = []
        self._silent: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()

    def note(self, text: str) -> None:
        """Add a sentence."""
        self._notes.append(text)

    def count(self, number: int, one: str, many: str) -> None:
        """Add a sentence about `number` things, or none when there are none."""
        if number:
            self.note(one if number == 1 else many.format(number))

    def damaged(self, number: int, error: Exception) -> None:
        """Note a line that could not be read."""
        how = (
            "has an unexpected shape"
            if isinstance(error, msgspec.ValidationError)
            else "is torn or not JSON"
        )
        self._damaged.append(f"line {number} {how} and was passed over: {error}")

    def silent(self, kind: str) -> None:
        """Count a line of a known kind that carries no message."""
        self._silent[kind] += 1

    def unknown(self, kind: str) -> None:
        """Count a line or block of a kind this importer does not know."""
        self._unknown[kind or "(no type)"] += 1

    def report(self) -> tuple[str, ...]:
        """Return everything noted, damage first."""
        lines = self._damaged[:_SHOWN]
        if len(self._damaged) > _SHOWN:
            lines.append(f"{len(self._damaged) - _SHOWN} more lines could not be read")
        lines += self._notes
        if self._unknown:
            lines.append(f"of unknown kind, left out: {_listed(self._unknown)}")
        if self._silent:
            lines.append(f"without a message: {_listed(self._silent)}")
        return tuple(lines)


def read_lines(
    lines: Iterable[bytes], decoder: msgspec.json.Decoder[_T], findings: Findings
) -> Iterator[tuple[int, _T]]:
    """Decode each line that is not blank, with its number; note those that cannot be."""
    for number, line in enumerate(lines, 1):
        if not line or line.isspace():
            continue
        try:
            yield number, _decode(line, decoder)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            findings.damaged(number, error)


def _decode(line: bytes, decoder: msgspec.json.Decoder[_T]) -> _T:
    try:
        return decoder.decode(line)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError):
        mended = _LONE_HALF.sub(rb"\1\\ufffd", line)
        if mended == line:
            raise
        return decoder.decode(mended)


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{kind} {number}" for kind, number in counts.most_common())
