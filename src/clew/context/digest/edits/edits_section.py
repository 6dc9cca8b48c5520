"""The section of edits: a diff of the telling lines that a conversation changed."""

import re
from collections.abc import Container, Iterable, Sequence
from itertools import islice

from msgspec.structs import replace

from clew.context.digest.edits.net_changes import NetChange
from clew.context.digest.passages import LEAST_LINE
from clew.context.digest.sections import cite_entry
from clew.context.digest.steps.shell_edits import is_temporary
from clew.core.text import one_line, truncate

_HEADING = "Edits, newest first (- removed, + added):"
_LIMITS = (1_600, 800, 500, 320, 240)
"""Characters of each change: the most with which all of them fit."""
_MOST_CHANGES, _MOST_LINES, _MOST_LINE = 250, 60, 160
_LEAST_LETTERS = 3
_REMOVED_SHARE = 3
"""Removed lines take at most this part of a change."""
_MOST_WHOLE = 400
"""Characters of a file that was written as a whole: of its definitions, if it has some."""
_ALIKE = 0.6
"""A removed line that shares this part of its words with an added one is not written."""
_RECENCY = 0.03
"""How much less an older change is worth, for each newer one."""
_WORD = re.compile(r"[^\W\d]\w{2,}")
_LETTER = re.compile(r"[^\W_]")
_ROUTINE = re.compile(
    r"(?:import|from|use|using|package|require|include|#include)\b|[\"'][\w./@-]+[\"'],?$"
    r"|(?:if err != nil|return (?:nil, )?err|return nil|return|break|else|try|end|pass)\b[ :{]*$"
)
_DEFINITION = re.compile(
    r"#+ |(?:(?:pub|export|default|async|static|public|private|abstract) )*"
    r"(?:def|func|fn|function|class|type|struct|interface|enum|const|trait|impl)\b"
)


class EditsSection:
    """The edits of a conversation, prepared once and written in any size."""

    def __init__(
        self, changes: Sequence[NetChange], *, known: Container[str] = frozenset()
    ) -> None:
        """Prepare the newest of `changes`, which are in order.

        A change whose lines are all in `known`, as they can be seen elsewhere, is left out.
        """
        newest = map(_condense, islice(reversed(changes), _MOST_CHANGES))
        self._changes = [one for one in newest if _tells(one, known)]
        self._worths = _weigh_changes(self._changes)

    def write(self, max_chars: int) -> str:
        """Write the edits in at most `max_chars` characters; empty if none fits.

        If not all of them fit, those are kept that tell the most new words, and the newest.
        """
        told, worths = self._changes, self._worths
        limit, text = _LIMITS[-1], ""
        for limit in _LIMITS:
            text = _write_files(told, limit)
            if len(text) <= max_chars:
                return text
        while told and len(text) > max_chars:
            least = _find_least(told, worths, len(text) - max_chars)
            kept = [place for place in range(len(told)) if place not in least]
            told, worths = [told[n] for n in kept], [worths[n] for n in kept]
            text = _write_files(told, limit)
        return text


def _find_least(told: Sequence[NetChange], worths: Sequence[float], chars: int) -> set[int]:
    """Return the places of the changes that are worth least and have at least `chars`."""
    least: set[int] = set()
    for place in sorted(range(len(told)), key=worths.__getitem__):
        least.add(place)
        chars -= len(_write_change(told[place], _LIMITS[-1]))
        if chars <= 0:
            break
    return least


def _condense(change: NetChange) -> NetChange:
    """Return a change with its telling lines only.

    A removed line is left out if an added one is like it.
    """
    added = []
    if change.is_whole:
        added = _take_lines(filter(_DEFINITION.match, change.added))
    added = added or _take_lines(change.added)
    new = [set(_WORD.findall(line)) for line in added]
    removed = [line for line in _take_lines(change.removed) if not _is_among(line, new)]
    return replace(change, removed=removed, added=added)


def _take_lines(lines: Iterable[str]) -> list[str]:
    """Return the first telling lines, as many as are ever written."""
    return list(islice(filter(_is_telling, lines), _MOST_LINES))


def _is_telling(line: str) -> bool:
    return len(_LETTER.findall(line)) >= _LEAST_LETTERS and not _ROUTINE.match(line)


def _is_among(line: str, others: Iterable[set[str]]) -> bool:
    words = set(_WORD.findall(line))
    return any(len(words & other) >= _ALIKE * len(words) for other in others)


def _tells(change: NetChange, known: Container[str]) -> bool:
    if is_temporary(change.path) or not (change.removed or change.added):
        return False
    long = [line for line in change.added if len(line) >= LEAST_LINE]
    return not (long and all(line in known for line in long))


def _weigh_changes(newest_first: Sequence[NetChange]) -> list[float]:
    """Return the worth of each: how many words it has that newer ones do not have."""
    seen: set[str] = set()
    worths = []
    for age, change in enumerate(newest_first):
        words = {word for line in _list_lines(change, _LIMITS[-1]) for word in _WORD.findall(line)}
        worths.append(len(words - seen) / (1 + _RECENCY * age))
        seen |= words
    return worths


def _write_files(newest_first: Sequence[NetChange], limit: int) -> str:
    """Write the changes under their files; empty if there are none."""
    files: dict[str, list[str]] = {}
    for change in newest_first:
        files.setdefault(change.path, []).append(_write_change(change, limit))
    parts = ["\n".join([f"{one_line(path, _MOST_LINE)}:", *texts]) for path, texts in files.items()]
    return "\n".join([_HEADING, *parts]) if parts else ""


def _write_change(change: NetChange, limit: int) -> str:
    return cite_entry(change.entry_id) + "\n".join(_list_lines(change, limit))


def _list_lines(change: NetChange, limit: int) -> list[str]:
    """Return the lines of a change that fit into `limit`, at least one of each kind."""
    most = min(limit, _MOST_WHOLE) if change.is_whole else limit
    removed = _fit_lines("-", change.removed, most // _REMOVED_SHARE)
    return removed + _fit_lines("+", change.added, most - sum(map(len, removed)))


def _fit_lines(sign: str, lines: Sequence[str], room: int) -> list[str]:
    chosen: list[str] = []
    for line in lines:
        cut = f"{sign} {truncate(line, _MOST_LINE)}"
        room -= len(cut) + 1
        if chosen and room < 0:
            return [*chosen, "…"]
        chosen.append(cut)
    return chosen
