"""The marks inside a line of Markdown: bold, italic, code, links.

CommonMark looks ahead to the end of the paragraph. A stream cannot, so this parser prefers to
keep names intact: `__init__` and `_two words_` stay as they are, and a star inside a word or a
pattern is not a mark.
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
_NEVER_MARKED = ",;:/)]}=|%?"
"""A star before one of these characters is part of a pattern or a sum, not a mark."""

Put = Callable[[str, tuple[str, ...]], None]
"""Receives text and the names of its styles."""


@dataclass(frozen=True, slots=True)
class TextStyle:
    """The style of the text that follows."""

    heading: int = 0
    quote: bool = False
    bold: bool = False
    italic: bool = False
    code: int = 0
    """The number of backticks that end the code; 0 outside of code."""
    address: int = 0
    """The number of open parentheses in the address of a link; 0 outside of one."""

    @property
    def styles(self) -> tuple[str, ...]:
        """The names of all styles that apply."""
        wanted = {
            "bold": self.bold or self.heading,
            ITALIC: self.italic,
            UNDERLINE: self.address or self.heading == 1,
            "cyan": self.code,
            "dim": self.quote and not self.code,
        }
        return tuple(style for style, holds in wanted.items() if holds)


class InlineParser:
    """Parses the text of lines, chunk by chunk; `style` is the style after the last chunk."""

    def __init__(self, put: Put) -> None:
        self._put = put
        self.style = TextStyle()
        self.last = "\n"
        """The character before the next chunk."""

    def take(self, line: str, *, whole: bool) -> int:
        """Emit what is certain of `line`; returns the number of characters consumed.

        Args:
            line: A part of a line, without the line break.
            whole: Whether the line ends here; then everything is consumed.
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
        if self.style.code:
            return self._in_code(line, at, whole=whole)
        if self.style.address:
            return self._in_address(line, at)
        if found := _PLAIN.match(line, at):
            return self._emit(found[0])
        match line[at]:
            case "\\":
                return self._escape(line, at, whole=whole)
            case "]":
                return self._bracket(line, at, whole=whole)
            case "_":
                return self._underscore(line, at, whole=whole)
            case "`":
                run = _find_run(line, at, whole=whole)
                self.style = replace(self.style, code=len(run))
                return len(run)
            case _:
                return self._stars(line, at, whole=whole)

    def _in_code(self, line: str, at: int, *, whole: bool) -> int:
        if found := _CODE.match(line, at):
            return self._emit(found[0])
        run = _find_run(line, at, whole=whole)
        if len(run) != self.style.code:
            return self._emit(run)
        self.style = replace(self.style, code=0)
        return len(run)

    def _in_address(self, line: str, at: int) -> int:
        if found := _ADDRESS.match(line, at):
            return self._emit(found[0])
        opens = line[at] == "("
        depth = self.style.address + (1 if opens else -1)
        shown = replace(self.style, address=depth)
        self._put(line[at], shown.styles)
        self.style = shown
        return 1

    def _escape(self, line: str, at: int, *, whole: bool) -> int:
        after = line[at + 1 : at + 2]
        if not after and not whole:
            return 0
        if after and after in _ESCAPED:
            return 1 + self._emit(after)
        return self._emit("\\")

    def _bracket(self, line: str, at: int, *, whole: bool) -> int:
        after = line[at + 1 : at + 2]
        if not after and not whole:
            return 0
        if after != "(":
            return self._emit("]")
        used = self._emit("](")
        self.style = replace(self.style, address=1)
        return used

    def _underscore(self, line: str, at: int, *, whole: bool) -> int:
        if not _may_open_after(self.last):
            return self._emit("_")
        if not whole and _HALF_WORD.fullmatch(line, at):
            return 0
        found = _WORD.match(line, at)
        if not found:
            return self._emit("_")
        self._put(found[1], replace(self.style, italic=True).styles)
        return len(found[0])

    def _stars(self, line: str, at: int, *, whole: bool) -> int:
        run = _find_run(line, at, whole=whole)
        left = len(run)
        after = line[at + left : at + left + 1] or "\n"
        if not self.last.isspace():
            left = self._close(left)
        if _may_open_after(self.last) and _may_start_with(after, stars=left):
            left = self._open(left)
        self._emit("*" * left)
        return len(run)

    def _close(self, stars: int) -> int:
        """Close open styles; returns how many stars are left."""
        if stars >= 2 and self.style.bold:
            self.style = replace(self.style, bold=False)
            stars -= 2
        if stars % 2 and self.style.italic:
            self.style = replace(self.style, italic=False)
            stars -= 1
        return stars

    def _open(self, stars: int) -> int:
        """Open the styles for this number of stars; returns how many are left."""
        if stars in (2, 3) and not self.style.bold:
            self.style = replace(self.style, bold=True)
            stars -= 2
        if stars == 1 and not self.style.italic:
            self.style = replace(self.style, italic=True)
            stars = 0
        return stars

    def _emit(self, text: str) -> int:
        self._put(text, self.style.styles)
        return len(text)


def _find_run(line: str, at: int, *, whole: bool) -> str:
    """Return the run of equal marks at `at`; empty while more of them may follow."""
    found = _RUN.match(line, at)
    if found is None or (found.end() == len(line) and not whole):
        return ""
    return found[0]


def _may_open_after(before: str) -> bool:
    """Return whether a mark may open after this character; some scripts have no spaces."""
    wide = unicodedata.east_asian_width(before) in "WF"
    return before.isspace() or before in _BEFORE or wide


def _may_start_with(after: str, *, stars: int) -> bool:
    """Return whether marked text may start so: `*.py` is a pattern, `**.env**` is bold."""
    never = after.isspace() or after in _NEVER_MARKED
    return not never and not (after == "." and stars == 1)
