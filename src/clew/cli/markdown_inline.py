"""The marks inside a line of Markdown: bold, italic, code, addresses.

Where CommonMark would look ahead to the end of the paragraph, this takes the reading that
loses no character of a name: `__init__` and `_two words_` stay as they are, and a star opens
nothing inside a word or a pattern.
"""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace

ITALIC, UNDERLINE = "italic", "underline"

_PLAIN = re.compile(r"[^\\*_`\]]+")
_CODE = re.compile(r"[^`]+")
_ADDRESS = re.compile(r"[^()]+")
_RUN = re.compile(r"\*+|`+")
_WORD = re.compile(r"_([^\W_][^\s_*`]{0,80})_(?!\w)")
_HALF_WORD = re.compile(r"_(?:[^\W_][^\s_*`]{0,80}_?)?")
_ESCAPED = "*_`[]#"
_BEFORE = "([{\"'“‘*~—–"
_NEVER_FIRST = ",;:/)]}=|%?"
"""What no marked words begin with: a star before one of these is a pattern or a sum."""

Put = Callable[[str, tuple[str, ...]], None]
"""Takes words that are to be shown, and their styles."""


@dataclass(frozen=True, slots=True)
class Look:
    """How the next words look."""

    heading: int = 0
    quote: bool = False
    bold: bool = False
    italic: bool = False
    code: int = 0
    """How many backticks end the code; 0 outside of it."""
    address: int = 0
    """How many brackets are open in the address of a link; 0 outside of one."""

    @property
    def styles(self) -> tuple[str, ...]:
        """The names of all styles that hold at once."""
        wanted = {
            "bold": self.bold or self.heading,
            ITALIC: self.italic,
            UNDERLINE: self.address or self.heading == 1,
            "cyan": self.code,
            "dim": self.quote and not self.code,
        }
        return tuple(style for style, holds in wanted.items() if holds)


class Inline:
    """Reads the inside of lines, a piece at a time; `look` is what the pieces so far led to."""

    def __init__(self, put: Put) -> None:
        self._put = put
        self.look = Look()
        self.last = "\n"
        """The character before the next piece."""

    def take(self, line: str, *, whole: bool) -> int:
        """Show what is certain of `line`; returns how many characters that used up.

        Args:
            line: A piece of a line, without its break.
            whole: Whether the line ends with it: then all is used up.
        """
        at = 0
        while at < len(line):
            used = self._step(line, at, whole=whole)
            if not used:
                break
            at += used
            self.last = line[at - 1]
        return at

    def _step(self, line: str, at: int, *, whole: bool) -> int:
        if self.look.code:
            return self._in_code(line, at, whole=whole)
        if self.look.address:
            return self._in_address(line, at)
        if found := _PLAIN.match(line, at):
            return self._show(found[0])
        match line[at]:
            case "\\":
                return self._escape(line, at, whole=whole)
            case "]":
                return self._bracket(line, at, whole=whole)
            case "_":
                return self._underscore(line, at, whole=whole)
            case "`":
                run = _run(line, at, whole=whole)
                self.look = replace(self.look, code=len(run))
                return len(run)
            case _:
                return self._stars(line, at, whole=whole)

    def _in_code(self, line: str, at: int, *, whole: bool) -> int:
        if found := _CODE.match(line, at):
            return self._show(found[0])
        run = _run(line, at, whole=whole)
        if len(run) != self.look.code:
            return self._show(run)
        self.look = replace(self.look, code=0)
        return len(run)

    def _in_address(self, line: str, at: int) -> int:
        if found := _ADDRESS.match(line, at):
            return self._show(found[0])
        opens = line[at] == "("
        depth = self.look.address + (1 if opens else -1)
        shown = replace(self.look, address=depth)
        self._put(line[at], shown.styles)
        self.look = shown
        return 1

    def _escape(self, line: str, at: int, *, whole: bool) -> int:
        after = line[at + 1 : at + 2]
        if not after and not whole:
            return 0
        if after and after in _ESCAPED:
            return 1 + self._show(after)
        return self._show("\\")

    def _bracket(self, line: str, at: int, *, whole: bool) -> int:
        after = line[at + 1 : at + 2]
        if not after and not whole:
            return 0
        if after != "(":
            return self._show("]")
        used = self._show("](")
        self.look = replace(self.look, address=1)
        return used

    def _underscore(self, line: str, at: int, *, whole: bool) -> int:
        if not _is_free(self.last):
            return self._show("_")
        if not whole and _HALF_WORD.fullmatch(line, at):
            return 0
        found = _WORD.match(line, at)
        if not found:
            return self._show("_")
        self._put(found[1], replace(self.look, italic=True).styles)
        return len(found[0])

    def _stars(self, line: str, at: int, *, whole: bool) -> int:
        run = _run(line, at, whole=whole)
        left = len(run)
        after = line[at + left : at + left + 1] or "\n"
        if not self.last.isspace():
            left = self._close(left)
        if _is_free(self.last) and _may_begin(after, stars=left):
            left = self._open(left)
        self._show("*" * left)
        return len(run)

    def _close(self, stars: int) -> int:
        """End what is open; returns how many stars that leaves."""
        if stars >= 2 and self.look.bold:
            self.look = replace(self.look, bold=False)
            stars -= 2
        if stars % 2 and self.look.italic:
            self.look = replace(self.look, italic=False)
            stars -= 1
        return stars

    def _open(self, stars: int) -> int:
        """Begin what so many stars begin; returns how many are left."""
        if stars in (2, 3) and not self.look.bold:
            self.look = replace(self.look, bold=True)
            stars -= 2
        if stars == 1 and not self.look.italic:
            self.look = replace(self.look, italic=True)
            stars = 0
        return stars

    def _show(self, text: str) -> int:
        self._put(text, self.look.styles)
        return len(text)


def _run(line: str, at: int, *, whole: bool) -> str:
    """Return the equal marks from `at` on; nothing while there may come more of them."""
    found = _RUN.match(line, at)
    if found is None or (found.end() == len(line) and not whole):
        return ""
    return found[0]


def _is_free(before: str) -> bool:
    """May marked words begin after this character? Some scripts put no blanks between words."""
    wide = unicodedata.east_asian_width(before) in "WF"
    return before.isspace() or before in _BEFORE or wide


def _may_begin(after: str, *, stars: int) -> bool:
    """May marked words begin with this character? `*.py` is a pattern, `**.env**` is bold."""
    never = after.isspace() or after in _NEVER_FIRST
    return not never and not (after == "." and stars == 1)
