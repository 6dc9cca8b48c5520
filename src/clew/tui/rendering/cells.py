"""How many columns text takes on a terminal, and text that is split at a number of columns.

Terminals disagree about emoji sequences. Every character counts with the most columns that a
terminal gives it, so a line that fits by this count fits everywhere.
"""

import unicodedata
from collections.abc import Iterator
from functools import lru_cache

_ZERO = frozenset({"Mn", "Me", "Cf"})
_EMOJI_STYLE = "\ufe0f"
"""Makes the character before it an emoji, which is wide."""
_SOFT_HYPHEN = "\u00ad"


@lru_cache(maxsize=8192)
def count_character(character: str) -> int:
    """Return the columns of one character: 0, 1 or 2."""
    if character in (_EMOJI_STYLE, _SOFT_HYPHEN):
        return 1
    if unicodedata.category(character) in _ZERO:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def count_columns(text: str) -> int:
    """Return the columns of a sanitized line."""
    if text.isascii():
        return len(text)
    return sum(map(count_character, text))


def is_wide(character: str) -> bool:
    """Return whether a line may be broken before and after this character, as in Chinese."""
    return not character.isascii() and unicodedata.east_asian_width(character) in "WF"


def split_columns(text: str, width: int) -> Iterator[str]:
    """Split text into pieces of at most `width` columns; at least one, each with a character."""
    if text.isascii():
        yield from (text[at : at + width] for at in range(0, len(text) or 1, width))
        return
    start = used = 0
    for at, character in enumerate(text):
        size = count_character(character)
        if used + size > width and at > start:
            yield text[start:at]
            start, used = at, 0
        used += size
    yield text[start:]


def truncate_columns(text: str, width: int, mark: str = "…") -> str:
    """Return the beginning of a line in at most `width` columns, with a mark if it is cut."""
    if count_columns(text) <= width:
        return text
    room = width - count_columns(mark)
    return next(split_columns(text, room)) + mark if room > 0 else next(split_columns(mark, width))
