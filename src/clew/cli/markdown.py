"""Markdown on a terminal, rendered while it streams.

Text is shown at once. Only two things are buffered: the start of a line while it may become a
heading, a list or a fence, and an incomplete mark inside a line. So text after an opening mark is
bold before the closing mark arrives.
"""

import re
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from clew.cli.markdown_inline import ITALIC, UNDERLINE, InlineParser, TextStyle
from clew.cli.paint import Paint
from clew.core.sanitize import sanitize

_EXTRA_STYLES = {ITALIC: ("\x1b[3m", "\x1b[23m"), UNDERLINE: ("\x1b[4m", "\x1b[24m")}
"""Styles that `Paint` does not have."""
_MAX_RULE = 60
_MAX_INFO = 200
_MAX_DEPTH = 10
"""The maximum depth of nested items and quotes in one line."""

# Possessive repeats prevent backtracking in lines of many blanks.
_FENCE = re.compile(rf"[ \t]*+(`{{3,}}|~{{3,}})[^`]{{0,{_MAX_INFO}}}")
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
        | (?:`{{3,}}|~{{3,}})[^`]{{0,{_MAX_INFO}}}
    )""",
    re.VERBOSE,
)


class MarkdownStream:
    """Renders Markdown that arrives in chunks.

    The result does not depend on how the text is split. Without colours the text stays as it is,
    with its marks. It is sanitized in both cases.
    """

    def __init__(self, paint: Paint, width: int) -> None:
        """Start a text.

        Args:
            paint: Colours text, or returns it unchanged.
            width: Columns of the terminal, for horizontal rules.
        """
        self._paint = paint
        self._rule = "─" * min(width, _MAX_RULE)
        self._has_colours = paint("x", "bold") != "x"
        self._out: list[tuple[tuple[str, ...], str]] = []
        self._rest: str
        self._reset()

    def feed(self, delta: str) -> str:
        """Add text; returns what can be shown now."""
        clean = sanitize(delta)
        if not self._has_colours:
            return clean
        *lines, rest = f"{self._rest}{clean}".split("\n")
        for line in lines:
            self._take(line, whole=True)
            self._break_line()
        self._rest = self._take(rest, whole=False)
        return self._flush()

    def end(self) -> str:
        """Return what is buffered; the next chunk starts another text."""
        self._take(self._rest, whole=True)
        self._reset()
        return self._flush()

    def _reset(self) -> None:
        self._rest = ""
        """The part of the last line that is buffered."""
        self._starts = True
        """True until the kind of line is known."""
        self._depth = 0
        """The number of item and quote marks at the start of the line."""
        self._is_raw = False
        """True in a table row, where marks mean nothing."""
        self._fence = ""
        """The opening fence of a code block; empty outside of one."""
        self._margin = ""
        """A pattern for what may precede the closing fence."""
        self._inline = InlineParser(self._put)

    def _take(self, line: str, *, whole: bool) -> str:
        """Render what is certain of `line`; returns the rest."""
        while line and self._starts:
            used = self._start(line, whole=whole)
            if used is None:
                return line
            line = line[used:]
            self._depth += 1
            self._starts = self._starts and self._depth < _MAX_DEPTH
        if self._fence or self._is_raw:
            self._put(line, ())
            return ""
        return line[self._inline.take(line, whole=whole) :]

    def _break_line(self) -> None:
        if self._starts and not self._fence:
            self._inline.style = TextStyle()
        self._put("\n", ())
        self._starts = True
        self._depth = 0
        self._is_raw = False
        self._inline.last = "\n"
        self._inline.style = replace(self._inline.style, heading=0, quote=False, address=0)

    def _start(self, line: str, *, whole: bool) -> int | None:
        """Detect the kind of line.

        Returns the number of characters that were consumed; None if the kind is not known yet.
        """
        if self._fence:
            return self._start_code(line, whole=whole)
        if not whole and _UNDECIDED.fullmatch(line):
            return None
        if whole and (used := self._start_whole(line)):
            return used
        quote = self._inline.style.quote
        if found := _HEADING.match(line):
            self._inline.style = TextStyle(heading=len(found[1]), quote=quote)
            self._starts = False
            return found.end()
        if found := _QUOTE.match(line):
            self._inline.style = TextStyle(quote=True)
            self._put("│ ", ("dim",))
            return found.end()
        if found := _ITEM.match(line):
            self._inline.style = TextStyle(quote=quote)
            for text, styles in zip(found.groups(), ((), ("cyan",), ()), strict=True):
                self._put(text, styles)
            return found.end()
        self._is_raw = bool(_TABLE.match(line))
        self._starts = False
        return 0

    def _start_whole(self, line: str) -> int:
        """Render a complete line if it is a fence, a rule or blank; returns what was consumed."""
        if fence := _FENCE.fullmatch(line):
            self._fence = fence[1]
            self._margin = r"[ \t>]*" if self._inline.style.quote else r"[ \t]*"
            self._put(line, ("dim",))
        elif _RULE.fullmatch(line):
            self._put(self._rule, ("dim",))
        elif not line.strip():
            self._put(line, ())
        else:
            return 0
        self._inline.style = TextStyle()
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

    def _flush(self) -> str:
        pieces = [
            self._apply_styles("".join(text for _, text in group), styles)
            for styles, group in groupby(self._out, key=itemgetter(0))
        ]
        self._out.clear()
        return "".join(pieces)

    def _apply_styles(self, text: str, styles: tuple[str, ...]) -> str:
        for style in styles:
            if codes := _EXTRA_STYLES.get(style):
                text = f"{codes[0]}{text}{codes[1]}"
            else:
                text = self._paint(text, style)
        return text
