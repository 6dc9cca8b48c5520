"""Sections: headed lists of lines that share a limited number of characters."""

from collections.abc import Sequence
from dataclasses import dataclass

from clew.core.ids import EntryId
from clew.core.text import truncate

_LEAST_LINE = 80
"""The first line of a section is truncated to this, rather than omitted."""


@dataclass(frozen=True, slots=True)
class TextSection:
    """A heading with lines, most important first."""

    heading: str
    lines: Sequence[str]
    share: float = 1.0
    """Its part of the room, relative to the other sections, while there is not enough."""


def fill_sections(sections: Sequence[TextSection], *, max_chars: int) -> str:
    """Write sections in order, in at most `max_chars` characters.

    Each section first gets its share; what it does not need goes to the others. Lines that do
    not fit are counted at the end of their section.
    """
    given = [section for section in sections if section.lines]
    needs = [_measure(section) for section in given]
    rooms = _share_room(needs, [section.share for section in given], max_chars)
    texts: list[str] = []
    left = max_chars
    for section, room in zip(given, rooms, strict=True):
        text = _fill(section, min(room, left))
        if text:
            texts.append(text)
            left -= len(text) + 1
    return "\n".join(texts)


def _measure(section: TextSection) -> int:
    return len(section.heading) + sum(map(len, section.lines)) + len(section.lines) + 1


def _share_room(needs: Sequence[int], shares: Sequence[float], room: int) -> list[int]:
    """Return the room of each section: what it needs, or its share of what is left."""
    rooms = [0] * len(needs)
    waiting = set(range(len(needs)))
    while waiting:
        total = sum(shares[place] for place in waiting)
        fair = {place: int(room * shares[place] / total) for place in waiting}
        modest = {place for place in waiting if needs[place] <= fair[place]}
        for place in modest or waiting:
            rooms[place] = min(needs[place], fair[place])
            room -= rooms[place]
        waiting = waiting - modest if modest else set()
    return rooms


def _fill(section: TextSection, room: int) -> str:
    """Return the heading with as many lines as fit, or an empty string if none does."""
    most = len(section.lines)
    left = room - len(section.heading)
    if _measure(section) - 1 > room:
        left -= len(f"\n… and {most} more")
    chosen: list[str] = []
    for line in section.lines:
        if len(line) + 1 > left:
            break
        chosen.append(line)
        left -= len(line) + 1
    if not chosen and left >= _LEAST_LINE:
        chosen.append(truncate(section.lines[0], left - 1))
    if not chosen:
        return ""
    rest = most - len(chosen)
    return "\n".join([section.heading, *chosen, *([f"… and {rest} more"] if rest else [])])


def cite_entry(entry_id: EntryId) -> str:
    """Return the number of an entry as it precedes a quotation; empty if it has none."""
    return f"#{entry_id} " if entry_id > 0 else ""


def join_some(names: Sequence[str], most: int) -> str:
    """Join the first names, and count the others."""
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
