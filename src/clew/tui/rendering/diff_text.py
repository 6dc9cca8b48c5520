"""The diff of an edit as lines: numbers, context, and the words that changed.

The same function shows a change before the user allows it and after it was made.
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from itertools import groupby, islice, pairwise

from clew.core.file_change import ChangedLine, FileChange
from clew.core.text import pluralize
from clew.tui.rendering.lines import TAB_STOPS, Line, Span, chop_line, truncate_line
from clew.tui.theme import Theme

_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
_MAX_COMPARED = 400
"""Longer lines are shown without marked words."""
_LEAST_ALIKE = 0.4
"""Lines that share less are shown without marked words."""
_STYLES = {"+": "added", "-": "removed", " ": ""}


def render_diff(
    change: FileChange, *, width: int, theme: Theme, most: int | None = None
) -> list[Line]:
    """Return a change as lines with numbers; removed lines have their old number.

    Args:
        change: The change.
        width: The maximum number of columns; longer lines continue on the next row.
        theme: Colours and characters.
        most: The maximum number of rows; a last row says how many lines are left out.
    """
    digits = _count_digits(change)
    rows = _rows(change, digits, width, theme)
    if most is None:
        return list(rows)
    shown = list(islice(rows, most + 1))
    if len(shown) <= most:
        return shown
    hidden = sum(1 for _ in rows) + 2
    more = f"{theme.glyph('…')} {pluralize(hidden, 'more line')}"
    last = (Span(f"{' ' * digits} {more}", theme.sgr("dim")),)
    return [*shown[: most - 1], truncate_line(last, width, theme.glyph("…"))]


def _count_digits(change: FileChange) -> int:
    ends = (max(h.old_start + h.old_lines, h.new_start + h.new_lines) for h in change.hunks)
    return len(str(max(ends, default=0)))


def _rows(change: FileChange, digits: int, width: int, theme: Theme) -> Iterator[Line]:
    for at, hunk in enumerate(change.hunks):
        if at:
            yield (Span(f"{' ' * digits} {theme.glyph('…')}", theme.sgr("number")),)
        for line, spans in _mark_words(list(hunk.number_lines()), theme):
            yield from _row(line, spans, digits=digits, width=width, theme=theme)


def _row(
    line: ChangedLine, spans: Sequence[Span], *, digits: int, width: int, theme: Theme
) -> Iterator[Line]:
    style = theme.sgr(_STYLES[line.mark])
    head: Line = (
        Span(f"{line.number:>{digits}} ", theme.sgr("number")),
        Span(f"{line.mark} ", style),
    )
    rest: Line = (Span(" " * (digits + 3)),)
    if digits + 3 > width // 2:
        head, rest = (Span(line.mark, style),), (Span(" "),)
    yield from chop_line((*head, *spans), width, rest=rest)
    if line.no_newline:
        note = f"{' ' * digits} \\ no newline at end of file"
        yield from chop_line((Span(note, theme.sgr("number")),), width)


def _mark_words(
    lines: Sequence[ChangedLine], theme: Theme
) -> Iterator[tuple[ChangedLine, Sequence[Span]]]:
    """Yield lines with their spans; the words that differ from the other side are marked."""
    groups = [(mark, list(group)) for mark, group in groupby(lines, key=lambda line: line.mark)]
    marked: dict[int, Sequence[Span]] = {}
    for (mark, old), (other, new) in pairwise(groups):
        if (mark, other) == ("-", "+"):
            for before, after in zip(old, new, strict=False):
                spans = _compare_words(_show(before.text, theme), _show(after.text, theme), theme)
                marked[id(before)], marked[id(after)] = spans
    for line in lines:
        plain = (Span(_show(line.text, theme), theme.sgr(_STYLES[line.mark])),)
        yield line, marked.get(id(line), plain)


def _compare_words(old: str, new: str, theme: Theme) -> tuple[list[Span], list[Span]]:
    whole = (
        [Span(old, theme.sgr(_STYLES["-"]))],
        [Span(new, theme.sgr(_STYLES["+"]))],
    )
    if max(len(old), len(new)) > _MAX_COMPARED:
        return whole
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < _LEAST_ALIKE:
        return whole
    removed: list[Span] = []
    added: list[Span] = []
    for kind, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        suffix = "" if kind == "equal" else "_word"
        gone, come = "".join(before[old_from:old_to]), "".join(after[new_from:new_to])
        removed.append(Span(gone, theme.sgr(f"removed{suffix}")))
        added.append(Span(come, theme.sgr(f"added{suffix}")))
    return [span for span in removed if span.text], [span for span in added if span.text]


def _show(text: str, theme: Theme) -> str:
    return theme.clean(text.replace("\n", " ")).expandtabs(TAB_STOPS)
