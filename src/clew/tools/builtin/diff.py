"""Computes the diff of two texts, for the screen and for clients."""

import difflib
from itertools import takewhile

from clew.core.file_change import NO_NEWLINE, FileChange, Hunk
from clew.core.text import pluralize

_CONTEXT = 3
_TOO_LONG = 2_000
"""Above this number of changed lines the middle counts as replaced: difflib is quadratic."""
_SHORT = 40


def format_short(change: FileChange) -> str:
    """Return the hunks of a change for the screen, truncated after some lines."""
    body = [line for hunk in change.hunks for line in (hunk.header, *hunk.lines)]
    rest = [f"[{pluralize(len(body) - _SHORT, 'more line')}]"] if len(body) > _SHORT else []
    title = f"{change.path} +{change.added} -{change.removed}"
    return "\n".join([title, *body[:_SHORT], *rest])


def compare(old: str, new: str, path: str, *, created: bool = False) -> FileChange:
    """Return the change that turns `old` into `new`."""
    before, after = _lines(old), _lines(new)
    head = _count_shared(before, after)
    tail = _count_shared(before[head:][::-1], after[head:][::-1])
    start = max(0, head - _CONTEXT)
    stop = max(0, tail - _CONTEXT)
    hunks = _hunks(before[start : len(before) - stop], after[start : len(after) - stop], start)
    return FileChange.of(path, hunks, created=created)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    else:
        lines[-1] += NO_NEWLINE
    return lines


def _count_shared(before: list[str], after: list[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after)))  # noqa: B905


def _hunks(before: list[str], after: list[str], offset: int) -> tuple[Hunk, ...]:
    if max(len(before), len(after)) > _TOO_LONG:
        lines = [f"-{line}" for line in before] + [f"+{line}" for line in after]
        return (Hunk.of(offset + 1, offset + 1, lines),)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return tuple(
        Hunk.of(
            offset + group[0][1] + 1,
            offset + group[0][3] + 1,
            (line for code in group for line in _mark_lines(code, before, after)),
        )
        for group in matcher.get_grouped_opcodes(_CONTEXT)
    )


def _mark_lines(
    code: tuple[str, int, int, int, int], before: list[str], after: list[str]
) -> list[str]:
    kind, old_from, old_to, new_from, new_to = code
    if kind == "equal":
        return [f" {line}" for line in before[old_from:old_to]]
    gone = [f"-{line}" for line in before[old_from:old_to]]
    return gone + [f"+{line}" for line in after[new_from:new_to]]
