"""The diff of an edit, as lines for the terminal."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from clew.core.file_change import FileChange, Hunk, read_file_change
from clew.core.sanitize import sanitize, sanitize_line, split_rows

_MAX_PATH = 120
_MAX_LINES = 40
_STYLES = {"+": "green", "-": "red", "\\": "dim", "…": "dim"}


@dataclass(frozen=True, slots=True)
class StyledLine:
    """A sanitized line, and the name of its colour; empty for none."""

    text: str
    style: str = ""


def diff_rows(
    data: Mapping[str, object], *, width: int, most: int = _MAX_LINES
) -> list[StyledLine]:
    """Return the diff in the `data` of a tool result, with line numbers; empty if it has none.

    Removed lines have their old number, all others their new one.

    Args:
        data: The data of the event for a finished tool call.
        width: The maximum number of columns.
        most: The maximum number of lines of the diff; a last line counts the others.
    """
    change = read_file_change(data)
    if change is None:
        return []
    made = " (new)" if change.created else ""
    title = f"{sanitize_line(change.path, _MAX_PATH)}{made} +{change.added:,} -{change.removed:,}"
    shown = list(islice(_body(change), most))
    digits = max((len(str(number)) for number, _, _ in shown), default=0)
    body = [_row(line, digits=digits, width=width) for line in shown]
    hidden = sum(_length(hunk) for hunk in change.hunks) + len(change.hunks) - 1 - len(shown)
    rest = [StyledLine(_truncate(f"… {hidden:,} more", width), "dim")] if hidden > 0 else []
    return [StyledLine(_truncate(title, width), "dim"), *body, *rest]


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
                yield 0, "\\", "no newline at end of file"


def _row(line: _Line, *, digits: int, width: int) -> StyledLine:
    number, mark, text = line
    count = f"{number or '':>{digits}}"
    shown = sanitize(text.replace("\n", " "))
    return StyledLine(_truncate(f"{count} {mark} {shown}".rstrip(), width), _STYLES.get(mark, ""))


def _truncate(text: str, width: int) -> str:
    """Truncate text to `width` columns, with an ellipsis at the end."""
    pieces = split_rows(text, width)
    first = next(pieces)
    if next(pieces, None) is None:
        return first
    return next(split_rows(text, max(1, width - 1))) + "…"
