"""Marking where text of a file begins and ends, so that a reader sees who says what."""

import re

from clew.core.text import replace_surrogates

_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_MARKS = str.maketrans('"<>', "___")


def block(tag: str, text: str, *, path: str = "") -> str:
    """Return `text` between a tag and its end; the tag is one that `text` cannot close.

    Args:
        tag: What it is, in one word.
        text: Anything; it is left as it is, but for empty lines around it.
        path: Which file it is from.
    """
    name = free_tag(tag, text)
    source = f' path="{one_line(path).translate(_MARKS)}"' if path else ""
    inside = text.strip("\n")
    return f"<{name}{source}>\n{inside}\n</{name}>"


def free_tag(tag: str, text: str) -> str:
    """Return `tag`, with the first number behind it for which `text` holds no such tag."""
    taken = set(re.findall(rf"<\s*/?\s*({re.escape(tag)}(?:-\d+)?)\b", text, re.IGNORECASE))
    lowered = {name.lower() for name in taken}
    number = 1
    name = tag
    while name.lower() in lowered:
        number += 1
        name = f"{tag}-{number}"
    return name


def one_line(text: str, most: int = 4_096) -> str:
    """Return `text` as part of a line: nothing in it begins another."""
    plain = _BREAKS.sub("_", replace_surrogates(text))
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"
