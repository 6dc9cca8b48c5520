"""A text as the search for secrets sees it: bytes, and two shadows of them.

Bytes are searched several times as fast as characters, and everything that is looked for is
ASCII. The shadows have the same length, so that a place in one is the same place in all.
"""

from typing import TypeAlias

Span: TypeAlias = tuple[int, int, str]
"""From, to, and the kind of secret in between."""

_WORD_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
_SHADOW = bytes(0x61 if byte in _WORD_BYTES else 0x20 for byte in range(256))


class Text:
    """One text, ready to be searched."""

    __slots__ = ("data", "lower", "shape")

    def __init__(self, text: str) -> None:
        self.data = text.encode("utf-8", "surrogatepass")
        self.lower = self.data.lower()
        self.shape = self.data.translate(_SHADOW)
        """Blanks, except where a letter, a digit, `-` or `_` is."""

    def word_around(self, place: int, most: int) -> tuple[int, int]:
        """Return where the word at `place` begins and ends, at most `most` bytes off."""
        start = self.shape.rfind(b" ", max(0, place - most), place) + 1
        end = self.shape.find(b" ", place, place + most)
        if not start and place > most:
            start = place - most
        return start, end if end >= 0 else min(len(self.data), place + most)
