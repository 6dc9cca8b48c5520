"""Sanitize untrusted text before a terminal, a page or a chart shows it.

Control characters move the cursor, erase text and set the title; bidirectional overrides reorder
text; lone surrogates cannot be encoded, and XML does not allow some characters. So all text of
models, tools, files and servers is sanitized where it leaves Clew for a reader.
"""

import unicodedata
from collections.abc import Iterator

_KEPT = "\n\t"
_BIDI = (*range(0x202A, 0x202F), *range(0x2066, 0x2070), 0x200E, 0x200F, 0x061C)
_LINE_BREAKS = (0x2028, 0x2029)
_C1 = range(0x80, 0xA0)
_ANNOTATIONS = range(0xFFF9, 0xFFFC)
_SURROGATES = range(0xD800, 0xE000)
_NOT_CHARACTERS = (0xFFFE, 0xFFFF)
_HIDDEN = (*_C1, *_BIDI, *_LINE_BREAKS, *_ANNOTATIONS, *_NOT_CHARACTERS)
_TAGS = range(0xE0000, 0xE0080)
"""Invisible copies of the ASCII characters."""
_REPLACEMENTS = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in _KEPT},
    0x7F: "␡",
    **{code: f"<U+{code:04X}>" for code in (*_HIDDEN, *_SURROGATES, *_TAGS)},
}
_JSON_ESCAPES = {
    **{code: f"\\u{code:04x}" for code in (0x7F, *_HIDDEN)},
    **{code: f"\\udb40\\u{0xDC00 + code - 0xE0000:04x}" for code in _TAGS},
}
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
