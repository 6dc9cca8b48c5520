"""Conclusions: the part of an answer that tells how its turn ended, quoted on one line."""

import re
from collections.abc import Sequence

from clew.core.text import one_line, shorten_links

_PARAGRAPH = re.compile(r"\n\s*\n")
_HEADING = re.compile(r"^(?:#{1,6} .*|\*\*[^*\n]+\*\*:?|-{3,}|`★.*)$", re.MULTILINE)
_CLOSING = re.compile(
    r"(?:would you like|want me to|do you want|shall i|should i|let me know|anything else)",
    re.IGNORECASE,
)
_EXACT = re.compile(r"\d|`")
_GAP = " … "
_LEAST_PAIR = 160
"""In less room only the beginning is quoted, unless both fit."""


def quote_conclusion(answer: str, max_chars: int, picked: Sequence[str] = ()) -> str:
    """Quote the beginning and the end of an answer on one line, at most `max_chars` long.

    Answers begin with the outcome and end with a conclusion or a question; what is between
    them is usually detail, of which as much is quoted as fits. An answer that fits is quoted
    whole. Otherwise `picked`, the items that the user referred to, take up to three quarters.
    """
    whole = write_line(answer)
    if len(whole) <= max_chars:
        return whole
    told = _quote_ends(answer, max_chars)
    if all(item in told for item in picked):
        return told
    items = one_line("; ".join(picked), max_chars * 3 // 4)
    start, gap, end = _quote_ends(answer, max_chars - len(items) - len(_GAP)).partition(_GAP)
    return f"{start}{_GAP}{items}{gap}{end}" if start else items


def _quote_ends(answer: str, max_chars: int) -> str:
    answer = _strip_markup(answer)
    told = _list_paragraphs(answer)
    if len(told) > 1 and told[0].endswith(":"):
        told[:2] = [f"{told[0]} {told[1]}"]
    if len(told) > 2 and len(told[-1]) < max_chars // 3 and _CLOSING.search(told[-1]):
        told[-2:] = [f"{told[-2]} {told[-1]}"]
    first, last = told[0], told[-1]
    room = max_chars - len(_GAP)
    if len(told) == 1 or len(first) + len(last) > room < _LEAST_PAIR:
        return one_line(first, max_chars) if max_chars > 1 else ""
    if len(first) + len(last) <= room:
        return _fill_between(told, room - len(first) - len(last))
    tail = min(len(last), max(room // 2, room - len(first)))
    return f"{_cut_end(first, room - tail)}{_GAP}{_cut_start(last, tail)}"


def write_line(answer: str) -> str:
    """Return an answer on one line, without markup."""
    return one_line(_strip_markup(answer))


def _strip_markup(answer: str) -> str:
    return shorten_links(answer).replace("**", "")


def _list_paragraphs(answer: str) -> list[str]:
    """Return the paragraphs on one line each, without those that are only a heading."""
    paragraphs = [raw.strip() for raw in _PARAGRAPH.split(answer) if raw.strip()]
    told = [raw for raw in paragraphs if not _HEADING.fullmatch(raw)] or paragraphs
    return [one_line(raw.lstrip("#") if "\n" in raw else raw) for raw in told]


def _fill_between(told: Sequence[str], room: int) -> str:
    """Quote the first and the last paragraph and, of the others, those that fit into `room`.

    Paragraphs with numbers or names in code come first.
    """
    kept = {0, len(told) - 1}
    inner = range(1, len(told) - 1)
    for place in sorted(inner, key=lambda place: not _EXACT.search(told[place])):
        if len(told[place]) + len(_GAP) <= room:
            kept.add(place)
            room -= len(told[place]) + len(_GAP)
    text = told[0]
    for place in sorted(kept)[1:]:
        text += (" " if place - 1 in kept else _GAP) + told[place]
    return text


def _cut_end(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size - 1]}…"


def _cut_start(text: str, size: int) -> str:
    return text if len(text) <= size else f"…{text[len(text) - size + 1 :]}"
