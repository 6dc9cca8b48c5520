"""The diff of an edit as lines: numbers, context, and the words that changed.

The same function shows a change before the user allows it and after it was made.
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from itertools import groupby

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
    groups = _group_rows(change, digits, width, theme)
    if most is None:
        return [row for rows in groups for row in rows]
    shown: list[list[Line]] = []
    for rows in groups:
        shown.append(rows)
        if sum(map(len, shown)) > most:
            break
    else:
        return [row for rows in shown for row in rows]
    # The last row says how many lines are left out.
    while shown and sum(map(len, shown)) > most - 1:
        shown.pop()
    more = f"{theme.glyph('…')} {pluralize(_count_lines(change) - len(shown), 'more line')}"
    last = (Span(f"{' ' * digits} {more}", theme.sgr("dim")),)
    kept = [row for rows in shown for row in rows]
    return [*kept, truncate_line(last, width, theme.glyph("…"))]


def _count_digits(change: FileChange) -> int:
    ends = (max(h.old_start + h.old_lines, h.new_start + h.new_lines) for h in change.hunks)
    return len(str(max(ends, default=0)))


def _count_lines(change: FileChange) -> int:
    """Return how many groups `_group_rows` yields."""
    return sum(len(hunk.lines) for hunk in change.hunks) + len(change.hunks) - 1


def _group_rows(change: FileChange, digits: int, width: int, theme: Theme) -> Iterator[list[Line]]:
    """Yield the rows of each line, and of each gap between two stretches."""
    for at, hunk in enumerate(change.hunks):
        if at:
            yield [(Span(f"{' ' * digits} {theme.glyph('…')}", theme.sgr("number")),)]
        for line, spans in _mark_words(list(hunk.number_lines()), theme):
            yield list(_row(line, spans, digits=digits, width=width, theme=theme))


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
    before: list[ChangedLine] = []
    """The removed lines above the lines that are being yielded."""
    for at, (mark, group) in enumerate(groups):
        after = groups[at + 1][1] if mark == "-" and groups[at + 1 :] else []
        is_replaced = bool(after) and groups[at + 1][0] == "+"
        for place, line in enumerate(group):
            if is_replaced and place < len(after):
                yield line, _compare_lines(line, after[place], theme)[0]
            elif mark == "+" and place < len(before):
                yield line, _compare_lines(before[place], line, theme)[1]
            else:
                yield line, (Span(_show(line.text, theme), theme.sgr(_STYLES[mark])),)
        before = group if mark == "-" else []


def _compare_lines(
    old: ChangedLine, new: ChangedLine, theme: Theme
) -> tuple[list[Span], list[Span]]:
    return _compare_words(_show(old.text, theme), _show(new.text, theme), theme)


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
