"""Making text that others wrote safe to show.

A terminal obeys control characters: they move the cursor, erase what was said, set the
title. And bidirectional overrides reorder what is read. So nothing that comes from a model,
a tool, a file or a server is printed before it went through here.
"""

import unicodedata
from collections.abc import Iterator

_KEPT = "\n\t"
_BIDI = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)
_LINE_BREAKS = (0x2028, 0x2029)
_C1 = range(0x80, 0xA0)
_SIGNS = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in _KEPT},
    0x7F: "␡",
    **{code: f"<U+{code:04X}>" for code in (*_C1, *_BIDI, *_LINE_BREAKS)},
}
_JSON_ESCAPES = {code: f"\\u{code:04x}" for code in (0x7F, *_C1, *_BIDI, *_LINE_BREAKS)}
_TAB_STOPS = 4


def sanitize(text: str) -> str:
    """Return `text` with a visible sign for what a terminal would obey; new lines and tabs stay."""
    return text.translate(_SIGNS)


def sanitize_json(text: str) -> str:
    """Return JSON that means the same and holds nothing that a terminal would obey."""
    return text.translate(_JSON_ESCAPES)


def one_line(text: str, most: int) -> str:
    """Return the beginning of `text` as one harmless line of at most `most` characters."""
    words = " ".join(text[: most * 4].split())
    shown = words if len(words) <= most and len(text) <= most * 4 else f"{words[: most - 1]}…"
    return sanitize(shown)


def rows(line: str, width: int) -> Iterator[str]:
    """Break a harmless line at `width` columns; wide characters take two."""
    row: list[str] = []
    used = 0
    for sign in line.expandtabs(_TAB_STOPS):
        size = 2 if unicodedata.east_asian_width(sign) in "WF" else 1
        if used + size > width:
            yield "".join(row)
            row, used = [], 0
        row.append(sign)
        used += size
    yield "".join(row)
