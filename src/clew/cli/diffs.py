"""What an edit changed, as lines for a screen."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from clew.cli.sanitize import one_line, rows, sanitize
from clew.core.file_change import FileChange, Hunk, read_file_change

_SHOWN_PATH = 120
_MOST_ROWS = 40
_LOOKS = {"+": "green", "-": "red", "\\": "dim", "…": "dim"}


@dataclass(frozen=True, slots=True)
class Row:
    """One line, harmless and no wider than asked for, and its colour; empty for none."""

    text: str
    style: str = ""


def diff_rows(data: Mapping[str, object], *, width: int, most: int = _MOST_ROWS) -> list[Row]:
    """Return the diff in the `data` of a tool's result, with line numbers.

    Lines that are gone have the number that they had, all others the number that they have.
    Nothing is returned when `data` holds no diff, whatever else it holds.

    Args:
        data: What the event of a finished tool call carries.
        width: Columns that a row may take.
        most: How many lines of the diff are shown; a last row counts the others.
    """
    change = read_file_change(data)
    if change is None:
        return []
    made = " (new)" if change.created else ""
    title = f"{one_line(change.path, _SHOWN_PATH)}{made} +{change.added:,} -{change.removed:,}"
    shown = list(islice(_body(change), most))
    digits = max((len(str(number)) for number, _, _ in shown), default=0)
    body = [_row(line, digits=digits, width=width) for line in shown]
    hidden = sum(_length(hunk) for hunk in change.hunks) + len(change.hunks) - 1 - len(shown)
    rest = [Row(_cut(f"… {hidden:,} more", width), "dim")] if hidden > 0 else []
    return [Row(_cut(title, width), "dim"), *body, *rest]


_Line = tuple[int, str, str]
"""A number, 0 for none; a mark; the text."""


def _length(hunk: Hunk) -> int:
    return sum(1 + line.no_newline for line in hunk.number_lines())


def _body(change: FileChange) -> Iterator[_Line]:
    for at, hunk in enumerate(change.hunks):
        if at:
            yield 0, "…", ""
        for line in hunk.number_lines():
            yield line.number, line.mark, line.text
            if line.no_newline:
                yield 0, "\\", "no line break at the end"


def _row(line: _Line, *, digits: int, width: int) -> Row:
    number, mark, text = line
    count = f"{number or '':>{digits}}"
    shown = sanitize(text.replace("\n", " "))
    return Row(_cut(f"{count} {mark} {shown}".rstrip(), width), _LOOKS.get(mark, ""))


def _cut(text: str, width: int) -> str:
    """Return what fits in `width` columns; where that is not all, the last one says so."""
    pieces = rows(text, width)
    first = next(pieces)
    if next(pieces, None) is None:
        return first
    return next(rows(text, max(1, width - 1))) + "…"
