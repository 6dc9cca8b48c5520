"""A text as a search reads it, folded like the words of a query, with offsets into the original.

A folded text may be longer or shorter than the original: `ß` becomes `ss`, `…` three dots, and a
combining accent disappears.
"""

import re
import unicodedata
from bisect import bisect_right
from functools import lru_cache

from clew.context.recall.words import fold

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


class FoldedText:
    """A text without differences of case, accents, width and ligatures."""

    __slots__ = ("_original", "_origins", "_starts", "text")

    def __init__(self, original: str) -> None:
        self._original = original
        # Where parts of the folded text start, and where each comes from. Inside a part, offsets
        # advance together.
        self._starts, self._origins = [0], [0]
        self.text = original.lower() if original.isascii() else self._fold()

    def find_origin(self, start: int) -> int:
        """Return the offset in the original of a place in the folded text."""
        if len(self._starts) == 1:
            return start
        part = bisect_right(self._starts, start) - 1
        return self._origins[part] + start - self._starts[part]

    def starts_word(self, start: int) -> bool:
        """Return whether a word starts here, a part of a mixed-case name, or the number of `v2`.

        The letter of an escape (backslash and `t`) belongs to no word.
        """
        text = self.text
        if start == 0 or not (before := text[start - 1]).isalnum():
            return True
        if before in "nrtv" and self._follows_prefix(start):
            return True
        place, original = self.find_origin(start), self._original
        if len(self._starts) > 1:
            if place == self.find_origin(start - 1):
                return False
            if not original[place - 1].isalnum():
                return True
        return original[place].isupper() and (
            not original[place - 1].isupper() or original[place + 1 : place + 2].islower()
        )

    def _follows_prefix(self, start: int) -> bool:
        prefix = self.text[start - 1]
        before = self.text[max(0, start - 2) : start - 1]
        if prefix == "v":
            return self.text[start].isdigit() and not before.isalnum()
        return before == "\\"

    def _fold(self) -> str:
        # Of all characters, only this one has a lower case of another length.
        text = self._original.replace("\u0130", "i").lower()
        chars = set(_NOT_ASCII.findall(text))
        uneven = "".join(char for char in chars if len(_fold_char(char)) != 1)
        joined = "" if unicodedata.is_normalized("NFC", text) else "".join(filter(_joins, chars))
        for char in chars.difference(uneven):
            if (bare := _fold_char(char)) != char:
                text = text.replace(char, bare)
        choices = [f".[{joined}]+"] if joined else []
        choices += [f"[{uneven}]"] if uneven else []
        return self._replace(text, re.compile("|".join(choices), re.DOTALL)) if choices else text

    def _replace(self, text: str, uneven: re.Pattern[str]) -> str:
        """Fold what changes its length; note where each part comes from."""
        parts: list[str] = []
        size = end = 0
        for match in uneven.finditer(text):
            start = match.start()
            folded = _fold_char(match[0])
            parts += (text[end:start], folded)
            size += start - end
            end = match.end()
            self._starts += range(size, size + len(folded) + 1)
            self._origins += [start] * len(folded) + [end]
            size += len(folded)
        return "".join([*parts, text[end:]])


def _joins(char: str) -> bool:
    """Return whether a character may become one with the character before it."""
    return unicodedata.category(char)[0] == "M" or "\u1160" <= char <= "\u11ff"


@lru_cache(maxsize=8192)
def _fold_char(char: str) -> str:
    return fold(char)
