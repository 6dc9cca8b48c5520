"""Excerpts: the lines of a conversation that are most likely needed again, quoted.

The weights come from recorded agent sessions: for each line before a compaction, did the agent
write it again afterwards (as a command, a path, a line to edit)? The best predictors are how
recent a line is, where it comes from, and whether it occurs in more than one kind of source. A
repeated line counts only at its newest place, so a file that was read twice is quoted once.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import TypeAlias

from msgspec import Struct

from clew.context.digest.passages import (
    CALLED,
    FOUND,
    LEAST_LINE,
    PRINTED,
    SHOWN,
    SPOKEN,
    Line,
    Passage,
    is_path,
)

_MOST_CHARS = 400
_ENTRY_CHARS = 10
"""What a heading has beside its subject: the entry, a colon and a newline."""
_BEGINNING = 200
"""Characters that are quoted of a longer line, such as a paragraph."""
LEAST_PART = 60
"""Characters that are worth a line of which only a part fits."""
_RECENCY = 0.64
_SOURCE = {SPOKEN: -1.0, CALLED: 0.0, SHOWN: 0.0, PRINTED: -1.6, FOUND: -3.1}
_BEST_SOURCE = [
    max((_SOURCE[kind] for kind in _SOURCE if kinds >> kind & 1), default=0.0)
    for kinds in range(1 << len(_SOURCE))
]
"""The largest weight of several sources, which are the bits of the index."""
_SEVERAL_SOURCES = 1.2
_PATH = 3.0
_COMMENT = -2.5
_REPLACED = -2.0
_NEIGHBOUR = 0.6
"""How much of the distance to a better neighbour a line gains."""
_TELLS, _ROUTINE = 0.7, -1.0
_DEFINITION = re.compile(
    r"(?:(?:pub|export|default|async|static|public|private|abstract) )*"
    r"(?:def|func|fn|function|class|type|struct|interface|enum|const|trait|impl)\b",
    re.IGNORECASE,
)
_FAILURE_WORDS = ("error", "fail", "exception", "panic", "warning", "todo", "fixme")
_FAILURE = re.compile(r"\b(?:error|failed|failure|exception|panic|warning|todo|fixme)\b")
_LARGE_NUMBER = re.compile(r"\b\d{3,}\b")
_BOILERPLATE = re.compile(
    r"(?:for|if|else|elif|while|return|switch|case|break|continue|import|from|use|package|try"
    r"|except|catch|defer|end|var|let|\W)\b|[^\w]*$|.*\berr != nil\b"
)
_PIECE = LEAST_LINE // 3
"""Characters; a line has whole pieces of each text that it occurs in."""
_MANY = 100
"""Lines; fewer are sought one by one."""
_ALIKE_CHARS, _MOST_ALIKE = 20, 3
"""Lines with the same beginning tell little more than the first ones, so they come last."""
_PATHS_HEADING = "Other paths:"
_COMMENT_MARKS = ("//", "#", "*", "/*", "--", '"""')


_Groups: TypeAlias = dict[tuple[str, str], dict[tuple[int, int], str]]
"""Lines by their places, under what `_find_group` returns."""


class _Candidate(Struct, gc=False):
    """A line with what the conversation adds to its worth."""

    line: Line
    place: tuple[int, int]
    distance: int
    sources: int
    replaced: bool


