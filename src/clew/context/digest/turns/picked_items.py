"""Picked items: what the user means by `skip 5 and 7` or `B`, found in the list of an answer.

Such a request says nothing without the items, so they are quoted with the answer.
"""

import re
from collections.abc import Sequence

from clew.core.text import one_line

_MOST_REQUEST = 240
"""Characters; longer requests say themselves what they are about."""
_MOST_PICKED, _MOST_ITEM, _LONGEST_LONE = 12, 160, 12
_LABEL = re.compile(
    r"(?<![\w.#/@$=:*-])(?P<mark>#?)(?P<first>\d{1,2})(?:\s?[-–]\s?#?(?P<last>\d{1,2}))?"
    r"(?=\s*(?:[,;&+)!?]|\.(?:\s|$)|$)"
    r"|\s+(?i:and|or|too|also|first|then|please|now|is|are|as|but|with|for|only|instead|looks?"
    r"|sounds?|seems?|makes?)\b)"
    r"|(?<![\w'’.])(?P<letter>[A-H])"
    r"(?=[).,:;!]|\s*$|\s+(?:and|or|is|please|with|but|then|for|looks?|sounds?)\b)"
)
"""A number, a range of numbers, or a letter."""
_WORD_BEFORE = re.compile(r"([\w'’]+)[\s(\"“]*\Z")
_OF_AMOUNTS = frozenset(
    {
        "in", "to", "of", "by", "at", "than", "every", "about", "around", "sleep", "wait", "least",
        "most", "times", "version", "v", "port", "line", "lines", "page", "python", "node", "java",
        "go", "within", "after", "before", "until", "since",
    }
)  # fmt: skip
"""A number after one of these words is an amount or a name."""
_OF_REFERENCES = frozenset({"pr", "issue", "ticket", "pull", "request", "commit", "bug", "mr"})
_OF_CHOICES = frozenset(
    {
        "option", "options", "choice", "choose", "chose", "pick", "take", "go", "with", "do", "and",
        "or", "prefer", "like", "think", "approach", "plan", "variant", "let's", "lets", "let’s",
        "use", "want", "both", "yes", "ok", "okay", "say",
    }
)  # fmt: skip
"""A letter inside a sentence is a choice after one of these words."""
_LONE = re.compile(r"(?i:option )?([A-Ha-h])[).]?")
_OWN_ITEM = re.compile(r"^[ \t]*\d{1,2}[.)]", re.MULTILINE)
"""Several of them are a list that the user makes."""
_ITEM = re.compile(
    r"^[ \t]*(?:[-*+][ \t]+|#{1,6}[ \t]+)?(?:\*\*|__)?(?:option |#)?(\d{1,2}|[A-H])(?:\*\*|__)?"
    r"[.):](?:\*\*|__)?[ \t]+(\S.*)$"
    r"|^[ \t]*\|[ \t]*#?(\d{1,2}|[A-H])[ \t]*\|(.*)$",
    re.MULTILINE | re.IGNORECASE,
)


def find_labels(request: str) -> list[str]:
    """Return the numbers and letters by which a request may refer to items of a list."""
    if len(request) > _MOST_REQUEST:
        return []
    if len(request) <= _LONGEST_LONE and (lone := _LONE.fullmatch(request.strip())):
        return [lone[1].upper()]
    labels = list(_LABEL.finditer(request))
    if not labels or len(_OWN_ITEM.findall(request)) > 1:
        return []
    found: dict[str, None] = {}
    for label in labels:
        if not _is_meant(label, request):
            continue
        first, last, letter = label["first"], label["last"], label["letter"]
        numbers = range(int(first), int(last or first) + 1) if first else ()
        found |= dict.fromkeys([letter] if letter else map(str, numbers[:_MOST_PICKED]))
    return list(found)[:_MOST_PICKED]


def _is_meant(label: re.Match[str], request: str) -> bool:
    """Return whether a number or letter may be that of an item, by the word before it."""
    line = request[: label.start()].rpartition("\n")[2]
    found = _WORD_BEFORE.search(line)
    before = found[1].lower() if found else ""
    if label["letter"]:
        is_marked = request[label.end() :].startswith(")")
        return is_marked or not line.strip() or before in _OF_CHOICES
    return before not in _OF_REFERENCES and (bool(label["mark"]) or before not in _OF_AMOUNTS)


def find_picked(labels: Sequence[str], answer: str) -> list[str]:
    """Return the list items of `answer` with these labels; none unless it has most of them."""
    items = _list_items(answer)
    found = [f"{label}. {items[label]}" for label in labels if label in items]
    return found if 2 * len(found) > len(labels) else []


def _list_items(answer: str) -> dict[str, str]:
    """Return the items of lists and tables by their labels; of several, the last."""
    items: dict[str, str] = {}
    for label, text, cell, row in _ITEM.findall(answer):
        told = (text or row.strip(" \t|")).replace("**", "").replace(" | ", ", ")
        items[(label or cell).upper().lstrip("0")] = one_line(told, _MOST_ITEM)
    return items
