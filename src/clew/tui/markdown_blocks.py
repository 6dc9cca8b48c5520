"""Finds the Markdown blocks of an answer that are complete while the answer still arrives.

A complete paragraph, list, table or fenced code block never changes again, so it can be printed
once; only the rest of the answer has to stay in the live area. The pieces together are the text,
unchanged, and each piece means the same alone as in the whole text.
"""

import itertools
import re

from markdown_it import MarkdownIt
from markdown_it.token import Token

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_BEGINS_BLOCK = re.compile(r" {0,3}(?:`{3}|~{3}|#{1,6}(?:\s|$))")
_ENDS_WITH_BLANK = frozenset({"paragraph_open", "table_open", "blockquote_open"})
"""Blocks that nothing after a blank line can continue."""
_CONTINUED = frozenset({"bullet_list_open", "ordered_list_open", "code_block"})
"""Blocks that an indented line after a blank one continues, and lists with a further item."""
_CONTINUES = re.compile(r"\s|(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_ONE_LINE = frozenset({"heading_open", "hr"})


def make_parser() -> MarkdownIt:
    """Return a parser that shows all text: without HTML and without link definitions."""
    return (
        MarkdownIt("commonmark", {"html": False})
        .enable(["strikethrough", "table"])
        .disable(["html_block", "html_inline", "reference"])
    )


def is_blank(text: str) -> bool:
    """Return whether text has nothing to show, as the parser sees it."""
    return not text.strip(" \t\r\n")


def replace_returns(text: str) -> str:
    """Return text with spaces for carriage returns, which the parser takes for line breaks."""
    return text.replace("\r", " ")


class MarkdownSplitter:
    """Takes an answer piece by piece and returns its blocks as they are completed."""

    def __init__(self) -> None:
        self._parser = make_parser()
        self._parser.core.ruler.enableOnly(["normalize", "block"])
        self._lines: list[str] = []
        """The complete lines of the blocks that are open, with their line breaks."""
        self._line = ""
        """The line that is incomplete."""
        self._fence = ""
        """The mark that closes the fenced code block at the top level which is open."""
        self._open = ""
        """The type of the last block, as far as it is known."""

    @property
    def tail(self) -> str:
        """The text that belongs to no complete block yet."""
        return "".join(self._lines) + self._line

    def feed(self, text: str) -> list[str]:
        """Take the next piece of the answer; returns the blocks that are complete now."""
        *ended, self._line = (self._line + text).split("\n")
        return [done for line in ended for done in self._add(line)]

    def close(self) -> str:
        """Return the rest of the answer, and start anew."""
        rest = self.tail
        self._lines, self._line, self._fence, self._open = [], "", "", ""
        return rest

    def _add(self, line: str) -> list[str]:
        before = self._lines[-1] if self._lines else ""
        self._lines.append(f"{line}\n")
        if self._fence and not _closes(line, self._fence):
            return []
        return self._split() if self._can_end(line, before) else []

    def _can_end(self, line: str, before: str) -> bool:
        """Return whether a line may begin a block, or end the open one. Parsing is slow."""
        continues = self._open in _CONTINUED and _CONTINUES.match(line)
        if self._fence or (_BEGINS_BLOCK.match(line) and not continues):
            return True
        if is_blank(line):
            return not is_blank(before) and self._open not in _CONTINUED
        return is_blank(before) and not continues

    def _split(self) -> list[str]:
        """Return the blocks that are complete, and keep the rest."""
        self._fence = ""
        tokens = [
            token
            for token in self._parser.parse(replace_returns("".join(self._lines)))
            if token.level == 0 and token.nesting >= 0 and token.map
        ]
        starts = [token.map[0] for token in tokens if token.map]
        if not starts:
            return []
        # Blank lines belong to the block above them.
        cuts = [0, *starts[1:]]
        self._open = tokens[-1].type
        if self._is_complete(tokens[-1]):
            cuts.append(len(self._lines))
            self._open = ""
        done = ["".join(self._lines[start:end]) for start, end in itertools.pairwise(cuts)]
        self._lines = self._lines[cuts[-1] :]
        return done

    def _is_complete(self, last: Token) -> bool:
        """Return whether no further line can belong to the last block."""
        if last.type == "fence" and last.map:
            first, end = self._lines[last.map[0]], self._lines[last.map[1] - 1]
            mark = _FENCE.match(first)
            closed = mark is not None and last.map[1] - last.map[0] > 1 and _closes(end, mark[1])
            self._fence = "" if closed or mark is None else mark[1]
            return closed
        ends = last.type in _ENDS_WITH_BLANK and is_blank(self._lines[-1])
        return ends or last.type in _ONE_LINE


def _closes(line: str, mark: str) -> bool:
    """Return whether a line closes the fenced code block that `mark` opened."""
    found = _FENCE.match(line)
    return found is not None and found[1].startswith(mark) and is_blank(line[found.end() :])
