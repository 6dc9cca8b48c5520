"""Choosing the lines of a long conversation that are most likely to be needed again.

The weights come from recorded agent sessions: for each line that stood in the conversation
before a compaction, whether the agent wrote it again afterwards (as a command, a path, a
line to edit). What told most: how recent it is, where it comes from, whether it came up in
more than one way. A line that was seen again counts only at its newest place, so a file that
was read twice or an output that was repeated is quoted once.
"""

import math
from collections.abc import Iterable, Sequence

from clew.context.passages import CALLED, FOUND, PRINTED, SHOWN, SPOKEN, Passage, bare

_LEAST_CHARS = 24
"""Shorter lines say little away from their neighbours."""
_MOST_CHARS = 400
_BEGINNING = 200
"""What is quoted of a longer line, such as a paragraph."""
_RECENCY = 0.64
_SOURCE = {SPOKEN: -1.0, CALLED: 0.0, SHOWN: 0.0, PRINTED: -1.6, FOUND: -3.1}
_SEVERAL_SOURCES = 1.2
_PATH = 3.0
_COMMENT = -2.5
_COMMENT_MARKS = ("//", "#", "*", "/*", "--", '"""')


class _Line:
    __slots__ = ("distance", "place", "sources")

    def __init__(self, place: tuple[int, int], distance: int, sources: int) -> None:
        self.place = place
        self.distance = distance
        self.sources = sources


def excerpts(stretch: Sequence[Passage], *, max_chars: int) -> list[str]:
    """Quote the most telling lines of `stretch`, in order, each under where it came from.

    Never longer than `max_chars`, newlines included.
    """
    lines = _lines(stretch)
    ranked = sorted(lines.items(), key=_rank)
    chosen: dict[int, dict[int, str]] = {}
    room = max_chars
    for text, line in ranked:
        where, row = line.place
        cost = len(text) + 1
        if where not in chosen:
            cost += len(_heading(stretch[where])) + 1
        if cost > room:
            continue
        room -= cost
        chosen.setdefault(where, {})[row] = text
        if room < _LEAST_CHARS:
            break
    written: list[str] = []
    for where in sorted(chosen):
        written.append(_heading(stretch[where]))
        written += [chosen[where][row] for row in sorted(chosen[where])]
    return written


def _lines(stretch: Sequence[Passage]) -> dict[str, _Line]:
    lines: dict[str, _Line] = {}
    distance = 0
    for where in range(len(stretch) - 1, -1, -1):
        passage = stretch[where]
        kind = 1 << passage.source
        for row, raw in _reversed_rows(passage.text):
            distance += len(raw) + 1
            if len(raw) < _LEAST_CHARS:
                continue
            text = bare(raw)
            if len(text) < _LEAST_CHARS:
                continue
            if len(text) > _MOST_CHARS:
                text = f"{text[:_BEGINNING]}…"
            seen = lines.get(text)
            if seen is None:
                lines[text] = _Line((where, row), distance, kind)
            else:
                seen.sources |= kind
    return lines


def _reversed_rows(text: str) -> Iterable[tuple[int, str]]:
    rows = text.split("\n")
    return zip(range(len(rows) - 1, -1, -1), reversed(rows), strict=True)


def _rank(entry: tuple[str, _Line]) -> float:
    text, line = entry
    source = max(_SOURCE[kind] for kind in _SOURCE if line.sources >> kind & 1)
    score = source - _RECENCY * math.log1p(line.distance / 1_000) - math.log(len(text))
    if line.sources & (line.sources - 1):
        score += _SEVERAL_SOURCES
    if text[0] == "/" and " " not in text and not text.startswith("//"):
        score += _PATH
    elif text.startswith(_COMMENT_MARKS):
        score += _COMMENT
    return -score


def _heading(passage: Passage) -> str:
    return f"#{passage.entry_id} {passage.label}:" if passage.entry_id > 0 else f"{passage.label}:"
