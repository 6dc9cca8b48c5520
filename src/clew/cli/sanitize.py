"""Sanitize untrusted text before a terminal shows it.

Control characters move the cursor, erase text and set the title; bidirectional overrides reorder
text. So all text of models, tools, files and servers is sanitized before it is printed.
"""

import unicodedata
from collections.abc import Iterator

_KEPT = "\n\t"
_BIDI = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)
_LINE_BREAKS = (0x2028, 0x2029)
_C1 = range(0x80, 0xA0)
_REPLACEMENTS = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in _KEPT},
    0x7F: "␡",
    **{code: f"<U+{code:04X}>" for code in (*_C1, *_BIDI, *_LINE_BREAKS)},
}
_JSON_ESCAPES = {code: f"\\u{code:04x}" for code in (0x7F, *_C1, *_BIDI, *_LINE_BREAKS)}
_TAB_STOPS = 4


def sanitize(text: str) -> str:
    """Replace control characters with visible ones; line breaks and tabs stay."""
    return text.translate(_REPLACEMENTS)


def sanitize_json(text: str) -> str:
    """Escape the control characters in JSON; its meaning stays the same."""
    return text.translate(_JSON_ESCAPES)


def sanitize_line(text: str, most: int) -> str:
    """Return the start of `text` as one sanitized line of at most `most` characters."""
    words = " ".join(text[: most * 4].split())
    shown = words if len(words) <= most and len(text) <= most * 4 else f"{words[: most - 1]}…"
    return sanitize(shown)


def split_rows(line: str, width: int) -> Iterator[str]:
    """Split a sanitized line at `width` columns; wide characters take two."""
    row: list[str] = []
    used = 0
    for character in line.expandtabs(_TAB_STOPS):
        size = 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if used + size > width:
            yield "".join(row)
            row, used = [], 0
        row.append(character)
        used += size
    yield "".join(row)