class Excerpts:
    """The lines of some passages, ranked once; any number of them can be chosen."""

    def __init__(
        self, stretch: Sequence[Passage], *, known: frozenset[str] = frozenset(), told: str = ""
    ) -> None:
        """Rank the lines of `stretch` that are not in `known` and that `told` does not contain."""
        self._stretch = stretch
        self._groups: dict[int, tuple[str, str]] = {}
        self._finder: tuple[str, Callable[[str], bool]] | None = None
        """The last text that `choose` was told, and what finds lines in it."""
        ranked = _rank_lines(_collect_lines(stretch, known))
        is_told = _make_finder(told, lines=len(ranked))
        self._ranked = [line for line in ranked if not is_told(line[0])]

    def choose(self, *, max_chars: int, told: str = "", cut: bool = False) -> list[str]:
        """Quote the best lines that `told` does not contain, under their files or calls.

        The result has at most `max_chars` characters with newlines. Of a long line only the
        beginning is quoted, unless there is room for everything, or `cut` allows any part.
        """
        chosen: _Groups = {}
        alike: Counter[str] = Counter()
        paths: list[str] = []
        long: list[_Candidate] = []
        spare: dict[str, _Candidate] = {}
        room = max_chars - len(_PATHS_HEADING) - 1
        is_told = self._find_in(told)
        for text, found in chain(self._ranked, spare.items()):
            cost = len(text) + 1
            if cost > room:
                continue
            group = self._find_group(found.place[0])
            path = is_path(text)
            if not path and group not in chosen:
                cost += len(group[0]) + _ENTRY_CHARS
            if cost > room or is_told(text):
                continue
            if path:
                paths.append(text)
                room -= cost
                continue
            kind = text[:_ALIKE_CHARS]
            alike[kind] += 1
            if alike[kind] > _MOST_ALIKE and text not in spare:
                spare[text] = found
                continue
            room -= cost
            chosen.setdefault(group, {})[found.place] = text
            if len(found.line.text) > len(text):
                long.append(found)
            if room < LEAST_LINE:
                break
        room = self._complete_lines(long, chosen, room, cut=cut)
        self._quote_part(chosen, is_told, room if cut else 0)
        written = [_PATHS_HEADING, *sorted(paths)] if paths else []
        for (subject, _), lines in sorted(chosen.items(), key=lambda pair: max(pair[1])):
            written += self._write_group(subject, lines)
        return written

    def _find_in(self, told: str) -> Callable[[str], bool]:
        """Return a function that tells whether `told` contains a line of this object."""
        if self._finder is None or self._finder[0] != told:
            self._finder = told, cache(_make_finder(told, lines=len(self._ranked)))
        return self._finder[1]

    def _complete_lines(
        self, long: Sequence[_Candidate], chosen: _Groups, room: int, *, cut: bool
    ) -> int:
        """Quote more of lines of which only the beginning was chosen; returns the room left."""
        for found in long:
            lines = chosen[self._find_group(found.place[0])]
            begun = len(lines[found.place])
            if len(found.line.text) - begun <= room:
                lines[found.place] = found.line.text
            elif cut and room >= LEAST_PART:
                lines[found.place] = f"{found.line.text[: begun + room - 1]}…"
            room -= len(lines[found.place]) - begun
        return room

    def _quote_part(self, chosen: _Groups, is_told: Callable[[str], bool], room: int) -> None:
        """Quote the beginning of the best line that was too long."""
        if room < LEAST_PART:
            return
        for text, found in self._ranked:
            group = self._find_group(found.place[0])
            heading = 0 if group in chosen else len(group[0]) + _ENTRY_CHARS
            part = room - heading - 2
            is_chosen = found.place in chosen.get(group, ())
            fits = LEAST_PART // 2 <= part < len(text)
            if fits and not (is_chosen or is_path(text) or is_told(text)):
                chosen.setdefault(group, {})[found.place] = f"{text[:part]}…"
                break

    def _find_group(self, where: int) -> tuple[str, str]:
        """Return the heading of a passage, and what else lines under one heading share.

        That is nothing for a file, and the call or the entry for other texts, so that the number
        in the heading is where they can be read.
        """
        found = self._groups.get(where)
        if found is None:
            passage = self._stretch[where]
            subject = passage.subject
            is_shared = subject is not passage.label or passage.entry_id <= 0
            entry = "" if is_shared else passage.call_id or str(passage.entry_id)
            found = self._groups[where] = subject, entry
        return found

    def _write_group(self, subject: str, group: Mapping[tuple[int, int], str]) -> list[str]:
        """Return a heading, and the lines that it does not say itself.

        The lines of a file may come from several entries: the heading has the newest.
        """
        entry_id = self._stretch[max(group)[0]].entry_id
        heading = f"#{entry_id} {subject}" if entry_id > 0 else subject
        lines = [group[place] for place in sorted(group) if group[place] not in subject]
        return [f"{heading}:", *lines] if lines else [heading]


