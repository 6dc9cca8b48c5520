"""Excerpts: the lines of a conversation that are most likely needed again, quoted.

The weights come from recorded agent sessions: for each line before a compaction, did the agent
write it again afterwards (as a command, a path, a line to edit)? The best predictors are how
recent a line is, where it comes from, and whether it occurs in more than one kind of source. A
repeated line counts only at its newest place, so a file that was read twice is quoted once.
"""

import math
import re
from collections.abc import Container, Iterable, Mapping, Sequence

from clew.context.digest.passages import (
    CALLED,
    FOUND,
    PRINTED,
    SHOWN,
    SPOKEN,
    Passage,
    is_path,
    strip_line_number,
)

_LEAST_CHARS = 24
"""Shorter lines mean little without their neighbours."""
_MOST_CHARS = 400
_ENTRY_CHARS = 10
"""What a heading has beside its subject: the entry, a colon and a newline."""
_BEGINNING = 200
"""Characters that are quoted of a longer line, such as a paragraph."""
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
_PATHS_HEADING = "Other paths:"
_COMMENT_MARKS = ("//", "#", "*", "/*", "--", '"""')


class _Line:
    __slots__ = ("distance", "place", "replaced", "sources", "whole")

    def __init__(
        self, place: tuple[int, int], distance: int, sources: int, whole: str, *, replaced: bool
    ) -> None:
        self.place = place
        self.distance = distance
        self.sources = sources
        self.whole = whole
        self.replaced = replaced


class Excerpts:
    """The lines of some passages, ranked once; any number of them can be chosen."""

    def __init__(self, stretch: Sequence[Passage], *, known: Container[str] = ()) -> None:
        """Rank the lines of `stretch` that are not in `known`."""
        self._stretch = stretch
        self._subjects = [_name_subject(passage) for passage in stretch]
        self._ranked = _rank_lines(_collect_lines(stretch, known))

    def choose(self, *, max_chars: int, told: str = "") -> list[str]:
        """Quote the best lines that `told` does not contain, under their files or calls.

        The result has at most `max_chars` characters with newlines. Of a long line only the
        beginning is quoted, unless there is room for everything.
        """
        chosen: dict[str, dict[tuple[int, int], str]] = {}
        paths: list[str] = []
        long: list[_Line] = []
        room = max_chars - len(_PATHS_HEADING) - 1
        for text, line in self._ranked:
            subject = self._subjects[line.place[0]]
            cost = len(text) + 1
            path = is_path(text)
            if not path and subject not in chosen:
                cost += len(subject) + _ENTRY_CHARS
            if cost > room or text in told:
                continue
            room -= cost
            if path:
                paths.append(text)
                continue
            chosen.setdefault(subject, {})[line.place] = text
            if len(line.whole) > len(text):
                long.append(line)
            if room < _LEAST_CHARS:
                break
        for line in long:
            group = chosen[self._subjects[line.place[0]]]
            more = len(line.whole) - len(group[line.place])
            if more <= room:
                room -= more
                group[line.place] = line.whole
        written = [_PATHS_HEADING, *sorted(paths)] if paths else []
        for subject, group in sorted(chosen.items(), key=lambda pair: max(pair[1])):
            written += self._write_group(subject, group)
        return written

    def _write_group(self, subject: str, group: Mapping[tuple[int, int], str]) -> list[str]:
        """Return a heading with the newest entry, and the lines that it does not say itself."""
        entry_id = self._stretch[max(group)[0]].entry_id
        heading = f"#{entry_id} {subject}:" if entry_id > 0 else f"{subject}:"
        return [heading, *(group[place] for place in sorted(group) if group[place] not in subject)]


def _collect_lines(stretch: Sequence[Passage], known: Container[str]) -> dict[str, _Line]:
    lines: dict[str, _Line] = {}
    replaced: set[str] = set()
    distance = 0
    for where in range(len(stretch) - 1, -1, -1):
        passage = stretch[where]
        kind = 1 << passage.source
        replaced |= passage.replaced - lines.keys()
        for row, raw in _enumerate_reversed(passage.text):
            distance += len(raw) + 1
            if len(raw) < _LEAST_CHARS:
                continue
            text = whole = strip_line_number(raw)
            if len(text) < _LEAST_CHARS or text in known:
                continue
            if len(text) > _MOST_CHARS:
                text = f"{text[:_BEGINNING]}…"
            seen = lines.get(text)
            if seen is None:
                old = text in replaced
                lines[text] = _Line((where, row), distance, kind, whole, replaced=old)
            else:
                seen.sources |= kind
    return lines


def _enumerate_reversed(text: str) -> Iterable[tuple[int, str]]:
    rows = text.split("\n")
    return zip(range(len(rows) - 1, -1, -1), reversed(rows), strict=True)


def _rank_lines(lines: Mapping[str, _Line]) -> list[tuple[str, _Line]]:
    """Return the lines, best first.

    A line gains from better ones up to two rows before or after it, so that short runs are
    quoted rather than scattered lines.
    """
    scores = {line.place: _score(text, line) for text, line in lines.items()}
    for _ in range(2):
        scores = {place: _lift(scores, *place) for place in scores}
    return sorted(lines.items(), key=lambda entry: -scores[entry[1].place])


def _lift(scores: Mapping[tuple[int, int], float], where: int, row: int) -> float:
    own = scores[where, row]
    best = max(scores.get((where, row - 1), own), scores.get((where, row + 1), own))
    return own + max(0.0, best - own) * _NEIGHBOUR


def _score(text: str, line: _Line) -> float:
    source = _BEST_SOURCE[line.sources]
    score = source - _RECENCY * math.log1p(line.distance / 1_000) - math.log(len(text))
    if line.sources & (line.sources - 1):
        score += _SEVERAL_SOURCES
    if line.replaced:
        score += _REPLACED
    if text[0] == "/" and is_path(text):
        score += _PATH
    elif text.startswith(_COMMENT_MARKS):
        score += _COMMENT
    elif _is_telling(text):
        score += _TELLS
    elif _BOILERPLATE.match(text):
        score += _ROUTINE
    return score


def _is_telling(text: str) -> bool:
    """Return whether a line has a definition, a failure, an address or a larger number."""
    if _DEFINITION.match(text) or _LARGE_NUMBER.search(text):
        return True
    lower = text.lower()
    fails = any(word in lower for word in _FAILURE_WORDS) and _FAILURE.search(lower) is not None
    return fails or "http://" in lower or "https://" in lower


def _name_subject(passage: Passage) -> str:
    """Return the file that a call read or changed, so that its lines stand together."""
    _, _, subject = passage.label.partition(" ")
    return subject if is_path(subject) else passage.label
