"""A summary without a model: facts, excerpts, and an index of names.

Everything in it is quoted from the conversation, so nothing can be invented. Compaction uses
it as the fallback, and for models with unreliable summaries.

The weights for excerpts come from recorded agent sessions: for each line before a compaction,
did the agent write it again afterwards (as a command, a path, a line to edit)? The best
predictors are how recent a line is, where it comes from, and whether it occurs in more than
one kind of source. A repeated line counts only at its newest place, so a file that was read
twice is quoted once.
"""

import math
import re
from collections.abc import Iterable, Sequence

from clew.context.estimate import text_units
from clew.context.items import Item
from clew.context.passages import (
    CALLED,
    FOUND,
    PRINTED,
    SHOWN,
    SPOKEN,
    Passage,
    split_passages,
    strip_line_number,
)
from clew.context.state_ledger import StateLedger, gather_state, render_state

_FACTS_SHARE = 0.15
_NAMES_SHARE = 0.45
_MOST_NAMES_CHARS = 9_000
_REACH = 100_000
"""Units of the newest text that are read line by line."""
_NAMES_HEADING = "Names that came up: "


def write_digest(items: Sequence[Item], *, max_units: int, known: str = "") -> str:
    """Summarise `items` by rules; deterministic, and never longer than `max_units`.

    `known` is text that stays in the view, so its names are not listed again.
    """
    stretch = list(split_passages(_take_newest(items, _REACH)))
    state = gather_state(items)
    chars = max_units * _chars_per_unit(stretch)
    text = _write(items, stretch, state, max_chars=int(chars), known=known)
    while text_units(text) > max_units:
        chars *= 0.98 * max_units / text_units(text)
        text = _write(items, stretch, state, max_chars=int(chars), known=known)
    return text


def _write(
    items: Sequence[Item],
    stretch: Sequence[Passage],
    state: StateLedger,
    *,
    max_chars: int,
    known: str,
) -> str:
    head = _write_head(items)[: max(0, max_chars)]
    facts = render_state(state, max_chars=int(max_chars * _FACTS_SHARE)).splitlines()
    room = max_chars - len(head) - sum(len(line) + 1 for line in facts) - 2
    for_names = min(int(room * _NAMES_SHARE), _MOST_NAMES_CHARS)
    quoted = choose_excerpts(stretch, max_chars=room - for_names - 1)
    body = "\n".join([head, *facts, *(["", *quoted] if quoted else [])])
    room = max_chars - len(body) - len(_NAMES_HEADING) - 1
    index = choose_names(stretch, known=body + known, max_chars=room)
    return f"{body}\n{_NAMES_HEADING}{', '.join(index)}" if index else body


def _write_head(items: Sequence[Item]) -> str:
    first, last = items[0].entry_id, items[-1].entry_id
    if first < 1:
        return f"{len(items)} earlier messages were set aside."
    return (
        f"{len(items)} earlier messages (#{first} to #{last}) were set aside. None is lost: each "
        f"can be read back by its number."
    )


def _take_newest(items: Sequence[Item], units: int) -> Sequence[Item]:
    for start in range(len(items) - 1, -1, -1):
        units -= items[start].units
        if units < 0:
            return items[start:]
    return items


def _chars_per_unit(stretch: Sequence[Passage]) -> float:
    sample = "\n".join(passage.text[:2_000] for passage in stretch[-20:])
    return max(1.0, len(sample) / max(1, text_units(sample)))


_LEAST_CHARS = 24
"""Shorter lines mean little without their neighbours."""
_MOST_CHARS = 400
_BEGINNING = 200
"""Characters that are quoted of a longer line, such as a paragraph."""
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


def choose_excerpts(stretch: Sequence[Passage], *, max_chars: int) -> list[str]:
    """Quote the lines of `stretch` that are most likely needed again, under their source.

    The lines keep their order. The result has at most `max_chars` characters with newlines.
    """
    lines = _collect_lines(stretch)
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


def _collect_lines(stretch: Sequence[Passage]) -> dict[str, _Line]:
    lines: dict[str, _Line] = {}
    distance = 0
    for where in range(len(stretch) - 1, -1, -1):
        passage = stretch[where]
        kind = 1 << passage.source
        for row, raw in _enumerate_reversed(passage.text):
            distance += len(raw) + 1
            if len(raw) < _LEAST_CHARS:
                continue
            text = strip_line_number(raw)
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


def _enumerate_reversed(text: str) -> Iterable[tuple[int, str]]:
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


_NAME = re.compile(
    r"(?<=/)[\w@.-]+\.\w{1,6}\b"  # a file, from the last part of its path
    r"|\b[0-9a-f]{7,40}\b"  # a hash
    r"|\b[A-Za-z_][A-Za-z0-9_]{11,}\b"  # a long identifier
)
_NAME_RECENCY, _CALL_RECENCY, _OFTEN, _FILE = 0.45, 0.30, 0.35, 0.7
_NEVER_CALLED = 10_000_000


def choose_names(stretch: Sequence[Passage], *, known: str, max_chars: int) -> list[str]:
    """List files, hashes and identifiers of `stretch` that `known` does not contain.

    Recent names come first, especially those in recent tool calls. Joined with a comma and a
    space they have at most `max_chars` characters.
    """
    last: dict[str, int] = {}
    called: dict[str, int] = {}
    count: dict[str, int] = {}
    distance = 0
    for passage in reversed(stretch):
        distance += len(passage.text)
        for name in _NAME.findall(passage.text):
            count[name] = count.get(name, 0) + 1
            last.setdefault(name, distance)
            if passage.source == CALLED:
                called.setdefault(name, distance)

    def rank(name: str) -> float:
        score = -_NAME_RECENCY * math.log1p(last[name] / 1_000)
        score -= _CALL_RECENCY * math.log1p(called.get(name, _NEVER_CALLED) / 1_000)
        score += _OFTEN * math.log1p(count[name])
        return -(score + (_FILE if "." in name else 0.0))

    chosen: list[str] = []
    room = max_chars
    seen = set(_NAME.findall(known))
    for name in sorted(count, key=rank):
        if len(name) + 2 > room:
            break
        if name not in seen:
            chosen.append(name)
            room -= len(name) + 2
    return chosen