def _make_finder(told: str, *, lines: int) -> Callable[[str], bool]:
    """Return a function that tells whether `told` contains a line; it is called for `lines`.

    Most lines are not in it, and searching many of them would take long. A line that is consists
    of pieces into which `told` is cut, except for its ends.
    """
    if lines < _MANY:
        return told.__contains__
    pieces = {told[start : start + _PIECE] for start in range(0, len(told), _PIECE)}
    starts = range(_PIECE)

    def is_told(line: str) -> bool:
        for start in [start for start in starts if line[start : start + _PIECE] in pieces]:
            inner = range(start + _PIECE, len(line) - _PIECE + 1, _PIECE)
            if all(line[place : place + _PIECE] in pieces for place in inner):
                return line in told
        return False

    return is_told


def _collect_lines(stretch: Sequence[Passage], known: frozenset[str]) -> dict[str, _Candidate]:
    lines: dict[str, _Candidate] = {}
    replaced: set[str] = set()
    distance = 0
    for where in range(len(stretch) - 1, -1, -1):
        passage = stretch[where]
        if passage.replaced:
            replaced |= passage.replaced - lines.keys()
        size = len(passage.text)
        if size < LEAST_LINE or passage.is_within(known):
            distance += size + 1
            continue
        kind = 1 << passage.source
        for line in passage.lines:
            text = line.text
            if text in known:
                continue
            if len(text) > _MOST_CHARS:
                text = f"{text[:_BEGINNING]}…"
            seen = lines.get(text)
            if seen is None:
                lines[text] = _Candidate(
                    line,
                    (where, line.row),
                    distance + line.distance,
                    kind,
                    text in replaced,
                )
            elif not seen.sources & kind:
                seen.sources |= kind
        distance += size + 1
    return lines


def _rank_lines(lines: Mapping[str, _Candidate]) -> list[tuple[str, _Candidate]]:
    """Return the lines, best first.

    A line gains from better ones up to two rows before or after it, so that short runs are
    quoted rather than scattered lines.
    """
    scores = {found.place: _score(text, found) for text, found in lines.items()}
    for _ in range(2):
        scores = {place: _lift(scores, *place) for place in scores}
    return sorted(lines.items(), key=lambda entry: -scores[entry[1].place])


def _lift(scores: Mapping[tuple[int, int], float], where: int, row: int) -> float:
    own = scores[where, row]
    best = max(scores.get((where, row - 1), own), scores.get((where, row + 1), own))
    return own + max(0.0, best - own) * _NEIGHBOUR


def _score(text: str, found: _Candidate) -> float:
    weight = found.line.weight
    if weight is None:
        weight = found.line.weight = math.log(len(text)), _weigh(text)
    source = _BEST_SOURCE[found.sources]
    score = source - _RECENCY * math.log1p(found.distance / 1_000) - weight[0]
    if found.sources & (found.sources - 1):
        score += _SEVERAL_SOURCES
    if found.replaced:
        score += _REPLACED
    return score + weight[1]


def _weigh(text: str) -> float:
    """Return what the kind of a line adds to its score."""
    if text[0] == "/" and is_path(text):
        return _PATH
    if text.startswith(_COMMENT_MARKS):
        return _COMMENT
    if _is_telling(text):
        return _TELLS
    return _ROUTINE if _BOILERPLATE.match(text) else 0.0


def _is_telling(text: str) -> bool:
    """Return whether a line has a definition, a failure, an address or a larger number."""
    if _DEFINITION.match(text) or _LARGE_NUMBER.search(text):
        return True
    lower = text.lower()
    fails = any(word in lower for word in _FAILURE_WORDS) and _FAILURE.search(lower) is not None
    return fails or "http://" in lower or "https://" in lower
