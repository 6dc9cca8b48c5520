"""Picked items: what the user means by `skip 5 and 7` or `B`, found in the list of an answer.

Such a request says nothing without the items, so they are quoted with the answer.
"""

import re
from collections.abc import Iterator

from clew.core.text import one_line

_MOST_REQUEST = 240
"""Characters; longer requests say themselves what they are about."""
_MOST_PICKED, _MOST_ITEM = 12, 160
_NUMBER = re.compile(
    r"(?<![\w.#/@-])#?(\d{1,2})(?:\s?[-–]\s?#?(\d{1,2}))?"  # one, or a range
    r"(?=\s*(?:[,;&+)!?]|\.(?:\s|$)|$)"
    r"|\s+(?:and|or|too|also|first|then|please|now|is|are|as|but|with|for|only|instead|looks?"
    r"|sounds?|seems?|makes?)\b)",
    re.IGNORECASE,
)
_LETTER = re.compile(
    r"(?<![\w'’.])([A-H])(?=[).,:;!]|\s*$|\s+(?:and|or|is|please|with|but|then|for|looks?|sounds?)\b)"
)
_LONE = re.compile(r"\s*(?:option )?([a-h])[).]?\s*", re.IGNORECASE)
_OWN_ITEM = re.compile(r"^[ \t]*\d{1,2}[.)]", re.MULTILINE)
"""Several of them are a list that the user makes."""
_ITEM = re.compile(
    r"^[ \t]*(?:[-*+][ \t]+|#{1,6}[ \t]+)?(?:\*\*|__)?(?:option |#)?(\d{1,2}|[A-H])(?:\*\*|__)?"
    r"[.):](?:\*\*|__)?[ \t]+(\S.*)$"
    r"|^[ \t]*\|[ \t]*#?(\d{1,2}|[A-H])[ \t]*\|[ \t]*(\S.*?)[ \t]*\|?[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)


def find_picked(request: str, answer: str) -> tuple[str, ...]:
    """Return the list items of `answer` that `request` refers to by number or letter.

    Empty unless most of what the request names is in the list.
    """
    if len(request) > _MOST_REQUEST or not answer:
        return ()
    labels = list(dict.fromkeys(_find_labels(request)))
    if not 0 < len(labels) <= _MOST_PICKED:
        return ()
    items = _list_items(answer)
    found = [f"{label}. {items[label]}" for label in labels if label in items]
    return tuple(found) if 2 * len(found) > len(labels) else ()


def _find_labels(request: str) -> Iterator[str]:
    if lone := _LONE.fullmatch(request):
        yield lone[1].upper()
        return
    if len(_OWN_ITEM.findall(request)) < 2:
        for first, last in _NUMBER.findall(request):
            numbers = range(int(first), int(last or first) + 1)
            yield from map(str, numbers[: _MOST_PICKED + 1])
    yield from _LETTER.findall(request)


def _list_items(answer: str) -> dict[str, str]:
    """Return the items of lists and tables by their labels; of several, the last."""
    items: dict[str, str] = {}
    for label, text, cell, row in _ITEM.findall(answer):
        told = (text or row).replace("**", "").replace(" | ", ", ")
        items[(label or cell).upper().lstrip("0")] = one_line(told, _MOST_ITEM)
    return items
