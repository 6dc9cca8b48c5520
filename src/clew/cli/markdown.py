"""Markdown on a terminal, as it arrives.

Words are shown at once. All that is ever held back is the start of a line, as long as it may
become a heading, a list or a fence, and a mark inside a line that is not finished. So what
looks like the beginning of bold text is bold before its end is known.
"""

import re
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from clew.cli.markdown_inline import ITALIC, UNDERLINE, Inline, Look
from clew.cli.paint import Paint
from clew.cli.sanitize import sanitize

_OWN = {ITALIC: ("\x1b[3m", "\x1b[23m"), UNDERLINE: ("\x1b[4m", "\x1b[24m")}
"""Styles that `Paint` has no names for."""
_LONGEST_RULE = 60
_LONGEST_INFO = 200
_DEEPEST = 10
"""Items and quotes inside of each other, in one line."""

# Possessive repeats: a line of many blanks must not be tried in all ways.
_FENCE = re.compile(rf"[ \t]*+(`{{3,}}|~{{3,}})[^`]{{0,{_LONGEST_INFO}}}")
_RULE = re.compile(r"[ \t]*+([-*_])(?:[ \t]*+\1){2,}+[ \t]*+")
_HEADING = re.compile(r"[ ]{0,3}(#{1,6})[ \t]++")
_QUOTE = re.compile(r"[ \t]*+>[ \t]?")
_ITEM = re.compile(r"([ \t]*+)([-+*]|\d{1,9}[.)])([ \t]|$)")
_TABLE = re.compile(r"[ \t]*+\|")
_UNDECIDED = re.compile(
    rf"""[ \t]*+(?:
        \#{{0,6}}[ \t]*+                   # perhaps a heading
        | \d{{1,9}}[.)]?                   # perhaps a numbered item
        | [+>]                             # an item if a blank follows; a quote, with one or not
        | ([-*_])(?:[ \t]*+\1)*+[ \t]*+    # an item or a rule
        | `{{1,2}} | ~{{1,2}}
        | (?:`{{3,}}|~{{3,}})[^`]{{0,{_LONGEST_INFO}}}
    )""",
    re.VERBOSE,
)


class MarkdownStream:
    """Turns the pieces of a text into what a terminal shows.

    However the text is cut into pieces, the screen is the same in the end. Without colours
    the text is left as it is, marks and all. It is made harmless in either case.
    """

    def __init__(self, paint: Paint, width: int) -> None:
        """Begin a text.

        Args:
            paint: Colours text, or leaves it alone.
            width: Columns of the terminal, for rules.
        """
        self._paint = paint
        self._rule = "─" * min(width, _LONGEST_RULE)
        self._coloured = paint("x", "bold") != "x"
        self._out: list[tuple[tuple[str, ...], str]] = []
        self._rest: str
        self._begin()

    def feed(self, delta: str) -> str:
        """Take some more text; returns what can be shown by now."""
        clean = sanitize(delta)
        if not self._coloured:
            return clean
        *lines, rest = f"{self._rest}{clean}".split("\n")
        for line in lines:
            self._take(line, whole=True)
            self._break_line()
        self._rest = self._take(rest, whole=False)
        return self._taken()

    def end(self) -> str:
        """Return what was held back. What follows is another text."""
        self._take(self._rest, whole=True)
        self._begin()
        return self._taken()

    def _begin(self) -> None:
        self._rest = ""
        """The part of the last line that is held back."""
        self._starts = True
        """True until it is known what kind of line this is."""
        self._depth = 0
        """How many marks of items and quotes the line began with."""
        self._is_raw = False
        """True in a line without marks: a row of a table."""
        self._fence = ""
        """The marks that the code began with; empty outside of code."""
        self._margin = ""
        """What may stand before the marks that end the code."""
        self._inline = Inline(self._put)

    def _take(self, line: str, *, whole: bool) -> str:
        """Show what is certain of `line`; returns the rest."""
        while line and self._starts:
            used = self._start(line, whole=whole)
            if used is None:
                return line
            line = line[used:]
            self._depth += 1
            self._starts = self._starts and self._depth < _DEEPEST
        if self._fence or self._is_raw:
            self._put(line, ())
            return ""
        return line[self._inline.take(line, whole=whole) :]

    def _break_line(self) -> None:
        if self._starts and not self._fence:
            self._inline.look = Look()
        self._put("\n", ())
        self._starts = True
        self._depth = 0
        self._is_raw = False
        self._inline.last = "\n"
        self._inline.look = replace(self._inline.look, heading=0, quote=False, address=0)

    def _start(self, line: str, *, whole: bool) -> int | None:
        """Find out what kind of line this is.

        Returns how many characters of it are dealt with, or None when that is not known yet.
        """
        if self._fence:
            return self._start_code(line, whole=whole)
        if not whole and _UNDECIDED.fullmatch(line):
            return None
        if whole and (used := self._start_whole(line)):
            return used
        quote = self._inline.look.quote
        if found := _HEADING.match(line):
            self._inline.look = Look(heading=len(found[1]), quote=quote)
            self._starts = False
            return found.end()
        if found := _QUOTE.match(line):
            self._inline.look = Look(quote=True)
            self._put("│ ", ("dim",))
            return found.end()
        if found := _ITEM.match(line):
            self._inline.look = Look(quote=quote)
            for text, styles in zip(found.groups(), ((), ("cyan",), ()), strict=True):
                self._put(text, styles)
            return found.end()
        self._is_raw = bool(_TABLE.match(line))
        self._starts = False
        return 0

    def _start_whole(self, line: str) -> int:
        """Deal with a line that is known to its end, if it is a fence, a rule or blank."""
        if fence := _FENCE.fullmatch(line):
            self._fence = fence[1]
            self._margin = r"[ \t>]*" if self._inline.look.quote else r"[ \t]*"
            self._put(line, ("dim",))
        elif _RULE.fullmatch(line):
            self._put(self._rule, ("dim",))
        elif not line.strip():
            self._put(line, ())
        else:
            return 0
        self._inline.look = Look()
        self._starts = False
        return len(line)

    def _start_code(self, line: str, *, whole: bool) -> int | None:
        mark = re.escape(self._fence[0])
        if not whole and re.fullmatch(rf"{self._margin}{mark}*[ \t]*", line):
            return None
        self._starts = False
        if whole and re.fullmatch(rf"{self._margin}{mark}{{{len(self._fence)},}}[ \t]*", line):
            self._put(line, ("dim",))
            self._fence = ""
            return len(line)
        return 0

    def _put(self, text: str, styles: tuple[str, ...]) -> None:
        if text:
            self._out.append((styles, text))

    def _taken(self) -> str:
        pieces = [
            self._styled("".join(text for _, text in group), styles)
            for styles, group in groupby(self._out, key=itemgetter(0))
        ]
        self._out.clear()
        return "".join(pieces)

    def _styled(self, text: str, styles: tuple[str, ...]) -> str:
        for style in styles:
            if own := _OWN.get(style):
                text = f"{own[0]}{text}{own[1]}"
            else:
                text = self._paint(text, style)
        return text
